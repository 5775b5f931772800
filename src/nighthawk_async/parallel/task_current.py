"""The task that the caller is part of: who it is, and whether it shall end.

A task is what a block of tasks started, or a root: a run, or without one everything on an event loop. Plain
AnyIO tasks, worker threads and combinators are part of the task around them; an item of a combinator is a
place of its own in the ids of the tasks that are started in it.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio
from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import RunVar

from ..types.execution import ExecutionRef
from .task_control import TaskControl
from .task_errors import TaskCancelledError
from .task_hooks import TaskMailbox, get_task_hooks
from .task_node import Positions, TaskNode
from .task_values import VALUES, TaskValues, task_values

__all__ = [
    "CurrentTask",
    "cancel_requested",
    "controlled_by",
    "current_task",
    "enter_node",
    "enter_positions",
    "find_node",
    "find_positions",
    "open_task_root",
    "raise_if_cancel_requested",
    "told_to_end",
]

_current: ContextVar[TaskNode | None] = ContextVar("nighthawk_async_task", default=None)
_positions: ContextVar[Positions | None] = ContextVar("nighthawk_async_positions", default=None)
_root_of_loop: RunVar[TaskNode] = RunVar("nighthawk_async_root_task")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTask:
    """The task of the caller.

    Args:
        id: Its id, by its position among the tasks: `run/tasks[0]/fetch[3]`. The same in every execution of
            a program in which each task, and each item of a combinator, starts the same tasks in the same
            order. Unique below the root.
        name: What it is called.
        parent_id: The id of the task that started it; None for a root.
        root_id: The id of the outermost task.
        run_id: The id of the run; None outside every run.
        scope_id: The id of the innermost run or scope; None outside every run.
        step_id: The id of the step in progress; None outside every step.
        execution_id: The id of this one execution of that step; None outside every step.
    """

    id: str
    name: str
    parent_id: str | None
    root_id: str
    run_id: str | None
    scope_id: str | None
    step_id: str | None
    execution_id: str | None
    _node: TaskNode = field(repr=False, compare=False)

    @property
    def values(self) -> TaskValues:
        """The task-local values of the caller."""
        return task_values()

    @property
    def mailbox(self) -> TaskMailbox:
        """The mailbox of the task: the one its handle has.

        Raises:
            TaskError: Nobody has said how mailboxes are made.
        """
        return self._node.mailbox


def current_task() -> CurrentTask:
    """The task that the caller is part of.

    Raises:
        anyio.NoEventLoopError: The caller is in no task and no run, and in a thread without an event loop.
    """
    node = find_node()
    execution = get_task_hooks().find_execution() or _NO_EXECUTION
    return CurrentTask(
        id=node.id,
        name=node.name,
        parent_id=node.parent_id,
        root_id=node.root_id,
        run_id=execution.run_id or None,
        scope_id=execution.scope_id or None,
        step_id=execution.step_id,
        execution_id=execution.execution_id,
        _node=node,
    )


def cancel_requested() -> bool:
    """Whether the task of the caller was asked to end, or is being cancelled.

    For work that ends by itself at a good moment: a loop between two items, a function in a worker thread. A
    task is asked to end when its handle is cancelled, gracefully or not, and when its owner is.
    """
    node = _current.get()
    return (node is not None and node.request is not None) or _is_cancelled()


def raise_if_cancel_requested() -> None:
    """End the task of the caller here if it was asked to end: it counts as cancelled, and not by force.

    Raises:
        TaskCancelledError: It was asked to end.
    """
    node = _current.get()
    if node is not None and node.request is not None:
        raise TaskCancelledError(task_id=node.id, reason=node.request.reason, forced=False)


@contextmanager
def told_to_end(listener: Callable[[], object]) -> Generator[None, None, None]:
    """Learn in the block that the task of the caller is asked to end; at once when it was before.

    Args:
        listener: Is called then, perhaps twice, and in another thread when the caller is in one.
    """
    node = _current.get()
    if node is None:
        yield
        return
    node.listeners.append(listener)
    try:
        if node.request is not None:
            listener()
        yield
    finally:
        node.listeners.remove(listener)


@contextmanager
def controlled_by(control: TaskControl) -> Generator[None, None, None]:
    """Let what runs in the block be steered from the handle of the task. The innermost such block is.

    Args:
        control: How it is steered.
    """
    node = find_node()
    node.add_control(control)
    try:
        yield
    finally:
        node.remove_control(control)


@contextmanager
def open_task_root(name: str) -> Generator[None, None, None]:
    """Make what happens in the block a task of its own that is nobody's child, as a run is.

    Inside another task it is a task below that. Task-local values set inside are forgotten outside.

    Args:
        name: What it is called.
    """
    outer = _current.get()
    id_ = name if outer is None else find_positions().take(name)
    node = TaskNode(id=id_, name=name, parent=outer, owner=outer)
    current, positions, values = _current.set(node), _positions.set(None), VALUES.set(VALUES.get())
    try:
        yield
    finally:
        VALUES.reset(values)
        _positions.reset(positions)
        _current.reset(current)
        node.end()


def enter_node(node: TaskNode) -> None:
    """Be a task from now on: called once, in the context of the task that begins."""
    _current.set(node)
    _positions.set(None)


def enter_positions(positions: Positions) -> None:
    """Be a part of the present task with positions of its own: called once, in the context of that part."""
    _positions.set(positions)


def find_positions() -> Positions:
    """The positions that give ids to tasks the caller starts: below its task, or below its part of that.

    Raises:
        anyio.NoEventLoopError: There is no task, and no event loop to make a root for.
    """
    return _positions.get() or find_node().positions


def find_node() -> TaskNode:
    """The task that the caller is part of.

    Raises:
        anyio.NoEventLoopError: There is none, and no event loop to make a root for.
    """
    node = _current.get()
    if node is not None:
        return node
    try:
        return _find_root_of_loop()
    except NoEventLoopError:
        return from_thread.run_sync(_find_root_of_loop)


def _find_root_of_loop() -> TaskNode:
    node = _root_of_loop.get(None)
    if node is None:
        node = TaskNode(id="main", name="main", parent=None, owner=None)
        _root_of_loop.set(node)
    return node


def _is_cancelled() -> bool:
    """Whether a cancel scope around the caller is cancelled; False where there is no event loop."""
    try:
        return anyio.current_effective_deadline() == -math.inf
    except NoEventLoopError:
        return _is_thread_cancelled()


def _is_thread_cancelled() -> bool:
    try:
        from_thread.check_cancelled()
    except NoEventLoopError:
        return False
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        return True  # the backend's own cancellation, whose class cannot be asked for in a thread
    return False


_NO_EXECUTION = ExecutionRef(run_id="", scope_id="")
