"""Ends of spans. Floor 3."""

from opentelemetry.trace import Span, Status, StatusCode

__all__ = ["CANCELLED", "end_span", "error_type_of"]

CANCELLED = "cancelled"
"""The `error.type` of what was cancelled, or given up before its end. The status of its span stays unset."""


def error_type_of(error: BaseException | None) -> str | None:
    """The class of an error, for `error.type`; `cancelled` for what is no error; None for None.

    Args:
        error: What ended it.
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
