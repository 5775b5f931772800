"""The service "journal" in the program: it hands parts of the run out to workers, and records for them.

A worker that has an address of the run's store may append to it itself: the program admits it as a writer,
and dismisses it when it is lost. See `journal.writers`, and `worker_store` on the worker.
"""

from contextlib import suppress

import msgspec

from ..journal.acknowledgement import Acknowledgement
from ..journal.errors import JournalError
from ..journal.handed_parts import PartsRecorder
from ..journal.parts import PartEnd
from ..journal.recorder import find_recorder
from ..journal.records import Record
from ..journal.values import decode_value, encode_value
from ..journal_ports import AskedQuestion, GivenAnswers
from ..kernel.environment import Environment
from ..parallel.decided_limits import note_end, outer_limits, reach_new
from ..parallel.task_current import find_positions
from . import journal_messages as messages
from .crossing_errors import decode_error, encode_error
from .journal_messages import (
    Append,
    Await,
    CloseQuestion,
    Done,
    FindRemembered,
    FunctionEnded,
    Leave,
    LimitsReached,
    NoteCounted,
    NoteEscalation,
    Open,
    OpenQuestion,
    RememberApproval,
    Report,
    RevokeApproval,
    Setup,
    UseAnswers,
)
from .messages import encode
from .services import ProgramPart, SendOrder


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_JournalPart | None":
    """Begin the service for one placement of a call; None without a journal."""
    recorder = find_recorder()
    assert recorder is None or isinstance(recorder, PartsRecorder)
    return None if recorder is None else _JournalPart(recorder, find_positions().path, send_order)


class _JournalPart(ProgramPart):
    """The journal for one placement of a call.

    Args:
        recorder: The journal of the run.
        place: The place of the call.
        send_order: Sends an order to the worker.
    """

    def __init__(self, recorder: PartsRecorder, place: str, send_order: SendOrder) -> None:
        self._recorder = recorder
        self._place = place
        self._send_order = send_order
        self._last: Acknowledgement[None] | None = None  # of what was handed to the store last
        self._failure: JournalError | None = None
        self._end = PartEnd()
        self._answers: dict[str, GivenAnswers] = {}
        self._writer = ""  # the worker, if it may append to the store itself
        self._awaited: list[Acknowledgement[None]] = []
        self._found: Acknowledgement[list[Record]] | None = None

    def note_writer(self, writer: str) -> None:
        if self._recorder.writers is not None:
            self._writer = writer

    def setup(self) -> bytes:
        part = self._recorder.hand_out(self._place)
        self._found = self._recorder.find_handed(self._place)
        if self._writer:
            self._awaited = self._recorder.hand_to_writer(self._place, self._writer)
        waits = bool(self._awaited) or self._found is not None
        return encode(Setup(part=part, limits=outer_limits(), writes=bool(self._writer), waits=waits))

    def note(self, body: bytes) -> None:
        report = messages.decode_report(body)
        if isinstance(report, Await):
            self._answer_when_done(report)
        elif self._failure is None:
            try:
                self._take(report)
            except JournalError as error:  # the program's own next record fails, too
                self._failure = error

    def _take(self, report: Report) -> None:
        match report:
            case Append(records=records):
                self._last = self._recorder.take_in(self._place, records)
            case LimitsReached():
                reach_new()
            case FunctionEnded():
                note_end()
            case Leave(end=end, failure=failure):
                self._end = end
                if failure is not None:
                    self._lose_life(decode_error(failure))
            case CloseQuestion(id=question):
                self._recorder.questions.close(question)
            case NoteCounted(id=question, number=number):
                if question in self._answers:
                    self._answers[question].note_counted(number)
            case NoteEscalation(id=question, voter=voter, role=role, reason=reason):
                self._recorder.questions.note_escalation(question, voter=voter, role=role, reason=reason)
            case RevokeApproval(id=question, voter=voter, reason=reason):
                self._recorder.questions.revoke_soon(question, voter=voter, reason=reason)
            case Await():
                pass

    async def answer(self, body: bytes) -> bytes:
        match messages.decode_question(body):
            case Open():
                for each in self._awaited:
                    await each.wait()
                return encode([] if self._found is None else await self._found.wait())
            case OpenQuestion() as question:
                kind, content, schema = decode_value(question.content, place=question.place)
                asked = AskedQuestion(
                    id=question.id, kind=kind, content=content, schema=schema, ends_at=question.ends_at
                )
                opened = await self._recorder.questions.open(self._recorder.run_id, asked, question.place)
                self._answers[question.id] = opened
                return b""
            case UseAnswers() as use:
                return await _used(self._answers[use.id], use)
            case FindRemembered():
                found = await self._recorder.questions.find_remembered(self._recorder.run_id)
                return encode_value([msgspec.structs.asdict(each) for each in found], place=self._place)
            case RememberApproval(id=question_id, approval=approval):
                await self._recorder.questions.remember(question_id, approval)
                return b""
            case RevokeApproval(id=question_id, voter=voter, reason=reason):
                await self._recorder.questions.revoke(question_id, voter=voter, reason=reason)
                return b""

    def end(self, *, is_lost: bool) -> None:
        if not is_lost:
            self._recorder.take_back(self._place, self._end)
        elif self._writer and self._recorder.writers is not None:
            with suppress(JournalError):  # the store was closed: the program's next record fails, too
                self._recorder.writers.dismiss(self._writer)

    def _lose_life(self, failure: BaseException) -> None:
        """Let the run record nothing more: the worker could not record everything that it has done."""
        assert self._recorder.writers is not None
        assert isinstance(failure, JournalError)
        self._recorder.writers.lose_life(failure)

    def _answer_when_done(self, request: Await) -> None:
        def answer(error: Exception | None) -> None:
            encoded = None if error is None else encode_error(error, "the program")
            self._send_order(encode(Done(number=request.number, error=encoded)))

        try:
            waited = self._recorder.hold() if request.renews else self._last
        except JournalError as error:
            answer(error)
            return
        if self._failure is not None or waited is None:
            answer(self._failure)
        else:
            waited.call_when_done(answer)


async def _used(answers: GivenAnswers, use: UseAnswers) -> bytes:
    """Call a method of answers, and return its result, encoded."""
    place = f"the answer to question {use.id}"
    match use.method:
        case "next_answer":
            return encode_value(await answers.next_answer(), place=place)
        case "find_answer":
            return encode_value(await answers.find_answer(), place=place)
        case "refuse":
            await answers.refuse()
            return b""
        case "claim":
            return msgspec.msgpack.encode(await answers.claim())
        case "next_vote":
            return msgspec.msgpack.encode(await answers.next_vote(use.after))
