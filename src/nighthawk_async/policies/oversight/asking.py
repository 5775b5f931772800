"""Asking an oversight object for a decision. What comes of it is in `decisions`.

It is asked within the step, but the steps that it brings about are not overseen themselves, so that it may
call natural functions.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar, cast

from ...errors import HookError
from ...runtime.commit import StepCommit
from ...runtime.environment import Environment, using_environment
from ...runtime.failures import failing_as_hook
from ...types.unset import UNSET
from .inspection import Abort, Accept, Decision, Oversight, Reject, Rewrite, ToolCallInspection

__all__ = ["ask_about_commit", "ask_about_tool_call"]

Subject = TypeVar("Subject")


async def ask_about_tool_call(
    oversight: Oversight, within: Environment, inspection: ToolCallInspection
) -> Decision:
    """Ask about a tool call.

    Raises:
        HookError: It raised, or its answer is no decision.
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
    """Ask about a commit.

    Raises:
        HookError: It raised, or its answer is no decision.
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
