"""The spans of the tool calls of one step.

A call is begun in one task and awaited in another, or in none when its turn was cancelled before: whoever is
left when the agent has ended ends then.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct
from opentelemetry.trace import Span, SpanKind

from ..errors import ErrorKind
from ..runtime.telemetry_settings import get_settings
from ..runtime.tracing import (
    CANCELLED,
    end_span,
    error_type_of,
    execution_attributes,
    is_measured,
    start_span,
    using_span,
)
from ..types.messages import ToolCall, ToolResult
from ..types.tools import ToolDefinition
from .attributes import Attributes, error_attributes
from .content import redacted_json, result_content
from .instruments import record_duration

__all__ = ["ToolSpans"]

_OTHER = "_OTHER"
"""The conventions' word for an error without a class."""


class _OpenCall(Struct, kw_only=True, eq=False):
    call: ToolCall
    span: Span
    attributes: Attributes
    began: float
    error_type: str | None = None


class ToolSpans:
    """Begins tool calls, each with a span that is current while the call is carried out; `count` of them.

    Args:
        begin: Begins a call.
        tools: The tools on offer.
        secrets: What must appear in no span.
        agent: What is known of the agent.
    """

    def __init__(
        self,
        begin: Callable[[ToolCall], Callable[[], Awaitable[ToolResult]]],
        tools: Sequence[ToolDefinition],
        *,
        secrets: Sequence[str],
        agent: Attributes,
    ) -> None:
        self._begin = begin
        self._descriptions = {tool.name: tool.description for tool in tools}
        self._secrets = secrets
        self._agent = agent
        self._open: dict[int, _OpenCall] = {}
        self.count = 0

    def begin(self, call: ToolCall) -> Callable[[], Awaitable[ToolResult]]:
        """Begin a call; await the result of what this returns.

        Args:
            call: The call.
        """
        self.count += 1
        opened = self._start(call)
        self._open[id(opened)] = opened
        with using_span(opened.span):
            result = self._begin(call)
        return partial(self._finish, opened, result)

    def note_failure(self, call: ToolCall, kind: ErrorKind) -> None:
        """Take notice that the model is told of an error.

        Args:
            call: The call.
            kind: What kind of error it is.
        """
        for opened in self._open.values():
            if opened.call is call:
                opened.error_type = kind

    def close(self) -> None:
        """End the spans of the calls that nobody awaited to their end."""
        for opened in list(self._open.values()):
            self._end(opened, CANCELLED)

    def _start(self, call: ToolCall) -> _OpenCall:
        settings = get_settings()
        names = settings.names
        attributes: Attributes = {
            names.operation: names.execute_tool,
            names.tool_name: call.name,
            names.tool_type: "function",
            names.agent_name: self._agent[names.agent_name],
        }
        details: Attributes = {names.tool_call_id: call.id}
        if description := self._descriptions.get(call.name):
            details[names.tool_description] = description
        span = start_span(
            f"{names.execute_tool} {call.name}",
            kind=SpanKind.INTERNAL,
            attributes={**attributes, **details, **execution_attributes()},
        )
        if settings.spans_hold_content and span.is_recording():
            span.set_attribute(names.tool_arguments, redacted_json(call.arguments, self._secrets))
        return _OpenCall(call=call, span=span, attributes=attributes, began=time.perf_counter())

    async def _finish(self, opened: _OpenCall, result: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        with using_span(opened.span):
            try:
                answer = await result()
            except BaseException as error:
                self._end(opened, error_type_of(error))
                raise
        settings = get_settings()
        if settings.spans_hold_content and opened.span.is_recording():
            content = result_content(answer, self._secrets)
            opened.span.set_attribute(settings.names.tool_result, content)
        self._end(opened, (opened.error_type or _OTHER) if answer.is_error else None)
        return answer

    def _end(self, opened: _OpenCall, error_type: str | None) -> None:
        if self._open.pop(id(opened), None) is None:
            return
        names = get_settings().names
        if names.tool_duration_metric is not None and is_measured():
            seconds = time.perf_counter() - opened.began
            told = {**opened.attributes, **error_attributes(names, error_type)}
            record_duration(names.tool_duration_metric, seconds, told)
        end_span(opened.span, names.error_type, error_type)
