"""Reports of the tool calls of a step, and calls of tools that an agent carries out by itself.

Loaded only if there are observers.

They pass permissions, approvals, hooks, oversight and budgets like all calls, and have a node and a span.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

from ..errors import ToolBoundaryError
from ..kernel.actor import StepActor
from ..kernel.environment import Environment
from ..kernel.fold import ToolCallFold
from ..kernel.policy import Policies
from ..kernel.reports import ToolCallActivity, ToolCallFailed
from ..kernel.step import Step
from ..kernel.tool_calls import outcome_of_failure, parsed_arguments, project_error
from ..kernel.tool_sets import ForeignTool
from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer
from ..tracing import Span, begin_span
from ..types.messages import ToolCall, ToolResult
from .refusals import count_correction

_Result: TypeAlias = Callable[[], Awaitable[ToolResult]]

_PARSED_CHARACTERS = 100_000


class ObservedCall:
    """A tool call with its node and its span. One whose result is never awaited ends with its step.

    Args:
        parent: The parent node; None without observers of the tree.
        actor: The actor of the step.
        call: The call.
        activity: The call for tracing; None without tracing.
        state: Its first state.
    """

    __slots__ = ("_actor", "_call", "_node", "_span")

    def __init__(
        self,
        parent: NodeWriter | None,
        actor: StepActor,
        call: ToolCall,
        activity: ToolCallActivity | None,
        state: NodeState,
    ) -> None:
        self._actor = actor
        self._call = call
        self._node = None if parent is None else _begin_node(parent, actor, call, state)
        self._span = None if activity is None else begin_span(activity)

    def begin(self, begin: Callable[[ToolCall], _Result]) -> _Result:
        """Begin it; return an awaitable of its result.

        Args:
            begin: Begins the call.
        """
        with self._active():
            result = begin(self._call)
        return lambda: self._finish(result)

    @contextmanager
    def _active(self) -> Generator[None, None, None]:
        node, span = self._node, self._span
        with (
            nullcontext() if span is None else span.active(),
            nullcontext() if node is None else using_node_writer(node),
        ):
            yield

    async def _finish(self, result: _Result) -> ToolResult:
        try:
            with self._active():
                given = await result()
        except BaseException as error:
            if self._node is not None:
                self._node.end("failed" if isinstance(error, Exception) else "cancelled", error=error)
            if self._span is not None:
                self._span.end(error)
            raise
        finally:
            if self._node is not None:
                self._actor.call_nodes.pop(id(self._node), None)
        if self._node is not None:
            self._show_result(self._node, given)
        if self._span is not None:
            self._span.note(given)
            self._span.end(None)
        return given

    def _show_result(self, node: NodeWriter, result: ToolResult) -> None:
        content = result.content
        text = "\n".join(item if isinstance(item, str) else f"<{type(item).__name__}>" for item in content)
        if result.is_error:
            node.end("failed", error=ToolBoundaryError(kind="execution", message=text))
        else:
            node.end("completed", outputs={"result": text})
        if self._actor.node is not None:
            self._actor.node.write("tool_result", text, key=f"{self._call.name}#{self._call.id}")


def _begin_node(parent: NodeWriter, actor: StepActor, call: ToolCall, state: NodeState) -> NodeWriter:
    node = parent.begin_child(
        "tool_call",
        call.name,
        state=state,
        inputs=_inputs(call),
        attributes={
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "execution.id": actor.context.execution_ref.execution_id or "",
        },
    )
    actor.call_nodes[id(node)] = node
    return node


def _inputs(call: ToolCall) -> Mapping[str, object]:
    if len(call.arguments) <= _PARSED_CHARACTERS:
        try:
            return parsed_arguments(call)
        except ToolBoundaryError:
            pass
    return {"arguments": call.arguments}


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
            return lambda: self._run(call, execute)

        activity = None if agent is None else ToolCallActivity(call=call, description="", agent=agent)
        observed = ObservedCall(parent, self._actor, call, activity, "waiting")
        return observed.begin(lambda each: lambda: self._run(each, execute))

    async def _run(self, call: ToolCall, execute: ExecuteCall) -> ToolResult:
        async def run(admitted: ToolCall) -> ToolResult:
            node = find_node_writer()  # the node of the call, which was waiting so far
            if node is not None:
                node.change_state("running")
            return await execute(admitted)

        async def refuse(error: ToolBoundaryError) -> ToolResult:
            return self._refused(call, error)

        governing = self._policies.overriding["around_tool_call"]
        with self._actor.progress.in_flight(call):
            return await ToolCallFold(governing, {call.name: _native_tool(call.name)}, run, refuse).ask(
                0, call
            )

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
