"""Oversight and completion checks as policies."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ...runtime.commit import CommitReview, StepCommit
from ...runtime.conclude import StepResult
from ...runtime.environment import Environment, get_environment
from ...runtime.inspection import DecidedOnce
from ...runtime.policies import Policies
from ...runtime.policy import InnerExtent, Policy, Position
from ...runtime.read_only import deeply_read_only
from ...runtime.step import Step
from ...runtime.step import Verify as VerifyOutcome
from ...runtime.tool_arguments import parsed_arguments, with_arguments
from ...types.messages import ToolCall
from ...types.outcomes import StepOutcome
from .decisions import overseen_arguments, overseen_commit
from .inspection import Oversight, checked_oversight
from .verification import Verification, Verify, checked_verifications
from .verifier import Verifier

__all__ = [
    "OversightPolicy",
    "VerificationPolicy",
    "get_oversight",
    "policies_of_function",
    "with_oversight",
    "with_verify",
]


@dataclass(frozen=True, slots=True, eq=False)
class OversightPolicy(Policy):
    """Has an oversight object inspect tool calls and commits.

    Args:
        oversight: The object.
    """

    oversight: Oversight

    position: ClassVar[Position] = Position.OVERSIGHT

    async def before_tool_call(self, call: ToolCall) -> ToolCall:
        """Have the call inspected."""
        given = deeply_read_only(parsed_arguments(call))
        arguments = await overseen_arguments(self.oversight, _unseen(), call.name, given)
        return call if arguments is None else with_arguments(call, arguments, author="Oversight")

    def review(self, step: Step, outcome: StepOutcome, shown: list[object]) -> CommitReview:
        """Begin to have a commit inspected."""
        return _CommitReview(self.oversight, step, outcome, shown)


class _CommitReview(DecidedOnce):
    """The inspection of one commit."""

    def __init__(self, oversight: Oversight, step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        super().__init__(step, outcome, shown)
        self._oversight = oversight

    async def decide(self, commit: StepCommit, result: StepResult) -> StepResult | None:
        """Have it inspected."""
        return await overseen_commit(self._oversight, _unseen(), self.step, self.outcome, commit, result)


@dataclass(frozen=True, slots=True, eq=False)
class VerificationPolicy(Policy):
    """Has checks say whether a step is done.

    Args:
        checks: The checks in the order of asking.
        is_verifying: Whether the steps belong to such a check, so that they are not checked themselves.
    """

    checks: tuple[Verification, ...] = ()
    is_verifying: bool = False

    position: ClassVar[Position] = Position.VERIFICATION

    def verifier(self, *, step_id: str, program: str) -> VerifyOutcome | None:
        """Return what asks the checks about one step."""
        if not self.checks:
            return None
        return Verifier(
            self.checks, VerificationPolicy(is_verifying=True), step_id=step_id, program=program
        ).verify

    def within(self, outer: "VerificationPolicy") -> "VerificationPolicy":
        """The checks of a function or an inner scope, and then those around it."""
        if outer.is_verifying:
            return outer
        return VerificationPolicy(tuple(dict.fromkeys((*self.checks, *outer.checks))))


def _unseen() -> Environment:
    """The environment without oversight, so that what oversight brings about is not overseen."""
    environment = get_environment()
    return replace(environment, policies=environment.policies.without(OversightPolicy))


def with_oversight(policies: Policies, oversight: Oversight | None, extent: InnerExtent) -> Policies:
    """The policies with what `scope` was told of oversight.

    Args:
        policies: The policies without.
        oversight: What inspects; None for nothing.
        extent: The scope.

    Raises:
        NighthawkError: It is no oversight.
    """
    checked = checked_oversight(oversight)
    return (
        policies.without(OversightPolicy)
        if checked is None
        else policies.with_policy(OversightPolicy(checked))
    )


def with_verify(policies: Policies, verify: Verify | None, extent: InnerExtent) -> Policies:
    """The policies with what `run` and `scope` were told of checks.

    Args:
        policies: The policies without.
        verify: What they were told; None for no change.
        extent: The run or scope.

    Raises:
        NighthawkError: It is no check.
    """
    if verify is None:
        return policies
    inner = _checking(reversed(checked_verifications(verify)))
    outer = policies.find(VerificationPolicy)
    return policies.with_policy(inner.within(outer) if outer is not None and extent.is_added else inner)


def policies_of_function(verify: Verify) -> tuple[VerificationPolicy, ...]:
    """The policies of a function with checks; none without.

    Args:
        verify: What the decorator was told.

    Raises:
        NighthawkError: It is no check.
    """
    checks = checked_verifications(verify)
    return (_checking(checks),) if checks else ()


def _checking(checks: Iterable[Verification]) -> VerificationPolicy:
    return VerificationPolicy(tuple(dict.fromkeys(checks)))


def get_oversight() -> Oversight | None:
    """Return the active inspector of tool calls and commits; None for none.

    Raises:
        NighthawkError: No run is active.
    """
    policy = get_environment().policies.find(OversightPolicy)
    return None if policy is None else policy.oversight
