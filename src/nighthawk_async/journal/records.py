"""Records of a run, and their index by place."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import JournalDivergenceError

RecordKind: TypeAlias = Literal[
    "life",
    "step",
    "answer",
    "response",
    "failure",
    "intent",
    "result",
    "decision",
    "value",
    "question",
    "message",
]
"""Kinds of records.

- life: a life of the run begins, has ended regularly, or was parked.
- step: a step begins, with digests of its inputs.
- answer: the answer of an executor that asked no model through the journal.
- response, failure: the response of a model, or the error of a request.
- intent, result: a call that is an effect is about to begin, and has ended.
- decision: what time has decided.
- value: a value that would be another one in each life, a wake-up time, the answer or the vote of a person.
- question: people are about to be asked.
- message: a message of a mailbox was received, or none in time.
"""


ENDED = b"ended"
"""The content of the record of a life that has ended regularly."""

PARKED = b"parked"
"""The content of the record of a life that has ended because everything in the run waits."""


class Record(Struct, frozen=True, kw_only=True):
    """One record.

    Args:
        seq: Its number in the run, from 1.
        place: Its place, relative to the run.
        kind: Its kind.
        epoch: The number of the life that recorded it.
        at: The time, in seconds since 1970.
        body: Its content.
    """

    seq: int
    place: str
    kind: RecordKind
    epoch: int
    at: float
    body: bytes = b""


class RecordIndex:
    """The records of a run by place, and the places that this life has reached.

    Args:
        records: The records of earlier lives, in order.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records: dict[tuple[str, RecordKind], Record] = {}
        self._frames: dict[
            str, dict[str, dict[int, int]]
        ] = {}  # by place and frame in it: the last of each life
        self._left: dict[str, dict[str, None]] = {}  # by place: the frames that this life has not reached
        self._errors: dict[tuple[str, RecordKind], list[Record]] = {}  # by the place that has them below it
        self._reached: set[str] = set()
        self._ended: set[int] = set()
        for record in records:
            if record.kind != "life":
                self._add(record)
            elif record.body == ENDED:
                self._ended.add(record.epoch)

    def _add(self, record: Record) -> None:
        self._records[record.place, record.kind] = record
        failed, _, frame = record.place.rpartition("/")
        if frame.startswith("failed["):
            self._errors.setdefault((failed, record.kind), []).append(record)
        place = ""
        for frame in record.place.split("/"):
            self._frames.setdefault(place, {}).setdefault(frame, {})[record.epoch] = record.seq
            if _is_awaited(frame):
                self._left.setdefault(place, {})[frame] = None
            place = f"{place}/{frame}" if place else frame

    def find(self, place: str, kind: RecordKind) -> Record | None:
        """Return the record of an earlier life; this life has reached the place."""
        self.reach(place)
        return self._records.get((place, kind))

    def of_kind(self, kind: RecordKind) -> list[Record]:
        """Return the records of a kind, reached or not, in order."""
        return [record for (_, each), record in self._records.items() if each == kind]

    def reach(self, place: str) -> None:
        """Note that this life has reached a place."""
        while place and place not in self._reached:
            self._reached.add(place)
            place, _, frame = place.rpartition("/")
            self._left.get(place, {}).pop(frame, None)

    def check_new(self, place: str) -> None:
        """Check that a place without a record may be new: what came after it was not recorded.

        Raises:
            JournalDivergenceError: It was, so the program has changed.
        """
        parent, new = self._first_new(place)
        if parent is None or not _is_awaited(new):
            return
        left = self.left_in(parent)
        if left:
            raise JournalDivergenceError(
                f"{parent}/{new} is not in the journal, which has {left[0]} there: the program has changed "
                "since. Guard new code with nighthawk_async.journal.patched(name), or open the journal with "
                'changes="insert".',
                place=f"{parent}/{new}",
            )

    def left_in(self, parent: str) -> list[str]:
        """The frames of a place, in the order of its records, that this life has not reached."""
        return list(self._left.get(parent, ()))

    def find_passed(self, place: str, kind: RecordKind) -> Record | None:
        """Return the latest error of a place that the life which recorded it went on after.

        Args:
            place: The place, which has the records below it; see `failure_place`.
            kind: The kind of the record.
        """
        return next(
            (each for each in reversed(self._errors.get((place, kind), ())) if self._is_passed(each)), None
        )

    def _is_passed(self, record: Record) -> bool:
        """Whether the life went on after what it recorded, in the same task or in one that waited for it.

        An error that ended an earlier life is no reason to end the next one in the same way. What other tasks
        recorded afterwards says nothing, nor what later lives recorded, so only what one task did after the
        other in the same life counts.
        """
        if record.epoch in self._ended:
            return True
        place = record.place
        while "/" in place:
            place, _, frame = place.rpartition("/")
            if _is_awaited(frame) and any(
                each != frame and epochs.get(record.epoch, 0) > record.seq and _is_awaited(each)
                for each, epochs in self._frames[place].items()
            ):
                return True
        return False

    def _first_new(self, place: str) -> tuple[str | None, str]:
        """The first frame of a place that nothing was recorded in, and the place that it is in."""
        parent = ""
        for frame in place.split("/"):
            frames = self._frames.get(parent)
            if frames is None:
                return None, ""
            if frame not in frames:
                return parent, frame
            parent = f"{parent}/{frame}" if parent else frame
        return None, ""


def failure_place(place: str, epoch: int) -> str:
    """The place of an error that a life met in a place; each life may meet another one."""
    return f"{place}/failed[{epoch}]"


def _is_sequential(frame: str) -> bool:
    """Whether a frame is one of those that a task takes one after the other: functions, blocks, requests."""
    name = frame.rpartition("[")[0]
    return "~" not in name and (name.endswith("()") or "#" in name or name in ("turn", "attempt"))


_COMBINATORS = frozenset({"ensemble", "gather", "map", "race", "settle", "vote"})


def _is_awaited(frame: str) -> bool:
    """Whether a task waits for the end of a frame before it takes the next one."""
    return _is_sequential(frame) or frame.rpartition("[")[0] in _COMBINATORS
