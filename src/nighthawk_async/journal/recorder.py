"""The records of one run: those of earlier lives, and what this life adds."""

import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, cast

import anyio
import msgspec
from anyio import from_thread

from ..causes import with_causes
from ..parallel import DeadlineExceededError, under_thread_deadlines
from ..parallel.decided_limits import reach_new
from ..parallel.event_loop import find_task, is_loop_thread, is_worker_thread
from ..runtime.environment import find_journal
from .acknowledgement import Acknowledgement
from .activity import Activity, DurableWait, IsDue, ParkedSignal
from .errors import JournalDivergenceError, JournalError, RunParked
from .known_objects import KnownObjects
from .mailboxes import Inbox, Mailboxes
from .open_errors import OpenErrors, mark_error, marks_of
from .parts import HandedOut, PartEnd, RunPart
from .people import Questions
from .records import (
    ENDED,
    LifeTimes,
    Record,
    RecordIndex,
    RecordKind,
    are_concurrent,
    failure_place,
    function_place,
    is_within,
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

_GRACE_SECONDS = 60.0
"""The time beyond that of an earlier life in which a call is expected to be cancelled again."""


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
        self._index = RecordIndex(records, lives)
        self.identity_version = self._index.identity
        self.known_objects = KnownObjects(rules, is_replay=self.is_replay)
        self._seq = records[-1].seq if records else 0
        self._written: set[tuple[str, RecordKind]] = set()
        self._asked: set[str] = set()  # the places of steps that asked a model
        self._open_errors = OpenErrors()
        self._failed_groups: list[str] = []  # the records of decisions that follow from an error
        self._lock = threading.Lock()  # effects are recorded in threads, too
        self._begun_functions: set[str] = set()  # in which something new has begun
        self._handed_out: dict[str, HandedOut] = {}  # parts of the run that other processes record
        self._last_written: Acknowledgement[None] | None = None
        self.writers = writers
        self._root = ROOT
        self.inbox = Inbox(run_id, mailboxes, self._index.of_kind("message"))
        self.questions = questions
        self.activity = activity

    def relative(self, place: str) -> str:
        """A place below the run, whatever the run is within."""
        return ROOT + place.removeprefix(self._root)

    def find_record(self, place: str, kind: RecordKind) -> Record | None:
        """Return the record of an earlier life at a place; this life has reached the place."""
        return self._index.find(place, kind)

    def has_response(self, place: str) -> bool:
        """Whether a request is answered, or fails, as in an earlier life, without reaching the place."""
        if self._index.has(place, "response"):
            return True
        return self._index.find_handled(place, "failure") is not None

    def find_handled(self, place: str, kind: RecordKind) -> Record | None:
        """Return the latest error at a place that the program handled in an earlier life."""
        return self._index.find_handled(place, kind)

    def add_failure(self, place: str, kind: RecordKind, body: bytes, error: BaseException | None) -> None:
        """Record an error at a place. Each life may meet another one there.

        Args:
            place: The place.
            kind: Its kind.
            body: Its content.
            error: The error; None for a decision that follows from one.
        """
        failed = failure_place(place, self.life)
        self._check_addition(failed, kind)
        self._write((failed, kind, body))
        self._open_errors.add(failed, find_task())
        self.note_raised(failed, error)

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
        if self._new_code == "error":
            self._index.check_new(place)

    def is_behind(self, place: str) -> bool:
        """Whether an earlier life recorded something in a place that this life has not reached."""
        return bool(self._index.left_in(place))

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

    def interrupt(self, content: bytes) -> None:
        """Record that the life was cancelled or parked: only cleanup came after the last work."""
        self._write((ROOT, "life", content))

    def _check_addition(self, place: str, kind: RecordKind) -> None:
        if (place, kind) in self._written:
            raise JournalError(f"{place} would be recorded twice in one life; please report this.")
        self.check_new(place)
        self._written.add((place, kind))

    def hand_out(self, place: str) -> RunPart:
        """Hand a part of the run to another process, which records it until it is taken back or handed anew.

        Args:
            place: The place of the part; this process records nothing in it meanwhile.
        """
        place = self.relative(place)
        self._index.reach(place)
        handed = self._handed_out.setdefault(place, HandedOut())
        handed.times += 1
        now = LifeTimes(first_at=self._begun_at, last_at=time.time())
        return RunPart(
            run_id=self.run_id,
            epoch=self.epoch,
            life=f"{self.life}.{handed.times}",
            root=self._root,
            place=place,
            durability=self._durability,
            new_code=self._new_code,
            rules=self.rules,
            records=[*self._index.records_in(place), *(() if handed.had_writer else handed.records)],
            lives={**self._index.lives(), self.epoch: now},
            divergence=self._divergence_at(place),
            identity=self.identity_version,
        )

    def _divergence_at(self, place: str) -> tuple[str, str] | None:
        """The text and the place of the error that refuses anything new in a place; None for none."""
        try:
            RunRecorder.check_new(self, place)
        except JournalDivergenceError as error:
            return str(error), error.place
        return None

    def take_in(self, place: str, records: Sequence[Record]) -> Acknowledgement[None]:
        """Record what another process has recorded in its part of the run.

        Args:
            place: The place of the part.
            records: The records, in order, with numbers and times of that process.

        Returns:
            The acknowledgement that they are durable, as is everything that was recorded before.

        Raises:
            JournalError: The run was taken over, or the store failed; or the records are not of that part.
        """
        place = self.relative(place)
        if not all(is_within(each.place, place) for each in records):
            raise JournalError(f"{place}: its process has recorded something elsewhere; please report this.")
        with self._lock:
            now, first = time.time(), self._seq + 1
            self._seq += len(records)
            taken = [
                msgspec.structs.replace(each, seq=seq, at=now, epoch=self.epoch)
                for seq, each in enumerate(records, first)
            ]
            self._last_written = written = self._append(taken)
        self._handed_out[place].records += taken
        if self.activity is not None:
            self.activity.note_record()
        return written

    def hand_to_writer(self, place: str, writer: str) -> list[Acknowledgement[None]]:
        """Let the process that is given a part append to the store itself.

        Args:
            place: The place of the part.
            writer: The writer.

        Returns:
            What it has to wait for: that it is admitted, and that what was recorded before is durable.
        """
        assert self.writers is not None
        self._handed_out[self.relative(place)].had_writer = True
        awaited = (self.writers.admit(writer), self._last_written)
        return [each for each in awaited if each is not None and not each.is_done]

    def find_handed(self, place: str) -> Acknowledgement[list[Record]] | None:
        """Read what a lost writer may have recorded in a part; None where there was none."""
        place = self.relative(place)
        had_writer = self._handed_out[place].had_writer
        return self.writers.find_records(place) if self.writers is not None and had_writer else None

    def call_when_written(self, function: Callable[[], object]) -> None:
        """Call a function when what was recorded is durable; see `journal_ports.RunJournal`."""
        if self.writers is None or self._last_written is None:
            function()
        else:
            self._last_written.call_when_done(lambda _: function())

    def take_back(self, place: str, end: PartEnd) -> None:
        """Take a part of the run back, whose process has ended its work.

        Args:
            place: The place of the part.
            end: The errors that it left with.
        """
        self._handed_out.pop(self.relative(place), None)
        for failed, here in end.open_errors.items():
            self._open_errors.add(failed, None, here)
        self._failed_groups += end.failed_groups

    def end_part(self) -> PartEnd:
        """Return the errors that this process leaves a part of a run with; see `take_back`."""
        return PartEnd(open_errors=self._open_errors.places(), failed_groups=self._failed_groups)

    def enter(self, place: str) -> None:
        """Note that a function or an item has begun; see `journal_ports.RunJournal`."""
        if self.activity is not None:
            self.activity.open_place(self.relative(place))

    def exit(self, place: str) -> None:
        """Note that a function or an item has ended; see `journal_ports.RunJournal`."""
        if self.activity is not None:
            self.activity.close_place(self.relative(place))

    def depending(self, place: str) -> AbstractContextManager[None]:
        """Note that a place waits only for other places; see `journal_ports.RunJournal`."""
        return nullcontext() if self.activity is None else self.activity.depending(self.relative(place))

    async def wait_durably(self, wait: DurableWait, function: Callable[[], Awaitable[Result]]) -> Result:
        """Wait for something that comes whether a process works on the run or not.

        Args:
            wait: The wait.
            function: Waits, and records what has come before its next checkpoint.
        """
        return await (function() if self.activity is None else self.activity.wait_durably(wait, function))

    async def wait_idle(self) -> None:
        """Wait until everything in the run waits; see `journal_ports.RunJournal`."""
        assert self.activity is not None
        await self.activity.wait_idle()

    def parking_signal(self) -> BaseException | None:
        """The signal that leaves a run that is being parked; see `journal_ports.RunJournal`."""
        return ParkedSignal() if self._is_parking else None

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

    async def begin_new(self, place: str) -> None:
        """Pass a place at which something begins that no earlier life has recorded.

        If a time limit around it expired in an earlier life, it is cancelled here instead. A function that an
        earlier life cancelled for a reason of the program's own waits for that reason, at most as long as it
        took in that life.
        """
        if reach_new():
            await anyio.sleep_forever()
        seconds = self._seconds_given_up(place)
        if seconds is not None:
            await anyio.sleep(seconds)

    async def begin_new_wait(self, place: str) -> None:
        """Pass the place of a wait, as `begin_new` does; the wait belongs to the function that it is in.

        Args:
            place: The place.
        """
        await self.begin_new(place.rpartition("/")[0])

    def begin_new_in_thread(self, place: str) -> None:
        """Pass a place as `begin_new` does, from synchronous code.

        Raises:
            DeadlineExceededError: A time limit expired here in an earlier life.
        """
        if reach_new():
            if is_loop_thread():
                raise DeadlineExceededError(0.0, "what it exceeded in an earlier life of the run, too")
            _wait_from_sync(anyio.sleep_forever)
        seconds = self._seconds_given_up(place)
        if seconds is not None and not is_loop_thread():
            _wait_from_sync(anyio.sleep, seconds)

    def _seconds_given_up(self, place: str) -> float | None:
        """The longest time to wait for the cancellation of a function; None if no life has cancelled it."""
        function = function_place(place)
        if function is None:
            return None
        record = self._index.find_handled(function, "decision")
        if record is None or self._index.was_interrupted_at(record):
            self._begun_functions.add(function)
            return None
        return self._index.seconds_until(record) + _GRACE_SECONDS

    def note_cancelled(self, place: str) -> None:
        """Record that a call was cancelled; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        if place in self._begun_functions and not self._is_parking:
            with suppress(JournalError):  # the next record fails, too
                self.add_failure(place, "decision", NO_DECISION, None)

    def _write(self, *records: tuple[str, RecordKind, bytes]) -> Acknowledgement[None]:
        with self._lock:
            now, first = time.time(), self._seq + 1
            self._seq += len(records)
            self._last_written = written = self._append(
                [
                    Record(seq=seq, place=place, kind=kind, epoch=self.epoch, at=now, body=body)
                    for seq, (place, kind, body) in enumerate(records, first)
                ]
            )
        if self.activity is not None:
            self.activity.note_record()
        return written


def find_recorder() -> RunRecorder | None:
    """Return the journal of the active run; None without one."""
    journal = find_journal()
    assert journal is None or isinstance(journal, RunRecorder)
    return journal


def _marks(kind: RecordKind, places: Iterable[str]) -> list[tuple[str, RecordKind, bytes]]:
    return [(place, kind, b"") for place in places]


def _wait_from_sync(function: Callable[..., Awaitable[None]], *args: float) -> None:
    bounded = cast("Callable[..., Coroutine[Any, Any, None]]", under_thread_deadlines(function))
    if is_worker_thread():
        from_thread.run(bounded, *args)
    else:
        anyio.run(bounded, *args)
