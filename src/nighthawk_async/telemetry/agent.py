"""The work of an agent on one step: its span, and those of its tool calls."""

import time

from opentelemetry.trace import SpanKind

from ..catalog.telemetry_names import AGENT_SECONDS, OWN_AGENT
from ..runtime.activities import AgentActivity, ToolCallActivity, ToolCallFailed
from ..runtime.telemetry_settings import get_settings
from ..types.messages import ToolResult
from ..types.model import UsageReported
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
from .spans import (
    CANCELLED,
    end_span,
    error_type_of,
    execution_attributes,
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
        self._inferences = self._tool_calls = 0
        self._calls: dict[int, ToolSpan] = {}
        self._began = time.perf_counter()

    def active(self) -> using_span:
        """Make it the current span."""
        return using_span(self._span)

    def note(self, event: object) -> None:
        """Record the usage of a request, or that an error in a tool call is returned to the model."""
        if isinstance(event, UsageReported):
            usage = event.usage.credible()
            self._usage += usage
            self._inferences += usage.requests if self._is_own else 1  # users' agents report as they like
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
        if self._usage.requests:
            self._span.set_attributes(usage_attributes(names, self._usage))
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
