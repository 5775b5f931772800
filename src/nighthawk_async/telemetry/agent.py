"""The work of an agent on one step: its span, and what is below it."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeAlias

from msgspec import Struct
from opentelemetry.trace import Span, SpanKind

from ..catalog.telemetry_names import AGENT_SECONDS, OWN_AGENT
from ..errors import ErrorKind
from ..ports import Model
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
from ..types.messages import ToolCall, ToolDefinition, ToolResult
from ..types.usage import Usage
from ..wire.redaction import find_secrets
from .attributes import (
    Attributes,
    error_attributes,
    find_endpoint,
    find_settings,
    model_attributes,
    redacted_json,
    result_content,
    settings_attributes,
    usage_attributes,
)
from .instruments import record_calls, record_duration

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
        secrets: The secrets, which must appear in no span.
        agent: The attributes of the agent.
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
            kind: The kind of error.
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


BeginToolCall: TypeAlias = Callable[[ToolCall], Callable[[], Awaitable[ToolResult]]]
"""Begins a tool call; await what it returns for the result."""

ReportUsage: TypeAlias = Callable[[str, Usage], None]
"""Counts the usage of one model request, by model id."""


class AgentSpan:
    """The span of an agent that works on a step: the current one in the `with` statement, with which it ends.

    Args:
        address: The address of the block, `python_module:function:number`.
        model: The model; None for an agent of the user's own.
        settings: The settings of its requests.
    """

    def __init__(self, address: str, model: Model | None, settings: Mapping[str, Any]) -> None:
        names = self._names = get_settings().names
        endpoint = find_endpoint(model, settings)
        function = address.split(":")[1] if address.count(":") > 1 else address
        self._attributes: Attributes = {names.operation: names.invoke_agent, names.agent_name: function}
        if model is None:
            self._attributes[names.provider] = OWN_AGENT
        else:
            self._attributes |= model_attributes(names, model.name, endpoint)
        self._secrets = (*find_secrets(settings), *(() if endpoint is None else endpoint.secrets()))
        self.span: Span = start_span(
            f"{names.invoke_agent} {function}",
            kind=SpanKind.INTERNAL,
            attributes={
                **self._attributes,
                **settings_attributes(names, find_settings(model, settings)),
                **execution_attributes(),
                names.agent_id: address,
            },
        )
        self._is_own = model is None
        self._usage = Usage()
        self._inferences = 0
        self._tools: ToolSpans | None = None
        self._began = time.perf_counter()
        self._current = using_span(self.span)

    def __enter__(self) -> Self:
        self._current.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._current.__exit__()
        self._end(exc)

    def watch_tools(self, begin: BeginToolCall, tools: Sequence[ToolDefinition]) -> BeginToolCall:
        """Begin tool calls, each with a span.

        Args:
            begin: Begins a call.
            tools: The tools on offer.
        """
        self._tools = ToolSpans(begin, tools, secrets=self._secrets, agent=self._attributes)
        return self._tools.begin

    def note_tool_failure(self, call: ToolCall, kind: ErrorKind) -> None:
        """Take notice that the model is told of an error in a tool call.

        Args:
            call: The call.
            kind: The kind of error.
        """
        if self._tools is not None:
            self._tools.note_failure(call, kind)

    def watch_usage(self, report: ReportUsage) -> ReportUsage:
        """Count usage for the span as well.

        Args:
            report: Counts it.
        """

        def report_and_add(model_name: str, usage: Usage) -> None:
            usage = usage.credible()
            self._usage += usage
            self._inferences += usage.requests if self._is_own else 1  # one's own agent reports as it likes
            report(model_name, usage)

        return report_and_add

    def _end(self, error: BaseException | None) -> None:
        """End it, and what below it has not ended.

        Args:
            error: The error that ended it; None when the agent came to an outcome.
        """
        if self._tools is not None:
            self._tools.close()
        names, error_type = self._names, error_type_of(error)
        if self._usage.requests:
            self.span.set_attributes(usage_attributes(names, self._usage))
        if names.agent_duration_metric is not None and is_measured():
            seconds = time.perf_counter() - self._began
            told = {**self._attributes, **error_attributes(names, error_type)}
            record_duration(names.agent_duration_metric, seconds, told, bounds=AGENT_SECONDS)
            record_calls(names, self._inferences, 0 if self._tools is None else self._tools.count, told)
        end_span(self.span, names.error_type, error_type)
