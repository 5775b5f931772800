"""Inspecting what a step is about to commit: hooks first, then oversight. Floor 3.

A rejection goes back to the model while its executor lets it answer again; then it fails the step.
"""

from collections.abc import Generator
from contextlib import contextmanager

from ...errors import StepRejectedError, ToolBoundaryError
from ...types.outcomes import StepOutcome
from ...types.unset import UNSET
from ..conclude import StepResult
from ..environment import Environment
from ..hooks.steps import CommitHooks
from ..late_value import reveal, shown
from ..step import Evaluate, Inspect, Step
from .decisions import overseen_commit
from .failures import failing_as_rewriter
from .inspection import StepCommit
from .verification import OutcomeRefusedError

__all__ = ["make_commit_inspector"]


class _CommitRefusedError(OutcomeRefusedError, StepRejectedError):
    """A commit was rejected, and the step may go on. An agent that lets it through fails the step with it."""


def make_commit_inspector(environment: Environment, step: Step) -> Inspect:
    """Return the inspector for the commits of a step.

    Args:
        environment: What is in force in the step.
        step: The step.
    """

    def inspect(outcome: StepOutcome, *, is_last: bool) -> _Inspection:
        return _Inspection(environment, step, outcome, is_last=is_last)

    return inspect


class _Inspection:
    """The inspection of one outcome; see `step.Inspection`.

    Oversight decides once, and once more when hooks modified what it had decided about.
    """

    __slots__ = ("_environment", "_has_decided", "_hooks", "_is_last", "_outcome", "_shown", "_step")

    def __init__(self, environment: Environment, step: Step, outcome: StepOutcome, *, is_last: bool) -> None:
        self._environment = environment
        self._step = step
        self._outcome = outcome
        self._is_last = is_last
        self._shown: list[object] = []
        self._hooks = CommitHooks(environment, step, outcome, self._shown)
        self._has_decided = False

    async def ask(self, result: StepResult) -> StepResult:
        with self._hiding_nothing_afterwards():
            if result.return_value is not UNSET:
                reveal(self._shown, result.return_value)
            try:
                return await self._ask_oversight(result, await self._hooks.ask(result))
            except StepRejectedError as error:
                step = self._step
                if self._is_last or step.rejections_left == 0:
                    raise
                step.rejections_left -= 1
                raise _CommitRefusedError(str(error), feedback=_feedback(error)) from error.__cause__

    async def evaluate(self, result: StepResult, evaluate: Evaluate) -> StepResult:
        with self._hiding_nothing_afterwards():
            if result.rewriter is None:
                return await evaluate(result)
            with failing_as_rewriter(result.rewriter):
                return await evaluate(result)

    async def _ask_oversight(self, before: StepResult, result: StepResult) -> StepResult:
        if self._has_decided and result is before:
            return result
        commit = shown(
            StepCommit(step_id=self._step.context.step_id, outcome=self._outcome, bindings=result.bindings),
            result.return_value,
        )
        self._shown.append(commit)
        decided = await overseen_commit(self._environment, self._step, self._outcome, commit, result)
        self._has_decided = decided is not None
        return result if decided is None else decided

    @contextmanager
    def _hiding_nothing_afterwards(self) -> Generator[None, None, None]:
        """Give the events of a commit that fails None for a value that never came to be."""
        try:
            yield
        except BaseException:
            reveal(self._shown, None)
            raise


def _feedback(error: StepRejectedError) -> str:
    match error.__cause__:
        case ToolBoundaryError(message=reason, guidance=str(guidance)):
            return f"{reason} ({guidance})"
        case ToolBoundaryError(message=reason):
            return reason
        case _:
            return str(error)
