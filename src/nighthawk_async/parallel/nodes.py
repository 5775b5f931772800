"""Reports parallel calls and tasks to observers, if there are any."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from ..observation import NodeWriter, find_node_writer, using_node_writer
from .outcomes import Failed, Outcome, state_after
from .task_handle import TaskHandle, TaskState

Result = TypeVar("Result")


def begin_group(name: str, *, items: int | None = None) -> NodeWriter | None:
    """Begin the node of calls or tasks that belong together; return None when there are no observers.

    Args:
        name: Their name.
        items: The number of items with calls; None when it is unknown.
    """
    parent = find_node_writer()
    if parent is None:
        return None
    return parent.begin_child("group", name, inputs=None if items is None else {"items": items})


def end_group(node: NodeWriter | None, leaving: BaseException | None) -> None:
    """End the node of calls or tasks.

    Args:
        node: Their node; None when there are no observers.
        leaving: The error or cancellation that ends them; None without one.
    """
    if node is not None:
        node.end(state_after(leaving), error=leaving)


class ended_group:  # noqa: N801  (a context manager that reads as a statement)
    """A context manager that ends the node; see `end_group`."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeWriter | None) -> None:
        self._node = node

    def __enter__(self) -> None:
        return

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        end_group(self._node, exc)


async def call_with_node(
    group: NodeWriter, name: str, item: object, call: Awaitable[Outcome[Result]]
) -> Outcome[Result]:
    """Make a call for an item, below a node of its own.

    Args:
        group: The node of the calls.
        name: The name of the call.
        item: The item.
        call: Makes the call.
    """
    node = group.begin_child("task", name, inputs={"item": item})
    try:
        with using_node_writer(node):
            outcome = await call
    except BaseException as error:
        node.end(state_after(error), error=error)
        raise
    if isinstance(outcome, Failed):
        node.end("failed", error=outcome.error)
    else:
        node.end("completed", outputs={"return": outcome.value})
    return outcome


def begin_task(group: NodeWriter, state: TaskState[Any], args: tuple[object, ...]) -> None:
    """Begin the node of a task that has not started.

    Args:
        group: The node of the tasks of its block.
        state: The task.
        args: Its arguments.
    """
    node, handle = state.node, TaskHandle(state)
    uncontrolled, controlled = _CancellableTask(handle), _ControlledTask(handle)
    writer = node.writer = group.begin_child(
        "task",
        node.name,
        state="waiting",
        inputs={"arguments": args} if args else None,
        attributes={"nighthawk.task.id": node.id},
        control=uncontrolled,
    )
    node.on_controlled = lambda is_controlled: writer.set_control(
        controlled if is_controlled else uncontrolled
    )


class _CancellableTask:
    """Control of a task by observers, through its handle."""

    __slots__ = ("_handle",)

    def __init__(self, handle: TaskHandle[Any]) -> None:
        self._handle = handle

    def request_cancel(self, reason: str | None) -> None:
        self._handle.cancel(reason)


class _ControlledTask(_CancellableTask):
    """Control of a task by observers while it runs something that can be controlled."""

    __slots__ = ()

    def steer(self, *content: Any) -> None:
        self._handle.steer(*content)

    def suspend(self) -> None:
        self._handle.suspend()

    def resume(self, input: Any = None) -> None:
        self._handle.resume(input)
