"""The service "journal" on a worker: its part of the run, and the questions of the store.

The worker records and waits as the program does; see `journal_writers` for where its records go.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace

import msgspec

from ..journal.open_lives import note_closed, note_open
from ..journal.part_journal import PartJournal
from ..journal.people import Questions
from ..journal.store_thread import StoreThread
from ..journal.values import ValueRules, decode_value, encode_value
from ..journal_ports import AskedQuestion, GivenVote, StoredApproval
from ..kernel.environment import Environment
from ..parallel.decided_limits import OuterLimits
from . import journal_messages as messages
from .journal_messages import (
    TOPIC,
    CloseQuestion,
    FindRemembered,
    FunctionEnded,
    LimitsReached,
    NoteCounted,
    NoteEscalation,
    Open,
    OpenQuestion,
    RememberApproval,
    RevokeApproval,
    Setup,
    UseAnswers,
)
from .journal_writers import ProgramWriter, StoreWriter
from .messages import encode
from .services import CallChannel


@asynccontextmanager
async def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> AsyncGenerator[Environment | None, None]:
    """Enter the journal of a call."""
    assert environment is not None, "a run with a journal is a run"
    given = messages.decode_setup(setup)
    part = given.part
    if given.waits:
        found = messages.decode_records(await channel.ask(TOPIC, encode(Open())))
        part = msgspec.structs.replace(part, records=[*part.records, *found])
    life = part.run_id, part.epoch
    store = channel.store if given.writes else None
    if store is not None and await store.begin(life):
        writer = StoreWriter(channel, store, life)
    else:
        writer = ProgramWriter(channel)
    channel.on_order(TOPIC, writer.take_order)
    journal = PartJournal(
        part,
        append=writer.append,
        hold=writer.hold,
        blocks_for_ever=lambda: channel.blocks_loop and not channel.exchanges_blocked,
        make_questions=lambda nothing: _Questions(channel, writer, nothing, part.rules),
        has_counted=channel.counting.has_counted,
    )
    note_open(journal, part.run_id)
    try:
        with _limits(given, writer):
            yield replace(environment, journal=journal)
    finally:
        note_closed(journal)
        await writer.close(journal.end_part)


def _limits(given: Setup, writer: ProgramWriter) -> AbstractContextManager[None]:
    """The limits around the call."""
    if given.limits is None:
        return nullcontext()
    return OuterLimits(
        expires=given.limits,
        reach_new=lambda: writer.tell(LimitsReached()),
        note_end=lambda: writer.tell(FunctionEnded()),
    )


class _Questions(Questions):
    """The questions of the store, which the program opens."""

    def __init__(
        self, channel: CallChannel, writer: ProgramWriter, nothing: StoreThread, rules: ValueRules
    ) -> None:
        super().__init__(nothing, rules)
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

    def note_escalation(self, question_id: str, *, voter: str, role: str, reason: str) -> None:
        self._writer.tell(NoteEscalation(id=question_id, voter=voter, role=role, reason=reason))

    async def find_remembered(self, run_id: str) -> list[StoredApproval]:
        found = await self._channel.ask(TOPIC, encode(FindRemembered()))
        return [StoredApproval(**each) for each in decode_value(found, place=run_id)]

    async def remember(self, question_id: str, approval: bytes) -> None:
        await self._channel.ask(TOPIC, encode(RememberApproval(id=question_id, approval=approval)))

    async def revoke(self, question_id: str, *, voter: str, reason: str) -> None:
        revoked = RevokeApproval(id=question_id, voter=voter, reason=reason)
        await self._channel.ask(TOPIC, encode(revoked))

    def revoke_soon(self, question_id: str, *, voter: str, reason: str) -> None:
        self._writer.tell(RevokeApproval(id=question_id, voter=voter, reason=reason))


class _Answers:
    """The answers to one question in the store; see `journal_ports.GivenAnswers`."""

    def __init__(self, channel: CallChannel, writer: ProgramWriter, question_id: str) -> None:
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
