"""Tasks that take items from one iterator, and make the call of each in a context of its own.

A task for each item costs more than most calls of small functions, so a task whose call has ended goes on
with the next item. There are as many tasks as calls in flight: one that takes an item starts another one, if
there is room.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .item_source import END

Item = TypeVar("Item")


class Workers(Generic[Item]):
    """The tasks of one combinator.

    Args:
        items: The items, each taken when there is room for its call.
        call: Makes the call of an item, by index; returns whether its task may make others.
        end_source: Told the end of the items: what the iterator has raised, and how many there were.
        scope: The scope of the calls, cancelled when no more are to be made.
        most: The greatest number of calls in flight at once; None for as many as there are items.
        frees_room: Whether an ended call makes room for the next; otherwise `free_room` does.
        name: The name of the tasks.
    """

    def __init__(
        self,
        items: Iterator[Item],
        call: Callable[[int, Item], Coroutine[Any, Any, bool]],
        end_source: Callable[[BaseException | None, int], Awaitable[None]],
        *,
        scope: anyio.CancelScope,
        most: int | None,
        frees_room: bool,
        name: str,
    ) -> None:
        self._items = items
        self._call = call
        self._end_source = end_source
        self._scope = scope
        self._most = self._room = float("inf") if most is None else most
        self._frees_room = frees_room
        self._name = name
        self._taken = 0
        self._is_exhausted = False
        self._tasks = 0
        self._has_fresh = False  # a task that has not taken an item yet
        self._waiters: list[anyio.Event] = []
        self._task_group: TaskGroup | None = None
        self._context: Context | None = None

    def start(self, task_group: TaskGroup) -> None:
        """Start the first task.

        Args:
            task_group: The group of the tasks, which ends after the last call.
        """
        self._task_group = task_group
        # All items are made in one context, as an iterator is used to, and each call begins in a copy of it.
        self._context = copy_context()
        self._add_task()

    def free_room(self) -> None:
        """Make room for one more call."""
        self._room += 1
        if self._waiters:
            self._waiters.pop().set()
        elif self._tasks and not self._is_exhausted:
            self._add_task_if_needed()

    def _add_task_if_needed(self) -> None:
        if not self._has_fresh and self._tasks < self._most:
            self._add_task()

    def _add_task(self) -> None:
        assert self._task_group is not None, "started before"
        self._has_fresh = True
        self._tasks += 1
        self._task_group.start_soon(self._work, name=self._name)

    async def _work(self) -> None:
        self._has_fresh = False
        try:
            await checkpoint_if_cancelled()  # a scope around all may be cancelled before the task starts
            await self._take_items()
        finally:
            self._tasks -= 1

    async def _take_items(self) -> None:
        """Make calls until there are no more items, or the calls are ended."""
        assert self._context is not None, "started before"
        while not (self._is_exhausted or self._scope.cancel_called):
            if self._room <= 0:  # results wait to be taken
                await self._wait_for_room()
                continue
            try:
                item = self._context.run(next, self._items, END)
            except BaseException as error:
                await self._end(error)
                return
            if item is END:
                await self._end(None)
                return
            self._room -= 1
            index, self._taken = self._taken, self._taken + 1
            if self._room > 0 and not self._waiters:
                self._add_task_if_needed()
            if not await self._make_call(index, item):
                if not (self._has_fresh or self._scope.cancel_called):
                    self._add_task()  # in its place
                return

    async def _end(self, error: BaseException | None) -> None:
        """End the tasks that wait for room, after the last item."""
        self._is_exhausted = True
        while self._waiters:
            self._waiters.pop().set()
        await self._end_source(error, self._taken)

    async def _make_call(self, index: int, item: Item) -> bool:
        """Make the call of an item; return whether its task may make others."""
        assert self._context is not None, "started before"
        call = _InContext(self._call(index, item), self._context.copy())
        try:
            may_go_on = await call
        finally:
            if self._frees_room:
                self._room += 1
        if call.has_waited:
            await checkpoint_if_cancelled()
        else:
            await checkpoint()  # lets other tasks run, however many items there are
        return may_go_on

    async def _wait_for_room(self) -> None:
        """Wait until a result is taken, or there are no more items."""
        waiter = anyio.Event()
        self._waiters.append(waiter)
        await waiter.wait()


Result = TypeVar("Result")


class _InContext(Awaitable[Result]):
    """A coroutine that runs in a context of its own, within the task that awaits it.

    Args:
        coroutine: The coroutine.
        context: Its context.

    Attributes:
        has_waited: Whether other tasks could run meanwhile.
    """

    __slots__ = ("_context", "_coroutine", "has_waited")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context
        self.has_waited = False

    def __await__(self) -> Generator[Any, Any, Result]:
        run, send = self._context.run, self._coroutine.send
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                yielded = run(send, value) if error is None else run(self._coroutine.throw, error)
            except StopIteration as end:
                return end.value
            finally:
                error = None  # it would refer to this frame
            self.has_waited = True
            try:
                value = yield yielded
            except GeneratorExit:
                run(self._coroutine.close)
                raise
            except BaseException as raised:
                error = raised
