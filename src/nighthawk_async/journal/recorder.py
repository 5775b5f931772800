"""The records of one run: those of earlier lives, and what this life adds."""

import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from .acknowledgement import Acknowledgement
from .errors import JournalError
from .mailboxes import Inbox, Mailboxes
from .records import ENDED, Record, RecordIndex, RecordKind, failure_place

Durability: TypeAlias = Literal["response", "effect"]
NewCode: TypeAlias = Literal["error", "insert"]
Append: TypeAlias = Callable[[Sequence[Record]], Acknowledgement[None]]
Hold: TypeAlias = Callable[[], Acknowledgement[None] | None]

ROOT = "run"
"""The place of the run itself."""


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
    """

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
    ) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.waits_for_responses = durability == "response"
        self._append = append
        self.hold = hold
        self._new_code = new_code
        self._index = RecordIndex(records)
        self._seq = records[-1].seq if records else 0
        self._written: set[tuple[str, RecordKind]] = set()
        self._asked: set[str] = set()  # the places of steps that asked a model
        self._root = ROOT
        self.inbox = Inbox(run_id, mailboxes, self._index.of_kind("message"))

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
        return self._append([self._record(place, kind, body)])

    def end(self) -> None:
        """Record that the life has ended regularly: the program has handled all errors."""
        self._append([self._record(ROOT, "life", ENDED)])

    def _record(self, place: str, kind: RecordKind, body: bytes) -> Record:
        self._seq += 1
        return Record(seq=self._seq, place=place, kind=kind, epoch=self.epoch, at=time.time(), body=body)
