"""Calls one function for every item of a source, a bounded number at a time.

The outcomes are not interpreted here: the code that makes the calls receives them, and decides when to stop.
"""

import math
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from anyio import CapacityLimiter
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..causes import ends_run, leaves_of
from ..observation import NodeWriter
from ..placements import Placement, call_item, checked_placement
from .calling import call_any, checked_max_concurrent, checked_seconds, is_async_callable
from .deadlines import Deadline
from .decided_limits import note_end
from .decided_order import DecidedOrder, EndOfRecords, find_decided_order
from .errors import CallCancelledError, DeadlineExceededError
from .here import Here
from .item_source import END, ItemSource
from .nodes import begin_group, call_with_node, ended_group
from .outcomes import Failed, Outcome, Succeeded, errors_in, raise_bare, without_cancellations
from .progress import ProgressReporter, ProgressTarget, check_progress_target
from .task_current import find_positions, open_item
from .task_node import Callee
from .workers import Workers

if TYPE_CHECKING:
    from .progress_line import ProgressLine

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_THREADS = 40
"""Default number of synchronous functions that run at once: the one that AnyIO has chosen."""

_REPORT_SECONDS = 10.0
"""Time limit for the report of the call that ends the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Options of calls. Invalid values raise here, before anything starts.

    Args:
        title: The name of the combinator, for task names, progress bars and error messages.
        max_concurrent: The greatest number of calls in flight at once; None for as many as there are items.
        deadline: The time for all calls together, in seconds; None for no limit.
        progress: The receiver of progress; None for none.
        on: The placement of the calls; None for this event loop.

    Raises:
        InvalidLimitError: A limit is invalid.
        TypeError: `progress` is neither a callable nor progress bars, or `on` is no placement.
    """

    title: str
    max_concurrent: int | None = None
    deadline: float | None = None
    progress: ProgressTarget | None = None
    on: Placement | None = None

    def __post_init__(self) -> None:
        checked_max_concurrent(self.max_concurrent)
        if self.deadline is not None:
            checked_seconds(self.deadline)
        check_progress_target(self.progress)
        checked_placement(self.on)

    @property
    def most_at_once(self) -> int | None:
        """The greatest number of calls in flight at once; None for as many as there are items."""
        if self.max_concurrent is None and self.on is not None:
            return self.on.capacity
        return self.max_concurrent

    @property
    def kind(self) -> str:
        """The name of the combinator without its module, for the ids of tasks."""
        return self.title.rpartition(".")[2]

    def time_limit(self, path: str | None) -> AbstractContextManager[Deadline | None]:
        """Return the deadline of the calls at a path, to be entered."""
        if self.deadline is None:
            return nullcontext()
        return Deadline(float(self.deadline), self.title, place=f"{path}/deadline[0]")


def _make_line(title: str) -> "ProgressLine":
    from .progress_line import ProgressLine  # here, because few programs show one

    return ProgressLine(title)


class Calls(Generic[Item, Result]):
    """The calls of one function for the items of one source.

    Items are taken from the source one at a time, each when there is room for its call. Every call has
    context variables of its own, which flow into it and not out of it. Tasks with handles that are started in
    it are placed below the position of its item, so their ids do not depend on scheduling.

    Calls for items of an iterable are made by tasks that each make many (`workers`). Where the order of calls
    is kept, or the items come from an async iterable, which wants one task, every call has its own task.

    Args:
        function: The function, async or not.
        items: The items: an iterable or an async iterable.
        take: Receives the index and the outcome of each call, as soon as the call has ended.
        options: The options of the calls.
        frees_room: Whether an ended call makes room for the next; otherwise `free_room` does.
        source: What yields the items, in place of an `ItemSource`.

    Attributes:
        exceeded: The error of the calls' own deadline, if it has ended them. None in a run with a journal,
            whose later lives could not tell which calls had ended in time.

    Raises:
        TypeError: The function cannot be called, or the items cannot be iterated over.
    """

    def __init__(
        self,
        function: Callable[[Item], Any],
        items: Iterable[Item] | AsyncIterable[Item],
        take: Callable[[int, Outcome[Result]], None],
        options: CallOptions,
        *,
        frees_room: bool = True,
        source: ItemSource[Item] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"{options.title} needs a function, not {function!r}")
        self._function = function
        self._items = items
        self._take = take
        self._options = options
        self._frees_room = frees_room
        self._source = ItemSource(items) if source is None else source
        self._failures: list[BaseException] = []
        self._scope = anyio.CancelScope()
        most = options.most_at_once
        self._room = None if most is None else anyio.Semaphore(most)
        self._workers: Workers[Item] | None = None
        self._is_async = is_async_callable(function)
        self._threads = CapacityLimiter(options.max_concurrent or _MAX_THREADS)
        self._limit: Deadline | None = None
        self._rooms_given_away = 0
        self._is_decided = False
        self.exceeded: DeadlineExceededError | None = None
        self._path: str | None = None
        self._order: DecidedOrder | None = None
        self._reporter: ProgressReporter
        self._line: ProgressLine | None = None
        self._node: NodeWriter | None = None

    def begin(self) -> None:
        """Take a position in the task of the caller, and show progress.

        `run` calls this itself. It is for code that runs in another task than the caller's.
        """
        self._path = find_positions().take(self._options.kind, (Callee(self._function), self._items))
        self._order = find_decided_order(
            self._path, keeps_each=not self._frees_room, drives=self._options.on is None
        )
        target, title = self._options.progress, self._options.title
        if isinstance(target, bool):
            target = self._line = _make_line(title) if target else None
        self._reporter = ProgressReporter(target, title=title, total=self._source.total)
        self._node = begin_group(self._options.title, items=self._source.total)

    def end_unstarted(self) -> None:
        """End the node of the calls, if asyncio has cancelled `run` before its first step."""
        self._end_line()
        if self._node is not None:
            self._node.end("cancelled")

    def _end_line(self) -> None:
        if self._line is not None:
            self._line(self._reporter.now())
            self._line.close()

    def free_room(self) -> None:
        """Make room for one more call, unless the one that has ended gave its room away before."""
        if self._workers is not None:
            self._workers.free_room()
        elif self._rooms_given_away:
            self._rooms_given_away -= 1
        else:
            self._release_room()

    def _release_room(self) -> None:
        if self._room is not None:
            self._room.release()

    def decide(self, *, is_failure: bool = False) -> None:
        """Start no more calls, and cancel those in flight. If called in time, they may end late.

        Args:
            is_failure: Whether the calls have failed as a whole.
        """
        self._is_decided = self._limit is None or self._limit.remaining_seconds >= 0
        self._scope.cancel()
        if self._order is not None:
            self._order.decide(is_failure=is_failure)

    def fail(self, error: BaseException) -> None:
        """Start no more calls, cancel those in flight, and raise the error at the end.

        An exception from closing the source is then dropped, unless it is not an `Exception`.
        """
        self._failures.append(error)
        self._scope.cancel()
        if self._order is not None and isinstance(error, Exception):
            self._order.decide(is_failure=True)

    async def run(self) -> None:
        """Make the calls, and wait until none is in flight.

        Raises:
            BaseException: The error passed to `fail`, or an error of the source; several in a group.
            DeadlineExceededError: The calls did not end in time.
        """
        if self._path is None:
            self.begin()
        try:
            with ended_group(self._node):
                await self._run()
            if self._order is not None:
                self._order.note_end()
        finally:
            if self._order is not None:
                self._order.close()
            self._end_line()

    async def _run(self) -> None:
        try:
            with self._options.time_limit(self._path) as self._limit:
                await self._run_in_task_group()
                # On asyncio, leaving a task group does not raise the cancellation with which its tasks ended.
                await checkpoint_if_cancelled()
        except DeadlineExceededError as error:  # of the total limit: those of calls are failures
            if not self._is_decided:
                self.exceeded = error if self._order is None else None
                raise
        except anyio.get_cancelled_exc_class():
            if not self._failures:
                raise
        # Outside the handler: an error replaces a cancellation, and does not refer to it.
        raise_bare(self._failures, self._options.title)

    async def _run_in_task_group(self) -> None:
        try:
            with self._scope:
                async with anyio.create_task_group() as task_group:
                    if self._order is None and self._source.iterator is not None:
                        self._start_workers(task_group, self._source.iterator)
                        return
                    try:
                        await self._start_calls(task_group)
                    except BaseException as error:
                        if not self._has_taken(error, is_of_source=True):
                            raise
        except BaseExceptionGroup as group:  # an interrupt that reached the task group itself
            self._failures.extend(errors_in(group))

    def _start_workers(self, task_group: TaskGroup, items: Iterator[Item]) -> None:
        self._workers = Workers(
            items,
            self._call_of_worker,
            self._end_source,
            scope=self._scope,
            most=self._options.most_at_once,
            frees_room=self._frees_room,
            name=self._options.title,
        )
        self._workers.start(task_group)

    async def _end_source(self, error: BaseException | None, taken: int) -> None:
        """Note the end of the items that workers take.

        Args:
            error: What the iterable has raised; None for nothing.
            taken: The number of items.
        """
        try:
            if error is not None:
                raise error
            await self._reporter.source_ended(taken)
        except BaseException as raised:
            if not self._has_taken(raised, is_of_source=True):
                raise

    async def _start_calls(self, task_group: TaskGroup) -> None:
        started = 0
        try:
            while True:
                await self._wait_for_room()
                item = await self._source.next()
                if item is END:
                    break
                if self._order is not None and not self._order.begins(started):
                    started += 1
                    self._release_room()
                    if not self._order.has_later(started - 1):
                        break
                    continue
                name = f"{self._options.title}[{started}]"
                task_group.start_soon(self._call, started, item, name=name)
                started += 1
            if self._order is not None:
                self._order.end_source(started)
            await self._reporter.source_ended(started)
        finally:
            await self._source.close()

    async def _wait_for_room(self) -> None:
        if self._room is not None:
            await self._room.acquire()
        else:
            await checkpoint()  # lets started calls run, however many items there are

    async def _call(self, index: int, item: Item) -> None:
        if self._scope.cancel_called:
            return
        try:
            with open_item(f"{self._path}/item[{index}]"):
                await self._call_and_report(index, item)
        except BaseException as error:
            if not self._has_taken(error):
                raise
        finally:
            if self._frees_room:
                self.free_room()

    async def _call_of_worker(self, index: int, item: Item) -> bool:
        """Make a call in the context of a worker; return whether its task may make others."""
        try:
            with open_item(f"{self._path}/item[{index}]"):
                if self._reporter.is_on:
                    await self._reporter.started()
                outcome = await self._observed_outcome(index, item)
                await self._report(index, outcome)
        except BaseException as error:
            if not self._has_taken(error):
                raise
            return False
        # A task that somebody has cancelled may keep traces of that, as one of asyncio does.
        return not (isinstance(outcome, Failed) and isinstance(outcome.error, CallCancelledError))

    async def _call_and_report(self, index: int, item: Item) -> None:
        await self._reporter.started()
        if self._order is not None and self._order.drives(index):
            await self._drive(self._order, index, item)
            return
        if self._order is None:
            outcome = await self._observed_outcome(index, item)
        else:
            with self._order.in_progress(index):
                outcome = await self._observed_outcome(index, item)
            if isinstance(outcome, Succeeded):
                self._order.note_success(index)
            else:
                self._order.note_failure(index, outcome.error)
            if self._order.is_too_early(index):
                self._rooms_given_away += 1  # to calls that count before this one
                self._release_room()
            await self._order.wait_turn(index)
        await self._report(index, outcome)

    async def _report(self, index: int, outcome: Outcome[Result]) -> None:
        was_over = self._scope.cancel_called
        self._take_in_order(index, outcome)
        is_failure = isinstance(outcome, Failed)
        if self._reporter.is_on:
            # The call that ends the others also cancels itself, and its report must not be lost.
            is_last = self._scope.cancel_called and not was_over
            with anyio.move_on_after(self._report_seconds() if is_last else None, shield=is_last):
                await self._reporter.finished(is_failure=is_failure)
        if is_failure:
            await checkpoint_if_cancelled()  # a failure during a cancellation does not end the cancellation

    async def _drive(self, order: DecidedOrder, index: int, item: Item) -> None:
        """Let a call that did not count do again what it had done; it ends when all calls end."""
        self._rooms_given_away += 1
        self._release_room()
        try:
            await self._observed_outcome(index, item)
        except (EndOfRecords, BaseExceptionGroup) as error:
            if not all(isinstance(each, EndOfRecords) for each in leaves_of(error)):
                raise
        finally:
            order.end_driven(index)
        await anyio.sleep_forever()

    def _take_in_order(self, index: int, outcome: Outcome[Result]) -> None:
        if self._order is None:
            self._take(index, outcome)
            return
        self._order.begin_taking(index)
        self._take(index, outcome)
        self._order.end_taking(index)
        note_end()

    def _report_seconds(self) -> float:
        return _REPORT_SECONDS if self._limit is None else min(_REPORT_SECONDS, self._limit.remaining_seconds)

    def _observed_outcome(self, index: int, item: Item) -> Awaitable[Outcome[Result]]:
        outcome = self._outcome(item)
        if self._node is None:
            return outcome
        return call_with_node(self._node, f"{self._options.kind}[{index}]", item, outcome)

    async def _outcome(self, item: Item) -> Outcome[Result]:
        try:
            return Succeeded(await self._make_call(item), item)
        except Exception as error:
            if ends_run(error):
                raise
            return Failed(error, item)
        except anyio.get_cancelled_exc_class() as cancellation:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            return Failed(_somebody_elses(cancellation), item)
        except BaseExceptionGroup as group:
            rest = without_cancellations(group)
            if isinstance(rest, Exception) and not ends_run(rest):
                return Failed(rest, item)
            raise

    def _make_call(self, item: Item) -> Awaitable[Any]:
        if type(self._options.on) is Here:  # not one that has changed how it starts calls
            return self._options.on.call_item(self._function, item)
        if self._options.on is not None:
            return call_item(self._options.on, self._function, item)
        if self._is_async:
            return self._function(item)
        return call_any(self._function, item, limiter=self._threads)

    def _has_taken(self, error: BaseException, *, is_of_source: bool = False) -> bool:
        """Fail as a whole for an error of code that must not fail; return whether that is done with it."""
        if isinstance(error, GeneratorExit):
            return False
        rest = without_cancellations(error)
        if rest is None:
            return False
        if not (is_of_source and self._scope.cancel_called and isinstance(rest, Exception)):
            self.fail(rest)  # otherwise it was closed, because the outcome is decided
        return True


def _somebody_elses(cancellation: BaseException) -> CallCancelledError:
    error = CallCancelledError("the call was cancelled by code other than its owner")
    error.__cause__ = cancellation
    return error
