"""Sets the write bindings of an answer that came as data (specification 8.4).

Each value passes the same checks as in `nh_assign`: hooks, oversight, permissions, the guards of the step's
actor, validation. It is part of an answer, not a call: it counts against no limit or budget of calls, and is
no node of the tree.
"""

import json
from collections.abc import Mapping

from msgspec import Struct, field

from ..errors import ExecutionError, HookError, NighthawkError, ToolBoundaryError
from ..runtime.environment import Environment
from ..runtime.failures import failing_as_policy
from ..runtime.step_actor import Pending, StepActor
from ..runtime.tool_calls import (
    ToolError,
    ToolOutcome,
    ToolResultRenderingPolicy,
    outcome_of_failure,
    render_outcome,
)
from ..types.messages import ToolCall, ToolResult
from .refusals import Refusals, admitted_call, find_host_error, shown_result
from .toolbox import PROVIDED_TOOLS, describe_reply

_ASSIGN = "nh_assign"


class AnswerBindings(Struct, frozen=True, eq=False):
    """Sets write bindings of one step to data.

    Args:
        actor: The actor of the step.
        environment: The environment of the step.
        policy: The form in which hooks are shown a value's outcome.
        refusals: Phrases the refusals of values for the model.
        answered: The values that answers have set last, by the names of their write bindings.
        kept: The write bindings that calls have changed since.
    """

    actor: StepActor
    environment: Environment
    policy: ToolResultRenderingPolicy
    refusals: Refusals
    answered: dict[str, object] = field(default_factory=dict[str, object])
    kept: set[str] = field(default_factory=set[str])

    async def set(self, bindings: Mapping[str, object]) -> None:
        """Set write bindings, in order.

        Null leaves a variable that calls have set or changed in the step, unless an answer gave it another
        value since: it hardly means to undo them, and some models write null for whatever they have nothing
        to say about.

        Args:
            bindings: Decoded JSON values by the names of the write bindings.

        Raises:
            ExecutionError: Some were refused; the message names them and the reasons. The others are set.
            StepAbortedError: Oversight, or a hook, ended the step.
            HookError: A hook or oversight failed, or rewrites to data that JSON cannot hold.
        """
        self._note_changed()
        bindings = {
            name: each for name, each in bindings.items() if each is not None or name not in self.kept
        }
        await self._set(bindings)

    def _note_changed(self) -> None:
        """Note the variables that calls have changed since the last answer."""
        context, missing = self.actor.context, object()
        for name, value in context.changed_bindings().items():
            if self.answered.get(name, missing) is not value:
                self.kept.add(name)
        self.kept.update(name for name, _ in context.changes.changed())

    async def _set(self, bindings: Mapping[str, object]) -> None:
        if self.environment.policies.govern_tool_calls:
            ends = [await self._set_governed(name, value) for name, value in bindings.items()]
        else:
            posted = [self.actor.post_assign(name, data=value) for name, value in bindings.items()]
            ends = [await self._outcome(pending) for pending in posted]
        errors = {name: end.error for name, (end, _) in zip(bindings, ends, strict=True) if end.error}
        changed = self.actor.context.changed_bindings()
        self.answered.update({name: changed[name] for name in bindings if name in changed.keys() - errors})
        self.kept.difference_update(bindings.keys() - errors)
        if not errors:
            return
        stubs = (stub for _, stub in ends)
        problems = "; ".join(_at_field(name, error) for name, error in errors.items())
        kept = [name for name in bindings if name not in errors]
        note = f"; these are set already: {', '.join(kept)}" if kept else ""
        what = f"values in the answer's bindings were refused: {', '.join(errors)}"
        first = next(iter(errors.values()))
        cause = "binding_value" if first.kind == "invalid_input" else first.kind
        shown = "\n".join(dict.fromkeys(filter(None, stubs)))
        message = f"{problems}{note}" + (f"\n{shown}" if shown else "")
        raise ExecutionError(message).without_content(what).caused_by(cause)

    async def _set_governed(self, name: str, value: object) -> tuple[ToolOutcome, str]:
        arguments = json.dumps({"target_path": name, "value": value})
        policies = self.environment.policies
        call = ToolCall(id=f"bindings.{name}", name=_ASSIGN, arguments=arguments)
        stub = ""
        try:
            with failing_as_policy("before_tool_call"):
                passed = await admitted_call(policies, call, {}, is_counted=False)
            if passed.name != _ASSIGN:
                raise HookError(f"a value of an answer is set by {_ASSIGN} alone", hook="before_tool_call")
            outcome, stub = await self._outcome(PROVIDED_TOOLS[_ASSIGN].post(self.actor, passed.arguments))
        except ToolBoundaryError as error:
            outcome = outcome_of_failure(error)
        if policies.overriding["after_tool_call"]:
            content = render_outcome(outcome, self.policy)
            is_error = outcome.error is not None
            result = ToolResult(call_id=call.id, name=call.name, content=content, is_error=is_error)
            with failing_as_policy("after_tool_call"):
                await shown_result(policies, result)
        return outcome, stub

    async def _outcome(self, pending: Pending[object]) -> tuple[ToolOutcome, str]:
        """Return the result of an assignment, with the stub of the type where the value does not match."""
        try:
            value = await self.actor.settle(pending)
        except ExecutionError:
            raise
        except NighthawkError as error:
            if (host_error := find_host_error(error)) is not None:
                raise host_error from host_error.__cause__
            return outcome_of_failure(error), self.refusals.stub(error)
        context = self.actor.context
        return ToolOutcome(payload=describe_reply(pending.command, value, context, hides=_hides_nothing)), ""


def _at_field(name: str, error: ToolError) -> str:
    """Return the error of a write binding's value, by the name of its field."""
    subject = f"write binding '{name}'"
    if error.message.startswith(subject):
        return f"bindings.{name}{error.message.removeprefix(subject)}"
    guidance = f" ({error.guidance})" if error.guidance and error.kind == "oversight" else ""
    return f"bindings.{name}: {error.message}{guidance}"


def _hides_nothing(name: str, value: object) -> bool:
    return False  # the model wrote the value itself
