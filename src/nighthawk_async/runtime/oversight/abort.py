"""The decision to end a step, which oversight and hooks share. Floor 3."""

from dataclasses import dataclass

__all__ = ["Abort"]


@dataclass(frozen=True, slots=True)
class Abort:
    """End the step with `StepAbortedError`. Its model is not told, and nothing retries it.

    Args:
        reason: Why, for whoever reads the error.
    """

    reason: str
