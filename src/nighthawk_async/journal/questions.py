"""Questions to people in a run with a journal: the content, the answers, the votes, the errors."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..journal_ports import AskedQuestion, BegunQuestion, GivenAnswers, StoredApproval
from .activity import DurableWait
from .effect_call import EndedCall, idempotency_key
from .errors import JournalDivergenceError
from .handed_parts import PartsRecorder
from .question_table import has_news
from .recorded_errors import rebuilt_error, recorded_error
from .records import Record
from .values import check_declared, decode_value

Result = TypeVar("Result")


class QuestionRecord(Struct, frozen=True, kw_only=True):
    """The body of the record of a question: its parts by name, and the time at which it was first asked.

    Its id names its parts, so that an answer to something else, in another store, is none to it; that of an
    earlier version did not.
    """

    content: dict[str, bytes]
    begun_at: float
    names_parts: bool = False


def question_id(run_id: str, place: str, asked: QuestionRecord) -> str:
    """The id of a question in the store.

    Args:
        run_id: The run that asks.
        place: The place of the question.
        asked: The body of its record.
    """
    if not asked.names_parts:
        return idempotency_key(run_id, place)
    parts = msgspec.msgpack.encode(sorted(asked.content.items()))
    return idempotency_key(run_id, f"{place}\n{hashlib.sha256(parts).hexdigest()}")


class QuestionRecorder(PartsRecorder):
    """The part of the journal of a run that keeps questions and values; see `journal_ports.RunJournal`."""

    async def begin_question(self, place: str, content: Mapping[str, object]) -> BegunQuestion:
        """Record a question, or compare it with its record; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        parts = {name: self.encode_value(value, place=f"{place}, {name}") for name, value in content.items()}
        record = self.find_record(place, "question")
        end = self._find_answer_record(place)
        if record is None or end is None:
            await self.begin_new_wait(place)
        if record is None:
            asked = QuestionRecord(content=parts, begun_at=time.time(), names_parts=True)
            await self.add(place, "question", msgspec.msgpack.encode(asked)).wait()
        else:
            asked = msgspec.msgpack.decode(record.body, type=QuestionRecord)
            await checkpoint()
        if asked.content != parts:
            differing = [name for name, part in parts.items() if asked.content.get(name) != part]
            with self.delivery.noting_divergence():
                raise JournalDivergenceError(
                    f"{place}: people were asked something else in an earlier life, so their answers do not "
                    f"count here. Different are: {', '.join(differing)}. Guard the change with "
                    "nighthawk_async.journal.patched(name), or finish the run with the old program.",
                    place=place,
                )
        if end is not None:
            await self.delivery.deliver(end)
        return BegunQuestion(id=question_id(self.run_id, place, asked), begun_at=asked.begun_at)

    def _find_answer_record(self, place: str) -> Record | None:
        """The record of the answer to a question, or of the error that the program handled instead."""
        ends = [self._index.find(each, "value") for each in (f"{place}/answer[0]", place)]
        return ends[0] or ends[1] or self.find_handled(place, "result")

    async def wait_for_people(
        self,
        place: str,
        asked: AskedQuestion,
        wait: Callable[[GivenAnswers], Awaitable[Result]],
    ) -> Result:
        """Wait for people, who may answer through the store; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        answers = await self.questions.open(self.run_id, asked, place)
        is_due = partial(has_news, question_id=asked.id)
        durable = DurableWait(place=place, ends_at=asked.ends_at, is_due=is_due)
        try:
            result = await self.wait_durably(durable, lambda: wait(answers))
        except Exception:
            self.questions.close(asked.id)
            raise
        # After a cancellation it stays open: the next life asks again.
        self.questions.close(asked.id)
        return result

    def note_escalation(self, question_id: str, *, voter: str, role: str, reason: str) -> None:
        """Let the people of a role answer through the store; see `journal_ports.RunJournal`."""
        self.questions.note_escalation(question_id, voter=voter, role=role, reason=reason)

    async def remember_approval(
        self, question_id: str, implementation: str, votes: Sequence[Mapping[str, object]]
    ) -> None:
        """Let an approval count for equal calls of the run; see `journal_ports.RunJournal`."""
        body = self.encode_value([implementation, votes], place=f"the approval {question_id}")
        await self.questions.remember(question_id, body)

    async def find_remembered(self) -> Sequence[StoredApproval]:
        """Return the approvals that count for equal calls; see `journal_ports.RunJournal`."""
        return await self.questions.find_remembered(self.run_id)

    async def revoke_approval(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let an approval count for no further call; see `journal_ports.RunJournal`."""
        await self.questions.revoke(question_id, voter=voter, reason=reason)

    def revoke_approval_soon(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let an approval count for no further call; see `journal_ports.RunJournal`."""
        self.questions.revoke_soon(question_id, voter=voter, reason=reason)

    def find_value(self, place: str, declared: object = None) -> tuple[Any] | None:
        """Return a kept value, or raise the error that was kept instead; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        record = self.find_record(place, "value")
        if record is not None:
            return (decode_value(record.body, place=place, declared=declared),)
        record = self.find_handled(place, "result")
        if record is not None:
            ended = msgspec.msgpack.decode(record.body, type=EndedCall)
            assert ended.failure is not None
            error = rebuilt_error(ended.failure, place)
            self.note_raised(record.place, error)
            raise error
        check_declared(declared, place=place, rules=self.rules)  # before people are asked for such a value
        return None

    def keep_value(self, place: str, value: object, declared: object = None) -> Callable[[], Awaitable[None]]:
        """Keep a value; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        return self.add(place, "value", self.encode_value(value, place=place, declared=declared)).wait

    def keep_failure(self, place: str, error: Exception) -> None:
        """Keep the error of this life; see `journal_ports.RunJournal`."""
        place = self.relative(place)
        failure, _ = recorded_error(error, place)
        self.add_failure(place, "result", msgspec.msgpack.encode(EndedCall(failure=failure)), error)
