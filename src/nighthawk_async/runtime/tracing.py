"""OpenTelemetry spans and events of specification 10.1."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from ..errors import (
    CorrectionCause,
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
from ..trace_context import using_trace_context
from ..types.execution import ExecutionRef
from ..types.outcomes import RaiseStepOutcome, StepOutcome
from .environment import find_environment
from .error_text import message_without_content, stacktrace_without_content

CANCELLED = "cancelled"
"""The `error.type` of what was cancelled, or given up before its end. The status of its span stays unset."""


def error_type_of(error: BaseException | None) -> str | None:
    """The class of an error, for `error.type`; `cancelled` for what is no error; None for None.

    Args:
        error: The error or cancellation that ended it.
    """
    if error is None:
        return None
    return type(error).__name__ if isinstance(error, Exception) else CANCELLED


def end_span(span: Span, attribute: str, error_type: str | None, *, has_own_status: bool = False) -> None:
    """End a span. It holds no text of an error, which may quote data.

    Args:
        span: The span.
        attribute: The name of `error.type`.
        error_type: The class of the error that ended it; None when all went well.
        has_own_status: Whether it has its status already.
    """
    if error_type is not None and span.is_recording():
        span.set_attribute(attribute, error_type)
        if error_type != CANCELLED and not has_own_status:
            span.set_status(Status(StatusCode.ERROR))
    span.end()


LIBRARY = "nighthawk_async"


@cache
def library_version() -> str | None:
    """The version of the library; None where it is not installed but imported from its source."""
    try:
        return version("nighthawk-async")
    except PackageNotFoundError:
        return None


def is_traced() -> bool:
    """Whether there are spans: what a step does is below that of the step, sampled or not.

    Where nobody makes spans, the one that a client has named may be the current one.
    """
    context = trace.get_current_span().get_span_context()
    return context.is_valid and not context.is_remote


def is_measured() -> bool:
    """Whether somebody collects metrics."""
    metrics = sys.modules.get("opentelemetry.metrics")  # which nobody has set up who has not loaded it
    return metrics is not None and _is_set_up(metrics.get_meter_provider())


def is_logged() -> bool:
    """Whether somebody collects log records."""
    logs = sys.modules.get("opentelemetry._logs")
    return logs is not None and _is_set_up(logs.get_logger_provider())


def _is_set_up(provider: object) -> bool:
    """Whether it is none of the providers of the API itself, which are no-ops."""
    return not type(provider).__module__.startswith(("opentelemetry.metrics.", "opentelemetry._logs."))


_TRACER = trace.get_tracer(LIBRARY, library_version())


def identity_attributes(execution_ref: ExecutionRef) -> dict[str, str]:
    """The identity attributes of a span."""
    attributes = {"run.id": execution_ref.run_id, "scope.id": execution_ref.scope_id}
    if execution_ref.step_id is not None:
        attributes["step.id"] = execution_ref.step_id
    if execution_ref.execution_id is not None:
        attributes["execution.id"] = execution_ref.execution_id
    if execution_ref.parent_execution_id is not None:
        attributes["execution.parent_id"] = execution_ref.parent_execution_id
    return attributes


def execution_attributes() -> dict[str, str]:
    """The attributes of what belongs to the execution in progress; none outside of steps."""
    environment = find_environment()
    execution_id = None if environment is None else environment.execution_ref.execution_id
    return {} if execution_id is None else {"execution.id": execution_id}


def start_span(name: str, *, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Span:
    """Begin a span below the current one, which stays the current one. Whoever begins it ends it.

    Args:
        name: The name of the span.
        kind: The kind of span.
        attributes: The first attributes, by which samplers may decide.
    """
    return _TRACER.start_span(name, kind=kind, attributes=attributes)


class using_span:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make a span the current one for the extent of the `with` statement, which does not end it.

    What `using_trace_context` says holds here, too.

    Args:
        span: The span; one that nobody made changes nothing.
    """

    __slots__ = ("_context", "_span")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._context: using_trace_context | None = None

    def __enter__(self) -> Span:
        if self._span.get_span_context().is_valid:
            self._context = using_trace_context(trace.set_span_in_context(self._span))
            self._context.__enter__()
        return self._span

    def __exit__(self, *exc_details: object) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)


class span:  # noqa: N801  (a context manager that reads as a function at its call)
    """A current span that ends with the `with` statement, and says by which class of error it ended.

    Exceptions are not recorded here, whose texts may quote data. Where nobody traces there is no span to make
    current.

    Args:
        name: The name of the span.
        attributes: The first attributes.
        has_own_status: Whether somebody else gives it its status, as `record_failed` does.
    """

    __slots__ = ("_current", "_has_own_status", "_span")

    def __init__(self, name: str, attributes: Mapping[str, str], *, has_own_status: bool = False) -> None:
        self._span = _TRACER.start_span(name, attributes=dict(attributes))
        self._current = using_span(self._span)
        self._has_own_status = has_own_status

    def __enter__(self) -> Span:
        return self._current.__enter__()

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._current.__exit__()
        end_span(self._span, "error.type", error_type_of(exc), has_own_status=self._has_own_status)


def correction_attributes(corrections: Mapping[CorrectionCause, int]) -> dict[str, int]:
    """Return the attributes for a step's corrections: their number by cause."""
    return {f"nighthawk.step.corrections.{cause}": count for cause, count in corrections.items()}


def record_corrections(corrections: Mapping[CorrectionCause, int]) -> None:
    """The attributes of a step whose model was told that something was wrong, on the current span."""
    if corrections:
        trace.get_current_span().set_attributes(correction_attributes(corrections))


def record_outcome(step_span: Span, outcome: StepOutcome) -> None:
    """The event of a step that came to its end: `completed`, or `raised` for a raise outcome."""
    if not step_span.is_recording():
        return
    attributes = {"nighthawk.step.outcome_kind": outcome.kind}
    if not isinstance(outcome, RaiseStepOutcome):
        step_span.add_event("nighthawk.step.completed", attributes)
        return
    if not outcome.raise_expression:
        attributes["nighthawk.step.raise_message"] = outcome.raise_message
    if outcome.raise_error_type is not None:
        attributes["nighthawk.step.raise_error_type"] = outcome.raise_error_type
    step_span.add_event("nighthawk.step.raised", attributes)


def record_failed(step_span: Span, error: Exception) -> None:
    """The event of a step that failed, with the exception and an error status.

    Unless content is shown, they are without what the error quotes.
    """
    if not step_span.is_recording():
        return
    if shows_content():
        message, exception = str(error), None
    else:
        message = message_without_content(error)
        stacktrace = stacktrace_without_content(error)
        exception = {"exception.message": message, "exception.stacktrace": stacktrace}
    attributes = {
        "nighthawk.step.error_kind": _error_kind(error),
        "nighthawk.step.error_message": message,
    }
    step_span.add_event("nighthawk.step.failed", attributes)
    step_span.record_exception(error, exception)
    step_span.set_status(Status(StatusCode.ERROR, message))


def add_span_event(name: str, attributes: Mapping[str, str | int | float]) -> None:
    """Add an event to the current span, if it is recorded.

    Args:
        name: The name of the event.
        attributes: Its attributes: no text of an error, which may quote data.
    """
    current = trace.get_current_span()
    if current.is_recording():
        current.add_event(name, dict(attributes))


def shows_content() -> bool:
    """Whether spans hold content, and so texts that may quote it."""
    from .telemetry_settings import get_settings  # here, because most programs record nothing

    return get_settings().spans_hold_content


def record_failed_attempt(
    model_id: str, error: ModelError, *, attempt: int, delay_seconds: float | None
) -> None:
    """The event of a failed attempt at a model request, on the current span.

    It holds no text of the provider's.

    Args:
        model_id: The model's id.
        error: Why the attempt failed.
        attempt: The number of the attempt, from 1.
        delay_seconds: Seconds until the next attempt; None when there is none.
    """
    attributes: dict[str, str | int | float] = {
        "nighthawk.model.id": model_id,
        "nighthawk.model.attempt": attempt,
        "error.type": type(error).__name__,
    }
    if isinstance(error, ModelStatusError):
        attributes["http.response.status_code"] = error.status
    if delay_seconds is not None:
        attributes["nighthawk.model.retry_delay_seconds"] = delay_seconds
    add_span_event("nighthawk.model.attempt_failed", attributes)


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
