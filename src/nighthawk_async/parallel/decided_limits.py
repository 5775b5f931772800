"""Time limits that have expired, kept so that a later life of the run repeats it.

A limit that expired in one life expires in the next ones, too: there, the first thing that no earlier life
has recorded is not begun, and the limit cancels its block at once. If the block runs in parallel, the limit
waits until as many functions have ended in it as before.

Time counts over all lives: a limit that had not expired when a life ended has only the rest of its seconds,
from the first thing that is new in the next one.
"""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, TypeVar

import anyio

from .event_loop import EventLoop
from .task_current import change_place, find_place, find_positions
from .task_node import Decisions, get_task_hooks

Result = TypeVar("Result")

_IN_TIME = 0
_EXPIRED = 1


class Limited(Protocol):
    """A block with a time limit."""

    @property
    def has_expired(self) -> bool:
        """Whether its time is over; False where only another thread knows."""
        ...

    def expire(self) -> None:
        """End its time now, from any thread."""
        ...

    def shorten(self, seconds: float) -> None:
        """Leave it so many seconds less, from any thread."""
        ...


class DecidedLimit:
    """The time limit of one block in a run that keeps decisions.

    Args:
        decisions: The decisions of the run.
        place: The place of the limit.
        block: The block.
    """

    __slots__ = ("_block", "_decisions", "_ends", "_ends_before", "_has_new", "_lock", "_place")

    def __init__(self, decisions: Decisions, place: str, block: Limited) -> None:
        self._decisions = decisions
        self._place = place
        self._block = block
        self._lock = threading.Lock()
        self._ends = 0
        self._has_new = False
        kept = decisions.find(place)
        self._ends_before = kept[1] if kept is not None and kept[0] == _EXPIRED else None
        change_place(limits=(self, *_limits()))

    @property
    def block(self) -> Limited:
        """The block."""
        return self._block

    @property
    def expires(self) -> bool:
        """Whether it expired in an earlier life, which went on after it."""
        return self._ends_before is not None

    def reach_new(self) -> None:
        """Note that the block is about to begin something that no earlier life has recorded."""
        with self._lock:
            is_first, self._has_new = not self._has_new, True
        if self.expires:
            self._expire_if_due()
        elif is_first:
            seconds = self._decisions.count_time(self._place)
            if seconds > 0:
                self._block.shorten(seconds)

    def note_end(self) -> None:
        """Note that a function has ended in the block."""
        if self._block.has_expired:
            return
        with self._lock:
            self._ends += 1
        if self.expires and self._has_new:
            self._expire_if_due()

    def _expire_if_due(self) -> None:
        if self._ends_before is not None and self._ends >= self._ends_before:
            self._block.expire()

    def leave(self) -> None:
        """Leave the block."""
        _leave(self)

    def end(self, error: BaseException | None, *, has_expired: bool) -> None:
        """Keep how the block has ended.

        Args:
            error: The error that left it; None for none.
            has_expired: Whether its time is over.
        """
        if self.expires:
            return
        if has_expired:
            self._decisions.keep(self._place, (_EXPIRED, self._ends), is_failure=True)
        elif self._has_new and isinstance(error, Exception):  # the next life may meet it anew, in full time
            self._decisions.keep(self._place, (_IN_TIME, self._ends), is_failure=True)


class OuterLimits:
    """The limits around a call, in the process of the call, if that is not the process of the run.

    Use it as a context manager around the call.

    Args:
        expires: Whether one of them expired in an earlier life, which went on after it.
        reach_new: Notes that the call is about to begin something that no earlier life has recorded.
        note_end: Notes that a function has ended in the call.
    """

    __slots__ = ("expires", "note_end", "reach_new")

    def __init__(
        self, *, expires: bool, reach_new: Callable[[], object], note_end: Callable[[], object]
    ) -> None:
        self.expires = expires
        self.reach_new = reach_new
        self.note_end = note_end

    def __enter__(self) -> None:
        change_place(limits=(self, *_limits()))

    def __exit__(self, *exc_details: object) -> None:
        _leave(self)


def _limits() -> tuple[DecidedLimit | OuterLimits, ...]:
    """Return the limits of the caller, innermost first."""
    return find_place().limits


def _leave(limit: DecidedLimit | OuterLimits) -> None:
    change_place(limits=tuple(each for each in _limits() if each is not limit))


def begin_decided_limit(block: Limited, *, kind: str, place: str | None) -> DecidedLimit | None:
    """Begin the limit of a block; None where no decisions are kept.

    Nor are those of blocks in tasks that were started by hand, whose places would depend on scheduling.

    Args:
        block: The block.
        kind: The kind of limit, as frames of places name it.
        place: The place of the limit; None for the next one of its kind in the current place.
    """
    decisions = get_task_hooks().find_decisions()
    if decisions is None:
        return None
    if place is None:
        positions = find_positions()
        if not positions.is_owned:
            return None
        place = positions.take(kind)
    return DecidedLimit(decisions, place, block)


def limited_blocks() -> list[Limited]:
    """Return the blocks of the caller whose limits are decided, innermost first."""
    return [limit.block for limit in _limits() if isinstance(limit, DecidedLimit)]


def outer_limits() -> bool | None:
    """Whether a limit of the caller expired in an earlier life; None where none of its limits is decided."""
    limits = _limits()
    return any(limit.expires for limit in limits) if limits else None


def reach_new() -> bool:
    """Note that the caller is about to begin something that no earlier life has recorded.

    Returns:
        Whether a limit ends the caller's block instead, now or as soon as the other tasks in it are so far.
    """
    limits = _limits()
    for limit in limits:  # the innermost first: the others expired later
        if limit.expires:
            limit.reach_new()
            return True
    for limit in limits:
        limit.reach_new()
    return False


def note_end() -> None:
    """Note that a function has ended, for the limits of the caller."""
    for limit in _limits():
        limit.note_end()


async def run_within(
    seconds: float, work: Callable[[], Awaitable[Result]], *, kind: str
) -> tuple[Result] | None:
    """Run work within a time, which expires in every life of the run if it expired in one.

    Args:
        seconds: The time, in seconds.
        work: The work.
        kind: The kind of limit, as frames of places name it. A place has one of each kind at most.

    Returns:
        The result, alone in a tuple; None if the time is over.
    """
    result: tuple[Result] | None = None
    with _Scope(seconds, kind=kind) as scope:
        result = (await work(),)
    return None if scope.has_caught else result


class _Scope:
    """Cancels the block after a time, as `anyio.move_on_after` does, and in every life of the run.

    Args:
        seconds: The time, in seconds.
        kind: The kind of limit.

    Attributes:
        has_caught: Whether the time is over, and the block has been left for that; read after the block.
    """

    __slots__ = ("_kind", "_limit", "_loop", "_scope", "_seconds", "has_caught")

    def __init__(self, seconds: float, *, kind: str) -> None:
        self._seconds = seconds
        self._kind = kind
        self.has_caught = False
        self._scope = anyio.CancelScope()
        self._limit: DecidedLimit | None = None
        self._loop: EventLoop | None = None

    def __enter__(self) -> "_Scope":
        self._scope.deadline = anyio.current_time() + self._seconds
        if get_task_hooks().find_decisions() is not None:
            self._loop = EventLoop()
            place = f"{find_positions().path}/{self._kind}[0]"
            self._limit = begin_decided_limit(self, kind=self._kind, place=place)
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._limit is not None:
            self._limit.leave()
        is_handled = bool(self._scope.__exit__(error_type, error, traceback))
        self.has_caught = self._scope.cancelled_caught
        if self._limit is not None:
            if self._limit.expires and (error is None or isinstance(error, Exception)):
                self.has_caught = True
            self._limit.end(error, has_expired=self.has_caught)
        return is_handled or self.has_caught

    @property
    def has_expired(self) -> bool:
        """Whether its time is over; see `Limited`."""
        return self._loop is not None and self._loop.is_here and self._scope.cancel_called

    def expire(self) -> None:
        """End its time now; see `Limited`."""
        call_on(self._loop, self._scope.cancel)

    def shorten(self, seconds: float) -> None:
        """Leave it so many seconds less; see `Limited`."""
        call_on(self._loop, lambda: shorten_scope(self._scope, self._seconds - seconds))


def call_on(loop: EventLoop | None, function: Callable[[], object]) -> None:
    """Call a function on an event loop: at once on its thread, soon from another one."""
    if loop is None or loop.is_here:
        function()
        return
    with suppress(RuntimeError):  # the loop has ended, and the block with it
        loop.call_soon(function)


def shorten_scope(scope: anyio.CancelScope, left_seconds: float) -> None:
    """Leave a cancel scope so many seconds from now, or less."""
    if left_seconds <= 0:
        scope.cancel()
    else:
        scope.deadline = min(scope.deadline, anyio.current_time() + left_seconds)
