"""OpenTelemetry spans and events of specification 10.1. Floor 3."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from ..errors import (
    ErrorKind,
    ExecutionError,
    ModelError,
    ModelStatusError,
    NaturalParseError,
    NighthawkError,
    StepAbortedError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..types.execution import ExecutionRef
from ..types.outcomes import RaiseStepOutcome, StepOutcome

__all__ = ["identity_attributes", "record_failed", "record_failed_attempt", "record_outcome", "span"]

_TRACER = trace.get_tracer("nighthawk_async")


def identity_attributes(execution_ref: ExecutionRef) -> dict[str, str]:
    """The identity attributes of a span."""
    attributes = {"run.id": execution_ref.run_id, "scope.id": execution_ref.scope_id}
    if execution_ref.step_id is not None:
        attributes["step.id"] = execution_ref.step_id
    return attributes


@contextmanager
def span(name: str, attributes: Mapping[str, str]) -> Generator[Span, None, None]:
    """A current span that ends with the `with` statement and says what it records itself.

    Exceptions are not recorded here: a `raise` outcome is no failure, and neither is a cancellation.
    """
    started = _TRACER.start_span(name, attributes=dict(attributes))
    token = otel_context.attach(trace.set_span_in_context(started))
    try:
        yield started
    finally:
        otel_context.detach(token)
        started.end()


def record_outcome(step_span: Span, outcome: StepOutcome) -> None:
    """The event of a step that came to its end: `completed`, or `raised` for a raise outcome."""
    if not step_span.is_recording():
        return
    attributes = {"nighthawk.step.outcome_kind": outcome.kind}
    if not isinstance(outcome, RaiseStepOutcome):
        step_span.add_event("nighthawk.step.completed", attributes)
        return
    attributes["nighthawk.step.raise_message"] = outcome.raise_message
    if outcome.raise_error_type is not None:
        attributes["nighthawk.step.raise_error_type"] = outcome.raise_error_type
    step_span.add_event("nighthawk.step.raised", attributes)


def record_failed(step_span: Span, error: Exception) -> None:
    """The event of a step that failed, with the exception and an error status."""
    if not step_span.is_recording():
        return
    attributes = {
        "nighthawk.step.error_kind": _error_kind(error),
        "nighthawk.step.error_message": str(error),
    }
    step_span.add_event("nighthawk.step.failed", attributes)
    step_span.record_exception(error)
    step_span.set_status(Status(StatusCode.ERROR, str(error)))


def record_failed_attempt(
    model_id: str, error: ModelError, *, attempt: int, delay_seconds: float | None
) -> None:
    """The event of a failed attempt at a model request, on the current span.

    It holds no text of the provider's.

    Args:
        model_id: The model's id.
        error: Why the attempt failed.
        attempt: Which attempt it was, from 1.
        delay_seconds: Seconds until the next attempt; None when there is none.
    """
    current = trace.get_current_span()
    if not current.is_recording():
        return
    attributes: dict[str, str | int | float] = {
        "nighthawk.model.id": model_id,
        "nighthawk.model.attempt": attempt,
        "error.type": type(error).__name__,
    }
    if isinstance(error, ModelStatusError):
        attributes["http.response.status_code"] = error.status
    if delay_seconds is not None:
        attributes["nighthawk.model.retry_delay_seconds"] = delay_seconds
    current.add_event("nighthawk.model.attempt_failed", attributes)


def _error_kind(error: Exception) -> ErrorKind:
    if isinstance(error, ExecutionError) and isinstance(error.__cause__, NighthawkError):
        return _error_kind(error.__cause__)  # the cause of a failed step is more exact
    match error:
        case ToolBoundaryError():
            return error.kind
        case NaturalParseError() | ToolValidationError():
            return "invalid_input"
        case NameError():
            return "resolution"
        case ModelError():
            return "transient" if error.is_transient else "execution"
        case StepAbortedError():
            return "oversight"
        case ExecutionError() | ToolEvaluationError():
            return "execution"
        case _:
            return "internal"
