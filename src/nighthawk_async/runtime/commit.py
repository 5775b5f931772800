"""A commit as oversight and policies see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..types.outcomes import StepOutcome
from .conclude import StepResult
from .late_value import described, raise_unknown, with_changes

__all__ = ["CommitReview", "StepCommit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCommit:
    """A commit that a step proposes.

    It is inspected before the expression of a `return` outcome is evaluated: whoever reads `return_value` is
    asked once more when the expression has been evaluated, and decides then.

    Args:
        step_id: The step.
        outcome: How it ends.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value that a `return` outcome gives; None for other outcomes, and
            afterwards for a commit whose expression was not evaluated, because it was rejected.
    """

    step_id: str
    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described

    def changed(self, **changes: object) -> "StepCommit":
        """The same with other `bindings` or another `return_value`, to be committed instead."""
        return with_changes(self, **changes)


class CommitReview(Protocol):
    """One policy's look at one commit, which it decides about once."""

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Let it decide, unless it has.

        Args:
            result: What the step comes to; its return value is UNSET while it is not evaluated.
            is_modified: Whether a policy before it has just modified that.

        Returns:
            What to commit.

        Raises:
            StepRejectedError: It is against it.
            StepAbortedError: It ends the step.
            HookError: It failed.
        """
        ...
