"""Whether anybody traces or measures. Floor 3."""

import sys

from opentelemetry import trace

__all__ = ["is_logged", "is_measured", "is_traced"]


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
