"""The task that the caller is part of: its identity, its cancellation requests and its suspension.

A task is started by a block of tasks, or is a root: a run, or outside runs everything on an event loop. Plain
AnyIO tasks, worker threads and combinators are part of the enclosing task. An item of a combinator has an id
and a mailbox of its own, and is steered and ended with the enclosing task.

Suspended work is parked:

    running ── suspend ──► suspending ── boundary ──► suspended ── resume ──► resuming ── wakes ──► running

Everything is synchronous except waiting, and happens on one event loop.
"""

import copy
import math
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import RunVar, checkpoint, checkpoint_if_cancelled

from ..types.execution import OUTSIDE_RUNS
from .errors import AlreadyResumedError, NotSuspendedError, TaskCancelledError, TaskEndedError, TaskValueError
from .task_node import Positions, TaskControl, TaskItem, TaskMailbox, TaskNode, get_task_hooks

ParkingState: TypeAlias = Literal["running", "suspending", "suspended", "resuming", "ended"]
"""`suspending`: asked to park and not at a boundary yet; `resuming`: resumed and not woken yet."""


class Parking:
    """Lets others suspend work at its boundaries.

    Its owner calls `park` at each boundary, and `close` at the end. Data that accompanies a resumption, for
    example a message, is up to the owner.

    Args:
        title: The word for the suspended work in error messages, for example `step`.

    Attributes:
        state: The current state. Read-only.
    """

    __slots__ = ("_changed", "_is_released", "_parkings", "_title", "state")

    def __init__(self, title: str) -> None:
        self._title = title
        self.state: ParkingState = "running"
        self._is_released = False
        self._parkings = 0
        self._changed: anyio.Event | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether it is parked and waits to be resumed."""
        return self.state == "suspended"

    def suspend(self) -> None:
        """Ask it to park at its next boundary. Asking again has no effect, nor does asking after `release`.

        Raises:
            TaskEndedError: It has ended.
        """
        self._refuse_ended()
        if self.state in ("running", "resuming") and not self._is_released:
            self._enter("suspending")

    def resume(self) -> None:
        """Let it continue, or withdraw the request to park.

        Raises:
            NotSuspendedError: It was not suspended.
            AlreadyResumedError: It was already resumed and has not continued yet.
            TaskEndedError: It has ended.
        """
        self._refuse_ended()
        if self.state == "running":
            raise NotSuspendedError(f"the {self._title} is not suspended")
        if self.state == "resuming":
            raise AlreadyResumedError(f"the {self._title} was resumed already and has not gone on yet")
        self._enter("resuming")

    def release(self) -> None:
        """Let it continue, and never park again: it was asked to end."""
        self._is_released = True
        if self.state in ("suspending", "suspended"):
            self._enter("resuming")

    def close(self) -> None:
        """Mark it as ended. Closing again has no effect."""
        self._enter("ended")

    async def park(self) -> None:
        """Wait as long as it is suspended. A checkpoint only when it is.

        Raises:
            TaskEndedError: It has ended.
        """
        try:
            while self.state in ("suspending", "suspended"):
                self._enter("suspended")
                await self._wait_changed()
        except BaseException:  # cancelled: only cleanup follows
            if self.state != "ended":
                self._enter("running")
            raise
        self._refuse_ended()
        self._enter("running")

    async def wait_suspended(self) -> None:
        """Wait until it is parked.

        Every waiting task is then notified, even if another of them resumes it at once.

        Raises:
            TaskEndedError: It ended before it was parked.
        """
        seen = self._parkings - self.is_suspended
        await checkpoint()
        while self._parkings == seen:
            self._refuse_ended()
            await self._wait_changed()

    async def _wait_changed(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()
        if self.state == "ended":
            await checkpoint_if_cancelled()  # its end may have cancelled the caller, too

    def _enter(self, state: ParkingState) -> None:
        if state == self.state:
            return
        self.state = state
        self._parkings += state == "suspended"
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _refuse_ended(self) -> None:
        if self.state == "ended":
            raise TaskEndedError(f"the {self._title} has ended")


class TaskValues:
    """The task-local values of the caller."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a copy of a value.

        Args:
            name: Its name.
            default: The value to give when there is none.
        """
        values = _place.get().values
        return copy.deepcopy(values[name]) if name in values else default

    def set(self, name: str, value: object) -> None:
        """Store a copy of a value: for the caller, and for the tasks it starts from now on.

        Raises:
            TaskValueError: The value cannot be copied.
        """
        try:
            kept = copy.deepcopy(value)
        except Exception as error:  # copying runs the value's own code, which may raise anything
            kind = type(value).__name__
            raise TaskValueError(f"the task-local value {name!r} of type {kind} cannot be copied") from error
        change_place(values=MappingProxyType({**_place.get().values, name: kept}))

    def delete(self, name: str) -> bool:
        """Remove a value, in the same scope as `set`; return False when there is none."""
        values = dict(_place.get().values)
        is_there = name in values
        values.pop(name, None)
        change_place(values=MappingProxyType(values))
        return is_there

    def names(self) -> tuple[str, ...]:
        """Return the names that have values, in the order in which they were first set."""
        return tuple(_place.get().values)


_VALUES_OF_CALLER = TaskValues()


def task_values() -> TaskValues:
    """Return the task-local values of the caller."""
    return _VALUES_OF_CALLER


_NO_VALUES: Mapping[str, object] = MappingProxyType({})


class Place(NamedTuple):
    """The position of the caller among tasks, and what belongs to its task.

    One value in one context variable: whatever changes a part of it puts back this part alone, because other
    parts may have changed meanwhile.

    Args:
        node: Its task; None for the root of its event loop.
        positions: The positions of its part of that task; None for those of the task.
        is_elsewhere: Whether it runs on another event loop than the task.
        item: The item of a combinator that the caller is part of; None for none in its task.
        resource: The resource whose opener the caller is part of; None for none.
        values: The task-local values.
        limits: The decided time limits, innermost first; see `decided_limits`.
        is_placed: Whether the caller is part of a call that was made on a placement.
    """

    node: TaskNode | None = None
    positions: Positions | None = None
    is_elsewhere: bool = False
    item: TaskItem | None = None
    resource: object | None = None
    values: Mapping[str, object] = _NO_VALUES
    limits: tuple[Any, ...] = ()
    is_placed: bool = False

    def inside(self, node: TaskNode) -> "Place":
        """The position of a task that begins here."""
        return Place(node, None, False, None, *self[4:])


# Tasks know nothing of runs, and each task and each part of one changes it.
_place: ContextVar[Place] = ContextVar("nighthawk_async_task", default=Place())  # noqa: B039  (immutable)
_root_of_loop: RunVar[TaskNode] = RunVar("nighthawk_async_root_task")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTask:
    """The task of the caller. An item of a combinator counts as one: `run/map[0]/item[2]`.

    Args:
        id: Its id, by its position among the tasks: `run/tasks[0]/fetch[3]`. The same in every execution of
            a program in which each task, and each item of a combinator, starts the same tasks in the same
            order. Unique below the root.
        name: Its name.
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
        """The mailbox of the task: the one its handle has. That of an item is closed when its call has ended.

        Raises:
            TaskError: No hooks for mailboxes are installed.
        """
        return self._node.mailbox


def current_task() -> CurrentTask:
    """Return the task that the caller is part of: the item of a combinator, or else the task with a handle.

    Raises:
        anyio.NoEventLoopError: The caller is in no task and no run, and in a thread without an event loop.
    """
    node = find_own_node()
    execution = get_task_hooks().find_execution() or OUTSIDE_RUNS
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

    For work that ends by itself at a convenient point: a loop between two items, a function in a worker
    thread. A task is asked to end when its handle is cancelled, gracefully or not, and when its owner is.
    """
    node = _place.get().node
    return (node is not None and node.request is not None) or _is_cancelled()


def raise_if_cancel_requested() -> None:
    """End the task of the caller here if it was asked to end: it counts as cancelled, and not by force.

    Raises:
        TaskCancelledError: It was asked to end.
    """
    node = _place.get().node
    if node is not None and node.request is not None:
        raise TaskCancelledError(task_id=node.id, reason=node.request.reason, forced=False)


@contextmanager
def asked_to_end(listener: Callable[[], object]) -> Generator[None, None, None]:
    """Call a listener when the task of the caller is asked to end; at once if it was asked before.

    Args:
        listener: Called then, maybe twice, and in another thread if the caller is in one.
    """
    node = _place.get().node
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
    """Let work in the block be steered from the handle of the task. The innermost such block applies.

    Args:
        control: The control that steers it.
    """
    node = find_node()
    node.add_control(control)
    try:
        yield
    finally:
        node.remove_control(control)


@contextmanager
def open_task_root(name: str) -> Generator[None, None, None]:
    """Make the block a task of its own without a parent, like a run.

    Inside another task it is a task below that. Task-local values set inside are dropped outside.

    Args:
        name: Its name.
    """
    with open_task_of(_place.get(), name):
        yield


@contextmanager
def open_task_of(caller: Place, name: str) -> Generator[None, None, None]:
    """Make the block a task below the current one, with the task-local values and limits of a caller.

    Args:
        caller: The position of the caller, who may have been in another task before.
        name: Its name.
    """
    here = _place.get()
    outer = None if here.node is None and here.item is None else find_own_node()
    id_ = name if outer is None else find_positions().take(name)
    node = TaskNode(id=id_, name=name, parent=outer, owner=outer)
    place = _place.set(caller.inside(node))
    try:
        yield
    finally:
        _place.reset(place)
        node.end()


def enter_node(node: TaskNode) -> None:
    """Enter a task: called once, in the context of the task that begins."""
    node.positions.share()
    _place.set(_place.get().inside(node))


def enter_positions(positions: Positions) -> None:
    """Enter a part of the current task with its own positions: called once, in the context of that part."""
    positions.share()
    change_place(positions=positions)


class open_item:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make the block an item of a combinator, in a context of its own, which is dropped afterwards.

    Args:
        path: Its id.
    """

    __slots__ = ("_item", "_path")

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        here = _place.get()
        self._item = item = TaskItem(self._path, here.item)
        item.share()
        _place.set(Place(here.node, item, here.is_elsewhere, item, *here[4:]))

    def __exit__(self, *exc_details: object) -> None:
        self._item.end()


def enter_resource(positions: Positions, resource: object) -> None:
    """Enter the opener of a resource, with its own positions: called once, in its context."""
    change_place(positions=positions, resource=resource)


def find_resource() -> object | None:
    """Return the resource whose opener the caller is part of; None for none."""
    return _place.get().resource


def share_positions() -> None:
    """Let the caller's task take positions as the task does that started it and waits for it."""
    positions = _place.get().positions
    if positions is not None:
        positions.share()


def find_task() -> object:
    """Return the event loop's own task that the caller runs in; its thread where there is no such task.

    `anyio.get_current_task` describes the task as well, which takes longer than everything else here.
    """
    # Not imported here: which of them is there depends on the loop. Called many times in each step of a run
    # with a journal, so neither an error nor a context manager is made where a loop runs. Another thread may
    # be loading the other one (`test_a_loop_that_another_thread_is_loading_does_not_run_here`).
    asyncio: Any = sys.modules.get("asyncio")
    running = getattr(asyncio, "_get_running_loop", None)
    if running is not None and (loop := running()) is not None:
        task = asyncio.current_task(loop)
        if task is not None:  # None within Trio in guest mode
            return task
    current_task = getattr(sys.modules.get("trio.lowlevel"), "current_task", None)
    if current_task is not None:
        try:
            return current_task()
        except RuntimeError:  # Trio does not run on this thread
            pass
    return threading.current_thread()


def find_place() -> Place:
    """Return the position of the caller."""
    return _place.get()


def change_place(**changes: Any) -> None:
    """Change parts of the position, for the caller and for the tasks it starts from now on."""
    _place.set(_place.get()._replace(**changes))


class using_positions:  # noqa: N801  (a context manager that reads as a function at its call)
    """Let the `with` statement take positions of its own in the current task.

    Args:
        positions: The positions.
        is_own: Whether the caller's task has made them, so that it need not share them.
    """

    __slots__ = ("_here", "_is_own", "_positions", "_token")

    def __init__(self, positions: Positions, *, is_own: bool = False) -> None:
        self._positions = positions
        self._is_own = is_own

    def __enter__(self) -> None:
        if not self._is_own:
            self._positions.share()
        here = _place.get()  # not its `_replace`, which takes six times as long
        self._here = Place._make((here.node, self._positions, *here[2:]))
        self._token = _place.set(self._here)

    def __exit__(self, *exc_details: object) -> None:
        here = _place.get()
        _place.reset(self._token)
        if here is not self._here:  # task-local values that were set meanwhile stay
            _place.set(here._replace(positions=_place.get().positions))


def find_positions() -> Positions:
    """Return the positions that give ids to tasks the caller starts: below its task, or its part of that.

    Raises:
        anyio.NoEventLoopError: There is no task, and no event loop to make a root for.
    """
    return _place.get().positions or find_node().positions


def find_own_node() -> TaskNode:
    """Return the item of a combinator that the caller is part of, or else the task; see `find_node`."""
    item, task = _place.get().item, find_node()
    return task if item is None else item.node_in(task)


def find_node() -> TaskNode:
    """Return the task that the caller is part of, which is steered and ended as a whole.

    Raises:
        anyio.NoEventLoopError: There is none, and no event loop to make a root for.
    """
    node = _place.get().node
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
        return True  # the backend's own cancellation, whose class is not available in a thread
    return False
