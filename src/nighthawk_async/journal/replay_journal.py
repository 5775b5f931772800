"""The journal of a replay: answers from the records alone. Nothing is recorded, asked or waited for."""

import inspect
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import NoReturn, Self

import msgspec
from anyio.lowlevel import checkpoint

from ..journal_ports import BegunQuestion, RecordedAnswer, StepInputs, StoredApproval
from ..kernel.environment import run_from_sync
from ..ports import OpenSource
from ..recording.exchange import RecordedError, RecordedExchange
from ..recording.recorder import ReplayStream
from ..types.model import ModelCapabilities, ModelEvent, ModelRequest
from .acknowledgement import Acknowledgement
from .delivery import Delivery
from .diverged_lives import records_that_count
from .errors import JournalDivergenceError, JournalError, ReplayEndError
from .gate import Gate
from .mailboxes import Choose, Inbox, Mailboxes
from .message_table import Message
from .people import Questions
from .recorder import NewCode
from .records import Record, RecordIndex, RecordKind
from .response import JournaledResponse
from .run_journal import RunJournal
from .store_thread import StoreThread
from .values import ValueRules

Reached = Callable[[str], None]


class ReplayJournal(RunJournal):
    """The journal of one replay of a run.

    Args:
        run_id: The run.
        records: Its records, in order.
        new_code: The handling of records that are left over; see `RunRecorder`.
        reached: Called with each place that is reached; it may raise.
        keep_error: Called with each error that ends the replay.
    """

    is_replay = True

    def __init__(
        self,
        *,
        run_id: str,
        records: Sequence[Record],
        new_code: NewCode,
        reached: Reached,
        keep_error: Callable[[JournalError], None],
    ) -> None:
        nothing = StoreThread("", _refuse_connection)
        nowhere = Mailboxes(nothing)
        counting = records_that_count(records)
        super().__init__(
            run_id=run_id,
            epoch=1 + max((record.epoch for record in records), default=0),
            records=counting,
            append=_append_nothing,
            hold=lambda: None,
            durability="effect",
            new_code=new_code,
            mailboxes=nowhere,
            questions=Questions(nothing, _RULES),
            rules=_RULES,
        )
        self._records = counting
        self._keep_error = keep_error
        self._index = _ReplayIndex(counting, reached)
        self.delivery = Delivery(counting, self._index)
        self.gate = Gate(self._index, self.delivery, self._depending, self._check_begun)
        self._answered = {  # steps whose requests were answered, or have failed
            record.place.rpartition("/turn[")[0] for record in counting if "/turn[" in record.place
        }
        self.inbox = _NoInbox(run_id, nowhere, ())
        self.frames: dict[str, FrameType] = {}
        """The frames of the program in which steps began, by their places."""

    def begin_step(self, place: str, program: str, inputs: StepInputs) -> bytes | None:
        """Compare a step with its record; see `RunJournal.begin_step`."""
        if (frame := find_program_frame(inspect.currentframe())) is not None:
            self.frames[self.relative(place)] = frame
        return super().begin_step(place, program, inputs)

    def find_answer(self, place: str, types: Mapping[str, object]) -> RecordedAnswer | None:
        """Return the answer of an executor; see `RunJournal.find_answer`."""
        answer = super().find_answer(place, types)
        relative = self.relative(place)
        if answer is None and relative not in self._answered:
            self.end_at(f"{relative}/turn[0]")
        return answer

    def respond(
        self, place: str, model_name: str, open_source: OpenSource
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response of a place; see `RunJournal.respond`."""
        self._asked.add(self.relative(place).rpartition("/")[0])
        return _ReplayedResponse(self, place, model_name, open_source)

    async def begin_question(self, place: str, content: Mapping[str, object]) -> BegunQuestion:
        """Compare a question with its record; see `RunJournal.begin_question`."""
        begun = await super().begin_question(place, content)
        relative = self.relative(place)
        is_answered = any(
            self._index.find(each, "value") is not None for each in (relative, f"{relative}/answer[0]")
        )
        failure = self.find_handled(relative, "result")
        if not is_answered and failure is None:
            self.end_at(relative)
        return begun

    def note_escalation(self, question_id: str, *, voter: str, role: str, reason: str) -> None:
        """Do nothing: no people answer; see `RunJournal.note_escalation`."""

    async def find_remembered(self) -> Sequence[StoredApproval]:
        """Return none: the votes of every request are recorded; see `RunJournal.find_remembered`."""
        return ()

    async def remember_approval(
        self, question_id: str, implementation: str, votes: Sequence[Mapping[str, object]]
    ) -> None:
        """Do nothing: the decision is recorded; see `RunJournal.remember_approval`."""

    def add(self, place: str, kind: RecordKind, body: bytes) -> Acknowledgement[None]:
        """Refuse a new record; see `RunRecorder.add`."""
        self.end_at(place)

    def add_failure(
        self, place: str, kind: RecordKind, body: bytes, error: BaseException | None
    ) -> Acknowledgement[None]:
        """Record nothing: the error that is about to be raised counts."""
        nothing = Acknowledgement[None]()
        nothing.succeed(None)
        return nothing

    def check_new(self, place: str) -> None:
        """Refuse a place without a record.

        Raises:
            JournalDivergenceError: What came after it was recorded, so the program has changed.
            ReplayEndError: The records end there.
        """
        self.end_at(place)

    def end_at(self, place: str) -> NoReturn:
        """End the replay at a place that has no record.

        Raises:
            JournalDivergenceError: What came after it was recorded, so the program has changed.
            ReplayEndError: The records end there.
        """
        try:
            super().check_new(place)
        except JournalDivergenceError as error:
            self._keep_error(error)
            raise
        error = ReplayEndError(f"the records end here: {place} {self._known_about(place)}", place=place)
        self._keep_error(error)
        raise error

    def _known_about(self, place: str) -> str:
        found = [record for record in self._records if record.place == place]
        failures = [
            record
            for record in self._records
            if record.kind == "failure" and record.place.startswith(f"{place}/failed[")
        ]
        if failures:
            failure = msgspec.msgpack.decode(failures[-1].body, type=RecordedError)
            return f"has failed in life {failures[-1].epoch} ({failure.type}: {failure.message})"
        if self._index.find_intent(place) is not None:
            return "had begun, and its result was not recorded"
        if any(record.kind == "question" for record in found):
            return "was asked, and not answered"
        return "has waited" if found else "was not reached"

    def end(self) -> None:
        """Record nothing."""


class _ReplayIndex(RecordIndex):
    """The index of the records, which reports the places that are reached."""

    def __init__(self, records: Sequence[Record], reached: Reached) -> None:
        super().__init__(records)
        self._report = reached

    def reach(self, place: str) -> None:
        """Report a place, and note that it is reached."""
        self._report(place)
        super().reach(place)


class _NoInbox(Inbox):
    """Mailboxes from which nothing is received that was not recorded."""

    async def take(self, name: str, seconds: float | None, choose: Choose, limit: int) -> tuple[Message, ...]:
        """Return none, which cannot be recorded."""
        await checkpoint()
        return ()


class _ReplayedResponse(JournaledResponse):
    """A recorded response, which goes the way of a new one, so that a cassette may record it."""

    async def __aenter__(self) -> Self:
        exchange = await self._find_recorded()
        if exchange is None:
            await self._recorder.delivery.wait_until_over(self._place)
            self._recorder.check_new(self._place)
            raise AssertionError("a replay has no new responses")
        self._is_replay = True
        await self.enter_source(self._open_source(RecordedModel(self._model_name, exchange)))
        return self

    async def _find_recorded(self) -> RecordedExchange | None:
        """The recorded response, or the error that the run went on after; None for neither."""
        record = self._recorder.find_record(self._place, "response")
        if record is not None:
            await self._recorder.delivery.deliver(record)
            return msgspec.msgpack.decode(record.body, type=RecordedExchange)
        failure = self._recorder.find_handled(self._place, "failure")
        if failure is None:
            return None
        await self._recorder.delivery.deliver(failure)
        error = msgspec.msgpack.decode(failure.body, type=RecordedError)
        return RecordedExchange(step=(), model=self._model_name, digest="", request={}, error=error)


class RecordedModel:
    """A model that gives one recorded response.

    Args:
        name: The id of the model that gave it.
        exchange: The response.
    """

    capabilities = ModelCapabilities()

    def __init__(self, name: str, exchange: RecordedExchange) -> None:
        self.name = name
        self._exchange = exchange

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response."""
        return ReplayStream(self._exchange)


_RULES = ValueRules(keeps_secrets=True)  # nothing is stored

_LIBRARIES = frozenset({"nighthawk_async", "anyio", "trio", "outcome", *sys.stdlib_module_names})
"""Modules whose frames are none of the program."""


def find_program_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is one of the program; None where there is none."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            return frame
        frame = frame.f_back
    return None


def find_bridged_frame() -> FrameType | None:
    """The frame of a synchronous program that waits in a thread for a step; None for none or several."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    frames.pop(threading.get_ident(), None)
    found = [frame for frame in frames.values() if _is_bridged(frame)]
    return find_program_frame(found[0]) if len(found) == 1 else None


def _is_bridged(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == run_from_sync.__module__:
            return True
        frame = frame.f_back
    return False


def _append_nothing(records: Sequence[Record]) -> Acknowledgement[None]:
    done: Acknowledgement[None] = Acknowledgement()
    done.succeed(None)
    return done


def _refuse_connection() -> NoReturn:
    raise JournalError("a replay opens no store")
