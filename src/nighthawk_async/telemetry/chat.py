"""One model request: its span, over all attempts, its metrics and its events.

The span is current only while the request's stream waits, never while its caller holds the stream: spans that
the caller begins meanwhile, such as tool calls, are not below it.
"""

import time
from collections.abc import Mapping

from opentelemetry.trace import SpanKind

from ..catalog.telemetry_names import FINISH_REASONS
from ..runtime.activities import EventArrived, RequestActivity
from ..runtime.telemetry_settings import get_settings
from ..types.messages import AssistantMessage, ToolCall
from ..types.model import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ..types.usage import Usage
from .attributes import (
    AttributeItem,
    Attributes,
    error_attributes,
    find_endpoint,
    find_settings,
    model_attributes,
    output_content,
    request_content,
    settings_attributes,
    structured,
    usage_attributes,
)
from .instruments import record_chunk, record_duration, record_tokens
from .spans import (
    CANCELLED,
    end_span,
    error_type_of,
    execution_attributes,
    is_logged,
    is_measured,
    start_span,
    using_span,
)

_CHUNKS = (TextDelta, ReasoningDelta, ToolCallStarted, ToolCallArgumentsDelta)


class ChatSpan:
    """The span of one request, with its metrics and events.

    Args:
        activity: The request. A replayed response takes no time and no tokens, so no metrics are recorded for
            it.
    """

    def __init__(self, activity: RequestActivity) -> None:
        model, request, settings = activity.model, activity.request, get_settings()
        names = self._names = settings.names
        endpoint = find_endpoint(model, request.settings)
        operation = names.generate_content if model.name.startswith("google:") else names.chat
        self._attributes = {names.operation: operation, **model_attributes(names, model.name, endpoint)}
        sent = find_settings(model, request.settings)
        self._is_streamed = sent.get("stream") is not False
        self._reported: Attributes = {
            **self._attributes,
            **settings_attributes(names, sent),
            **execution_attributes(),
        }
        if self._is_streamed or names.reports_whole_responses:
            self._reported[names.request_stream] = self._is_streamed
        if request.response_format is not None:
            self._reported[names.output_type] = "json"
        self._span = start_span(
            f"{operation} {self._attributes[names.request_model]}",
            kind=SpanKind.CLIENT,
            attributes=self._reported,
        )
        self._is_logged = is_logged()
        self._has_details = (
            self._is_logged and settings.events_hold_content and names.details_event is not None
        )
        self._shows_content = settings.spans_hold_content and self._span.is_recording()
        self._secrets = () if endpoint is None else endpoint.secrets()
        self._content: dict[str, str] = {}
        self._answer = _Answer() if self._has_details or self._shows_content else None
        if self._answer is not None:
            self._record_content(request_content(names, request, self._secrets))
        self._is_measured = not activity.is_replay and is_measured()
        self._began = time.perf_counter()
        self._last_chunk: float | None = None
        self._usage: Usage | None = None
        self._finish_reason: str | None = None

    def active(self) -> using_span:
        """Make it the current span while the request's stream waits."""
        return using_span(self._span)

    def note(self, event: object) -> None:
        """Record an event of the response, or the usage of the request."""
        if isinstance(event, EventArrived):
            self._note_arrival(event)
        elif isinstance(event, Usage):
            self._usage = event

    def _note_arrival(self, arrival: EventArrived) -> None:
        event = arrival.event
        if isinstance(event, _CHUNKS):
            self._note_chunk(arrival.waited_since, arrival.arrived_at)
        elif isinstance(event, UsageReported):
            self._usage = event.usage
        elif isinstance(event, ResponseFinished):
            self._finish(event)
        if self._answer is not None:
            self._answer.note(event)

    def end(self, error: BaseException | None) -> None:
        """End it.

        Args:
            error: The error of the request, or another exception that ended it; None for none.
        """
        names, error_type = self._names, error_type_of(error)
        if error_type is None and self._finish_reason is None:
            error_type = CANCELLED  # the caller abandoned the response
        tokens = usage_attributes(names, self._usage)
        if self._is_measured:
            outcome = error_attributes(names, error_type)
            record_tokens(names, tokens, self._attributes, outcome)
            seconds = time.perf_counter() - self._began
            record_duration(names.duration_metric, seconds, {**self._attributes, **outcome})
        self._set(tokens)
        if (
            self._finish_reason is None
            and self._last_chunk is not None
            and names.unfinished_reason is not None
        ):
            self._set({names.finish_reasons: [names.unfinished_reason]})
        if self._answer is not None:
            answer = self._answer.message()
            self._record_content(output_content(names, answer, self._finish_reason, self._secrets))
        if self._is_logged:
            self._record_events(error, error_type)
        end_span(self._span, names.error_type, error_type)

    def _set(self, attributes: Mapping[str, AttributeItem]) -> None:
        self._reported.update(attributes)
        self._span.set_attributes(attributes)

    def _record_content(self, content: Mapping[str, str]) -> None:
        self._content.update(content)
        if self._shows_content:
            self._span.set_attributes(content)

    def _record_events(self, error: BaseException | None, error_type: str | None) -> None:
        from .events import record_details, record_exception  # here, because few programs collect log records

        names = self._names
        if names.exception_event is not None and isinstance(error, Exception):
            record_exception(names.exception_event, self._span, error)
        if self._has_details and names.details_event is not None:
            outcome = error_attributes(names, error_type)
            details = {**self._reported, **outcome, **structured(self._content)}
            record_details(names.details_event, self._span, details)

    def _note_chunk(self, waited_since: float, arrived_at: float) -> None:
        """Record the wait for a chunk: simultaneous events count once, and a late caller has not waited."""
        if not self._is_streamed or arrived_at == self._last_chunk:
            return
        is_first = self._last_chunk is None
        since = self._began if self._last_chunk is None else max(self._last_chunk, waited_since)
        seconds = max(arrived_at - since, 0.0)
        self._last_chunk = arrived_at
        if is_first:
            self._set({self._names.time_to_first_chunk: seconds})
        if self._is_measured:
            record_chunk(self._names, seconds, self._attributes, is_first=is_first)

    def _finish(self, event: ResponseFinished) -> None:
        names = self._names
        reason = FINISH_REASONS.get(event.reason, event.reason)
        if event.reason == "other" and event.provider_reason:
            reason = event.provider_reason
        self._finish_reason = reason
        self._set({names.finish_reasons: [reason]})
        if event.response_id is not None:
            self._set({names.response_id: event.response_id})
        if event.model_name is not None:
            self._set({names.response_model: event.model_name})
            self._attributes[names.response_model] = event.model_name


class _Answer:
    """The answer of a model so far."""

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
