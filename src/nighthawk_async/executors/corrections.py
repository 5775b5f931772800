"""Counting what models are told was wrong: for the run, the step, its node and metrics."""

from ..errors import CorrectionCause
from ..runtime.environment import find_environment
from ..runtime.tracing import correction_attributes, is_measured

__all__ = ["count_correction"]


def count_correction(cause: CorrectionCause) -> None:
    """Count that the model of the step in progress is told that something was wrong.

    Args:
        cause: The cause of the correction.
    """
    environment = find_environment()
    if environment is None or environment.step is None:
        return
    environment.usage_meter.count_correction(cause)
    actor = environment.step.actor
    actor.progress.corrections[cause] += 1
    if actor.node is not None:
        actor.node.set_attributes(correction_attributes(actor.progress.corrections))
    if is_measured():
        from ..telemetry.instruments import record_correction  # here, because most programs measure nothing

        record_correction(cause)
