"""Asking the oversight in force, telling traces and hooks what it decided, and doing it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from opentelemetry import trace

from ...errors import StepAbortedError, StepRejectedError, ToolBoundaryError
from ...runtime.commit import StepCommit
from ...runtime.conclude import StepResult, rewritten
from ...runtime.environment import Environment, get_environment
from ...runtime.events import OversightDecided, OversightDecision, OversightSubject
from ...runtime.failures import failing_as_rewriter
from ...runtime.late_value import ask_early
from ...runtime.step import Step
from ...runtime.tracing import shows_content
from ...types.outcomes import StepOutcome
from ...types.unset import UNSET
from .asking import ask_about_commit, ask_about_tool_call
from .inspection import Abort, Decision, Oversight, Reject, Rewrite, ToolCallInspection

__all__ = ["overseen_arguments", "overseen_commit"]

_NAMES: Mapping[type, OversightDecision] = {Reject: "reject", Rewrite: "rewrite", Abort: "abort"}


async def overseen_arguments(
    oversight: Oversight, within: Environment, tool_name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Have a tool call inspected.

    Args:
        oversight: What inspects.
        within: The environment in which it is asked.
        tool_name: The tool.
        arguments: The arguments as the model gave them, parsed.

    Returns:
        The arguments to use instead; None to use those of the model.

    Raises:
        ToolBoundaryError: The call is rejected.
        StepAbortedError: The step is to end.
        HookError: Oversight raised, or its answer is no decision.
    """
    step_id = get_environment().execution_ref.step_id or ""
    inspection = ToolCallInspection(step_id=step_id, tool_name=tool_name, arguments=arguments)
    decision = await ask_about_tool_call(oversight, within, inspection)
    await _tell("tool_call", decision, tool_name)
    match decision:
        case Reject():
            raise _rejection(decision)
        case Abort():
            raise StepAbortedError(decision.reason, step_id=step_id)
        case Rewrite():
            return decision.values
        case _:
            return None


async def overseen_commit(
    oversight: Oversight,
    within: Environment,
    step: Step,
    outcome: StepOutcome,
    commit: StepCommit,
    result: StepResult,
) -> StepResult | None:
    """Have a commit inspected.

    Args:
        oversight: What inspects.
        within: The environment in which it is asked.
        step: The step.
        outcome: How the step ends.
        commit: What oversight is shown.
        result: What is about to be committed.

    Returns:
        What is committed; None when oversight wants the return value, which there is not yet.

    Raises:
        StepRejectedError: The commit is rejected.
        StepAbortedError: The step is to end.
        HookError: Oversight raised, its answer is no decision, or what it rewrote is not acceptable.
    """
    decision = await ask_early(commit, partial(ask_about_commit, oversight, within, commit))
    if decision is UNSET:
        return None
    await _tell("commit", decision, None)
    match decision:
        case Reject():
            guidance = f" ({decision.guidance})" if decision.guidance else ""
            what = f"step {commit.step_id}: oversight rejected the commit"
            message = f"{what}: {decision.reason}{guidance}"
            raise StepRejectedError(message).without_content(what) from _rejection(decision)
        case Abort():
            raise StepAbortedError(decision.reason, step_id=commit.step_id)
        case Rewrite():
            with failing_as_rewriter("inspect_step_commit"):
                return rewritten(
                    step.context,
                    outcome,
                    result,
                    rewriter="inspect_step_commit",
                    bindings=decision.values,
                    return_value=decision.return_value,
                )
        case _:
            return result


def _rejection(decision: Reject) -> ToolBoundaryError:
    error = ToolBoundaryError(kind="oversight", message=decision.reason, guidance=decision.guidance)
    return error.without_content("rejected by oversight")


async def _tell(subject: OversightSubject, decision: Decision, tool_name: str | None) -> None:
    environment = get_environment()
    name = _NAMES.get(type(decision), "accept")
    reason = decision.reason if isinstance(decision, Reject | Abort) else None
    _record(environment, subject, name, {"tool_name": tool_name}, reason)
    if environment.policies.that("report"):
        event = OversightDecided(
            execution_ref=environment.execution_ref,
            subject=subject,
            decision=name,
            tool_name=tool_name,
            reason=reason,
        )
        await environment.policies.report(event)


def _record(
    environment: Environment,
    subject: str,
    decision: str,
    details: Mapping[str, str | None],
    reason: str | None,
) -> None:
    span = trace.get_current_span()
    if not span.is_recording():
        return
    attributes = {
        "nighthawk.oversight.subject": subject,
        "nighthawk.oversight.decision": decision,
        "step.id": environment.execution_ref.step_id or "",
    }
    details = {**details, "reason": reason} if shows_content() else details  # which may quote arguments
    attributes |= {f"nighthawk.oversight.{name}": value for name, value in details.items() if value}
    span.add_event("nighthawk.oversight.decided", attributes)
