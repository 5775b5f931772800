"""Calls at the places of others, which only the cleanup of an ended life has made.

A function that is called in cleanup as well as on the way to success takes one place in both. With the inputs
that cleanup gave it, the call has been made. With others it is another call, at a place beside that one, so
that it gets neither the result nor the idempotency key (`test_a_call_of_success_is_not_one_of_cleanup`).
"""

from collections.abc import Callable

from .errors import JournalDivergenceError
from .frames import is_within
from .records import Record, RecordIndex


class CallsBesideCleanup:
    """The calls of this life that are at places beside those of cleanup.

    Args:
        index: The records of earlier lives.
    """

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._beside: dict[str, str] = {}
        self.has_calls = False
        """Whether there are any."""

    def resolve(self, place: str) -> str:
        """The place of something, which may be in a call that has a place beside another one."""
        for cleanup, beside in self._beside.items():
            if is_within(place, cleanup):
                place = beside + place.removeprefix(cleanup)
        return place

    def find_place(
        self, place: str, find: Callable[[str], Record | None], check: Callable[[Record], None]
    ) -> str:
        """Find the place of a call: the recorded one, unless cleanup made another call there.

        Args:
            place: The place that the call takes.
            find: Returns the record at a place that the call has begun.
            check: Compares the call with that record; raises `JournalDivergenceError`.
        """
        while self._index.may_be_left_out(place):
            record = find(place)
            if record is None:
                break
            try:
                check(record)
            except JournalDivergenceError:
                self._beside[place] = _beside(place)
                self.has_calls = True
                place = self._beside[place]
            else:
                break
        return place


def _beside(place: str) -> str:
    """The place beside another one: its last frame has the same form."""
    parent, slash, frame = place.rpartition("/")
    name, mark, number = frame.rpartition("()" if "()" in frame else "#" if "#" in frame else "[")
    return f"{parent}{slash}{name}'{mark}{number}"
