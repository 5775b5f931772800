"""Carrying out the tool calls of one step (specification 8.3). Floor 4."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import anyio

from ..errors import ExecutionError, NighthawkError, ToolBoundaryError
from ..runtime.model_access import find_interception_error
from ..runtime.oversight import Oversight, Reject, Rewrite, ToolCallInspection, inspect_tool_call
from ..runtime.step_actor import Pending, StepActor
from ..runtime.tool_function import ToolFunction
from ..runtime.tool_outcome import ToolOutcome, ToolResultRenderingPolicy, outcome_of_failure, render_outcome
from ..types.messages import ToolCall, ToolResult
from ..types.tools import ToolDefinition
from .provided_tools import PROVIDED_TOOLS, describe_reply

__all__ = ["Toolbox"]


class Toolbox:
    """The tools of one step.

    Args:
        actor: The actor of the step.
        provided: Names of the provided tools on offer.
        functions: The user's tools.
        policy: How results are rendered.
        oversight: What inspects calls; None for nothing.
    """

    def __init__(
        self,
        *,
        actor: StepActor,
        provided: Sequence[str],
        functions: Mapping[str, ToolFunction],
        policy: ToolResultRenderingPolicy,
        oversight: Oversight | None,
    ) -> None:
        self._actor = actor
        self._provided = {name: PROVIDED_TOOLS[name] for name in provided}
        self._functions = functions
        self._policy = policy
        self._oversight = oversight
        self._last_posted: anyio.Event | None = None

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as a model sees them, provided ones first, in a stable order."""
        return (
            *(tool.definition for tool in self._provided.values()),
            *(function.definition for function in self._functions.values()),
        )

    def begin(self, call: ToolCall) -> Callable[[], Awaitable[ToolResult]]:
        """Begin a call; await the result of what this returns.

        Calls reach the step's state in the order in which they were begun, whatever the order of awaiting.

        Raises (on awaiting):
            ExecutionError: A synchronous natural function met an awaitable, or the step has ended.
            NighthawkError: An oversight hook's answer is no decision, or rewrites to what JSON cannot hold.
        """
        if self._oversight is not None:
            posted = anyio.Event()
            previous, self._last_posted = self._last_posted, posted
            return lambda: self._inspected(call, previous, posted, cast("Oversight", self._oversight))
        try:
            pending = self._post(call)
        except ToolBoundaryError as error:
            failure = error
            return lambda: self._failed(call, failure)
        return lambda: self._finish(call, pending)

    async def _inspected(
        self, call: ToolCall, previous: anyio.Event | None, posted: anyio.Event, oversight: Oversight
    ) -> ToolResult:
        try:
            if previous is not None:
                await previous.wait()
            try:
                pending = self._post(await self._overseen(call, oversight))
            except ToolBoundaryError as error:
                return self._result(call, outcome_of_failure(error))
        finally:
            posted.set()
        return await self._finish(call, pending)

    async def _overseen(self, call: ToolCall, oversight: Oversight) -> ToolCall:
        inspection = ToolCallInspection(
            step_id=self._actor.context.step_id, tool_name=call.name, arguments=_parsed_arguments(call)
        )
        decision = await inspect_tool_call(oversight, inspection)
        if isinstance(decision, Reject):
            raise ToolBoundaryError(kind="oversight", message=decision.reason, guidance=decision.guidance)
        if isinstance(decision, Rewrite):
            return ToolCall(id=call.id, name=call.name, arguments=_encoded_arguments(decision))
        return call

    def _post(self, call: ToolCall) -> Pending[object]:
        if call.name in self._provided:
            return self._provided[call.name].post(self._actor, call.arguments)
        function = self._functions.get(call.name)
        if function is None:
            names = ", ".join([*self._provided, *self._functions])
            raise ToolBoundaryError(
                kind="resolution",
                message=f"there is no tool named {call.name!r}",
                guidance=f"Tools: {names}.",
            )
        bound = function.bind(call.arguments, context=self._actor.context, tool_call_id=call.id)
        return self._actor.post_call(call.name, bound)

    async def _finish(self, call: ToolCall, pending: Pending[object]) -> ToolResult:
        try:
            value = await self._actor.settle(pending)
        except ExecutionError:
            raise  # the contract with the host is broken; the model cannot mend it
        except NighthawkError as error:
            if (interception := find_interception_error(error)) is not None:
                raise interception from None
            return self._result(call, outcome_of_failure(error))
        return self._result(call, ToolOutcome(payload=describe_reply(pending.command, value)))

    async def _failed(self, call: ToolCall, error: ToolBoundaryError) -> ToolResult:
        return self._result(call, outcome_of_failure(error))

    def _result(self, call: ToolCall, outcome: ToolOutcome) -> ToolResult:
        return ToolResult(
            call_id=call.id,
            name=call.name,
            content=render_outcome(outcome, self._policy),
            is_error=outcome.error is not None,
        )


def _parsed_arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as error:
        raise ToolBoundaryError(
            kind="invalid_input", message=f"the arguments of {call.name} are not JSON: {error}"
        ) from error
    if not isinstance(arguments, dict):
        raise ToolBoundaryError(
            kind="invalid_input", message=f"the arguments of {call.name} are not a JSON object"
        )
    return cast("Mapping[str, Any]", arguments)


def _encoded_arguments(rewrite: Rewrite) -> str:
    try:
        return json.dumps(dict(rewrite.values))
    except (TypeError, ValueError) as error:
        raise NighthawkError(f"Oversight rewrote a tool call to what is not JSON: {error}") from error
