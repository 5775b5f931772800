"""The ways of the records of a call on a worker: to the program, or to the store of the run itself.

The program says when everything is durable that it was sent; the store does so by itself.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from math import inf

import anyio

from ..journal.acknowledgement import Acknowledgement
from ..journal.errors import JournalError, JournalStoreError
from ..journal.parts import PartEnd
from ..journal.records import Record
from ..journal.store_thread import lease_clock
from ..journal.tables import LEASE_SECONDS
from . import journal_messages as messages
from .crossing_errors import decode_error, encode_error
from .journal_messages import TOPIC, Append, Await, CloseQuestion, Leave, NoteCounted, Report
from .messages import encode
from .services import CallChannel
from .worker_store import Life, WorkerStore

_WRITE_SECONDS = 10.0
"""The seconds that a call which has ended waits for its last records to be durable."""


class ProgramWriter:
    """The way to the program's journal. Thread-safe."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel
        self._lock = threading.RLock()
        self._awaited: dict[int, _Acknowledgement] = {}
        self._numbers = count()
        self._held_until = 0.0
        self._has_ended = False

    def tell(self, report: Report) -> None:
        """Report to the program, in order."""
        self._channel.tell(TOPIC, encode(report))

    def append(self, records: Sequence[Record]) -> Acknowledgement[None]:
        """Hand records to the program; see `StoreThread.append`."""
        self._check_open()
        acknowledgement = _Acknowledgement(self, renews=False)
        self.tell(Append(records=list(records)))
        return acknowledgement

    def hold(self) -> Acknowledgement[None] | None:
        """Make sure that the life still has the run; see `StoreThread.hold`."""
        return None if lease_clock() < self._held_until else _Acknowledgement(self, renews=True)

    def ask_for(self, acknowledgement: "_Acknowledgement") -> None:
        """Have the program say when everything is durable that it was sent before."""
        with self._lock:
            self._check_open()
            number = next(self._numbers)
            self._awaited[number] = acknowledgement
        self.tell(Await(number=number, renews=acknowledgement.renews))

    async def close(self, end: Callable[[], PartEnd]) -> None:
        """Note the end of the call. A thread that it has left behind records nothing more.

        Args:
            end: Returns the errors that the call leaves.

        Raises:
            JournalError: Not everything could be recorded.
        """
        with self._lock:
            self._has_ended = True
        failure = await self._find_failure()
        with self._lock:
            awaited, self._awaited = self._awaited, {}
        encoded = None if failure is None else encode_error(failure, self._channel.worker)
        self.tell(Leave(end=end(), failure=encoded))
        for each in awaited.values():
            each.fail(_ended_error())
        if failure is not None:
            raise failure

    async def _find_failure(self) -> JournalError | None:
        """Wait until everything is durable that only this process knows; return the error if it is not."""
        return None

    def _check_open(self) -> None:
        if self._has_ended:
            raise _ended_error()

    def exchange_for(self, acknowledgement: "_Acknowledgement") -> None:
        """Have an acknowledgement come in although the caller blocks the event loop."""
        self._exchange_until(lambda: acknowledgement.is_done)

    def _exchange_until(self, is_done: Callable[[], bool]) -> None:
        if self._channel.blocks_loop:
            try:
                self._channel.exchange_until(is_done)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                raise JournalStoreError("the program has ended, and records nothing more") from error

    def take_order(self, body: bytes) -> None:
        """Take an answer to `ask_for`."""
        done = messages.decode_done(body)
        acknowledgement = self._awaited.pop(done.number, None)
        if acknowledgement is None:
            return
        if done.error is not None:
            error = decode_error(done.error)
            assert isinstance(error, Exception)
            acknowledgement.fail(error)
            return
        if not acknowledgement.renews:  # its commit has renewed the lease after it was sent
            self._held_until = max(self._held_until, acknowledgement.sent_at + LEASE_SECONDS)
        acknowledgement.succeed(None)


class StoreWriter(ProgramWriter):
    """The way to the store of the run, which this process appends to itself. Thread-safe.

    Nothing reaches the program that it may record after, before everything that was recorded here is durable:
    questions, and the end of the call, wait for that. And nothing is recorded here before the program has
    what the call has consumed until then: what is recorded has counted, also if this process is killed.

    Args:
        channel: The channel of the call.
        store: The store.
        life: The life of the run.
    """

    def __init__(self, channel: CallChannel, store: WorkerStore, life: Life) -> None:
        super().__init__(channel)
        self._store = store
        self._life = life
        self._last: Acknowledgement[None] | None = None
        self._held_back: deque[_HeldBack] = deque()
        self._arrived = 0  # the number of reports of consumption that the program has
        channel.before_questions(self._wait_until_written)

    def tell(self, report: Report) -> None:
        """Report to the program, in order; what it writes to the store, only after what was recorded."""
        if isinstance(report, CloseQuestion | NoteCounted) and self._last is not None:
            tell = super().tell
            self._last.call_when_done(lambda failure: None if failure else tell(report))
        else:
            super().tell(report)

    def append(self, records: Sequence[Record]) -> Acknowledgement[None]:
        """Append records to the store; see `StoreThread.append`."""
        with self._lock:
            self._check_open()
            charges = self._channel.charges
            if charges == self._arrived and not self._held_back:
                self._last = self._store.append(self._life, records)
                return self._last
            is_asked_for = bool(self._held_back) and self._held_back[-1].charges == charges
            self._last = held = _HeldBack(self, records, charges)
            self._held_back.append(held)
            if not is_asked_for:
                arrival = _Acknowledgement(self, renews=False)
                arrival.call_when_done(lambda failure: self._release(charges, failure))
            return held

    def _release(self, charges: int, failure: Exception | None) -> None:
        """Append what was held back until the program had a number of reports."""
        with self._lock:
            self._arrived = max(self._arrived, charges)
            while self._held_back and self._held_back[0].charges <= charges:
                held = self._held_back.popleft()
                held.is_released = True
                if failure is not None:
                    held.fail(failure)
                else:
                    self._store.append(self._life, held.records).call_when_done(held.end)

    def hold(self) -> Acknowledgement[None] | None:
        """Make sure that the life still has the run; the program renews its lease if it may have ended."""
        return None if self._store.is_held(self._life) else _Acknowledgement(self, renews=True)

    def exchange_until_released(self, held: "_HeldBack") -> None:
        """Have the program's answer come in although the caller blocks the event loop."""
        self._exchange_until(lambda: held.is_released)

    async def _wait_until_written(self) -> None:
        if self._last is not None:
            await self._last.wait()

    async def _find_failure(self) -> JournalError | None:
        if anyio.current_effective_deadline() == -inf and not self._channel.is_withdrawn:
            self._release(self._channel.charges, _ended_error())  # the worker ends, and hears no more
        failure: JournalError | None = JournalStoreError(
            f"{self._channel.worker} could not append to the store within {_WRITE_SECONDS:g} seconds"
        )
        with anyio.move_on_after(_WRITE_SECONDS, shield=True):
            try:
                await self._wait_until_written()
                failure = None
            except JournalError as error:
                failure = error
        self._store.end(self._life)
        return failure


class _HeldBack(Acknowledgement[None]):
    """Records that are appended when the program has what the call has consumed before.

    Args:
        writer: The way to the store.
        records: The records.
        charges: The number of reports that the program must have.
    """

    __slots__ = ("_writer", "charges", "is_released", "records")

    def __init__(self, writer: StoreWriter, records: Sequence[Record], charges: int) -> None:
        super().__init__()
        self._writer = writer
        self.records = records
        self.charges = charges
        self.is_released = False

    def wait_in_thread(self) -> None:
        self._writer.exchange_until_released(self)
        super().wait_in_thread()

    def end(self, failure: Exception | None) -> None:
        """Deliver how the records were appended."""
        if failure is None:
            self.succeed(None)
        else:
            self.fail(failure)


def _ended_error() -> JournalError:
    return JournalError("the call on the worker has ended, and records nothing more")


class _Acknowledgement(Acknowledgement[None]):
    """A promise of the program, which it is asked for when somebody waits.

    Args:
        writer: The way to the program.
        renews: Whether it is about the lease of the run, and not about records.
    """

    __slots__ = ("_is_asked_for", "_writer", "renews", "sent_at")

    def __init__(self, writer: ProgramWriter, *, renews: bool) -> None:
        super().__init__()
        self.renews = renews
        self.sent_at = lease_clock()
        self._writer = writer
        self._is_asked_for = False

    async def wait(self) -> None:
        self._ask_for()
        await super().wait()

    def call_when_done(self, function: Callable[[Exception | None], object]) -> None:
        self._ask_for()
        super().call_when_done(function)

    def wait_in_thread(self) -> None:
        self._ask_for()
        self._writer.exchange_for(self)
        super().wait_in_thread()

    def _ask_for(self) -> None:
        if not self._is_asked_for:
            self._is_asked_for = True
            self._writer.ask_for(self)
