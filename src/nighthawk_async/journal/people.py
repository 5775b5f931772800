"""Answers and votes that people give through the store, from any process, for the runs that wait for them."""

import time
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

import anyio
from msgspec import Struct

from ..errors import NighthawkError, NoHumanError
from ..journal_ports import AskedQuestion, GivenAnswers, GivenVote, StoredApproval
from ..kernel.environment import find_journal
from ..policies.people.ballot import Votes, count_vote
from ..policies.people.errors import (
    AnswerRefusedError,
    NotRememberedError,
    RequestClosedError,
    UnknownApproverError,
    WrongDigestError,
)
from ..policies.people.request import ApprovalRequest, Question
from . import question_table, tables
from .acknowledgement import Acknowledgement
from .answer_check import find_mismatch
from .blob_table import begin_writing
from .database import Database
from .listeners import FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, Listeners
from .question_table import QuestionRow
from .store_thread import StoreThread
from .values import ValueRules, decode_value, encode_value

Result = TypeVar("Result")
Given = ParamSpec("Given")


class StoredRemembered(Struct, frozen=True, kw_only=True):
    """A remembered approval, and its run."""

    run_id: str
    approval: StoredApproval


def _read_remembered(database: Database, run_id: str | None) -> list[StoredRemembered]:
    return [_remembered_of(*each) for each in question_table.read_remembered(database, run_id)]


def _remembered_of(row: QuestionRow, body: bytes) -> StoredRemembered:
    implementation, votes = decode_value(body, place=f"the approval {row.id}")
    approval = StoredApproval(
        id=row.id, content=row.content, implementation=implementation, votes=votes, ends_at=row.expires_at
    )
    return StoredRemembered(run_id=row.run_id, approval=approval)


class Questions:
    """The questions of all runs of a store.

    Args:
        thread: The thread of the store.
        rules: The rules for questions, answers and votes.
    """

    def __init__(self, thread: StoreThread, rules: ValueRules) -> None:
        self._thread = thread
        self._rules = rules
        self._listeners = Listeners()

    async def open(self, run_id: str, asked: AskedQuestion, place: str) -> GivenAnswers:
        """Let a question be answered through the store."""
        body = question_table.encode_question(asked, place, self._rules)
        await self.change(lambda database: question_table.open_question(database, run_id, asked, body)).wait()
        return StoredAnswers(self, asked.id)

    def close(self, question_id: str) -> None:
        """Accept no answer any more."""
        self.change(question_table.close_question, question_id=question_id)

    def read(self, run_id: str | None) -> Acknowledgement[list[QuestionRow]]:
        """Read the open questions of a run, or of all runs."""
        return self.change(question_table.read_questions, run_id=run_id)

    async def answer(self, question_id: str, value: object) -> None:
        """Answer a question; see `JournalStore.answer`."""
        place = f"the answer to question {question_id}"
        body = encode_value(value, place=place, rules=self._rules)

        def give(database: Database) -> None:
            begin_writing(database, body)
            row = _locked_row(database, question_id)
            _check_answer(row, value)
            question_table.give_answer(database, question_id, body)
            tables.wake_run(database, row.run_id)

        await self._give(question_id, give)

    async def vote(
        self,
        question_id: str,
        *,
        approve: bool,
        voter: str,
        digest: str | None,
        reason: str,
        is_remembered: bool = False,
        role: str = "",
    ) -> None:
        """Vote on a request for approval, or hand it on to a role; see `JournalStore.vote` and `escalate`."""
        text = self._checked_texts(question_id, voter, reason)

        def give(database: Database) -> None:
            begin_writing(database, text)
            row = _locked_row(database, question_id)
            vote = GivenVote(
                number=len(row.votes) + 1,
                voter=voter,
                approves=approve,
                reason=reason,
                at=time.time(),
                is_remembered=approve and is_remembered,
                role=role,
            )
            _check_vote(row, vote, digest)
            is_last = _is_decided(row, (*row.votes, vote))
            question_table.give_vote(database, question_id, vote, is_last=is_last)
            tables.wake_run(database, row.run_id)

        await self._give(question_id, give)

    def note_escalation(self, question_id: str, *, voter: str, role: str, reason: str) -> None:
        """Note that a request was handed on to a role elsewhere; see `RunJournal.note_escalation`."""

        def note(database: Database) -> None:
            begin_writing(database)
            row = _locked_row(database, question_id)
            vote = GivenVote(
                number=len(row.votes) + 1,
                voter=voter,
                approves=False,
                reason=reason,
                at=time.time(),
                role=role,
            )
            question_table.give_vote(database, question_id, vote, is_last=False, has_counted=True)

        self.change(note)

    async def remember(self, question_id: str, approval: bytes) -> None:
        """Let an approval count for equal calls of its run; see `RunJournal.remember_approval`."""
        await self.change(question_table.remember_approval, question_id=question_id, approval=approval).wait()

    async def find_remembered(self, run_id: str) -> list[StoredApproval]:
        """Return the approvals that count for equal calls of a run."""
        return [each.approval for each in await self.read_remembered(run_id).wait()]

    def read_remembered(self, run_id: str | None) -> Acknowledgement[list[StoredRemembered]]:
        """Read the approvals that count for equal calls of a run, or of all runs."""
        return self.change(_read_remembered, run_id)

    async def revoke(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let a remembered approval count for no further call; see `JournalStore.revoke`."""
        await self._revocation(question_id, voter, reason).wait()

    def revoke_soon(self, question_id: str, *, voter: str, reason: str) -> None:
        """Let a remembered approval count for no call that begins from now on; from any thread."""
        self._revocation(question_id, voter, reason)

    def _revocation(self, question_id: str, voter: str, reason: str) -> Acknowledgement[None]:
        text = self._checked_texts(question_id, voter, reason)

        def give(database: Database) -> None:
            begin_writing(database, text)
            row = _locked_row(database, question_id)
            if row.status != "remembered":
                raise NotRememberedError(
                    f"the approval {question_id} is not remembered: it was revoked, or its run has ended"
                )
            vote = GivenVote(
                number=len(row.votes) + 1, voter=voter, approves=False, reason=reason, at=time.time()
            )
            question_table.revoke_approval(database, question_id, vote)

        return self.change(give)

    def _checked_texts(self, question_id: str, voter: str, reason: str) -> bytes:
        """Check that a name and a reason can be stored."""
        place = f"the vote on question {question_id}"
        return encode_value([voter, reason], place=place, rules=self._rules)

    async def _give(self, question_id: str, give: Callable[[Database], None]) -> None:
        await self.change(give).wait()
        self._listeners.wake(question_id)

    def change(
        self,
        function: Callable[Concatenate[Database, Given], Result],
        *args: Given.args,
        **keywords: Given.kwargs,
    ) -> Acknowledgement[Result]:
        """Have the store's thread call a function with the database, in a transaction."""
        return self._thread.transact(function, *args, **keywords)

    async def poll(self, question_id: str, find: Callable[[], Awaitable[Result | None]]) -> Result:
        """Wait until there is something in the store."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._listeners.listening(question_id) as news:
                found = await find()
                if found is not None:
                    return found
                with anyio.move_on_after(pause):
                    await news.wait()
            pause = min(2 * pause, MOST_PAUSE_SECONDS)


def _locked_row(database: Database, question_id: str) -> QuestionRow:
    """Read a question, and let no other process change it or its run before the transaction ends."""
    rows = question_table.read_questions(database, question_id=question_id) if question_id.isalnum() else []
    if not rows:
        raise NighthawkError(f"there is no question {question_id!r}")
    tables.lock_run(database, rows[0].run_id)
    return question_table.read_questions(database, question_id=question_id, locks=True)[0]


def _check_answer(row: QuestionRow, value: object) -> None:
    if row.kind != "question":
        raise AnswerRefusedError(f"{row.id} is a request for approval: people vote on it")
    if row.status != "open":
        raise _closed(row)
    reason = find_mismatch(value, row.schema)
    if reason is not None:
        raise AnswerRefusedError(f"{reason}; the question is open as before")


def _check_vote(row: QuestionRow, vote: GivenVote, digest: str | None) -> None:
    if row.kind != "approval":
        raise AnswerRefusedError(f"{row.id} is a question: it has answers and no votes")
    if row.status != "open":
        raise _closed(row)
    voter, approvers = vote.voter, row.approvers
    if not voter or (approvers is not None and voter not in approvers):
        raise UnknownApproverError(f"{voter!r} is not among the approvers")
    if vote.role:
        _votes_of(row).escalate(voter, vote.role, vote.reason)
        return
    if digest != row.content["digest"] and (vote.approves or digest is not None):
        raise WrongDigestError(
            f"the vote of {voter!r} is not for this action, {row.content['action']!r}, with these arguments"
        )
    before = [each.approves for each in row.votes if each.voter == voter]
    if vote.approves and before[-1:] == [True]:
        raise AnswerRefusedError(f"{voter!r} has approved already, and counts once")


def _votes_of(row: QuestionRow) -> Votes:
    """The state of a request that may be handed on: the roles, and the one that has it."""
    votes = Votes(quorum=row.content["quorum"], approvers=None, roles=row.roles)
    votes.role = row.role
    return votes


def _closed(row: QuestionRow) -> RequestClosedError:
    if row.status == "expired":
        return RequestClosedError(f"the time of question {row.id} is over")
    return RequestClosedError(f"question {row.id} was answered already, or its run waits for it no longer")


def _is_decided(row: QuestionRow, given: tuple[GivenVote, ...]) -> bool:
    """Whether the votes of the store decide, without those that a handler has got."""
    votes = Votes(quorum=row.content["quorum"], approvers=None, roles=row.roles)
    try:
        for vote in given:
            count_vote(votes, vote)
    except (RequestClosedError, UnknownApproverError):  # a handler had got an answer before one of them
        return False
    return votes.status != "pending"


class StoredAnswers:
    """The answers to one question in the store; see `journal_ports.GivenAnswers`.

    Args:
        questions: The questions of the store.
        question_id: The question.
    """

    def __init__(self, questions: Questions, question_id: str) -> None:
        self._questions = questions
        self._id = question_id

    async def next_answer(self) -> object:
        """Wait for the answer."""
        (answer,) = await self._questions.poll(self._id, self.find_answer)
        return answer

    async def find_answer(self) -> tuple[object] | None:
        """Return the answer, alone in a tuple; None while there is none."""
        body = await self._change(question_table.find_answer)
        return None if body is None else (decode_value(body, place=f"the answer to question {self._id}"),)

    async def refuse(self) -> None:
        """Refuse the answer; see `journal_ports.GivenAnswers`."""
        await self._change(question_table.refuse_answer)

    async def claim(self) -> bool:
        """Accept no answer any more; see `journal_ports.GivenAnswers`."""
        return await self._change(question_table.claim_question)

    async def next_vote(self, after: int) -> GivenVote:
        """Wait for the first vote after a number that has not counted yet."""

        async def find() -> GivenVote | None:
            return await self._change(question_table.next_vote, after=after)

        return await self._questions.poll(self._id, find)

    def note_counted(self, number: int) -> None:
        """Note that votes have counted; see `journal_ports.GivenAnswers`."""
        self._questions.change(question_table.note_counted, question_id=self._id, number=number)

    async def _change(self, function: Callable[..., Result], **keywords: object) -> Result:
        return await self._questions.change(function, question_id=self._id, **keywords).wait()


class StorePeople:
    """The handler of people who answer through the store. Made by `JournalStore.people`.

    Args:
        questions: The questions of the store.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def ask(self, question: Question) -> object:
        """Wait until the question is answered through the store.

        Raises:
            NoHumanError: The run is not recorded in the store.
        """
        self._check_journal()
        await anyio.sleep_forever()
        raise AssertionError("the wait ends with its cancellation")

    async def approve(self, request: ApprovalRequest) -> None:
        """Leave the request open until people have voted through the store.

        Raises:
            NoHumanError: The run is not recorded in the store.
        """
        self._check_journal()

    def _check_journal(self) -> None:
        if getattr(find_journal(), "questions", None) is not self._questions:
            raise NoHumanError(
                "people can answer through the store only in a run that is recorded in it: "
                "nighthawk_async.run(…, journal=store, human=store.people())"
            )
