"""Reports the tool calls of a step to observers; whatever a call starts is below it.

Loaded only if there are observers.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TypeAlias

from ..errors import ToolBoundaryError
from ..observation import NodeState, NodeWriter, using_node_writer
from ..runtime.activities import ToolCallActivity
from ..runtime.step_actor import StepActor
from ..runtime.tool_calls import parsed_arguments
from ..tracing import begin_span
from ..types.messages import ToolCall, ToolResult

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
        return partial(self._finish, result)

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
