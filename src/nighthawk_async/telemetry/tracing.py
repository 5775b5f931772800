"""Reports as OpenTelemetry spans, span events, metrics and log records; see `tracing` on floor 0."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry import trace

from ..kernel.events import (
    BudgetThreshold,
    OversightDecided,
    PermissionDecided,
    ProgressReported,
    Retry,
    ToolLoopSuspected,
    VerificationRefused,
)
from ..kernel.reports import (
    AgentActivity,
    Corrected,
    HookAnswered,
    HookFailed,
    KernelActivity,
    LifeBegun,
    QueueLifeEnded,
    ReadLeniently,
    RequestActivity,
    ResultEvaluated,
    ToolCallActivity,
)
from ..lazy_exports import LazyModule
from ..telemetry_settings import shows_content
from ..tracing import NamedEvent, Span
from .spans import KernelSpan, is_logged, is_measured, is_traced

if TYPE_CHECKING:
    from . import agent as agent_spans, events as log_events, instruments
else:  # most steps belong to no trace, and most programs measure nothing
    agent_spans = LazyModule(f"{__package__}.agent")
    instruments = LazyModule(f"{__package__}.instruments")
    log_events = LazyModule(f"{__package__}.events")

_Attributes: TypeAlias = Mapping[str, str | int | float]


def begin(activity: object) -> Span | None:
    """Begin the span of an activity; None when nothing collects its data."""
    match activity:
        case KernelActivity():
            return KernelSpan(activity)
        case AgentActivity() if is_traced() or is_measured():
            return agent_spans.AgentSpan(activity)
        case ToolCallActivity():
            agent = activity.agent
            return agent.begin_call(activity) if isinstance(agent, agent_spans.AgentSpan) else None
        case RequestActivity() if collects():
            return agent_spans.ChatSpan(activity)
        case _:
            return None


def note(event: object) -> None:
    """Add an event to the current span, if it is recorded, or count it."""
    if isinstance(event, Corrected):
        if is_measured():
            instruments.record_correction(event.cause)
        return
    if isinstance(event, ReadLeniently):
        if is_measured():
            instruments.record_reading(event.reading)
        return
    if isinstance(event, QueueLifeEnded):
        if is_measured():
            instruments.record_queue_life(event.queue, event.function, event.end)
        return
    span = trace.get_current_span()
    if isinstance(event, ResultEvaluated):
        if is_logged():
            log_events.record_evaluation(span, event)
    elif isinstance(event, LifeBegun):
        _note_life(span, event)
    elif span.is_recording():
        described = _described(event)
        if described is not None:
            span.add_event(described[0], dict(described[1]))


def _note_life(span: trace.Span, event: LifeBegun) -> None:
    """Link the span of a run in a later life to that of its first one, which is in another trace."""
    span.set_attribute("nighthawk.journal.life", event.life)
    if event.first_trace_parent is not None:
        _, trace_id, span_id, flags = event.first_trace_parent.split("-")
        first = trace.SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
        )
        span.add_link(first)


def collects() -> bool:
    """Whether there is a trace, or a provider of metrics or logs."""
    return is_traced() or is_measured() or is_logged()


def _described(event: object) -> tuple[str, _Attributes] | None:
    """Return the name and the attributes of an event on a span; None for one that spans do not show."""
    match event:
        case NamedEvent():
            return event.name, event.attributes
        case BudgetThreshold():
            return "nighthawk.budget.threshold", {
                "nighthawk.budget.name": event.budget,
                "nighthawk.budget.resource": event.resource,
                "nighthawk.budget.limit": float(event.limit),
                "nighthawk.budget.spent": float(event.spent),
                "nighthawk.budget.fraction": event.fraction,
            }
        case OversightDecided():
            return "nighthawk.oversight.decided", _oversight_attributes(event)
        case PermissionDecided():
            return "nighthawk.permission.decided", {
                "nighthawk.permission.name": event.name,
                "nighthawk.permission.kind": event.kind,
                "nighthawk.permission.decision": event.decision,
                "nighthawk.permission.rule": event.rule or "default",
            }
        case ProgressReported():
            numbers = {"done": event.done, "total": event.total}
            return "nighthawk.progress.reported", {
                "nighthawk.progress": event.message,
                **{f"nighthawk.progress.{name}": each for name, each in numbers.items() if each is not None},
            }
        case HookAnswered() | HookFailed():
            return _described_hook(event)
        case Retry():
            return "nighthawk.retry.scheduled", {
                "nighthawk.retry.name": event.name,
                "nighthawk.retry.attempt": event.attempt,
                "nighthawk.retry.wait_seconds": event.wait_seconds,
                "error.type": type(event.error).__name__,
            }
        case ToolLoopSuspected():
            return "nighthawk.tool_loop.suspected", {
                "nighthawk.tool_loop.tool_name": event.tool_name,
                "nighthawk.tool_loop.repetitions": event.repetitions,
                "nighthawk.tool_loop.action": event.action,
            }
        case VerificationRefused():
            return "nighthawk.verification.refused", {
                "nighthawk.verification.check": event.check,
                "nighthawk.verification.refusals": event.refusals,
                "nighthawk.verification.max_refusals": event.max_refusals,
                "step.id": event.execution_ref.step_id or "",
            }
        case _:
            return None


def _described_hook(event: HookAnswered | HookFailed) -> tuple[str, _Attributes]:
    attributes = {"nighthawk.hook.name": event.hook, "nighthawk.hook.event": event.event}
    if isinstance(event, HookFailed):
        return "nighthawk.hook.failed", {**attributes, "error.type": event.error_type}
    attributes["nighthawk.hook.answer"] = event.answer
    if event.reason is not None and shows_content():
        attributes["nighthawk.hook.reason"] = event.reason
    return "nighthawk.hook.answered", attributes


def _oversight_attributes(event: OversightDecided) -> _Attributes:
    attributes = {
        "nighthawk.oversight.subject": event.subject,
        "nighthawk.oversight.decision": event.decision,
        "step.id": event.execution_ref.step_id or "",
    }
    if event.tool_name:
        attributes["nighthawk.oversight.tool_name"] = event.tool_name
    if event.reason and shows_content():  # it may quote arguments
        attributes["nighthawk.oversight.reason"] = event.reason
    return attributes
