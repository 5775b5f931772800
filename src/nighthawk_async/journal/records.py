"""Records of a run, and their index by place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NoReturn, TypeAlias

import msgspec
from msgspec import Struct

from ..values.stable_digest import VERSION
from .errors import JournalDivergenceError
from .frames import (
    function_place,
    is_awaited,
    is_awaited_before,
    is_failure,
    is_item,
    is_within,
    withdrawn_place,
)

RecordKind: TypeAlias = Literal[
    "life",
    "step",
    "answer",
    "response",
    "failure",
    "handled",
    "unhandled",
    "intent",
    "result",
    "decision",
    "value",
    "question",
    "message",
    "order",
]
"""The names of the kinds of records, whose facts are in `KINDS`."""


class KindFacts(Struct, frozen=True, kw_only=True):
    """Facts about a kind of records.

    Args:
        meaning: The event that its records note.
        is_paid: Whether that was paid, or done outside, or said by people.
        is_outside: Whether others know of that, or lost it to the run: it happened, whatever the program.
        has_texts: Whether its records hold texts, from which copies of the run remove secrets; others have
            digests and numbers alone.
    """

    meaning: str
    is_paid: bool = False
    is_outside: bool = False
    has_texts: bool = True


KINDS: Mapping[RecordKind, KindFacts] = MappingProxyType(
    {
        "life": KindFacts(
            meaning="A life of the run begins, has ended regularly, was cancelled or parked, or has found "
            "another program.",
            has_texts=False,
        ),
        "step": KindFacts(meaning="A step begins, with digests of its inputs.", has_texts=False),
        "answer": KindFacts(
            meaning="An executor that asked no model through the journal has answered.", is_paid=True
        ),
        "response": KindFacts(meaning="A model has responded.", is_paid=True),
        "failure": KindFacts(meaning="A request to a model has failed."),
        "handled": KindFacts(meaning="The program went on after an error.", has_texts=False),
        "unhandled": KindFacts(meaning="An error has ended a life.", has_texts=False),
        "intent": KindFacts(
            meaning="A call that is an effect is about to begin.",
            is_paid=True,
            is_outside=True,
            has_texts=False,
        ),
        "result": KindFacts(meaning="A call that is an effect has ended.", is_paid=True),
        "decision": KindFacts(meaning="Time has decided.", has_texts=False),
        "value": KindFacts(
            meaning="A value that would be another one in each life, a wake-up time, the answer or the vote "
            "of a person.",
        ),
        "question": KindFacts(meaning="People are about to be asked.", is_paid=True, is_outside=True),
        "message": KindFacts(
            meaning="A message of a mailbox was received, or none in time.", is_paid=True, is_outside=True
        ),
        "order": KindFacts(
            meaning="The operations on mailboxes, locks, channels and pools since the record before, in "
            "their order.",
        ),
    }
)
"""One row for each kind of records, in the order in which records of one place are listed."""

ENDED = b"ended"
"""The content of the record of a life that has ended regularly."""

INTERRUPTED = b"interrupted"
"""The content of the record of a life that was cancelled; see `interrupted_body`."""

PARKED = b"parked"
"""The content of the record of a life that has ended because everything in the run waits."""

DIVERGED = b"diverged"
"""The content of the record of a life that found another program; see `records_that_count`."""


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


_IDENTITY = " identity="


def life_body(trace_parent: str | None, identity: int) -> bytes:
    """The body of the record of a life that begins: its trace, and the version of the digests in places."""
    return f"{trace_parent or ''}{f'{_IDENTITY}{identity}' if identity > 1 else ''}".encode()


def interrupted_body(cleanup: int | None) -> bytes:
    """The body of the record of a life that was cancelled, with the number of the first record of cleanup."""
    return INTERRUPTED if cleanup is None else INTERRUPTED + f" {cleanup}".encode()


_AFTER_ERROR = b"failed "


def failed_body(cleanup: int) -> bytes:
    """The body of the record of a life that an error ended, with the number of the first record after it."""
    return _AFTER_ERROR + str(cleanup).encode()


def _is_interruption(record: Record) -> bool:
    return record.body == PARKED or record.body.partition(b" ")[0] == INTERRUPTED


def _is_failure(record: Record) -> bool:
    return record.body.startswith(_AFTER_ERROR)


def trace_of_life(record: Record) -> str:
    """The trace of a life, from the record of its beginning; empty without one."""
    return record.body.decode().partition(_IDENTITY)[0]


def begins_life(record: Record) -> bool:
    """Whether a record is that of the beginning of a life, and not of its end."""
    is_end = record.body in (ENDED, DIVERGED) or _is_interruption(record) or _is_failure(record)
    return record.kind == "life" and not is_end


class LifeTimes(Struct, frozen=True, kw_only=True):
    """The times of a life.

    Args:
        first_at: The time of its first record, in seconds since 1970.
        last_at: The time of its last record.
        last_work: The number of its last step or response; 0 for none.
        is_interrupted: Whether it was cancelled, or parked.
    """

    first_at: float
    last_at: float
    last_work: int = 0
    is_interrupted: bool = False


class Intent(Struct, frozen=True, array_like=True):
    """The record that a call begins.

    Args:
        version: The version of the digests.
        inputs: The digests of the arguments, by name.
        is_harmless: Whether the call may be made any number of times, as `nighthawk_async.repeatable` says.
    """

    version: int
    inputs: dict[str, str]
    is_harmless: bool = False


def read_intent(record: Record) -> Intent:
    """Return the record of a beginning; one without arguments for another record."""
    if record.kind != "intent":
        return Intent(VERSION, {})
    body = msgspec.msgpack.decode(record.body, type=Intent | dict[str, str])
    return body if isinstance(body, Intent) else Intent(1, body)


class RecordIndex:
    """The records of a run by place, and the places that this life has reached.

    Args:
        records: The records of earlier lives, in order.
        lives: The times of lives of which there are not all records.
    """

    def __init__(
        self, records: Iterable[Record], lives: Mapping[int, LifeTimes] = MappingProxyType({})
    ) -> None:
        self._records: dict[tuple[str, RecordKind], Record] = {}
        self._frames: dict[str, dict[str, int]] = {}  # by place and frame in it: the first record's number
        self._left: dict[str, dict[str, None]] = {}  # by place: the frames that this life has not reached
        self._foreign: dict[str, dict[str, None]] = {}  # as `_left`, the frames of tasks started by hand
        self._items: dict[str, dict[str, None]] = {}  # as `_left`, the items of combinators
        self._errors: dict[tuple[str, RecordKind], list[Record]] = {}  # by the place that has them below it
        self._reached: set[str] = set()
        self._lost: dict[str, Record] = {}  # by place: see `note_lost`
        self._decided: set[str] = set()  # calls in progress whose ends a recorded decision knows
        self.dropped: set[str] = set()  # places that later lives may leave out, since an error ended a life
        self._times: dict[int, tuple[float, float]] = {}  # of the first and the last record of each life
        self._last_work: dict[int, int] = {}  # the number of the last step or response of each life
        self._interrupted: set[int] = set()
        self.trace_parent: str | None = None  # of the first life that was traced
        self.orders: list[Record] = []  # which are at no place that a program reaches
        self.identity = VERSION  # of the digests in places
        has_begun = False
        cleanups: list[tuple[int, int]] = []
        for record in records:
            begun_at = self._times.get(record.epoch, (record.at, 0.0))[0]
            self._times[record.epoch] = begun_at, record.at
            if record.kind == "order":
                self.orders.append(record)
            elif record.kind != "life":
                self._add(record)
            elif _is_interruption(record):
                self._interrupted.add(record.epoch)
                if cleanup := record.body.partition(b" ")[2]:
                    cleanups.append((int(cleanup), record.seq))
            elif _is_failure(record):
                cleanups.append((int(record.body.removeprefix(_AFTER_ERROR)), record.seq))
            elif begins_life(record):
                trace_parent, _, identity = record.body.decode().partition(_IDENTITY)
                self.trace_parent = self.trace_parent or trace_parent or None
                self.identity = self.identity if has_begun else int(identity or 1)
                has_begun = True
            if record.kind in ("step", "response"):
                self._last_work[record.epoch] = record.seq
        for epoch, life in lives.items():
            self._times[epoch] = life.first_at, life.last_at
            self._last_work[epoch] = life.last_work
            if life.is_interrupted:
                self._interrupted.add(epoch)
        for first, end in cleanups:
            self._expect_no_cleanup(first, end)
        self._failed_at: dict[int, int] = {}  # by life: the number of the first error that ended it
        for record in self.of_kind("unhandled"):
            self._expect_nothing_after(record.place)
            above, _, last = record.place.rpartition("/")
            failed = self._frames[above][last]
            self._failed_at[record.epoch] = min(failed, self._failed_at.get(record.epoch, failed))

    def _add(self, record: Record) -> None:
        self._records[record.place, record.kind] = record
        failed, _, frame = record.place.rpartition("/")
        if frame.startswith("failed["):
            self._errors.setdefault((failed, record.kind), []).append(record)
        place = ""
        for frame in record.place.split("/"):
            self._frames.setdefault(place, {}).setdefault(frame, record.seq)
            if is_awaited(frame):
                self._left.setdefault(place, {})[frame] = None
            elif "~" in frame:
                self._foreign.setdefault(place, {})[frame] = None
            elif frame.startswith("item["):
                self._items.setdefault(place, {})[frame] = None
            place = f"{place}/{frame}" if place else frame

    def find(self, place: str, kind: RecordKind) -> Record | None:
        """Return the record of an earlier life; this life has reached the place."""
        self.reach(place)
        return self._records.get((place, kind))

    def has(self, place: str, kind: RecordKind) -> bool:
        """Whether an earlier life recorded something at a place, which this life need not have reached."""
        return (place, kind) in self._records

    def knows(self, place: str) -> bool:
        """Whether an earlier life recorded something at a place or in it."""
        parent, _, frame = place.rpartition("/")
        return frame in self._frames.get(parent, ())

    def has_below(self, place: str) -> bool:
        """Whether an earlier life recorded something below a place."""
        return place in self._frames

    def seconds_counted(self, place: str, kind: RecordKind) -> float:
        """The seconds that counted for a limit in earlier lives.

        In each life they count from the record that says so to the last record of the life. The life in which
        the block of the limit last ended with an error, and all before it, do not count.

        Args:
            place: The place of the limit.
            kind: The kind of its records.
        """
        errors = self._errors.get((place, kind), ())
        last_error = max((record.epoch for record in errors), default=0)
        counted: dict[int, Record] = {}  # the first of each life
        for frame in self._frames.get(place, ()):
            record = self._records.get((f"{place}/{frame}", kind)) if frame.startswith("counted[") else None
            if record is not None and record.epoch > last_error:
                counted.setdefault(record.epoch, record)
        return sum(max(0.0, self._times[each.epoch][1] - each.at) for each in counted.values())

    def seconds_until(self, record: Record) -> float:
        """The seconds from the beginning of the life of a record until the record."""
        return max(0.0, record.at - self._times[record.epoch][0])

    def was_interrupted_at(self, record: Record) -> bool:
        """Whether a record belongs to the end of a life that was cancelled: only cleanup came after it."""
        return record.epoch in self._interrupted and record.seq > self._last_work.get(record.epoch, 0)

    def is_after_end(self, record: Record) -> bool:
        """Whether a life was ending when it recorded something: it was cancelled, or an error ended it."""
        failed_at = self._failed_at.get(record.epoch, record.seq)
        return record.seq > failed_at or self.was_interrupted_at(record)

    def may_be_left_out(self, place: str) -> bool:
        """Whether later lives may leave out what is at a place, since something ended a life before it."""
        return bool(self.dropped) and any(is_within(place, each) for each in self.dropped)

    def lives(self) -> dict[int, LifeTimes]:
        """Return the times of all lives by number."""
        return {
            epoch: LifeTimes(
                first_at=first_at,
                last_at=last_at,
                last_work=self._last_work.get(epoch, 0),
                is_interrupted=epoch in self._interrupted,
            )
            for epoch, (first_at, last_at) in self._times.items()
        }

    def records_in(self, place: str) -> list[Record]:
        """Return the records of a place and of all places in it, reached or not, in order."""
        found: list[Record] = []
        places = [place]
        while places:
            each = places.pop()
            found += [record for kind in KINDS if (record := self._records.get((each, kind))) is not None]
            places += [f"{each}/{frame}" for frame in self._frames.get(each, ())]
        found += [record for record in self.orders if is_within(record.place, place)]
        return sorted(found, key=lambda record: record.seq)

    def of_kind(self, kind: RecordKind) -> list[Record]:
        """Return the records of a kind, reached or not, in order."""
        return [record for (_, each), record in self._records.items() if each == kind]

    def reach(self, place: str) -> None:
        """Note that this life has reached a place."""
        while self._frames and place and place not in self._reached:  # none in the first life of a run
            self._reached.add(place)
            place, _, frame = place.rpartition("/")
            self._left.get(place, {}).pop(frame, None)
            if "~" in frame:
                self._foreign.get(place, {}).pop(frame, None)
                self._lost.pop(f"{place}/{frame}" if place else frame, None)
            elif frame.startswith("item["):
                self._items.get(place, {}).pop(frame, None)

    @property
    def is_empty(self) -> bool:
        """Whether no earlier life recorded anything in a place."""
        return not self._frames

    def is_reached(self, place: str) -> bool:
        """Whether this life has reached a place."""
        return place in self._reached

    def is_interchanged(self, place: str) -> bool:
        """Whether a call with equal arguments, in a task that was started by hand, was reached instead."""
        while place:
            parent, _, frame = place.rpartition("/")
            name, _, number = frame.rpartition("[")
            if "~" in name and number != "0]" and f"{parent}/{name}[0]" in self._reached:
                return place not in self._reached
            place = parent
        return False

    def lost_in(self, parent: str) -> list[Record]:
        """Find records of tasks started by hand in a place that this life has not reached.

        Tasks that had only begun something do not count, nor do calls with arguments that were reached less
        often, or those of tasks that went on after the place had ended.

        Returns:
            The first record of each that counts.
        """
        return list(self._find_lost(parent).values())

    def left_beside(self, place: str, *, in_worker: bool) -> Iterator[Record]:
        """Find records beside a place that this life has not reached, and that wait for nothing new.

        Beside an item are other items of its combinator; beside a worker thread, the calls that the code
        around it makes itself. Calls that had only begun something do not count.

        Args:
            place: The place.
            in_worker: Whether it is reached in a worker thread.

        Returns:
            The first record of each that counts.
        """
        *parents, last = place.split("/")
        parent = ""
        for frame in parents:
            if frame.startswith("item["):
                yield from self._paid_in(parent, self._items, but=frame)
            parent = f"{parent}/{frame}" if parent else frame
        if in_worker and "~" in last:
            yield from self._paid_in(parent, self._left, but=last)

    def _paid_in(
        self, parent: str, frames: Mapping[str, Mapping[str, None]], *, but: str
    ) -> Iterator[Record]:
        for each in tuple(frames.get(parent, ())):
            if each != but and (paid := self._find_paid(f"{parent}/{each}")) is not None:
                yield paid

    def _find_paid(self, place: str) -> Record | None:
        """The first record in a place that something was paid for, and that counts; None for none."""
        if place in self.dropped:
            return None
        paid = next((each for each in self.records_in(place) if self.is_paid(each)), None)
        return None if paid is None or self.is_after_end(paid) else paid

    def note_lost(self, parent: str) -> None:
        """Note that a place has ended regularly, while tasks that were started by hand in it may go on."""
        if self._foreign.get(parent):
            self._lost.update(self._find_lost(parent))

    def forget_lost(self, place: str) -> None:
        """Expect nothing more of such tasks in a place, which an error has left."""
        for each in [each for each in self._lost if is_within(each, place)]:
            del self._lost[each]

    def lost_after(self, place: str | None = None) -> list[Record]:
        """Find what such tasks had recorded in places that have ended, and have not reached in this life.

        Args:
            place: The place that these are in; None for the whole run.
        """
        lost = tuple(self._lost.items()) if self._lost else ()  # beats look from another thread
        inside = lost if place is None else [(at, each) for at, each in lost if is_within(at, place)]
        return [each for at, each in inside if not self.is_interchanged(at)]

    def _find_lost(self, parent: str) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for frame in self._foreign.get(parent, ()):
            place = f"{parent}/{frame}"
            if place in self.dropped or self.is_interchanged(place):
                continue
            paid = next((each for each in self.records_in(place) if self.is_paid(each)), None)
            if paid is not None and not self._has_ended_before(parent, paid.seq):
                found[place] = paid
        return found

    def leave_to_others(self, place: str) -> None:
        """Expect nothing in a place here: another process goes through what was recorded there."""
        places = [place]
        while places:
            each = places.pop()
            self._left.pop(each, None)
            self._foreign.pop(each, None)
            places += [f"{each}/{frame}" for frame in self._frames.get(each, ())]

    def unbegun_in(self, parent: str, is_begun: Callable[[str], bool]) -> list[str]:
        """The items of a combinator, or the tasks of a block, which earlier lives had and this one has not.

        Those that had only begun something do not count, nor do those in which an earlier life cancelled
        something before it went on.

        Args:
            parent: The place of the combinator, or of the block.
            is_begun: Whether an item or a task has begun in this life, and ended.
        """
        found: list[str] = []
        for frame in self._frames.get(parent, ()):
            place = f"{parent}/{frame}"
            if not is_item(frame) or place in self._reached or is_begun(place):
                continue
            if any(map(self.is_paid, self.records_in(place))) and not self._was_cancelled(place):
                found.append(frame)
        return found

    def is_paid(self, record: Record) -> bool:
        """Whether a record is of something that was paid or done, and that did not end with an error."""
        is_withdrawn = record.kind == "intent" and self.has(withdrawn_place(record.place), "decision")
        return KINDS[record.kind].is_paid and not is_withdrawn and "/failed[" not in record.place

    def _has_ended_before(self, place: str, seq: int) -> bool:
        """Whether an earlier life had come further than a place before a record."""
        while place:
            place, _, frame = place.rpartition("/")
            frames = self._frames.get(place, {})
            begun_at = frames.get(frame, seq)
            if is_awaited(frame) and any(
                begun_at < first < seq for each, first in frames.items() if each != frame and is_awaited(each)
            ):
                return True
        return False

    def ends_cancelled(self, record: Record) -> bool:
        """Whether nothing came after a record in its function before an earlier life cancelled that."""
        function = function_place(record.place)
        if function is None or (function, "decision") not in self._errors:
            return False
        return all(
            each.seq <= record.seq or each.kind in ("decision", "handled")
            for each in self.records_in(function)
        )

    def items_in(self, place: str) -> frozenset[int]:
        """The numbers of the calls of a group in which something was recorded."""
        frames = self._frames.get(place, ())
        return frozenset(int(frame[5:-1]) for frame in frames if frame.startswith("item["))

    def find_intent(self, place: str) -> Record | None:
        """Return the record that a call has begun and may have taken effect; None where it has none.

        A call that was not made after all is recorded as withdrawn. A later life records anew that it begins.
        """
        self.reach(place)
        anew = [f"{place}/{frame}" for frame in self._frames.get(place, ()) if frame.startswith("begun[")]
        for each in (*reversed(anew), place):
            record = self._records.get((each, "intent"))
            if record is not None and (withdrawn_place(each), "decision") not in self._records:
                return record
        return None

    def check_new(self, place: str) -> None:
        """Check that a place without a record may be new.

        What came after it, or after a call that it is in, was not recorded, and what came before it in its
        task was reached.

        Raises:
            JournalDivergenceError: It was, or was not, so the program has changed.
        """
        if not self._frames:
            return  # as in the first life of a run
        parent, new = self._first_new(place)
        if parent is not None and is_awaited(new) and (left := self.left_in(parent)):
            self._refuse_new(f"{parent}/{new}", f"has {left[0]} there")
        if (passed := self._find_passed(place)) is not None:
            self._refuse_new(place, f"has {passed}, which the program has passed without reaching it")
        if self._decided and not self.knows(place) and (ended := self.find_decided(place)) is not None:
            self._refuse_new(place, f"knows that {ended} had ended")
        if self.knows(place) or is_failure(place):
            return
        if (later := self.find_later(place)) is not None:
            self._refuse_new(place, f"has {later} after what it is in")

    def _find_passed(self, place: str) -> str | None:
        """Return a place before one that this place is in, which earlier lives had reached, not this one."""
        parent = ""
        for frame in place.split("/"):
            frames = self._frames.get(parent)
            if frames is None or frame not in frames:
                return None
            if self._left.get(parent) and is_awaited(frame):
                for each in self.left_in(parent):  # in the order of their first records
                    if frames[each] >= frames[frame]:
                        break
                    if any(record.kind != "step" for record in self.records_in(f"{parent}/{each}")):
                        return f"{parent}/{each}"
            parent = f"{parent}/{frame}" if parent else frame
        return None

    def find_later(self, place: str) -> str | None:
        """Return a place that earlier lives had reached after a call ended that a place is in; else None.

        Tasks started by hand may go on after that end. A scope of the program may have cancelled the call.
        """
        while place:
            parent, _, frame = place.rpartition("/")
            left, frames = self._left.get(parent), self._frames.get(parent, {})
            if left and frame in frames:
                for each in left:
                    if is_awaited_before(frame, each) and frames[each] > frames[frame]:
                        return None if self._was_cancelled(place) else f"{parent}/{each}"
            if "~" in frame:
                return None
            place = parent
        return None

    def _was_cancelled(self, place: str) -> bool:
        """Whether an earlier life cancelled something in a place before it went on."""
        return any(each.kind == "decision" and self.is_handled(each) for each in self.records_in(place))

    def _refuse_new(self, place: str, why: str) -> NoReturn:
        raise JournalDivergenceError(
            f"{place} is not in the journal, which {why}: the program has changed since. Guard new code with "
            'nighthawk_async.journal.patched(name), or open the journal with changes="insert".',
            place=place,
        )

    def begin_decided(self, place: str) -> None:
        """Note that a call had ended in an earlier life, which has decided that it counts."""
        self._decided.add(place)

    def end_decided(self, place: str) -> None:
        """Note that such a call has ended in this life. Tasks that it has started may go on."""
        self._decided.discard(place)

    def find_decided(self, place: str) -> str | None:
        """Return the call in progress that a place is in, if an earlier life knew its end; else None.

        Tasks of its own that run beside it may come further than in that life.
        """
        while place and place not in self._decided:
            parent, _, frame = place.rpartition("/")
            beside = f"{parent}/{frame.rpartition('[')[0]}[0]" if "~" in frame else parent
            if not is_awaited(frame) and self.knows(beside):
                return None
            place = parent
        return place or None

    def left_in(self, parent: str) -> list[str]:
        """The frames of a place, in the order of its records, that this life has not reached."""
        return list(self._left.get(parent, ()))

    @property
    def has_errors(self) -> bool:
        """Whether an earlier life recorded an error."""
        return bool(self._errors)

    def find_handled(self, place: str, kind: RecordKind) -> Record | None:
        """Return the latest error of a place that the program handled, and that ended no life.

        Args:
            place: The place, which has the records below it; see `failure_place`.
            kind: The kind of the record.
        """
        errors = reversed(self._errors.get((place, kind), ()))
        return next((each for each in errors if self.is_handled(each)), None)

    def is_handled(self, record: Record) -> bool:
        """Whether the program handled an error in the life that recorded it."""
        marks = ((record.place, "handled") in self._records, (record.place, "unhandled") in self._records)
        return marks == (True, False)

    def _expect_nothing_after(self, failed: str) -> None:
        """Let later lives do something else than what was done after an error while it ended a life."""
        above, _, last = failed.rpartition("/")
        raised_at = self._frames[above][last]
        parent = ""
        for frame in above.split("/"):
            left = self._left.get(parent, {}) if is_awaited(frame) else {}
            for each in [each for each in left if each != frame and self._frames[parent][each] > raised_at]:
                del left[each]
                self.dropped.add(f"{parent}/{each}" if parent else each)
            for each in self._foreign.get(parent, ()):
                if each != frame and self._frames[parent][each] > raised_at:
                    self.dropped.add(f"{parent}/{each}")
            parent = f"{parent}/{frame}" if parent else frame

    def _expect_no_cleanup(self, first: int, end: int) -> None:
        """Let later lives go on without what was done while a life was cancelled, between two records."""
        for here in (self._left, self._foreign):
            for parent, frames in here.items():
                for each in [each for each in frames if first <= self._frames[parent][each] < end]:
                    if here is self._left:
                        del frames[each]
                    self.dropped.add(f"{parent}/{each}" if parent else each)

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
