"""Inspecting what a step is about to commit: hooks first, then oversight. Floor 3.

A rejection goes back to the model while its executor lets it answer again; then it fails the step.
"""

from ...errors import StepRejectedError, ToolBoundaryError
from ...types.outcomes import StepOutcome
from ..conclude import StepResult
from ..environment import Environment
from ..hooks.steps import before_commit
from ..step import Inspect, Step
from .decisions import overseen_commit
from .verification import OutcomeRefusedError

__all__ = ["make_commit_inspector"]


class _CommitRefusedError(OutcomeRefusedError, StepRejectedError):
    """A commit was rejected, and the step may go on. An agent that lets it through fails the step with it."""


def make_commit_inspector(environment: Environment, step: Step) -> Inspect:
    """What inspects the commits of a step.

    Args:
        environment: What is in force in the step.
        step: The step.
    """

    async def inspect(outcome: StepOutcome, result: StepResult, *, is_last: bool) -> StepResult:
        try:
            result = await before_commit(environment, step, outcome, result)
            return await overseen_commit(environment, step, outcome, result)
        except StepRejectedError as error:
            if is_last or step.rejections_left == 0:
                raise
            step.rejections_left -= 1
            raise _CommitRefusedError(str(error), feedback=_feedback(error)) from error.__cause__

    return inspect


def _feedback(error: StepRejectedError) -> str:
    match error.__cause__:
        case ToolBoundaryError(message=reason, guidance=str(guidance)):
            return f"{reason} ({guidance})"
        case ToolBoundaryError(message=reason):
            return reason
        case _:
            return str(error)
