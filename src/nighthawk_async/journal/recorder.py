"""The records of one run: those of earlier lives, and what this life adds."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias, cast

import anyio
import msgspec
from anyio import from_thread

from ..parallel import DeadlineExceededError, under_thread_deadlines
from ..parallel.decided_limits import reach_new
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from .acknowledgement import Acknowledgement
from .errors import JournalError
from .mailboxes import Inbox, Mailboxes
from .records import ENDED, Record, RecordIndex, RecordKind, failure_place, function_place

Durability: TypeAlias = Literal["response", "effect"]
NewCode: TypeAlias = Literal["error", "insert"]
Append: TypeAlias = Callable[[Sequence[Record]], Acknowledgement[None]]

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
        durability: Durability,
        new_code: NewCode,
        mailboxes: Mailboxes,
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
        self._begun_functions: set[str] = set()  # in which something new has begun
        self._root = ROOT
        self.inbox = Inbox(run_id, mailboxes, self._index.of_kind("message"))

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
        return self._index.find_passed(place, "failure") is not None

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

    def end(self, content: bytes = ENDED) -> None:
        """Record that the life has ended: regularly, with all errors handled, or as the content says."""
        self._append([self._record(ROOT, "life", content)])

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
        record = self._index.find_passed(function, "decision")
        if record is None or self._index.was_interrupted_at(record):
            self._begun_functions.add(function)
            return None
        return self._index.seconds_until(record) + _GRACE_SECONDS

    def note_cancelled(self, place: str) -> None:
        """Record that a call was cancelled; see `ports.RunJournal`."""
        place = self.relative(place)
        if place in self._begun_functions:
            with suppress(
                JournalError
            ):  # its cancellation goes on, and the next record fails in the same way
                self.add_failure(place, "decision", NO_DECISION)

    def _record(self, place: str, kind: RecordKind, body: bytes) -> Record:
        self._seq += 1
        return Record(seq=self._seq, place=place, kind=kind, epoch=self.epoch, at=time.time(), body=body)


def _wait_from_sync(function: Callable[..., Awaitable[None]], *args: float) -> None:
    bounded = cast("Callable[..., Coroutine[Any, Any, None]]", under_thread_deadlines(function))
    if is_worker_thread():
        from_thread.run(bounded, *args)
    else:
        anyio.run(bounded, *args)
