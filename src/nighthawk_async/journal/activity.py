"""The work in progress in one life of a run, so that a run in which everything waits can be parked.

Waits are durable: for a time, a person or a message, which all come whether a process works on the run or
not. Everything else that the journal knows keeps the run from being parked: requests to models, calls that
are effects, functions and items without a durable wait in them. Plain awaits of the program cannot be seen.
"""

import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..parallel.event_loop import LoopEvent
from .database import Database

Result = TypeVar("Result")

IsDue: TypeAlias = Callable[[Database], bool]
"""Returns whether what is waited for has come; called in the transaction that parks the run."""

_PAUSE_SECONDS = 0.05


class ParkedSignal(BaseException):
    """Leaves a run that is parked, past all handlers of errors; at its end it becomes `RunParked`.

    A run that was entered with `with` has no scope that can be cancelled, so it leaves the waits themselves.
    """


@dataclass(slots=True, kw_only=True, eq=False)
class DurableWait:
    """One durable wait.

    Args:
        place: Its place, relative to the run.
        ends_at: The time at which it ends by itself, in seconds since 1970; None for never. It may change.
        is_due: Looks into the store for what is waited for; None where only time ends it.
    """

    place: str
    ends_at: float | None
    is_due: IsDue | None


@dataclass(slots=True, eq=False)
class _Listener:
    """A task that waits until the run is idle.

    Args:
        changed: Set when the task has to look again.
        is_timing: Whether the run was idle when the task last looked, so that each change counts.
        has_changed: Whether `changed` was set.
    """

    changed: LoopEvent
    is_timing: bool = False
    has_changed: bool = False


class Activity:
    """The work in progress in one life of a run. Thread-safe.

    Args:
        park_after: The seconds for which nothing may change before the run is parked.
        find_due: Looks into the store, with functions of waits, for what is waited for.

    Attributes:
        cancels_run: Whether a scope of the run is cancelled to park it; otherwise its waits raise
            `ParkedSignal`.
        is_parking: Whether parking has begun; then no effect begins.
        parked_waits: The waits at that moment.
        has_moved: Whether something was recorded since.
    """

    def __init__(self, park_after: float, find_due: Callable[[Sequence[IsDue]], Awaitable[bool]]) -> None:
        self._park_after = park_after
        self._find_due = find_due
        self._lock = threading.Lock()
        self._waits: dict[int, DurableWait] = {}
        self._open: Counter[str] = Counter()
        self._covered: Counter[str] = Counter()  # by place: the waits in it
        self._uncovered = 0  # open places without a wait in them
        self._busy = 0
        self._listeners: set[_Listener] = set()
        self.cancels_run = True
        self.is_parking = False
        self.parked_waits: tuple[DurableWait, ...] = ()
        self.has_moved = False

    def open_place(self, place: str) -> None:
        """Note that a function or an item has begun."""
        with self._lock:
            self._open[place] += 1
            if self._open[place] == 1 and not self._covered[place]:
                self._uncovered += 1
        self._changed()

    def close_place(self, place: str) -> None:
        """Note that a function or an item has ended."""
        with self._lock:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
                self._uncovered -= not self._covered[place]
        self._changed()

    @contextmanager
    def busy(self) -> Generator[None, None, None]:
        """Note that something is in progress that must not be interrupted, whatever waits in it."""
        self.begin_work()
        try:
            yield
        finally:
            self.end_work()

    def begin_work(self) -> None:
        """See `busy`."""
        with self._lock:
            self._busy += 1
        self._changed()

    def end_work(self) -> None:
        """See `busy`."""
        with self._lock:
            self._busy -= 1
        self._changed()

    def note_record(self) -> None:
        """Note that something was recorded."""
        if self.is_parking:
            self.has_moved = True
        self._changed()

    @property
    def wakes_at(self) -> float | None:
        """The time at which the first of the waits ends by itself, in seconds since 1970; None for never."""
        ends = [wait.ends_at for wait in self.parked_waits if wait.ends_at is not None]
        return time.time() if self.has_moved else min(ends, default=None)

    async def wait_durably(self, wait: DurableWait, function: Callable[[], Awaitable[Result]]) -> Result:
        """Call a function that waits for what comes whether a process works on the run or not.

        Raises:
            ParkedSignal: The run is parked, and no scope of it can be cancelled.
        """
        with self._waiting(wait):
            return await (function() if self.cancels_run else self._wait_or_park(function))

    async def _wait_or_park(self, function: Callable[[], Awaitable[Result]]) -> Result:
        results: list[Result] = []
        watching = anyio.CancelScope()

        async def watch() -> None:
            with watching:
                await self.wait_idle()
                group.cancel_scope.cancel("the run is parked")

        async with BareTaskGroup() as group:
            group.start_soon(watch)
            results.append(await function())
            watching.cancel()
        if not results:
            raise ParkedSignal
        return results[0]

    async def wait_idle(self) -> None:
        """Wait until everything waits and nothing has changed for long enough; then parking begins."""
        while not self.is_parking:
            with self._listening() as listener:
                with anyio.move_on_after(self._park_after if listener.is_timing else None) as scope:
                    await listener.changed.wait()
                if not scope.cancelled_caught:
                    continue
                if await self._find_due(self._due_checks()):
                    with anyio.move_on_after(_PAUSE_SECONDS):  # its wait is about to notice
                        await listener.changed.wait()
                else:
                    self._begin_parking(listener)

    def _begin_parking(self, listener: _Listener) -> None:
        with self._lock:
            if not self.is_parking and not listener.has_changed and self._is_idle():
                self.is_parking = True
                self.parked_waits = tuple(self._waits.values())

    def _due_checks(self) -> tuple[IsDue, ...]:
        with self._lock:
            return tuple(wait.is_due for wait in self._waits.values() if wait.is_due is not None)

    @contextmanager
    def _listening(self) -> Generator[_Listener, None, None]:
        listener = _Listener(LoopEvent())
        with self._lock:
            listener.is_timing = self._is_idle()
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @contextmanager
    def _waiting(self, wait: DurableWait) -> Generator[None, None, None]:
        with self._lock:
            self._waits[id(wait)] = wait
        try:
            with self.depending(wait.place):
                yield
        finally:
            with self._lock:
                del self._waits[id(wait)]
            self._changed()

    @contextmanager
    def depending(self, place: str) -> Generator[None, None, None]:
        """Note that a place waits for what happens elsewhere: in other places, or outside of the run."""
        with self._lock:
            for each in _places_around(place):
                self._covered[each] += 1
                if self._covered[each] == 1 and each in self._open:
                    self._uncovered -= 1
        self._changed()
        try:
            yield
        finally:
            with self._lock:
                for each in _places_around(place):
                    self._covered[each] -= 1
                    if not self._covered[each]:
                        del self._covered[each]
                        self._uncovered += each in self._open
            self._changed()

    def _is_idle(self) -> bool:
        """Whether everything waits, and will for longer than the run waits before it is parked."""
        if not self._is_quiet():
            return False
        soon = time.time() + self._park_after
        return all(wait.ends_at is None or wait.ends_at > soon for wait in self._waits.values())

    def _is_quiet(self) -> bool:
        return bool(self._waits) and not self._busy and not self._uncovered

    def _changed(self) -> None:
        if not self._listeners:
            return
        with self._lock:
            concerned = [each for each in self._listeners if each.is_timing or self._is_quiet()]
        for listener in concerned:
            listener.has_changed = True
            listener.changed.set()


def _places_around(place: str) -> Iterator[str]:
    """A place, and the places that enclose it."""
    while place:
        yield place
        place = place.rpartition("/")[0]


class ParkableTasks:
    """The task group of a run that is parked when everything in it waits.

    Args:
        activity: The work in progress in the run.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._stack = AsyncExitStack()
        self._scope = anyio.CancelScope()

    async def __aenter__(self) -> TaskGroup:
        async with AsyncExitStack() as stack:
            watching = anyio.CancelScope()
            watchers = await stack.enter_async_context(BareTaskGroup())
            stack.callback(watching.cancel)  # a scope of its own, which takes no cancellation of the run
            stack.push(self._raise_signal)
            tasks = await stack.enter_async_context(BareTaskGroup())
            self._scope = tasks.cancel_scope
            watchers.start_soon(self._watch, watching)
            self._stack = stack.pop_all()
            return tasks
        raise AssertionError("nothing that was entered suppresses exceptions")

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(exc_type, exc, traceback)

    async def _watch(self, watching: anyio.CancelScope) -> None:
        with watching:
            await self._activity.wait_idle()
            self._scope.cancel("the run is parked")

    def _raise_signal(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the run as parked, if its tasks have ended for that reason."""
        if exc is None and self._scope.cancelled_caught and self._activity.is_parking:
            raise ParkedSignal
