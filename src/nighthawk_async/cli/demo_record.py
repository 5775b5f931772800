"""Counts of the running demonstration."""

from collections import Counter
from dataclasses import dataclass, field

import nighthawk_async as nh

from .demo_functions import Label, Review

__all__ = ["Classification", "DemoRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The classification of one review.

    Args:
        review: The review.
        label: What the model said; None when the step failed.
        error: Why it failed.
        seconds: How long it took.
    """

    review: Review
    label: Label | None
    error: str = ""
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the model said what the person said."""
        return self.label == self.review.label


@dataclass(slots=True, kw_only=True)
class DemoRecord:
    """The demonstration so far. Also the oversight that sees each outcome before it is committed.

    Args:
        total: How many reviews there are to classify.
        in_flight: How many are being classified.
        classifications: The finished ones, in the order in which they finished.
        outcomes: How often each outcome kind was committed.
        meters: The usage meters of the runs.
        seconds: How long everything took.
    """

    total: int
    in_flight: int = 0
    classifications: list[Classification] = field(default_factory=list[Classification])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    meters: list[nh.UsageMeter] = field(default_factory=list[nh.UsageMeter])
    seconds: float = 0.0

    def inspect_tool_call(self, inspection: nh.ToolCallInspection) -> nh.Accept:
        """Let every tool call happen."""
        return nh.Accept()

    def inspect_step_commit(self, commit: nh.StepCommit) -> nh.Accept:
        """Count the outcome and let it happen."""
        self.outcomes[commit.outcome.kind] += 1
        return nh.Accept()

    @property
    def done(self) -> int:
        """The number of reviews that were classified or failed."""
        return len(self.classifications)

    @property
    def right(self) -> int:
        """The number of reviews with the label that a person gave."""
        return sum(classification.is_right for classification in self.classifications)

    @property
    def failed(self) -> int:
        """The number of reviews without a label because the step failed."""
        return sum(classification.label is None for classification in self.classifications)

    @property
    def usage(self) -> nh.Usage:
        """The usage so far."""
        return sum((meter.usage for meter in self.meters), nh.Usage())

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return sum(meter.steps for meter in self.meters)
