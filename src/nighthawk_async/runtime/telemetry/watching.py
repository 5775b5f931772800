"""Whether anybody traces or measures. Floor 3."""

import sys

from opentelemetry import trace

__all__ = ["is_measured", "is_traced"]


def is_traced() -> bool:
    """Whether there are spans: what a step does is below that of the step, sampled or not.

    Where nobody makes spans, the one that a client has named may be the current one.
    """
    context = trace.get_current_span().get_span_context()
    return context.is_valid and not context.is_remote


def is_measured() -> bool:
    """Whether somebody collects metrics: the providers of the API itself, which are no-ops, do not."""
    metrics = sys.modules.get("opentelemetry.metrics")  # which nobody has set up who has not loaded it
    if metrics is None:
        return False
    return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics.")
