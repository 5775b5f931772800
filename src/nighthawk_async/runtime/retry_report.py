"""Telling that something will be tried again. Floor 3."""

from dataclasses import dataclass

from opentelemetry import trace

__all__ = ["RetryScheduled", "report_retry"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetryScheduled:
    """An attempt failed, and there will be another.

    Args:
        name: What is tried: the name of the function, or the id of the step.
        attempt: Which attempt failed, from 1.
        error: Why.
        wait_seconds: Seconds until the next attempt.
    """

    name: str
    attempt: int
    error: Exception
    wait_seconds: float


def report_retry(retry: RetryScheduled) -> None:
    """Tell whoever observes. The one place that knows them.

    The event on the current span holds no text of the error, which may quote data.

    Args:
        retry: What happened.
    """
    span = trace.get_current_span()
    if span.is_recording():
        attributes: dict[str, str | int | float] = {
            "nighthawk.retry.name": retry.name,
            "nighthawk.retry.attempt": retry.attempt,
            "nighthawk.retry.wait_seconds": retry.wait_seconds,
            "error.type": type(retry.error).__name__,
        }
        span.add_event("nighthawk.retry.scheduled", attributes)
