"""The records of one run: those of earlier lives, and what this life adds."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Literal, TypeAlias, TypeVar

from .acknowledgement import Acknowledgement
from .activity import Activity, DurableWait, IsDue, ParkedSignal
from .errors import JournalError, RunParked
from .mailboxes import Inbox, Mailboxes
from .people import Questions
from .records import Record, RecordIndex, RecordKind, failure_place

Durability: TypeAlias = Literal["response", "effect"]
NewCode: TypeAlias = Literal["error", "insert"]
Result = TypeVar("Result")
Append: TypeAlias = Callable[[Sequence[Record]], Acknowledgement[None]]

ROOT = "run"
"""The place of the run itself."""


class RunRecorder:
    """Answers from the records of earlier lives, and records what is new.

    Args:
        run_id: The run.
        epoch: The number of this life.
        records: The records of earlier lives, in order.
        append: Hands records to the store.
        durability: The time at which the run waits for its records.
        new_code: The handling of code that the records do not have.
        mailboxes: The mailboxes of the store.
        questions: The questions of the store.
        activity: What is in progress; None where the run is never parked.
    """

    def __init__(
        self,
        *,
        run_id: str,
        epoch: int,
        records: Sequence[Record],
        append: Append,
        durability: Durability,
        new_code: NewCode,
        mailboxes: Mailboxes,
        questions: Questions,
        activity: Activity | None = None,
    ) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.waits_for_responses = durability == "response"
        self._append = append
        self._new_code = new_code
        self._index = RecordIndex(records)
        self._seq = records[-1].seq if records else 0
        self._written: set[tuple[str, RecordKind]] = set()
        self._asked: set[str] = set()  # the places of steps that asked a model
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

    def find_passed(self, place: str, kind: RecordKind) -> Record | None:
        """Return the latest error at a place that an earlier life went on after."""
        return self._index.find_passed(place, kind)

    def add_failure(self, place: str, kind: RecordKind, body: bytes) -> None:
        """Record an error at a place. Each life may meet another one there."""
        self.add(failure_place(place, self.epoch), kind, body)

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
        """
        if (place, kind) in self._written:
            raise JournalError(f"{place} would be recorded twice in one life; please report this.")
        self.check_new(place)
        self._written.add((place, kind))
        written = self._append([self._record(place, kind, body)])
        if self.activity is not None:
            self.activity.note_record()
        return written

    def end(self, body: bytes) -> None:
        """Record that the life has ended regularly: the program has handled all errors, or the run waits."""
        self._append([self._record(ROOT, "life", body)])

    def enter(self, place: str) -> None:
        """Note that a function or an item has begun; see `ports.RunJournal`."""
        if self.activity is not None:
            self.activity.open_place(self.relative(place))

    def exit(self, place: str) -> None:
        """Note that a function or an item has ended; see `ports.RunJournal`."""
        if self.activity is not None:
            self.activity.close_place(self.relative(place))

    def depending(self, place: str) -> AbstractContextManager[None]:
        """Note that a place waits only for other places; see `ports.RunJournal`."""
        return nullcontext() if self.activity is None else self.activity.depending(self.relative(place))

    async def wait_durably(
        self,
        place: str,
        wait: Callable[[], Awaitable[Result]],
        *,
        ends_at: float | None,
        is_due: IsDue | None = None,
    ) -> Result:
        """Wait for something that comes whether a process works on the run or not.

        Args:
            place: The place, relative to the run.
            wait: Waits for it, and records it before its next checkpoint.
            ends_at: The time at which the wait ends by itself, in seconds since 1970; None for never.
            is_due: Looks into the store for it; None where only time ends the wait.
        """
        if self.activity is None:
            return await wait()
        return await self.activity.wait_durably(
            DurableWait(place=place, ends_at=ends_at, is_due=is_due), wait
        )

    async def wait_idle(self) -> None:
        """Wait until everything in the run waits; see `ports.RunJournal`."""
        assert self.activity is not None
        await self.activity.wait_idle()

    def parking_signal(self) -> BaseException | None:
        """What leaves a run that is being parked; see `ports.RunJournal`."""
        return ParkedSignal() if self.activity is not None and self.activity.is_parking else None

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
        error = self.parking_error()
        if error is not None:
            raise error

    def _record(self, place: str, kind: RecordKind, body: bytes) -> Record:
        self._seq += 1
        return Record(seq=self._seq, place=place, kind=kind, epoch=self.epoch, at=time.time(), body=body)
