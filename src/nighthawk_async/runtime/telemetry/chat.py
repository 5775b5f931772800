"""One model request: its span, over all attempts, and its metrics. Floor 3.

The request's stream calls it. The span is current only while the stream waits for something, never while its
caller holds it: what the caller begins meanwhile, as tool calls, is not below it.
"""

import time

from opentelemetry.trace import SpanKind

from ...ports import Model
from ...types.messages import AssistantMessage, ToolCall
from ...types.model import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ...types.usage import Usage
from ..tracing import start_span, using_span
from .attributes import find_endpoint, model_attributes, request_attributes, usage_attributes
from .content import output_content, request_content
from .endings import CANCELLED, end_span, error_type_of
from .instruments import record_chunk, record_duration, record_tokens
from .names import FINISH_REASONS
from .settings import get_settings
from .watching import is_measured

__all__ = ["ChatSpan"]

_CHUNKS = (TextDelta, ReasoningDelta, ToolCallStarted, ToolCallArgumentsDelta)


class ChatSpan:
    """The span of one request, and what it tells metrics.

    Args:
        model: The model.
        request: The request.
    """

    def __init__(self, model: Model, request: ModelRequest) -> None:
        settings = get_settings()
        names = self._names = settings.names
        endpoint = find_endpoint(model, request.settings)
        operation = names.generate_content if model.name.startswith("google:") else names.chat
        self._attributes = {names.operation: operation, **model_attributes(names, model.name, endpoint)}
        self._span = start_span(
            f"{operation} {self._attributes[names.request_model]}",
            kind=SpanKind.CLIENT,
            attributes={**self._attributes, **request_attributes(names, request)},
        )
        self._secrets = () if endpoint is None else endpoint.secrets()
        self._answer = None
        if settings.captures_content and self._span.is_recording():
            self._span.set_attributes(request_content(names, request, self._secrets))
            self._answer = _Answer()
        self._is_measured = is_measured()
        self._is_streamed = request.settings.get("stream") is not False
        self._began = self._last_chunk = time.perf_counter()
        self._has_chunks = False
        self._reported: Usage | None = None
        self._finish_reason: FinishReason | None = None

    def current(self) -> using_span:
        """Makes the span current while the request's stream waits for something."""
        return using_span(self._span)

    def note(self, event: ModelEvent) -> None:
        """Take notice of an event of the response.

        Args:
            event: The event.
        """
        if isinstance(event, _CHUNKS):
            self._note_chunk()
        elif isinstance(event, UsageReported):
            self._reported = event.usage
        elif isinstance(event, ResponseFinished):
            self._finish(event)
        if self._answer is not None:
            self._answer.note(event)

    def end(self, error: BaseException | None, usage: Usage | None) -> None:
        """End it.

        Args:
            error: What the request failed with, or what else ended it; None when nothing did.
            usage: What the request consumed, if its stream knows; else what its events told counts.
        """
        names, error_type = self._names, error_type_of(error)
        if error_type is None and self._finish_reason is None:
            error_type = CANCELLED  # the caller did not want the rest
        tokens = usage_attributes(names, usage or self._reported)
        if self._is_measured:
            record_tokens(names, tokens, self._attributes)
            outcome = {} if error_type is None else {names.error_type: error_type}
            seconds = time.perf_counter() - self._began
            record_duration(names.duration_metric, seconds, {**self._attributes, **outcome})
        self._span.set_attributes(tokens)
        if self._answer is not None:
            answer = self._answer.message()
            self._span.set_attributes(output_content(names, answer, self._finish_reason, self._secrets))
        end_span(self._span, names.error_type, error_type)

    def _note_chunk(self) -> None:
        if not self._is_streamed:
            return
        now = time.perf_counter()
        seconds, self._last_chunk = now - self._last_chunk, now
        is_first, self._has_chunks = not self._has_chunks, True
        if is_first:
            self._span.set_attribute(self._names.time_to_first_chunk, seconds)
        if self._is_measured:
            record_chunk(self._names, seconds, self._attributes, is_first=is_first)

    def _finish(self, event: ResponseFinished) -> None:
        names = self._names
        self._finish_reason = event.reason
        reason = FINISH_REASONS.get(event.reason, event.reason)
        if event.reason == "other" and event.provider_reason:
            reason = event.provider_reason
        self._span.set_attribute(names.finish_reasons, [reason])
        if event.response_id is not None:
            self._span.set_attribute(names.response_id, event.response_id)
        if event.model_name is not None:
            self._span.set_attribute(names.response_model, event.model_name)
            self._attributes[names.response_model] = event.model_name


class _Answer:
    """What a model has answered so far."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def note(self, event: ModelEvent) -> None:
        match event:
            case TextDelta():
                self._texts.append(event.text)
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case ToolCallCompleted():
                self._calls.append(event.call)
            case _:
                pass

    def message(self) -> AssistantMessage:
        return AssistantMessage(
            text="".join(self._texts), reasoning="".join(self._reasoning), tool_calls=tuple(self._calls)
        )
