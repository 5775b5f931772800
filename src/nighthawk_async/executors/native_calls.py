"""Calls of tools that an agent has of its own, and carries out by itself, such as a shell.

They pass permissions, approvals, hooks, oversight and budgets like all calls, and have a node and a span.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from ..errors import ToolBoundaryError
from ..observation import find_node_writer
from ..runtime.activities import ToolCallActivity, ToolCallFailed
from ..runtime.environment import Environment
from ..runtime.policies import Policies
from ..runtime.step import Step
from ..runtime.tool_calls import outcome_of_failure, project_error
from ..runtime.tool_sets import ForeignTool
from ..tracing import Span
from ..types.messages import ToolCall, ToolResult
from .refusals import admitted_call, count_correction, shown_result

ExecuteCall: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
"""Lets the agent carry out a call that is allowed, and returns its result."""


class NativeCalls:
    """The native calls of one step.

    Args:
        step: The step.
        environment: The environment of the step.
        agent: The span of the agent; None without tracing.
    """

    def __init__(self, step: Step, environment: Environment, agent: Span | None) -> None:
        self._actor = step.actor
        self._policies: Policies = environment.policies
        self._agent = agent

    def begin(self, call: ToolCall, execute: ExecuteCall) -> Callable[[], Awaitable[ToolResult]]:
        """Begin a call; see `AgentTask.begin_native_call`."""
        parent, agent = find_node_writer(), self._agent
        if parent is None and agent is None:
            return partial(self._run, call, execute)
        from .observed_calls import ObservedCall  # here, because most steps have no observers

        activity = None if agent is None else ToolCallActivity(call=call, description="", agent=agent)
        observed = ObservedCall(parent, self._actor, call, activity, "waiting")
        return observed.begin(lambda each: partial(self._run, each, execute))

    async def _run(self, call: ToolCall, execute: ExecuteCall) -> ToolResult:
        with self._actor.progress.in_flight(call):
            try:
                admitted = await admitted_call(self._policies, call, {call.name: _native_tool(call.name)})
            except ToolBoundaryError as error:
                return await shown_result(self._policies, self._refused(call, error))
            node = find_node_writer()  # the node of the call, which was waiting so far
            if node is not None:
                node.change_state("running")
            return await shown_result(self._policies, await execute(admitted))

    def _refused(self, call: ToolCall, error: ToolBoundaryError) -> ToolResult:
        count_correction(error.kind)
        if self._agent is not None:
            self._agent.note(ToolCallFailed(call=call, kind=error.kind))
        refused = outcome_of_failure(error).error
        assert refused is not None
        return ToolResult(call_id=call.id, name=call.name, content=(project_error(refused),), is_error=True)


def _native_tool(name: str) -> ForeignTool:
    """The tool that policies see. Its name has a dot, which no name of a tool of the program has."""
    tool = ForeignTool(
        name=name,
        description="",
        function=_carried_out_by_agent,
        parameters={"type": "object"},
        source=name.partition(".")[0],
    )
    tool.name = name
    return tool


def _carried_out_by_agent(arguments: object) -> object:
    raise AssertionError("the agent carries out its own calls")
