"""The service "journal" on a worker: the records of its part of the run, and the way to the program.

It records and waits as the program does; what it records is durable when the program says so.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count

import anyio
import msgspec

from ..journal.acknowledgement import Acknowledgement
from ..journal.errors import JournalError, JournalStoreError
from ..journal.part_journal import PartJournal
from ..journal.parts import PartEnd
from ..journal.people import Questions
from ..journal.records import Record
from ..journal.store_thread import StoreThread, lease_clock
from ..journal.tables import LEASE_SECONDS
from ..journal.values import decode_value, encode_value
from ..parallel.decided_limits import OuterLimits
from ..runtime.environment import Environment
from ..types.asked_questions import AskedQuestion, GivenVote
from . import journal_messages as messages
from .crossing_errors import decode_error
from .journal_messages import (
    TOPIC,
    Append,
    Await,
    CloseQuestion,
    FunctionEnded,
    Leave,
    LimitsReached,
    NoteCounted,
    OpenQuestion,
    Report,
    UseAnswers,
)
from .messages import encode
from .services import CallChannel


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Enter the journal of a call."""
    assert environment is not None, "a run with a journal is a run"
    given = messages.decode_setup(setup)
    writer = _Writer(channel)
    channel.on_order(TOPIC, writer.take_order)
    journal = PartJournal(
        given.part,
        append=writer.append,
        hold=writer.hold,
        blocks_for_ever=lambda: channel.blocks_loop and not channel.exchanges_blocked,
        make_questions=lambda nothing: _Questions(channel, writer, nothing, given.part.max_value_bytes),
        has_counted=channel.counting.has_counted,
    )
    limits = nullcontext()
    if given.limits is not None:
        limits = OuterLimits(
            expires=given.limits,
            reach_new=lambda: writer.tell(LimitsReached()),
            note_end=lambda: writer.tell(FunctionEnded()),
        )
    with limits:
        try:
            yield replace(environment, journal=journal)
        finally:
            writer.close(journal.end_part())


class _Writer:
    """The way to the program's journal. Thread-safe."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
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

    def close(self, end: PartEnd) -> None:
        """Note the end of the call. A thread that it has left behind records nothing more."""
        with self._lock:
            self._has_ended = True
            awaited, self._awaited = self._awaited, {}
        self.tell(Leave(end=end))
        for each in awaited.values():
            each.fail(_ended_error())

    def _check_open(self) -> None:
        if self._has_ended:
            raise _ended_error()

    def exchange_for(self, acknowledgement: "_Acknowledgement") -> None:
        """Have an acknowledgement come in although the caller blocks the event loop."""
        if self._channel.blocks_loop:
            try:
                self._channel.exchange_until(lambda: acknowledgement.is_done)
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


def _ended_error() -> JournalError:
    return JournalError("the call on the worker has ended, and records nothing more")


class _Acknowledgement(Acknowledgement[None]):
    """A promise of the program, which it is asked for when somebody waits.

    Args:
        writer: The way to the program.
        renews: Whether it is about the lease of the run, and not about records.
    """

    __slots__ = ("_is_asked_for", "_writer", "renews", "sent_at")

    def __init__(self, writer: _Writer, *, renews: bool) -> None:
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


class _Questions(Questions):
    """The questions of the store, which the program opens."""

    def __init__(
        self, channel: CallChannel, writer: _Writer, nothing: StoreThread, max_value_bytes: int
    ) -> None:
        super().__init__(nothing, max_value_bytes)
        self._channel = channel
        self._writer = writer

    async def open(self, run_id: str, asked: AskedQuestion, place: str) -> "_Answers":
        content = encode_value([asked.kind, dict(asked.content), asked.schema], place=place)
        question = OpenQuestion(
            id=asked.id, place=place, kind=asked.kind, content=content, ends_at=asked.ends_at
        )
        await self._channel.ask(TOPIC, encode(question))
        return _Answers(self._channel, self._writer, asked.id)

    def close(self, question_id: str) -> None:
        self._writer.tell(CloseQuestion(id=question_id))


class _Answers:
    """The answers to one question in the store; see `journal_ports.GivenAnswers`."""

    def __init__(self, channel: CallChannel, writer: _Writer, question_id: str) -> None:
        self._channel = channel
        self._writer = writer
        self._id = question_id

    async def next_answer(self) -> object:
        return self._decoded(await self._use(UseAnswers(id=self._id, method="next_answer")))

    async def find_answer(self) -> tuple[object] | None:
        return self._decoded(await self._use(UseAnswers(id=self._id, method="find_answer")))

    async def refuse(self) -> None:
        await self._use(UseAnswers(id=self._id, method="refuse"))

    async def claim(self) -> bool:
        answer = await self._use(UseAnswers(id=self._id, method="claim"))
        return msgspec.msgpack.decode(answer, type=bool)

    async def next_vote(self, after: int) -> GivenVote:
        answer = await self._use(UseAnswers(id=self._id, method="next_vote", after=after))
        return msgspec.msgpack.decode(answer, type=GivenVote)

    def note_counted(self, number: int) -> None:
        self._writer.tell(NoteCounted(id=self._id, number=number))

    async def _use(self, use: UseAnswers) -> bytes:
        return await self._channel.ask(TOPIC, encode(use))

    def _decoded(self, body: bytes) -> "tuple[object] | None":
        return decode_value(body, place=f"the answer to question {self._id}")
