"""Spans and metrics of generative AI: the agent of a step, its model requests and its tool calls."""

import time
from collections.abc import Mapping

from opentelemetry.trace import SpanKind

from ..catalog.telemetry_names import AGENT_SECONDS, FINISH_REASONS, GENERATING_PROVIDERS, OWN_AGENT
from ..kernel.reports import AgentActivity, EventArrived, RequestActivity, ToolCallActivity, ToolCallFailed
from ..telemetry_settings import get_settings
from ..types.messages import AssistantMessage, BinaryContent, Citation, FileUrl, ToolCall, ToolResult
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
from ..types.model_output import CitationAdded, MediaCompleted
from ..types.native_tools import NativeCallFinished, NativeCallStarted
from ..types.usage import Usage
from ..wire.redaction import find_secrets
from .attributes import (
    AttributeItem,
    Attributes,
    error_attributes,
    find_endpoint,
    find_settings,
    model_attributes,
    output_content,
    redacted_json,
    request_content,
    result_content,
    settings_attributes,
    structured,
    usage_attributes,
)
from .instruments import record_calls, record_chunk, record_duration, record_tokens
from .native_calls import NativeSpan
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

_OTHER = "_OTHER"
"""The conventions' word for an error without a class."""


class AgentSpan:
    """The span of an agent that works on a step.

    Args:
        activity: The work of the agent.
    """

    def __init__(self, activity: AgentActivity) -> None:
        names = self._names = get_settings().names
        address, model, settings = activity.address, activity.model, activity.settings
        endpoint = find_endpoint(model, settings)
        function = address.split(":")[1] if address.count(":") > 1 else address
        self.attributes: Attributes = {names.operation: names.invoke_agent, names.agent_name: function}
        if model is None:
            self.attributes[names.provider] = OWN_AGENT
        else:
            self.attributes |= model_attributes(names, model.name, endpoint)
        self.secrets = (*find_secrets(settings), *(() if endpoint is None else endpoint.secrets()))
        self._span = start_span(
            f"{names.invoke_agent} {function}",
            kind=SpanKind.INTERNAL,
            attributes={
                **self.attributes,
                **settings_attributes(names, find_settings(model, settings)),
                **execution_attributes(),
                names.agent_id: address,
            },
        )
        self._is_own = model is None
        self._usage = Usage()
        self._recorded_usage = Usage()
        self._inferences = self._tool_calls = 0
        self._calls: dict[int, ToolSpan] = {}
        self._began = time.perf_counter()

    def active(self) -> using_span:
        """Make it the current span."""
        return using_span(self._span)

    def note_recorded(self, usage: Usage | None) -> None:
        """Record that the response to a request was recorded in an earlier life, which has counted it."""
        self._recorded_usage += Usage() if usage is None else usage.credible()
        self._inferences -= 1

    def note(self, event: object) -> None:
        """Record the usage of a request, or that an error in a tool call is returned to the model."""
        if isinstance(event, UsageReported):
            usage = event.usage.credible()
            self._usage += usage
            if not usage.cached_requests:  # users' agents report as they like
                self._inferences += usage.requests if self._is_own else 1
        elif isinstance(event, ToolCallFailed):
            for call in self._calls.values():
                if call.call is event.call:
                    call.error_type = event.kind

    def begin_call(self, activity: ToolCallActivity) -> "ToolSpan":
        """Begin the span of a tool call."""
        self._tool_calls += 1
        span = ToolSpan(activity, self)
        self._calls[id(span)] = span
        return span

    def call_ended(self, span: "ToolSpan") -> bool:
        """Record that the span of a tool call ends; return False when it has ended before."""
        return self._calls.pop(id(span), None) is not None

    def end(self, error: BaseException | None) -> None:
        """End it, and the tool calls below it that were never awaited to their end.

        Args:
            error: The error that ended it; None when the agent reached an outcome.
        """
        for call in list(self._calls.values()):
            call.end_as(CANCELLED)
        names, error_type = self._names, error_type_of(error)
        usage = self._usage - self._recorded_usage
        if usage.requests > 0:
            self._span.set_attributes(usage_attributes(names, usage))
        if names.agent_duration_metric is not None and is_measured():
            seconds = time.perf_counter() - self._began
            measured = {**self.attributes, **error_attributes(names, error_type)}
            record_duration(names.agent_duration_metric, seconds, measured, bounds=AGENT_SECONDS)
            record_calls(names, self._inferences, self._tool_calls, measured)
        end_span(self._span, names.error_type, error_type)


class ToolSpan:
    """The span of a tool call, which is current while the call runs.

    Args:
        activity: The call.
        agent: The span of the agent that makes it.

    Attributes:
        call: The call.
        error_type: The kind of error that is returned to the model; None for none.
    """

    def __init__(self, activity: ToolCallActivity, agent: AgentSpan) -> None:
        settings, call = get_settings(), activity.call
        names = self._names = settings.names
        self.call = call
        self.error_type: str | None = None
        self._agent = agent
        self._attributes: Attributes = {
            names.operation: names.execute_tool,
            names.tool_name: call.name,
            names.tool_type: "function",
            names.agent_name: agent.attributes[names.agent_name],
        }
        details: Attributes = {names.tool_call_id: call.id}
        if activity.description:
            details[names.tool_description] = activity.description
        self._span = start_span(
            f"{names.execute_tool} {call.name}",
            kind=SpanKind.INTERNAL,
            attributes={**self._attributes, **details, **execution_attributes()},
        )
        self._shows_content = settings.spans_hold_content and self._span.is_recording()
        if self._shows_content:
            self._span.set_attribute(names.tool_arguments, redacted_json(call.arguments, agent.secrets))
        self._began = time.perf_counter()

    def active(self) -> using_span:
        """Make it the current span."""
        return using_span(self._span)

    def note(self, event: object) -> None:
        """Record the result."""
        if not isinstance(event, ToolResult):
            return
        if self._shows_content:
            self._span.set_attribute(self._names.tool_result, result_content(event, self._agent.secrets))
        if event.is_error:
            self.error_type = self.error_type or _OTHER
        else:
            self.error_type = None

    def end(self, error: BaseException | None) -> None:
        """End it.

        Args:
            error: The error or cancellation that ended it; None when there is a result.
        """
        self.end_as(error_type_of(error) or self.error_type)

    def end_as(self, error_type: str | None) -> None:
        """End it, once.

        Args:
            error_type: The class of error; None when all went well.
        """
        if not self._agent.call_ended(self):
            return
        names = self._names
        if names.tool_duration_metric is not None and is_measured():
            seconds = time.perf_counter() - self._began
            measured = {**self._attributes, **error_attributes(names, error_type)}
            record_duration(names.tool_duration_metric, seconds, measured)
        end_span(self._span, names.error_type, error_type)


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
        is_generation = model.name.partition(":")[0] in GENERATING_PROVIDERS
        operation = names.generate_content if is_generation else names.chat
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
        self._is_recorded = activity.is_replay and activity.journal_place is not None
        if activity.journal_place is not None:
            self._reported["nighthawk.journal.place"] = activity.journal_place
            self._reported["nighthawk.journal.source"] = "recorded" if self._is_recorded else "live"
        if activity.is_cached:
            self._reported["nighthawk.response.cached"] = True
        if request.response_format is not None:
            self._reported[names.output_type] = "json"
        self._span = start_span(
            f"{operation} {self._attributes[names.request_model]}",
            kind=SpanKind.CLIENT,
            attributes=self._reported,
        )
        self._agent = activity.agent if isinstance(activity.agent, AgentSpan) else None
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
        self._is_measured = not (activity.is_replay or activity.is_cached) and is_measured()
        self._began = time.perf_counter()
        self._last_chunk: float | None = None
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._native_calls: dict[str, NativeSpan] = {}

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
        elif isinstance(event, NativeCallStarted):
            self._begin_native(event)
        elif isinstance(event, NativeCallFinished):
            self._finish_native(event)
        if self._answer is not None:
            self._answer.note(event)

    def _begin_native(self, event: NativeCallStarted) -> None:
        if (former := self._native_calls.pop(event.id, None)) is not None:  # servers may repeat an id
            former.end(None)
        self._native_calls[event.id] = NativeSpan(event, self._span, self._secrets)

    def _finish_native(self, event: NativeCallFinished) -> None:
        call = self._native_calls.pop(event.id, None)
        if call is None:  # it began in an earlier response
            started = NativeCallStarted(id=event.id, name=event.name, arguments=event.arguments)
            call = NativeSpan(started, self._span, self._secrets)
        call.finish(event)

    def end(self, error: BaseException | None) -> None:
        """End it.

        Args:
            error: The error of the request, or another exception that ended it; None for none.
        """
        for call in self._native_calls.values():
            call.end(None if self._finish_reason is not None else CANCELLED)
        names, error_type = self._names, error_type_of(error)
        if error_type is None and self._finish_reason is None:
            error_type = CANCELLED  # the caller abandoned the response
        tokens = usage_attributes(names, self._usage)
        if self._is_recorded:  # the life that received the response has reported its tokens
            tokens = {}
            if self._agent is not None and self._finish_reason is not None:
                self._agent.note_recorded(self._usage)
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
        self._media: list[BinaryContent | FileUrl] = []
        self._citations: list[Citation] = []

    def note(self, event: ModelEvent) -> None:
        match event:
            case TextDelta():
                self._texts.append(event.text)
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case ToolCallCompleted():
                self._calls.append(event.call)
            case MediaCompleted():
                self._media.append(event.content)
            case CitationAdded():
                self._citations.append(event.citation)
            case _:
                pass

    def message(self) -> AssistantMessage:
        return AssistantMessage(
            text="".join(self._texts),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(self._calls),
            media=tuple(self._media),
            citations=tuple(self._citations),
        )
