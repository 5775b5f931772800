"""Showing in a trace what a transformer did."""

from collections.abc import Mapping

from opentelemetry import trace

__all__ = ["add_span_event"]


def add_span_event(name: str, attributes: Mapping[str, str | int | float]) -> None:
    """Add an event to the current span, if it is recorded.

    Args:
        name: The name of the event.
        attributes: What it tells: no text of an error, which may quote data.
    """
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(name, dict(attributes))
