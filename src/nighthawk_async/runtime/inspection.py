"""Review of a step's commit by policies.

A rejection goes back to the model as long as its executor allows another answer; then it fails the step.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial

from ..errors import StepRejectedError, ToolBoundaryError
from ..types.outcomes import StepOutcome
from ..types.unset import UNSET
from .conclude import OutcomeRefusedError, StepResult, rewritten
from .failures import failing_as_policy, failing_as_rewriter
from .late_value import ask_early, reveal, shown, value_of
from .policies import Policies
from .policy import CommitReview, Policy, StepCommit, check_answer
from .step import Evaluate, Inspect, Step


class _CommitRefusedError(OutcomeRefusedError, StepRejectedError):
    """A commit was rejected, and the step may go on. If the agent does not catch it, the step fails."""


def make_inspector(policies: Policies, step: Step) -> Inspect | None:
    """Return the inspector for the commits of a step; None if no policy reviews them.

    Args:
        policies: The policies of the step.
        step: The step.
    """
    inspecting = [each for each in policies.active if each.overridden & {"review", "before_commit"}]
    if not inspecting:
        return None

    def inspect(outcome: StepOutcome, *, is_last: bool) -> _Inspection:
        return _Inspection(inspecting, step, outcome, is_last=is_last)

    return inspect


class _Inspection:
    """The inspection of one outcome; see `step.Inspection`."""

    __slots__ = ("_is_last", "_reviews", "_shown", "_step")

    def __init__(
        self, policies: Iterable[Policy], step: Step, outcome: StepOutcome, *, is_last: bool
    ) -> None:
        self._step = step
        self._is_last = is_last
        self._shown: list[object] = []
        self._reviews = [_begin_review(policy, step, outcome, self._shown) for policy in policies]

    async def ask(self, result: StepResult) -> StepResult:
        with self._revealing_none_on_failure():
            if result.return_value is not UNSET:
                reveal(self._shown, result.return_value)
            try:
                before = result
                for review in self._reviews:
                    result = await review.ask(result, is_modified=result is not before)
            except StepRejectedError as error:
                step = self._step
                if self._is_last or step.rejections_left == 0:
                    raise
                step.rejections_left -= 1
                raise _CommitRefusedError(str(error), feedback=_feedback(error)) from error.__cause__
            return result

    async def evaluate(self, result: StepResult, evaluate: Evaluate) -> StepResult:
        with self._revealing_none_on_failure():
            if result.rewriter is None:
                return await evaluate(result)
            with failing_as_rewriter(result.rewriter):
                return await evaluate(result)

    @contextmanager
    def _revealing_none_on_failure(self) -> Generator[None, None, None]:
        """Set the missing return value of shown objects to None if the commit fails."""
        try:
            yield
        except BaseException:
            reveal(self._shown, None)
            raise


class DecidedOnce(ABC):
    """The review of one commit by one policy, which decides once, and again after a change.

    Args:
        step: The step.
        outcome: The outcome of the step.
        shown: The list of objects that were shown without a return value.
    """

    def __init__(self, step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        self.step = step
        self.outcome = outcome
        self._shown = shown
        self._has_decided = False

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Ask for its decision; see `policy.CommitReview`."""
        if self._has_decided and not is_modified:
            return result
        commit = shown(
            StepCommit(step_id=self.step.context.step_id, outcome=self.outcome, bindings=result.bindings),
            result.return_value,
        )
        self._shown.append(commit)
        decided = await self.decide(commit, result)
        self._has_decided = decided is not None
        return result if decided is None else decided

    @abstractmethod
    async def decide(self, commit: StepCommit, result: StepResult) -> StepResult | None:
        """Decide about the commit.

        Args:
            commit: The commit as it is shown.
            result: The result of the step.

        Returns:
            The result to commit; None if it wants the return value, which is not evaluated yet.
        """


class _OwnReview(DecidedOnce):
    """The review of one commit by a program's own policy; see `Policy.before_commit`."""

    def __init__(self, policy: Policy, step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        super().__init__(step, outcome, shown)
        self._policy = policy

    async def decide(self, commit: StepCommit, result: StepResult) -> StepResult | None:
        """Ask the policy."""
        method = f"{type(self._policy).__qualname__}.before_commit"
        with failing_as_policy(method):
            answer = await ask_early(commit, partial(self._policy.before_commit, commit))
        if answer is UNSET:
            return None
        if answer is None:
            return result
        check_answer(answer, StepCommit, method)
        check_answer(answer.bindings, Mapping, method)
        return self._changed(commit, answer, result)

    def _changed(self, commit: StepCommit, answer: StepCommit, result: StepResult) -> StepResult:
        """Return the result with the changes of a policy, validated."""
        bindings = None if answer.bindings is commit.bindings else answer.bindings
        value = value_of(answer)
        if value is value_of(commit):
            value = UNSET
        rewriter = type(self._policy).__qualname__
        with failing_as_rewriter(rewriter):
            if answer.outcome is not commit.outcome:
                raise ValueError("only the bindings and the return value can be changed")
            if value is not UNSET and self.outcome.kind != "return":
                raise ValueError(f"the outcome '{self.outcome.kind}' has no return value")
            return rewritten(
                self.step.context,
                self.outcome,
                result,
                rewriter=rewriter,
                bindings=bindings,
                return_value=value,
            )


def _begin_review(policy: Policy, step: Step, outcome: StepOutcome, shown: list[object]) -> CommitReview:
    return policy.review(step, outcome, shown) or _OwnReview(policy, step, outcome, shown)


def _feedback(error: StepRejectedError) -> str:
    match error.__cause__:
        case ToolBoundaryError(message=reason, guidance=str(guidance)):
            return f"{reason} ({guidance})"
        case ToolBoundaryError(message=reason):
            return reason
        case _:
            return str(error)
