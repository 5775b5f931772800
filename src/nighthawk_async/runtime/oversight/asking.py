"""Asking an oversight object for a decision. Floor 3. What comes of it is in `decisions`.

It is asked within the step, but the steps that it brings about are not overseen themselves, so that it may
call natural functions.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from ...errors import HookError
from ..environment import Environment, using_environment
from .failures import failing_as_hook
from .inspection import Abort, Accept, Decision, Oversight, Reject, Rewrite, StepCommit, ToolCallInspection

__all__ = ["ask_about_commit", "ask_about_tool_call"]

Subject = TypeVar("Subject")


async def ask_about_tool_call(
    environment: Environment, oversight: Oversight, inspection: ToolCallInspection
) -> Decision:
    """Ask about a tool call.

    Raises:
        HookError: It raised, or its answer is no decision.
    """
    return await _ask(environment, oversight.inspect_tool_call, inspection, "inspect_tool_call")


async def ask_about_commit(environment: Environment, oversight: Oversight, commit: StepCommit) -> Decision:
    """Ask about a commit.

    Raises:
        HookError: It raised, or its answer is no decision.
    """
    return await _ask(environment, oversight.inspect_step_commit, commit, "inspect_step_commit")


async def _ask(
    environment: Environment,
    method: Callable[[Subject], Decision | Awaitable[Decision]],
    subject: Subject,
    name: str,
) -> Decision:
    policies = replace(environment.policies, oversight=None)
    with (
        failing_as_hook(f"Oversight hook {name}", hook=name),
        using_environment(replace(environment, policies=policies)),
    ):
        answer = method(subject)
        decision = cast("object", await answer if inspect.isawaitable(answer) else answer)
    if not isinstance(decision, Accept | Reject | Rewrite | Abort):
        raise HookError(
            f"Oversight hook {name} answered {decision!r}; it must answer Accept, Reject, Rewrite or Abort.",
            hook=name,
        )
    if isinstance(decision, Rewrite) and not isinstance(cast("object", decision.values), Mapping):
        raise HookError(f"Oversight hook {name} answered a Rewrite whose values are no mapping.", hook=name)
    return decision
