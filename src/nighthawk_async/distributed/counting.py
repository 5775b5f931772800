"""Counting once what a call consumes in one life of a run, however often it is placed.

A call that is placed again goes through everything again, and finds what was recorded. So each charge has a
key, and so has each usage: its kind and its place. The program counts the keys of a call (`Counted`), and
hands them to the next worker, which reports only what has not counted yet (`Counting`).

A request whose response is not recorded is sent again, and counts again. The charge of a response reaches the
program before its record does, so what is recorded has counted. Without a journal, a call that is placed anew
does everything again, and everything counts again: its keys are empty.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

from ..journal.part_journal import PartJournal
from ..kernel.calls import current_place
from ..kernel.environment import find_journal

Kind: TypeAlias = Literal["request", "charge", "step", "correction", "reading"]

EACH_TIME = ""
"""The key of what counts each time."""


class Counted:
    """The keys that have counted for a call, in the program."""

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()

    def add(self, key: str) -> None:
        """Note that something has counted."""
        if key != EACH_TIME:
            self._numbers[key] += 1

    def numbers(self) -> dict[str, int]:
        """Return the number of times that each key has counted."""
        return dict(self._numbers)


class Counting:
    """Decides on a worker what counts for its call. Thread-safe.

    Args:
        counted: How often each key had counted when the call was placed.
    """

    def __init__(self, counted: Mapping[str, int]) -> None:
        self._counted = counted
        self._lock = threading.Lock()
        self._passed: Counter[str] = Counter()
        self._settled: set[str] = set()

    def has_counted(self, place: str) -> bool:
        """Whether a request has counted on a worker that was lost.

        Args:
            place: Its place, relative to the run.
        """
        return f"request {place}" in self._counted

    def has_response(self) -> bool:
        """Whether the response to a request in the current place is recorded, so that it is not sent."""
        journal = find_journal()
        return isinstance(journal, PartJournal) and journal.has_response(journal.relative(current_place()))

    def take_key(self, kind: Kind) -> str | None:
        """Return the key of what happens in the current place; None for what has counted before.

        Args:
            kind: Its kind. A request counts unless its response is recorded, a charge that is no request, a
                step, a correction and a reading count once in their place.
        """
        journal = find_journal()
        if not isinstance(journal, PartJournal):
            return EACH_TIME
        place = journal.relative(current_place())
        key = f"{kind} {place}"
        if kind == "request" and journal.has_response(place):
            return None if self.has_counted(place) else key
        result = None if kind in ("correction", "reading") else journal.find_record(place, "result")
        if result is not None and result.epoch == journal.epoch:
            return None  # of a stage, or a tool: it has counted before that was recorded
        if result is None and kind == "request":
            return key
        with self._lock:
            number, self._passed[key] = self._passed[key], self._passed[key] + 1
        return None if number < self._counted.get(key, 0) else key

    def note_settled(self, key: str) -> None:
        """Note that the charge of a request has reported its usage as well."""
        if key != EACH_TIME:
            self._settled.add(key)

    def is_settled(self, key: str) -> bool:
        """Whether the charge of a request has reported its usage as well."""
        return key in self._settled
