"""Blocks of tasks with handles.

    async with open_tasks() as tasks:
        page = tasks.start(fetch, url)
        score = tasks.start(rate, url, name="score")
        print(await page, await score)

Tasks end with their owner: leaving the block cancels those that are not awaited, and waits until they have
ended. To keep a task, await it or use `at_end="wait"`. A task fails alone: its error is kept for the code
that awaits its handle, which may be prepared for the error, and the others continue. Once the body has ended,
a failure that is not awaited cancels the rest; every failure that was not awaited by the end is raised there.
An exception that ends the program (`sys.exit`, Ctrl-C) ends the body and the tasks at once.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, TypeVarTuple, cast, overload

import anyio
from anyio import get_cancelled_exc_class
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from ..observation import NodeWriter, using_node_writer
from ..placements import Placement, call_item, checked_placement
from .calling import call_any
from .decided_order import note_block_end, note_block_left, note_failure, note_regular_end
from .errors import CallCancelledError, TaskCancelledError, TasksClosedError
from .nodes import begin_group, begin_task, end_group
from .outcomes import only_error, raise_bare, without_cancellations
from .task_current import enter_node, find_own_node, find_positions
from .task_handle import TaskHandle, TaskState
from .task_node import Positions, ResourceKeeper, TaskNode, get_task_hooks

_FROM_OUTSIDE = "its block was cancelled"


async def run_task(
    state: TaskState[Any], task_group: TaskGroup, function: Callable[..., Any], args: tuple[object, ...]
) -> None:
    """Run a task. Its outcome is kept in its state; only a cancellation from outside is raised.

    Args:
        state: The task.
        task_group: The task group in which it runs.
        function: The function to call.
        args: Its arguments.
    """
    try:
        with state.scope:
            await _run(state, task_group, function, args)
    except get_cancelled_exc_class():
        if anyio.current_effective_deadline() != -math.inf:
            state.fail(CallCancelledError("something that the task awaited was cancelled"))
            return
        state.end_cancelled(_FROM_OUTSIDE)
        raise
    except Exception as error:
        _end_with(state, error)
    except BaseException as error:
        # On Trio, errors raised during a cancellation from outside are in one group with it.
        rest = without_cancellations(error)
        if rest is None:
            state.end_cancelled(_FROM_OUTSIDE)
            raise
        state.fail(rest)
    if not state.is_ended:  # its own scope has caught the cancellation
        state.end_cancelled()


async def _run(
    state: TaskState[Any], task_group: TaskGroup, function: Callable[..., Any], args: tuple[object, ...]
) -> None:
    decisions = get_task_hooks().find_decisions()
    if state.is_ended:
        if decisions is not None:
            decisions.close(state.node.id)
        return
    await checkpoint_if_cancelled()  # a scope around the block may be cancelled before the task starts
    state.begin()
    enter_node(state.node)
    if decisions is None:
        await _call(state, task_group, function, args)
        return
    decisions.enter(state.node.id)
    try:
        await _call(state, task_group, function, args)
    finally:
        decisions.exit(state.node.id)


async def _call(
    state: TaskState[Any], task_group: TaskGroup, function: Callable[..., Any], args: tuple[object, ...]
) -> None:
    with nullcontext() if state.node.writer is None else using_node_writer(state.node.writer):
        async with ResourceKeeper("task", state.node.id, task_group) as state.node.keeper:
            result = await call_any(function, *args)
        note_regular_end(state.node.id)
        state.complete(result)


def _end_with(state: TaskState[Any], error: Exception) -> None:
    """End a task with an error; as cancelled if it only answers the request to end."""
    rest = _without_answers_to_request(error) if state.node.request is not None else error
    if rest is None:
        state.end_cancelled()
    else:
        note_failure(state.node.id, rest)
        state.fail(rest)


def _without_answers_to_request(error: Exception) -> Exception | None:
    """An error without what answers a request to end; None if it is nothing else.

    Code in a plain task group may have failed just before: its errors come in one group with such an answer.
    """
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return group.split(TaskCancelledError)[1]
    return None if isinstance(error, TaskCancelledError) else error


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_OVER = "its block has ended"


class Tasks:
    """A block of tasks; enter it with `async with`, once. Made by `open_tasks`.

    It belongs to one event loop, and to the task that enters it.
    """

    def __init__(self, name: str, *, at_end: Literal["cancel", "wait"], on: Placement | None = None) -> None:
        self._name = name
        self._placement = on
        self._at_end: Literal["cancel", "wait"] = at_end
        self._phase: Literal["new", "open", "leaving", "closed"] = "new"
        self._ending: str | None = None
        self._spares_awaited_only = False
        self._live: dict[TaskState[Any], None] = {}
        self._failed: dict[TaskState[Any], None] = {}
        self._scopes = ExitStack()
        self._node: NodeWriter | None = None

    async def __aenter__(self) -> "Tasks":
        if self._phase != "new":
            raise TasksClosedError("a block of tasks can be entered once; call open_tasks again for another")
        self._owner = find_own_node()
        self._enclosing = find_positions()
        self._positions = Positions(self._enclosing.take(self._name))
        with ExitStack() as scopes:
            scopes.enter_context(get_task_hooks().open_scope())
            self._task_group = anyio.create_task_group()
            await self._task_group.__aenter__()
            self._scopes = scopes.pop_all()
        self._phase = "open"
        self._node = begin_group(self._name)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:  # the body's exception propagates by itself; None tells type checkers so
        try:
            await self._leave(exc)
        except BaseException as error:
            note_block_left(self._positions.path)
            end_group(self._node, error)
            raise
        if exc is None:
            note_block_end(self._positions.path)
        else:
            note_block_left(self._positions.path)
        end_group(self._node, exc)

    async def _leave(self, exc: BaseException | None) -> None:
        self._phase = "leaving" if self._live else "closed"
        with self._scopes:
            self._decide_at_end(exc)
            left_by = await self._wait_for_tasks(exc)
            self._end_unstarted()
            self._phase = "closed"
            await self._wait_for_awaiters()
        failures = [state.error for state in self._failed]
        self._failed.clear()
        if failures and left_by is not None:
            left_by = without_cancellations(left_by)
        errors = [error for error in (left_by, *failures) if error is not None]
        if any(error is not exc for error in errors):
            raise_bare(errors, self._positions.path)

    @overload
    def start(
        self,
        function: Callable[[*Arguments], Awaitable[Result]],
        *args: *Arguments,
        name: str | None = None,
    ) -> TaskHandle[Result]: ...
    @overload
    def start(
        self, function: Callable[[*Arguments], Result], *args: *Arguments, name: str | None = None
    ) -> TaskHandle[Result]: ...
    def start(self, function: Callable[..., Any], *args: Any, name: str | None = None) -> TaskHandle[Any]:
        """Start a task. It runs from the caller's next checkpoint on.

        The context variables and task-local values of the caller flow in. A synchronous function runs in a
        worker thread.

        Args:
            function: The function to run, async or not.
            args: Its arguments; `functools.partial` takes keyword arguments.
            name: Its name, from which its id is made; None for that of the function.

        Raises:
            TasksClosedError: The block is not entered yet, or has ended.
            ValueError: The name is empty, or contains `/`, `[` or `]`.
        """
        if self._phase not in ("open", "leaving"):
            when = "is not entered yet" if self._phase == "new" else "is over"
            raise TasksClosedError(f"the block of tasks {when}: nothing can be started in it")
        state = TaskState[Any](
            self._make_node(_checked_name(_name_of(function) if name is None else name)),
            on_end=self._note_end,
            on_claim=self._note_claim,
            on_abandon=self._note_abandon,
        )
        self._live[state] = None
        if self._node is not None:
            begin_task(self._node, state, args)
        if self._ending is not None:
            state.cancel(self._ending)
        self._task_group.start_soon(self._run, state, function, args, name=state.node.id)
        return TaskHandle(state)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel every task that has not ended. More tasks can be started.

        Args:
            reason: The reason, for those who await the tasks.
        """
        for state in tuple(self._live):
            state.cancel(reason)

    async def _run(
        self, state: TaskState[Any], function: Callable[..., Any], args: tuple[object, ...]
    ) -> None:
        self._end_unless_awaited(state)  # it may have been awaited since it was started
        if self._placement is not None:
            function, args = call_item, (self._placement, function, *args)
        await run_task(state, self._task_group, function, args)

    def _make_node(self, name: str) -> TaskNode:
        """Make the node of a task: below the block, or below the other task or item that starts it.

        Otherwise the ids of tasks that several others start would depend on scheduling.
        """
        here = find_positions()
        positions = self._positions if here is self._enclosing else here
        return TaskNode(id=positions.take(name), name=name, parent=find_own_node(), owner=self._owner)

    def _decide_at_end(self, exc: BaseException | None) -> None:
        """Decide, once the body has ended, how to end the remaining tasks."""
        if exc is not None:
            is_cancelled = isinstance(exc, get_cancelled_exc_class())
            self._cancel_rest(f"its block was {'cancelled' if is_cancelled else 'left by an error'}")
        elif not all(state.is_awaited for state in self._failed):
            self._cancel_rest("another task of its block failed")
        elif self._at_end == "cancel":
            self._spares_awaited_only = True
            for state in tuple(self._live):
                self._end_unless_awaited(state)

    def _end_unless_awaited(self, state: TaskState[Any]) -> None:
        """Cancel a task when the block has ended, `at_end` is "cancel", and the task is not awaited."""
        if self._spares_awaited_only and not state.is_awaited:
            state.cancel(_OVER)

    async def _wait_for_tasks(self, exc: BaseException | None) -> BaseException | None:
        """Wait until every task has ended; return the exception of the block, without task failures."""
        # An error of the body has cancelled the tasks one by one, and is raised here, with their failures.
        shown = exc if isinstance(exc, get_cancelled_exc_class()) else None
        try:
            await self._task_group.__aexit__(None if shown is None else type(shown), shown, None)
            if exc is None:
                # On asyncio, leaving a task group does not raise the cancellation with which its tasks ended.
                await checkpoint_if_cancelled()
        except BaseException as error:  # the owner was cancelled, or interrupted by Ctrl-C
            return exc or only_error(error)
        return exc

    def _end_unstarted(self) -> None:
        """End the tasks that asyncio has cancelled before their first step, so that they never ran."""
        for state in tuple(self._live):
            state.end_cancelled("its block was cancelled")

    async def _wait_for_awaiters(self) -> None:
        """Let awaiting tasks receive failures, so that each failure is raised exactly once."""
        with anyio.CancelScope(shield=True):
            for state in tuple(self._failed):
                await state.wait_delivered()

    def _cancel_rest(self, reason: str) -> None:
        """Cancel the tasks, including those that they start while they end."""
        self._ending = reason
        self.cancel(reason)

    def _note_end(self, state: TaskState[Any]) -> None:
        self._live.pop(state, None)
        if state.error is not None:
            self._note_failure(state)
        if self._phase == "leaving" and not self._live:
            self._phase = "closed"

    def _note_abandon(self, state: TaskState[Any]) -> None:
        if state.error is not None:
            self._note_failure(state)
        else:
            self._end_unless_awaited(state)

    def _note_failure(self, state: TaskState[Any]) -> None:
        """Handle the failure of a task: cancel the others if necessary."""
        self._failed[state] = None
        if not isinstance(state.error, Exception):
            self._task_group.cancel_scope.cancel("a task ends the program")  # the body too
        elif self._phase != "leaving" or state.is_awaited:
            return
        self._cancel_rest("another task of its block failed")

    def _note_claim(self, state: TaskState[Any]) -> None:
        if isinstance(state.error, Exception):  # an exception that ends the program cannot be claimed
            self._failed.pop(state, None)


def open_tasks(
    name: str = "tasks", *, at_end: Literal["cancel", "wait"] = "cancel", on: Placement | None = None
) -> Tasks:
    """Open a block in which tasks with handles can be started.

    Tasks end with their owner. Leaving the block cancels those that are not awaited, with the reason `its
    block has ended`, and waits until they have ended; await the handles of the tasks you need, or have the
    block wait for all. An error or a cancellation of the body cancels every task.

    A task fails alone: its error is kept for the code that awaits its handle, and the others continue. Once
    the body has ended, a failure that is not awaited cancels the rest. At the end every failure that was not
    awaited is raised, of tasks that failed before the end or while they were cancelled: a single one as it
    is, several in an exception group, together with an error of the body. An error replaces a cancellation,
    as it does in a `finally` clause. Cancelled tasks are not failures.

    Args:
        name: The name of the block in the ids of its tasks.
        at_end: The effect of leaving the block normally: `cancel` the tasks that are not awaited, or `wait`
            for all. An awaited task is cancelled as soon as it is no longer awaited, and a task that is
            started from then on if it is not awaited before it starts.
        on: The placement of the tasks' functions, such as `nighthawk_async.distributed.Processes`; None for
            this event loop.

    Returns:
        A context manager, for `async with`, that gives the block.

    Raises:
        ValueError: The name is empty or contains `/`, `[` or `]`; or `at_end` is neither.
        TypeError: `on` is no placement.
    """
    if at_end not in ("wait", "cancel"):
        raise ValueError(f"at_end must be 'cancel' or 'wait', not {at_end!r}")
    return Tasks(_checked_name(name), at_end=at_end, on=checked_placement(on))


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def _checked_name(name: str) -> str:
    if not name or any(character in name for character in "/[]"):
        raise ValueError(f"the name of a task is not empty and contains no '/', '[' or ']': {name!r}")
    return name
