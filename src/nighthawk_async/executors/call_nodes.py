"""Tells whoever watches of a step's tool calls; what a call brings about is below it.

Only where somebody watches.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from ..errors import ToolBoundaryError
from ..observation import NodeState, NodeWriter, using_node_writer
from ..runtime.step_actor import StepActor
from ..runtime.tool_calls import parsed_arguments
from ..types.messages import ToolCall, ToolResult

_Result: TypeAlias = Callable[[], Awaitable[ToolResult]]

_PARSED_CHARACTERS = 100_000


def begin_with_node(
    around: NodeWriter,
    actor: StepActor,
    call: ToolCall,
    begin: Callable[[ToolCall], _Result],
    *,
    state: NodeState,
) -> _Result:
    """Begin a call, and tell of it; await the result of what this returns.

    A call whose result nobody awaits ends with its step.

    Args:
        around: The parent node.
        actor: The actor of the step.
        call: The call.
        begin: Begins it.
        state: Its first state.
    """
    node = around.begin_child(
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
    with using_node_writer(node):
        result = begin(call)
    return partial(_finish, node, actor, call, result)


async def _finish(node: NodeWriter, actor: StepActor, call: ToolCall, result: _Result) -> ToolResult:
    try:
        with using_node_writer(node):
            given = await result()
    except BaseException as error:
        node.end("failed" if isinstance(error, Exception) else "cancelled", error=error)
        raise
    finally:
        actor.call_nodes.pop(id(node), None)
    text = "\n".join(item if isinstance(item, str) else f"<{type(item).__name__}>" for item in given.content)
    if given.is_error:
        node.end("failed", error=ToolBoundaryError(kind="execution", message=text))
    else:
        node.end("completed", outputs={"result": text})
    if actor.node is not None:
        actor.node.write("tool_result", text, key=f"{call.name}#{call.id}")
    return given


def _inputs(call: ToolCall) -> Mapping[str, object]:
    if len(call.arguments) <= _PARSED_CHARACTERS:
        try:
            return parsed_arguments(call)
        except ToolBoundaryError:
            pass
    return {"arguments": call.arguments}
