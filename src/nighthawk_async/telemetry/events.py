"""The events that the conventions define: log records, which need no trace."""

from collections.abc import Mapping
from time import time_ns

from opentelemetry import _logs, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import Span
from opentelemetry.util.types import AnyValue

from ..catalog.telemetry_names import EVALUATION_CASE, EVALUATION_TRIAL
from ..kernel.reports import ResultEvaluated
from ..telemetry_settings import get_settings
from .spans import LIBRARY, library_version


def record_details(name: str, span: Span, attributes: Mapping[str, AnyValue]) -> None:
    """Record the details of a request, content included.

    Args:
        name: The name of the event.
        span: The span of the request.
        attributes: Its attributes.
    """
    _record(name, SeverityNumber.DEBUG, span, attributes)


def record_exception(name: str, span: Span, error: BaseException) -> None:
    """Record the error of a request, without its text, which may quote data.

    Args:
        name: The name of the event.
        span: The span of the request.
        error: The error.
    """
    error_type = type(error)
    attributes = {"exception.type": f"{error_type.__module__}.{error_type.__qualname__}"}
    _record(name, SeverityNumber.WARN, span, attributes)


def record_evaluation(span: Span, event: ResultEvaluated) -> None:
    """Record the score of a result. Its reason is content: it may quote what was evaluated.

    Args:
        span: The span of the trial.
        event: The event.
    """
    settings = get_settings()
    names = settings.names
    attributes: dict[str, AnyValue] = {
        names.evaluation_name: event.scorer,
        EVALUATION_CASE: event.case,
        EVALUATION_TRIAL: event.trial,
    }
    if event.value is not None:
        attributes[names.evaluation_score] = event.value
    if event.label is not None:
        attributes[names.evaluation_label] = event.label
    if event.explanation and settings.events_hold_content:
        attributes[names.evaluation_explanation] = event.explanation
    if event.error_type is not None:
        attributes[names.error_type] = event.error_type
    _record(names.evaluation_event, SeverityNumber.INFO, span, attributes)


def _record(name: str, severity: SeverityNumber, span: Span, attributes: Mapping[str, AnyValue]) -> None:
    record = LogRecord(
        event_name=name,
        timestamp=time_ns(),
        severity_number=severity,
        context=trace.set_span_in_context(span),
        attributes=attributes,
    )
    _logs.get_logger_provider().get_logger(LIBRARY, library_version()).emit(record)
