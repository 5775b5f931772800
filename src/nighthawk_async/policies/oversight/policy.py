"""Oversight and completion checks as policies.

The active oversight is called, its decision is reported to traces and hooks, and then applied.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

from ...errors import HookError, StepAbortedError, StepRejectedError, ToolBoundaryError
from ...kernel.commit import CommitProceed, StepCommit, decided, failing_as_hook
from ...kernel.conclude import StepResult
from ...kernel.environment import Environment, get_environment, using_environment
from ...kernel.events import OversightDecided, OversightDecision, OversightSubject, report
from ...kernel.fold import ToolCallProceed
from ...kernel.policy import (
    InnerScope,
    Policies,
    Policy,
    Position,
    deeply_read_only,
)
from ...kernel.step import Step
from ...kernel.tool_calls import parsed_arguments, with_arguments
from ...types.messages import ToolCall, ToolResult
from ...types.unset import UNSET
from .inspection import (
    Abort,
    Accept,
    Decision,
    Oversight,
    Reject,
    Rewrite,
    ToolCallInspection,
    Verification,
    Verify,
    checked_oversight,
    checked_verifications,
)
from .verifier import Verifier

Subject = TypeVar("Subject")


async def ask_about_tool_call(
    oversight: Oversight, within: Environment, inspection: ToolCallInspection
) -> Decision:
    """Ask oversight about a tool call.

    Raises:
        HookError: Oversight raised, or its answer is not a decision.
    """
    name = "inspect_tool_call"
    decision = await _ask(within, oversight.inspect_tool_call, inspection, name)
    if isinstance(decision, Rewrite):
        if decision.values is None:
            raise _answer_error(name, "answered a Rewrite without values")
        if decision.return_value is not UNSET:
            raise _answer_error(name, "answered a Rewrite with a return value to a tool call")
    return decision


async def ask_about_commit(oversight: Oversight, within: Environment, commit: StepCommit) -> Decision:
    """Ask oversight about a commit.

    Raises:
        HookError: Oversight raised, or its answer is not a decision.
    """
    name = "inspect_step_commit"
    decision = await _ask(within, oversight.inspect_step_commit, commit, name)
    if isinstance(decision, Rewrite):
        if decision.values is None and decision.return_value is UNSET:
            raise _answer_error(name, "answered a Rewrite without values or a return value")
        if decision.return_value is not UNSET and commit.outcome.kind != "return":
            raise _answer_error(name, f"gave a return value to the outcome '{commit.outcome.kind}'")
    return decision


async def _ask(
    within: Environment,
    method: Callable[[Subject], Decision | Awaitable[Decision]],
    subject: Subject,
    name: str,
) -> Decision:
    with (
        failing_as_hook(f"Oversight hook {name}", hook=name),
        using_environment(within),
    ):
        answer = method(subject)
        decision = cast("object", await answer if inspect.isawaitable(answer) else answer)
    if not isinstance(decision, Accept | Reject | Rewrite | Abort):
        remedy = "it must answer Accept, Reject, Rewrite or Abort"
        error = _answer_error(name, f"answered {decision!r}; {remedy}")
        raise error.without_content(f"Oversight hook {name} answered {type(decision).__name__}; {remedy}.")
    if isinstance(decision, Rewrite) and not isinstance(cast("object", decision.values), Mapping | None):
        raise _answer_error(name, "answered a Rewrite whose values are no mapping")
    return decision


def _answer_error(name: str, problem: str) -> HookError:
    return HookError(f"Oversight hook {name} {problem}.", hook=name)


_NAMES: Mapping[type, OversightDecision] = {Reject: "reject", Rewrite: "rewrite", Abort: "abort"}


async def overseen_arguments(
    oversight: Oversight, within: Environment, tool_name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Let oversight inspect a tool call.

    Args:
        oversight: The oversight object.
        within: The environment in which it is called.
        tool_name: The tool.
        arguments: The arguments as the model gave them, parsed.

    Returns:
        The arguments to use instead; None to use those of the model.

    Raises:
        ToolBoundaryError: The call is rejected.
        StepAbortedError: Oversight ends the step.
        HookError: Oversight raised, or its answer is not a decision.
    """
    step_id = get_environment().execution_ref.step_id or ""
    inspection = ToolCallInspection(step_id=step_id, tool_name=tool_name, arguments=arguments)
    decision = await ask_about_tool_call(oversight, within, inspection)
    await _report("tool_call", decision, tool_name)
    match decision:
        case Reject():
            raise _rejection(decision)
        case Abort():
            raise StepAbortedError(decision.reason, step_id=step_id)
        case Rewrite():
            return decision.values
        case _:
            return None


async def _overseen_commit(
    oversight: Oversight, within: Environment, commit: StepCommit, proceed: CommitProceed
) -> StepResult:
    """Let oversight inspect a commit.

    Args:
        oversight: The oversight object.
        within: The environment in which it is called.
        commit: The commit.
        proceed: Goes on with it.

    Raises:
        StepRejectedError: The commit is rejected.
        StepAbortedError: Oversight ends the step.
        HookError: Oversight raised, its answer is not a decision, or its rewritten values are not acceptable.
    """
    decision = await decided(commit, proceed, lambda shown: ask_about_commit(oversight, within, shown))
    await _report("commit", decision, None)
    match decision:
        case Reject():
            guidance = f" ({decision.guidance})" if decision.guidance else ""
            what = f"step {commit.step_id}: oversight rejected the commit"
            message = f"{what}: {decision.reason}{guidance}"
            raise StepRejectedError(message).without_content(what) from _rejection(decision)
        case Abort():
            raise StepAbortedError(decision.reason, step_id=commit.step_id)
        case Rewrite():
            changes: dict[str, object] = {}
            if decision.values is not None:
                changes["bindings"] = decision.values
            if decision.return_value is not UNSET:
                changes["return_value"] = decision.return_value
            return await proceed(proceed.commit.changed(**changes), rewriter="inspect_step_commit")
        case _:
            return await proceed()


def _rejection(decision: Reject) -> ToolBoundaryError:
    error = ToolBoundaryError(kind="oversight", message=decision.reason, guidance=decision.guidance)
    return error.without_content("rejected by oversight")


async def _report(subject: OversightSubject, decision: Decision, tool_name: str | None) -> None:
    event = OversightDecided(
        execution_ref=get_environment().execution_ref,
        subject=subject,
        decision=_NAMES.get(type(decision), "accept"),
        tool_name=tool_name,
        reason=decision.reason if isinstance(decision, Reject | Abort) else None,
    )
    await report(event)


@dataclass(frozen=True, slots=True, eq=False)
class OversightPolicy(Policy):
    """Lets an oversight object inspect tool calls and commits.

    Args:
        oversight: The object.
    """

    oversight: Oversight

    position: ClassVar[Position] = Position.OVERSIGHT

    async def around_tool_call(self, call: ToolCall, proceed: ToolCallProceed) -> ToolResult:
        """Let oversight inspect the call."""
        given = deeply_read_only(parsed_arguments(call))
        arguments = await overseen_arguments(self.oversight, _unseen(), call.name, given)
        return await proceed(
            call if arguments is None else with_arguments(call, arguments, author="Oversight")
        )

    async def around_commit(self, commit: StepCommit, proceed: CommitProceed) -> StepResult:
        """Let oversight inspect the commit."""
        return await _overseen_commit(self.oversight, _unseen(), commit, proceed)


@dataclass(frozen=True, slots=True, eq=False)
class VerificationPolicy(Policy):
    """Lets checks decide whether a step is done.

    Args:
        checks: The checks in the order in which they are called.
        is_verifying: Whether the steps belong to such a check, so that they are not checked themselves.
    """

    checks: tuple[Verification, ...] = ()
    is_verifying: bool = False

    position: ClassVar[Position] = Position.VERIFICATION

    def prepare(self, step: Step) -> None:
        """Let the checks decide whether the step is done, after those of its function."""
        verify = step.verify
        if self.is_verifying:
            step.verify = None
        elif isinstance(verify, Verifier):
            verify.add(self.checks)
        elif self.checks:
            step.verify = Verifier(
                self.checks,
                VerificationPolicy(is_verifying=True),
                step_id=step.context.step_id,
                program=step.program,
            )

    def within(self, outer: "VerificationPolicy") -> "VerificationPolicy":
        """Return the checks of a nested scope, followed by those of the parent."""
        if outer.is_verifying:
            return outer
        return VerificationPolicy(tuple(dict.fromkeys((*self.checks, *outer.checks))))


def _unseen() -> Environment:
    """Return the environment without oversight, so that steps started by oversight are not overseen."""
    environment = get_environment()
    return replace(environment, policies=environment.policies.without(OversightPolicy))


def with_oversight(policies: Policies, oversight: Oversight | None, inner: InnerScope) -> Policies:
    """Add the `oversight` argument of `scope` to the policies.

    Args:
        policies: The policies before.
        oversight: The oversight object; None for none.
        inner: The scope.

    Raises:
        NighthawkError: The argument is not an oversight object.
    """
    checked = checked_oversight(oversight)
    return (
        policies.without(OversightPolicy)
        if checked is None
        else policies.with_policy(OversightPolicy(checked))
    )


def with_verify(policies: Policies, verify: Verify | None, inner: InnerScope) -> Policies:
    """Add the `verify` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before.
        verify: The given objects; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is not a check.
    """
    if verify is None:
        return policies
    checking = _checking(reversed(checked_verifications(verify)))
    parent = policies.find(VerificationPolicy)
    if parent is not None and inner.is_added:
        checking = checking.within(parent)
    return policies.with_policy(checking)


def policies_of_function(verify: Verify) -> tuple[VerificationPolicy, ...]:
    """Return the policies of a function with checks; none for a function without.

    Args:
        verify: The argument of the decorator.

    Raises:
        NighthawkError: The argument is not a check.
    """
    checks = checked_verifications(verify)
    return (_checking(checks),) if checks else ()


def _checking(checks: Iterable[Verification]) -> VerificationPolicy:
    return VerificationPolicy(tuple(dict.fromkeys(checks)))


def get_oversight() -> Oversight | None:
    """Return the active oversight object; None for none.

    Raises:
        NighthawkError: No run is active.
    """
    policy = get_environment().policies.find(OversightPolicy)
    return None if policy is None else policy.oversight
