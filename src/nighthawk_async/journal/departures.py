"""The order in which new answers leave the journal, in the life that records them: that of their records.

Some answers wait until they are durable, and others do not; an event loop may wake those of one commit in
any order. Later lives give answers in the order of their records, one after the other. So this life does.
"""

import threading

from ..parallel.event_loop import LoopEvent
from ..parallel.settling import wait_settled
from .acknowledgement import Acknowledgement
from .frames import are_in_one_task


class Departures:
    """The answers of one run that were recorded in this life, and have not reached their callers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # event loops of other threads, too
        self._waiting: dict[int, LoopEvent | None] = {}  # in the order of the records
        self._number = 0
        self._last: str | None = None  # the place of the answer that left last

    async def leave(self, place: str, written: Acknowledgement[None] | None = None) -> None:
        """Wait until an answer may reach its caller; call it without a checkpoint after the record.

        Args:
            place: The place of the answer.
            written: The acknowledgement of its record, if that has to be durable.

        Raises:
            JournalError: The record cannot be written.
        """
        with self._lock:
            self._number = number = self._number + 1
            self._waiting[number] = None
        try:
            if written is not None:
                await written.wait()
            if (turn := self._find_turn(number)) is not None:
                await turn.wait()
            if self._last is not None and not are_in_one_task(self._last, place):
                await wait_settled()  # the last one has its consequences first
        finally:
            with self._lock:
                del self._waiting[number]
                self._last = place
                following = next(iter(self._waiting.values()), None)
            if following is not None:
                following.set()

    def _find_turn(self, number: int) -> LoopEvent | None:
        """Begin to wait for the answers before one; None if they have left."""
        with self._lock:
            if next(iter(self._waiting)) == number:
                return None
            self._waiting[number] = turn = LoopEvent()
            return turn
