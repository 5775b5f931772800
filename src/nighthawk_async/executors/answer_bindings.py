"""Sets the write bindings of an answer that came as data (specification 8.4). Floor 4.

Each value passes what an `nh_assign` of it would pass: hooks, oversight, permissions, the guards of the
step's actor, validation. It is part of an answer and no call: it counts against no limit or budget of calls,
and is no node of the tree.
"""

import json
from collections.abc import Mapping

from ..errors import ExecutionError, NighthawkError, ToolBoundaryError
from ..runtime.environment import Environment
from ..runtime.step_actor import Pending, StepActor
from ..runtime.tools.outcome import ToolOutcome, ToolResultRenderingPolicy, outcome_of_failure, render_outcome
from ..types.messages import ToolCall, ToolResult
from .host_errors import find_host_error
from .provided_tools import PROVIDED_TOOLS, describe_reply

__all__ = ["AnswerBindings"]

_ASSIGN = "nh_assign"


class AnswerBindings:
    """Sets write bindings of one step to data.

    Args:
        actor: The actor of the step.
        environment: What is in force in the step.
        policy: How hooks are shown what became of a value.
    """

    def __init__(self, actor: StepActor, environment: Environment, policy: ToolResultRenderingPolicy) -> None:
        self._actor = actor
        self._environment = environment
        self._policy = policy

    async def set(self, bindings: Mapping[str, object]) -> None:
        """Set write bindings, in order.

        Args:
            bindings: Decoded JSON values by the names of the write bindings.

        Raises:
            ExecutionError: Some were refused; says which, and why. The others are set.
            StepAbortedError: Oversight, or a hook, ended the step.
            HookError: A hook or oversight failed, or rewrites to what JSON cannot hold.
        """
        if self._environment.policies.govern_tool_calls:
            outcomes = [await self._set_governed(name, value) for name, value in bindings.items()]
        else:
            posted = [self._actor.post_assign(name, data=value) for name, value in bindings.items()]
            outcomes = [await self._outcome(pending) for pending in posted]
        errors = {
            name: outcome.error for name, outcome in zip(bindings, outcomes, strict=True) if outcome.error
        }
        if not errors:
            return
        told = "; ".join(f"bindings.{name}: {error.message}" for name, error in errors.items())
        kept = [name for name in bindings if name not in errors]
        note = f"; these are set already: {', '.join(kept)}" if kept else ""
        what = f"values in the answer's bindings were refused: {', '.join(errors)}"
        raise ExecutionError(f"{told}{note}").without_content(what)

    async def _set_governed(self, name: str, value: object) -> ToolOutcome:
        from .tool_gates import gates_in_force, seen_by_hooks  # here, because of what policies.py says

        arguments = json.dumps({"target_path": name, "value": value})
        call = passed = ToolCall(id=f"bindings.{name}", name=_ASSIGN, arguments=arguments)
        try:
            for gate in gates_in_force(self._environment, {}, are_calls_counted=False):
                passed = await gate(passed)
            outcome = await self._outcome(PROVIDED_TOOLS[_ASSIGN].post(self._actor, passed.arguments))
        except ToolBoundaryError as error:
            outcome = outcome_of_failure(error)
        if self._environment.policies.hooks:
            content = render_outcome(outcome, self._policy)
            is_error = outcome.error is not None
            await seen_by_hooks(
                self._environment,
                ToolResult(call_id=call.id, name=call.name, content=content, is_error=is_error),
            )
        return outcome

    async def _outcome(self, pending: Pending[object]) -> ToolOutcome:
        try:
            value = await self._actor.settle(pending)
        except ExecutionError:
            raise
        except NighthawkError as error:
            if (host_error := find_host_error(error)) is not None:
                raise host_error from host_error.__cause__
            return outcome_of_failure(error)
        return ToolOutcome(payload=describe_reply(pending.command, value, hides=_hides_nothing))


def _hides_nothing(name: str, value: object) -> bool:
    return False  # the model wrote the value itself
