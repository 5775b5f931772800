"""The records of one run: those of earlier lives, and what this life adds."""

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

import msgspec

from ..causes import with_causes
from ..kernel.environment import find_journal
from ..parallel.task_current import find_task
from .acknowledgement import Acknowledgement
from .activity import Activity, DurableWait, IsDue, ParkableTasks
from .cleanup import CallsBesideCleanup
from .delivery import Delivery
from .departures import Departures
from .diverged_lives import records_that_count
from .errors import JournalDivergenceError, JournalError, RunParked
from .frames import are_concurrent, comes_after, failure_place, intent_place, is_failure, withdrawn_place
from .gate import Gate, Hold as HoldEffect, nothing_written
from .holding import Holding
from .known_objects import KnownObjects
from .mailboxes import Inbox, Mailboxes
from .open_errors import OpenErrors, mark_error, marks_of
from .orders import RunOrders
from .parts import HandedOut
from .people import Questions
from .records import (
    DIVERGED,
    ENDED,
    PARKED,
    LifeTimes,
    Record,
    RecordIndex,
    RecordKind,
    failed_body,
    interrupted_body,
)
from .values import ValueRules, check_size, encode_value
from .writers import Writers

Durability: TypeAlias = Literal["response", "effect"]
NewCode: TypeAlias = Literal["error", "insert"]
Result = TypeVar("Result")
Append: TypeAlias = Callable[[Sequence[Record]], Acknowledgement[None]]
Hold: TypeAlias = Callable[[], Acknowledgement[None] | None]

ROOT = "run"
"""The place of the run itself."""

NO_DECISION = msgspec.msgpack.encode(())
"""The content of records of decisions that say nothing but that they were made."""


class RunRecorder:
    """Answers from the records of earlier lives, and records what is new.

    Args:
        run_id: The run.
        epoch: The number of this life.
        records: The records of earlier lives, in order.
        append: Hands records to the store.
        hold: Makes sure that this life still has the run; see `StoreThread.hold`.
        durability: The time at which the run waits for its records.
        new_code: The handling of code that the records do not have.
        mailboxes: The mailboxes of the store.
        rules: The rules for values and records.
        questions: The questions of the store.
        activity: What is in progress; None where the run is never parked.
        life: The name of this life in places; None for its number.
        lives: The times of lives of which there are not all records.
        writers: The processes that append to the run themselves; None where this one alone appends.
    """

    is_replay = False
    """Whether nothing is waited for, because only the records are of interest."""

    append_later: Append | None = None
    """Hands records to the store that may be written with the next ones; None to write all at once."""

    def __init__(
        self,
        *,
        run_id: str,
        epoch: int,
        records: Sequence[Record],
        append: Append,
        hold: Hold,
        durability: Durability,
        new_code: NewCode,
        mailboxes: Mailboxes,
        rules: ValueRules,
        questions: Questions,
        activity: Activity | None = None,
        life: str | None = None,
        lives: Mapping[int, LifeTimes] = MappingProxyType({}),
        writers: Writers | None = None,
    ) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.life = str(epoch) if life is None else life
        self._begun_at = time.time()
        self._durability: Durability = durability
        self.waits_for_responses = durability == "response"
        self.rules = rules
        self._append = append
        self.hold = hold
        self._new_code: NewCode = new_code
        counting = records_that_count(records)
        self._uncounted = _responses_beside(counting, records)
        self._index = RecordIndex(counting, lives)
        self.delivery = Delivery(counting, self._index)
        self.delivery.on_divergence = self._note_divergence
        self.gate = Gate(self._index, self.delivery, self._depending, self._check_begun)
        self.holding = Holding(
            self._index, self.delivery, is_active=new_code == "error" and not self.is_replay
        )
        self.identity_version = self._index.identity
        self.known_objects = KnownObjects(rules, is_replay=self.is_replay)
        self.departures = Departures()
        self._is_first = self._index.is_empty
        self._seq = records[-1].seq if records else 0
        self._error_before = sys.exc_info()[1]  # the program may enter the run while it handles one
        self._cleanup: int | None = None  # the first of the latest records, if all were made by cleanup
        self._after_errors: dict[int, tuple[Exception, int]] = {}  # the same, by the errors handled then
        self._written: set[tuple[str, RecordKind]] = set()
        self._asked: set[str] = set()  # the places of steps that asked a model
        self._open_errors = OpenErrors()
        self._cut_short: list[str] = []  # what calls that failed had recorded, and have not reached
        self._failed_groups: list[str] = []  # the records of decisions that follow from an error
        self._lock = threading.Lock()  # effects are recorded in threads, too
        self._handed_out: dict[str, HandedOut] = {}  # parts of the run that other processes record
        self._last_written: Acknowledgement[None] | None = None
        self.writers = writers
        self._root = ROOT
        self.beside_cleanup = CallsBesideCleanup(self._index)
        self.inbox = Inbox(run_id, mailboxes, self._index.of_kind("message"))
        self.questions = questions
        self.activity = activity
        self.orders = self.make_orders(ROOT)

    def make_orders(self, place: str) -> RunOrders:
        """The orders of operations in the run, or in a part of it."""
        orders = RunOrders(self._index, place, self.relative, skips=self._new_code == "insert")
        orders.on_full, orders.is_driven = self.write_orders, self.gate.is_driven
        orders.on_divergence = self.delivery.diverge
        return orders

    def relative(self, place: str) -> str:
        """A place below the run, whatever the run is within."""
        if self._root != ROOT:
            place = ROOT + place.removeprefix(self._root)
        return self.beside_cleanup.resolve(place) if self.beside_cleanup.has_calls else place

    def find_record(self, place: str, kind: RecordKind) -> Record | None:
        """Return the record of an earlier life at a place; this life has reached the place."""
        return self._index.find(place, kind)

    def knows(self, place: str) -> bool:
        """Whether an earlier life recorded something at a place, which this life need not have reached."""
        return self._index.knows(place)

    def has_response(self, place: str) -> bool:
        """Whether a request is answered, or fails, as in an earlier life, without reaching the place."""
        if self._index.has(place, "response"):
            return True
        return self._index.find_handled(place, "failure") is not None

    def find_handled(self, place: str, kind: RecordKind) -> Record | None:
        """Return the latest error at a place that the program handled in an earlier life."""
        return self._index.find_handled(place, kind)

    def add_failure(
        self, place: str, kind: RecordKind, body: bytes, error: BaseException | None
    ) -> Acknowledgement[None]:
        """Record an error at a place, where each life may meet another one; see `add`.

        The error is None for a decision that follows from one.
        """
        if self.gate.is_driven(place):
            return nothing_written()
        failed = failure_place(place, self.life)
        self._check_addition(failed, kind)
        written = self._write((failed, kind, body))
        self._open_errors.add(failed, find_task())
        self.note_raised(failed, error)
        return written

    def note_raised(self, failed: str, error: BaseException | None) -> None:
        """Note that a recorded error is raised, maybe again, and may end this life; see `add_failure`."""
        if error is None:
            self._failed_groups.append(failed)
        else:
            mark_error(error, failed)

    def handled_in(self, place: str) -> None:
        """Note that a part of the run has ended regularly: the program handled all errors in it."""
        if self._open_errors:
            self._write(*_marks("handled", self._open_errors.take_in(place)))

    def delivered(self, place: str, to: str | None) -> None:
        """Note that the errors in a place are raised in the caller's task; see `OpenErrors.deliver`."""
        if self._open_errors:
            self._open_errors.deliver(place, find_task(), to)

    def check_new(self, place: str) -> None:
        """Check that a place without a record may be new.

        Raises:
            JournalDivergenceError: The program has changed: what came after it was recorded.
        """
        if self._new_code == "error" and not self._is_first:
            self._index.check_new(place)
            if self._cut_short and not self._index.knows(place) and not is_failure(place):
                self.refuse_cut(lambda cut: comes_after(place, cut, self.delivery.is_closed), place)

    def refuse_cut(self, is_passed: Callable[[str], bool], place: str) -> None:
        """Refuse to go on at a place after a call that failed before it had reached what was recorded in it.

        Args:
            is_passed: Whether the program goes on after a place that was not reached.
            place: The place.
        """
        if (cut := next(filter(is_passed, self._cut_short), None)) is not None:
            raise JournalDivergenceError(
                f"{place}: the journal has {cut}, and this time a call has failed before it. Everything that "
                "a run reads from outside has to be the same in each of its lives: decorate what failed with "
                "nighthawk_async.once or repeatable, which record errors. If the program has changed, open "
                'the journal with changes="insert" to go on without it.',
                place=cut,
            )

    def is_behind(self, place: str) -> bool:
        """Whether an earlier life came further in a place than this life, or went on after it."""
        index = self._index
        return (
            bool(index.left_in(place))
            or index.find_decided(place) is not None
            or index.find_later(place) is not None
        )

    def encode_value(self, value: object, *, place: str, declared: object = None) -> bytes:
        """Write a value; see `values.encode_value`."""
        return encode_value(value, place=place, declared=declared, rules=self.rules)

    def add(self, place: str, kind: RecordKind, body: bytes) -> Acknowledgement[None]:
        """Record something new.

        Args:
            place: Its place, relative to the run.
            kind: Its kind.
            body: Its content.

        Returns:
            The acknowledgement that it is durable, as is everything that was recorded before.

        Raises:
            JournalDivergenceError: The program has changed: this place should not be new.
            JournalError: The run was taken over, or the store failed.
            JournalValueError: The content is too large.
        """
        check_size(body, f"the {kind}", place, self.rules.max_bytes)
        if self.gate.is_driven(place):
            return self.gate.end_driven(kind)
        self._check_addition(place, kind)
        handled = self._open_errors.take_followed(place, find_task()) if self._open_errors else ()
        return self._write(*_marks("handled", handled), (place, kind, body))

    def end(self) -> None:
        """Record that the life has ended regularly: the program has handled all errors."""
        self.handled_in(ROOT)
        self._write((ROOT, "life", ENDED))

    def fail(self, error: BaseException) -> None:
        """Record that an error ends the life.

        Args:
            error: The error. The errors in a group and their causes end the life, too.
        """
        failed = {place: None for each in with_causes(error) for place in marks_of(each)}
        errors = tuple(failed)
        for group in self._failed_groups:
            calls = group.rpartition("/")[0]
            is_cancelled = any(are_concurrent(calls, place) for place in errors)  # because of one of them
            if is_cancelled or any(place.startswith(f"{calls}/") for place in failed):
                failed[group] = None
        self._write(*_marks("unhandled", failed))
        if self._after_errors and self._after_errors.keys() <= {id(each) for each in with_causes(error)}:
            self._write((ROOT, "life", failed_body(min(first for _, first in self._after_errors.values()))))
        self._after_errors.clear()

    def _note_divergence(self) -> None:
        """Record that the life counts for nothing, at once: the process may be killed before it ends."""
        with suppress(JournalError):  # the next record fails, too
            self._write((ROOT, "life", DIVERGED))

    def interrupt(self) -> None:
        """Record that the life was cancelled: only cleanup came after the last work."""
        self._write((ROOT, "life", interrupted_body(self._cleanup)))

    def park(self) -> None:
        """Record that the life was parked."""
        self._write((ROOT, "life", PARKED))

    def _check_addition(self, place: str, kind: RecordKind) -> None:
        if (place, kind) in self._written or self._index.has(place, kind):
            raise JournalError(f"{place} would be recorded twice; please report this.")
        with self.delivery.noting_divergence():
            self.check_new(place)
        self._written.add((place, kind))

    def call_when_written(self, function: Callable[[], object]) -> None:
        """Call a function when what was recorded is durable; see `journal_ports.RunJournal`."""
        if self.writers is None or self._last_written is None:
            function()
        else:
            self._last_written.call_when_done(lambda _: function())

    def write_orders(self) -> None:
        """Write the orders of operations until now, without another record."""
        order = self.orders.take_pending(self.life)
        if order is not None:
            self._write(order)

    def enter(self, place: str) -> None:
        """Note that a function or an item has begun; see `journal_ports.RunJournal`."""
        if self.activity is not None:
            self.activity.open_place(self.relative(place))

    def exit(self, place: str) -> None:
        """Note that a function or an item has ended; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        self._close(place)
        if self.activity is not None:
            self.activity.close_place(place)

    def _close(self, place: str) -> None:
        """Expect nothing more in a place."""
        self.delivery.close(place)
        self.orders.leave(place)
        self._index.end_decided(place)

    def depending(self, place: str) -> AbstractContextManager[None]:
        """Note that a place waits only for other places; see `journal_ports.RunJournal`."""
        return self._depending(self.relative(place))

    def _depending(self, place: str) -> AbstractContextManager[None]:
        return nullcontext() if self.activity is None else self.activity.depending(place)

    async def wait_durably(self, wait: DurableWait, function: Callable[[], Awaitable[Result]]) -> Result:
        """Wait for something that comes whether a process works on the run or not.

        Args:
            wait: The wait.
            function: Waits, and records what has come before its next checkpoint.
        """
        return await (function() if self.activity is None else self.activity.wait_durably(wait, function))

    def open_tasks(self) -> ParkableTasks:
        """The task group of a run that may be parked; see `journal_ports.RunJournal`."""
        assert self.activity is not None
        return ParkableTasks(self.activity)

    @property
    def _is_parking(self) -> bool:
        return self.activity is not None and self.activity.is_parking

    def parking_error(self) -> RunParked | None:
        """The error that says that the run is parked; None while it is not about to be."""
        if self.activity is None or not self.activity.is_parking:
            return None
        wakes_at = self.activity.wakes_at
        when = "an answer or a message comes"
        if wakes_at is not None:
            when = f"{datetime.fromtimestamp(wakes_at, UTC):%Y-%m-%d %H:%M:%S} UTC, or {when}"
        return RunParked(
            f"run {self.run_id!r} is parked until {when}; enter it again to go on.",
            run_id=self.run_id,
            wakes_at=wakes_at,
        )

    def due_checks(self) -> tuple[IsDue, ...]:
        """Functions that look into the store for what a parked run waits for."""
        waits = () if self.activity is None else self.activity.parked_waits
        return tuple(wait.is_due for wait in waits if wait.is_due is not None)

    def check_may_begin(self) -> None:
        """Check that something may begin that must not be interrupted.

        Raises:
            RunParked: The run is being parked.
        """
        if (error := self.parking_error()) is not None:
            raise error

    def _check_begun(self, place: str) -> None:
        """Check that something new may begin in a place. In a replay nothing begins."""
        if not self.is_replay:
            self.check_new(place)

    def begin_new(self, place: str, hold: HoldEffect | None = None) -> Awaitable[None]:
        """Pass a place at which something begins that no earlier life has recorded; see `Gate`."""
        return self.gate.begin_new(place, hold)

    async def begin_new_wait(self, place: str) -> None:
        """Pass the place of a wait, as `begin_new` does; the wait belongs to the function that it is in.

        Args:
            place: The place.
        """
        await self.gate.begin_new(place.rpartition("/")[0])

    def begin_new_in_thread(self, place: str, hold: Callable[[], None] | None = None) -> None:
        """Pass a place as `begin_new` does, from synchronous code.

        Raises:
            DeadlineExceededError: A time limit expired here in an earlier life.
        """
        self.gate.begin_new_in_thread(place, hold)

    def find_intent(self, place: str) -> Record | None:
        """Return the record that a call has begun and may have taken effect; see `RecordIndex`."""
        return self._index.find_intent(place)

    def begin_effect(self, place: str, body: bytes) -> tuple[str, Acknowledgement[None]]:
        """Record that a call begins.

        Args:
            place: Its place.
            body: The digests of its arguments.

        Returns:
            The place of the record, and the acknowledgement that it is durable; see `withdraw`.
        """
        is_first = not self._index.has(place, "intent")
        intent = place if is_first else intent_place(place, self.life)
        return intent, self.add(intent, "intent", body)

    def withdraw(self, intent: str) -> None:
        """Record that a call was not made after all, so that no later life is in doubt about it."""
        with suppress(JournalError):  # the next record fails, too
            self._write((withdrawn_place(intent), "decision", NO_DECISION))

    def note_cancelled(self, place: str) -> None:
        """Record that a call was cancelled; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if self.gate.has_begun(place) and not self._is_parking:
            with suppress(JournalError):  # the next record fails, too
                self.add_failure(place, "decision", NO_DECISION, None)

    def _note_cleanup(self) -> None:
        """Note whether the caller runs because of an error or a cancellation, in a `finally` for example."""
        error = sys.exc_info()[1]
        if error is None or error is self._error_before:
            self._cleanup = None
            self._after_errors.clear()
        elif isinstance(error, Exception):
            self._cleanup = None
            self._after_errors.setdefault(id(error), (error, self._seq + 1))
        else:
            self._cleanup = self._cleanup or self._seq + 1
            self._after_errors.clear()

    def _write(self, *records: tuple[str, RecordKind, bytes]) -> Acknowledgement[None]:
        with self._lock:
            is_work = any(kind not in ("life", "unhandled") for _, kind, _ in records)
            order = self.orders.take_pending(self.life) if is_work else None
            if order is not None:
                records = (order, *records)
            if is_work:
                self._note_cleanup()
            now, first = time.time(), self._seq + 1
            self._seq += len(records)
            is_step = len(records) == 1 and records[0][1] == "step"
            append = self.append_later if is_step else None  # the response follows, or an error
            self._last_written = written = (append or self._append)(
                [
                    Record(seq=seq, place=place, kind=kind, epoch=self.epoch, at=now, body=body)
                    for seq, (place, kind, body) in enumerate(records, first)
                ]
            )
        if self.activity is not None:
            self.activity.note_record()
        return written


def _responses_beside(counting: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The responses among some records that do not count; see `records_that_count`."""
    if len(counting) == len(records):
        return []
    counted = {each.seq for each in counting}
    return [each for each in records if each.kind == "response" and each.seq not in counted]


def find_recorder() -> RunRecorder | None:
    """Return the journal of the active run; None without one."""
    journal = find_journal()
    assert journal is None or isinstance(journal, RunRecorder)
    return journal


def _marks(kind: RecordKind, places: Iterable[str]) -> list[tuple[str, RecordKind, bytes]]:
    return [(place, kind, b"") for place in places]
