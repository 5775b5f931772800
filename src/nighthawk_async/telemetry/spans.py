"""OpenTelemetry spans, and those of specification 10.1."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from ..errors import (
    ErrorKind,
    ExecutionError,
    ModelError,
    NaturalParseError,
    NighthawkError,
    StepAbortedError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
)
from ..kernel.environment import find_environment
from ..kernel.reports import (
    Corrections,
    KernelActivity,
    correction_attributes,
    identity_attributes,
    reading_attributes,
)
from ..telemetry_settings import shows_content
from ..tracing import using_trace_context
from ..types.outcomes import RaiseStepOutcome, StepOutcome
from ..values.error_text import message_without_content, stacktrace_without_content

CANCELLED = "cancelled"
"""The `error.type` of work that was cancelled or abandoned. The status of its span stays unset."""


def error_type_of(error: BaseException | None) -> str | None:
    """Return the class of an error, for `error.type`; `cancelled` for a cancellation; None for None.

    Args:
        error: The error or cancellation that ended it.
    """
    if error is None:
        return None
    return type(error).__name__ if isinstance(error, Exception) else CANCELLED


def end_span(span: Span, attribute: str, error_type: str | None, *, has_own_status: bool = False) -> None:
    """End a span. It never holds the text of an error, which may quote data.

    Args:
        span: The span.
        attribute: The name of `error.type`.
        error_type: The class of the error that ended it; None when it succeeded.
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
    """Return the version of the library; None when it is imported from its source without being installed."""
    try:
        return version("nighthawk-async")
    except PackageNotFoundError:
        return None


def is_traced() -> bool:
    """Whether a trace is active: the work of a step is below the step's span, sampled or not.

    Without a tracer provider, the current span may be the remote one that a client has named.
    """
    context = trace.get_current_span().get_span_context()
    return context.is_valid and not context.is_remote


def is_measured() -> bool:
    """Whether metrics are collected."""
    return _has_provider("opentelemetry.metrics", "get_meter_provider")


def is_logged() -> bool:
    """Whether log records are collected."""
    return _has_provider("opentelemetry._logs", "get_logger_provider")


def _has_provider(module: str, getter: str) -> bool:
    """Whether a real provider is set up; not while its module is not loaded, or is just being loaded."""
    get = getattr(sys.modules.get(module), getter, None)
    return get is not None and _is_set_up(get())


def _is_set_up(provider: object) -> bool:
    """Whether it is a real provider, not one of the API's own no-ops."""
    return not type(provider).__module__.startswith(("opentelemetry.metrics.", "opentelemetry._logs."))


_TRACER = trace.get_tracer(LIBRARY, library_version())


def execution_attributes() -> dict[str, str]:
    """Return the attributes of the execution in progress; none outside of steps."""
    environment = find_environment()
    execution_id = None if environment is None else environment.execution_ref.execution_id
    return {} if execution_id is None else {"execution.id": execution_id}


def start_span(name: str, *, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Span:
    """Begin a span below the current one, which stays the current one. The caller must end it.

    Args:
        name: The name of the span.
        kind: The kind of span.
        attributes: The first attributes, by which samplers may decide.
    """
    return _TRACER.start_span(name, kind=kind, attributes=attributes)


class using_span:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make a span the current one during the `with` statement, which does not end it.

    The restrictions of `using_trace_context` apply here, too.

    Args:
        span: The span; an invalid one changes nothing.
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


class KernelSpan:
    """The span of a run, scope or step, or of the work of its executor.

    Exceptions of runs and scopes are not recorded, because their texts may quote data.

    Args:
        activity: The activity.
    """

    __slots__ = ("_is_step", "_span")

    def __init__(self, activity: KernelActivity) -> None:
        self._is_step = activity.name == "step"
        attributes: dict[str, AttributeValue] = {**identity_attributes(activity.execution_ref)}
        if activity.attempt is not None:
            attributes["nighthawk.step.attempt"] = activity.attempt
        self._span = start_span(f"nighthawk.{activity.name}", kind=SpanKind.INTERNAL, attributes=attributes)

    def active(self) -> using_span:
        """Make it the current span."""
        return using_span(self._span)

    def note(self, event: object) -> None:
        """Record a correction of a step, or its outcome."""
        if isinstance(event, Corrections):
            self._span.set_attributes(correction_attributes(event.counts))
            self._span.set_attributes(reading_attributes(event.readings))
        elif isinstance(event, StepOutcome):
            _record_outcome(self._span, event)

    def end(self, error: BaseException | None) -> None:
        """End it, with the class of the error that ended it."""
        if self._is_step and isinstance(error, Exception):
            _record_failed(self._span, error)
        end_span(self._span, "error.type", error_type_of(error), has_own_status=self._is_step)


def _record_outcome(step_span: Span, outcome: StepOutcome) -> None:
    """Record the event of a step that ended: `completed`, or `raised` for a raise outcome."""
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


def _record_failed(step_span: Span, error: Exception) -> None:
    """Record the event of a step that failed, with the exception and an error status.

    Unless content is shown, both omit the data that the error quotes.
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
