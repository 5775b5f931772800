"""The passage from what earlier lives recorded to what is new in this life."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

import anyio
from anyio import from_thread

from ..parallel import DeadlineExceededError, under_thread_deadlines
from ..parallel.decided_limits import reach_new
from ..parallel.decided_order import EndOfRecords
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from .acknowledgement import Acknowledgement
from .delivery import Delivery
from .frames import function_place
from .records import Record, RecordIndex, RecordKind

Hold: TypeAlias = Callable[[], Awaitable[None]]

_GRACE_SECONDS = 60.0
"""The time beyond that of an earlier life in which a call is expected to be cancelled again."""


class Gate:
    """The gate that everything passes that no earlier life has recorded.

    If a time limit around it expired in an earlier life, it is cancelled here instead. A function that an
    earlier life cancelled for a reason of the program's own waits for that reason, at most as long as it took
    in that life. Everything else waits until all recorded answers have arrived; see `delivery`. Once it is
    known that the program has changed, nothing passes any more, whatever the program does with that error.

    Args:
        index: The records of earlier lives.
        delivery: The order of their arrivals.
        depending: Notes that a place waits only for other places.
        check_new: Raises if a place without a record cannot be new.
    """

    def __init__(
        self,
        index: RecordIndex,
        delivery: Delivery,
        depending: Callable[[str], AbstractContextManager[None]],
        check_new: Callable[[str], None],
    ) -> None:
        self._check_new = check_new
        self._depending = depending
        self._driven: set[str] = set()
        self._index = index
        self._delivery = delivery
        self._begun_functions: set[str] = set()  # in which something new has begun

    async def begin_new(self, place: str, hold: Hold | None = None) -> None:
        """Pass a place.

        Args:
            place: The place.
            hold: Waits before an effect until no recorded call may come that it stands for; None for what is
                no effect.
        """
        self._delivery.check_same(place)
        if self.is_driven(place):
            await self.wait_cancelled(place)
        if reach_new():
            await anyio.sleep_forever()
        seconds = self._seconds_given_up(place)
        if seconds is not None:
            await anyio.sleep(seconds)
        with self._delivery.noting_divergence():
            self._check_new(place)  # before any wait, in which others would begin something new
            if hold is not None:
                await hold()
        await self._delivery.wait_until_over(place, is_effect=hold is not None)
        self._delivery.check_same(place)
        if seconds is None:
            self._note_begun(place)

    def begin_new_in_thread(self, place: str, hold: Callable[[], None] | None = None) -> None:
        """Pass a place as `begin_new` does, from synchronous code.

        Raises:
            DeadlineExceededError: A time limit expired here in an earlier life.
        """
        self._delivery.check_same(place)
        if self.is_driven(place):
            if is_loop_thread():
                raise EndOfRecords
            _wait_from_sync(anyio.sleep_forever)
        if reach_new():
            if is_loop_thread():
                raise DeadlineExceededError(0.0, "what it exceeded in an earlier life of the run, too")
            _wait_from_sync(anyio.sleep_forever)
        seconds = self._seconds_given_up(place)
        if seconds is not None and not is_loop_thread():
            _wait_from_sync(anyio.sleep, seconds)
        with self._delivery.noting_divergence():
            self._check_new(place)
            if hold is not None:
                hold()
        self._delivery.wait_until_over_in_thread(place, is_effect=hold is not None)
        self._delivery.check_same(place)
        if seconds is None:
            self._note_begun(place)

    def drive(self, place: str) -> None:
        """Let nothing new begin in a call that did not count in an earlier life."""
        self._driven.add(place)

    def is_driven(self, place: str) -> bool:
        """Whether nothing new begins in a place, because an earlier life had gone on without it."""
        driven = self._driven
        if not driven:
            return False
        while place not in driven:
            place = place.rpartition("/")[0]
            if not place:
                return False
        return True

    def end_driven(self, kind: RecordKind) -> Acknowledgement[None]:
        """End a call that does not count, before something new is recorded in it.

        Raises:
            EndOfRecords: The call would go on at once. A step waits before it begins anything.
        """
        if kind != "step":
            raise EndOfRecords
        return nothing_written()

    def is_cut_off(self, record: Record) -> bool:
        """Whether a response came when its function, which does not count, was being cancelled already."""
        return self.is_driven(record.place) and self._index.ends_cancelled(record)

    async def wait_cancelled(self, place: str) -> None:
        """Wait for the cancellation of a call that does not count."""
        with self._depending(place):
            await anyio.sleep_forever()

    def has_begun(self, place: str) -> bool:
        """Whether something new has begun in a function."""
        return place in self._begun_functions

    def _seconds_given_up(self, place: str) -> float | None:
        """The longest time to wait for the cancellation of a function; None if no life has cancelled it."""
        if not self._index.has_errors or (function := function_place(place)) is None:
            return None
        record = self._index.find_handled(function, "decision")
        if record is None or self._index.was_interrupted_at(record):
            return None
        return self._index.seconds_until(record) + _GRACE_SECONDS

    def _note_begun(self, place: str) -> None:
        """Note that something new begins. What was cancelled while it waited had begun nothing."""
        if function := function_place(place):
            self._begun_functions.add(function)


def nothing_written() -> Acknowledgement[None]:
    """The acknowledgement of records that are not written."""
    done = Acknowledgement[None]()
    done.succeed(None)
    return done


def _wait_from_sync(function: Callable[..., Awaitable[None]], *args: float) -> None:
    bounded = cast("Callable[..., Coroutine[Any, Any, None]]", under_thread_deadlines(function))
    if is_worker_thread():
        from_thread.run(bounded, *args)
    else:
        anyio.run(bounded, *args)
