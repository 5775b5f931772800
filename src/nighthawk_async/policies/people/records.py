"""Records of questions and requests for approval in runs with a journal, so that no later life asks again."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, Self, TypeAlias, TypeVar, cast

import anyio
from pydantic import PydanticInvalidForJsonSchema, PydanticUserError

from ...errors import ApprovalDeniedError
from ...journal_ports import AskedQuestion, BegunQuestion, GivenAnswers, GivenVote, RunJournal
from ...kernel.calls import take_place
from ...kernel.commit import InterceptionError
from ...kernel.environment import find_journal
from ...values.validation import type_adapter, type_name
from .ballot import Ballot, Vote
from .digest import DigestedAction
from .errors import AnswerRefusedError
from .remembered import vote_as_plain_data
from .request import ApprovalRequest, Question

Answer = TypeVar("Answer")

KeptEnd: TypeAlias = Literal["default", "timed_out"]
"""The ways in which a question ends without an answer, and the program goes on."""

KeptDecision: TypeAlias = Literal["approved", "denied", "expired"]


class PeopleRecord:
    """The record of one question or request for approval.

    Args:
        journal: The journal of the run.
        place: The place in the run.
        content: The parts of the question.
        begun: The recorded question.
    """

    def __init__(
        self, journal: RunJournal, place: str, content: Mapping[str, object], begun: BegunQuestion
    ) -> None:
        self.journal = journal
        self._place = place
        self._content = content
        self.id = begun.id
        self._begun_at = begun.begun_at
        self._has_failed = False  # in an earlier life, which went on

    @classmethod
    async def _begin(cls, frame: str, argument: object, content: Mapping[str, object]) -> Self | None:
        """Record, durably, what is asked; None without a journal.

        Args:
            frame: The frame of its place.
            argument: The argument that identifies it in tasks that were started by hand.
            content: The parts of the question.

        Raises:
            InterceptionError: An earlier life asked something else here.
        """
        journal = find_journal()
        if journal is None:
            return None
        place = take_place(frame, argument)
        return cls(journal, place, content, await journal.begin_question(place, content))

    def remaining_of(self, seconds: float) -> float:
        """The rest of a time that began when people were first asked, by the clock of the wall."""
        return min(seconds, self._begun_at + seconds - time.time())

    def ends_at(self, seconds: float | None) -> float | None:
        """The end of such a time, in seconds since 1970; None for never."""
        return None if seconds is None or math.isinf(seconds) else self._begun_at + seconds

    def keep_failure(self, error: Exception) -> None:
        """Keep an error, which is raised again in later lives if the program goes on after it."""
        if not self._has_failed and not isinstance(error, InterceptionError):
            self.journal.keep_failure(self._place, error)


def _json_schema(schema: object) -> Mapping[str, object] | None:
    """The JSON schema of the answers; None for types that have none."""
    try:
        return type_adapter(schema).json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema):
        return None


class QuestionRecord(PeopleRecord):
    """The record of a question."""

    @classmethod
    async def begin(cls, prompt: str, schema: object) -> Self | None:
        """Record, durably, what is asked; None without a journal.

        Raises:
            InterceptionError: An earlier life asked something else here.
        """
        return await cls._begin("question()", prompt, {"prompt": prompt, "type": type_name(schema)})

    def find_answer(self, question: Question) -> tuple[object] | None:
        """Return the answer that an earlier life got, alone in a tuple; None for none."""
        return self.journal.find_value(f"{self._place}/answer[0]", question.schema)

    def find_end(self) -> KeptEnd | None:
        """Return how the question ended without an answer; None where it did not.

        Raises:
            Exception: The earlier life went on after this error.
        """
        end = self.journal.find_value(self._place)
        return None if end is None else cast("KeptEnd", end[0])

    async def wait_for_answer(
        self,
        question: Question,
        seconds: float | None,
        wait: Callable[[GivenAnswers], Awaitable[Answer]],
    ) -> Answer:
        """Wait for the answer, which may come through the store.

        Args:
            question: The question.
            seconds: The longest wait over all lives; None for as long as it takes.
            wait: Waits for it.
        """
        asked = AskedQuestion(
            id=self.id,
            kind="question",
            content=self._content,
            schema=_json_schema(question.schema),
            ends_at=self.ends_at(seconds),
        )
        return await self.journal.wait_for_people(self._place, asked, wait)

    def keep_answer(self, question: Question, answer: object) -> Callable[[], Awaitable[None]]:
        """Keep the answer; return the function to wait with until it is durable."""
        if question.has_default and answer is question.default:  # which may be of any type
            return self.journal.keep_value(self._place, "default")
        return self.journal.keep_value(f"{self._place}/answer[0]", answer, question.schema)

    async def keep_end(self, end: KeptEnd) -> None:
        """Keep how the question ended without an answer, durably."""
        await self.journal.keep_value(self._place, end)()


class ApprovalRecord(PeopleRecord):
    """The record of a request for approval."""

    _counted = 0  # the number of the last vote from the store that has counted
    _given: GivenVote | None = None  # the vote from the store that is being counted

    decision: KeptDecision | None = None
    """The decision of an earlier life; None for none."""

    needs_end = False
    """Whether the votes of an earlier life decided, and it ended before the store knew."""

    @classmethod
    async def begin(
        cls, digested: DigestedAction, *, quorum: int, approvers: frozenset[str] | None
    ) -> Self | None:
        """Record, durably, what people are asked to approve; None without a journal.

        Raises:
            InterceptionError: An earlier life asked for the approval of something else here.
        """
        content = {
            "action": digested.action,
            "arguments": digested.arguments,
            "digest": digested.digest,
            "quorum": quorum,
            "approvers": None if approvers is None else sorted(approvers),
        }
        return await cls._begin("approval()", digested.digest, content)

    @property
    def created_at(self) -> datetime:
        """The time at which people were first asked."""
        return datetime.fromtimestamp(self._begun_at, UTC)

    def restore(self, ballot: Ballot) -> None:
        """Count the votes of earlier lives again, and keep the further ones.

        Raises:
            Exception: The earlier life went on without a decision, after this error.
        """
        while (vote := self.journal.find_value(self._vote_place(ballot))) is not None:
            self._counted = max(self._counted, vote[0].pop("number", 0))
            ends_at = vote[0].pop("ends_at", math.inf)
            if not math.isinf(ends_at):  # a remembered approval, which ends with its request
                ballot.expires_at = min(ballot.expires_at, anyio.current_time() + ends_at - time.time())
            ballot.votes.add(Vote(**vote[0]))
        ballot.on_vote = lambda vote: self._keep_vote(vote, ballot)
        try:
            kept = self.journal.find_value(self._place)
        except Exception as error:
            self._has_failed = True
            if isinstance(error, ApprovalDeniedError):
                ballot.end("denied")
            raise
        self.decision = None if kept is None else kept[0]
        if self.decision == "expired" or (self.decision is None and ballot.remaining_seconds <= 0):
            ballot.end("expired")
        self.needs_end = self.decision is None and not ballot.is_pending

    async def keep_decision(self, decision: KeptDecision) -> None:
        """Keep the decision, durably, and with it all votes."""
        if self.decision is None:
            await self.journal.keep_value(self._place, decision)()

    async def wait_for_votes(
        self,
        request: ApprovalRequest,
        seconds: float | None,
        wait: Callable[[GivenAnswers], Awaitable[None]],
    ) -> None:
        """Wait until the request is decided, by votes that may come through the store.

        Args:
            request: The request.
            seconds: The seconds until it expires, over all lives; None for never.
            wait: Waits for that.
        """
        content = dict(self._content)
        if request.roles:
            content["roles"] = {name: sorted(people) for name, people in request.roles.items()}
        asked = AskedQuestion(id=self.id, kind="approval", content=content, ends_at=self.ends_at(seconds))
        await self.journal.wait_for_people(self._place, asked, wait)

    async def count_votes(self, answers: GivenAnswers, ballot: Ballot) -> None:
        """Count the votes that people give through the store, each once in all lives, until cancelled."""
        if self._counted:
            answers.note_counted(self._counted)
        while True:
            vote = await answers.next_vote(self._counted)
            self._given = vote
            with suppress(AnswerRefusedError):  # it had no effect
                ballot.count_given(vote)
            self._given = None
            self._counted = vote.number
            if ballot.is_pending:  # a vote that has decided is news until the wait has ended
                answers.note_counted(vote.number)

    def _keep_vote(self, vote: Vote, ballot: Ballot) -> None:
        kept = vote_as_plain_data(vote)
        if self._given is not None:
            kept["number"] = self._given.number
        elif vote.role is not None:  # so that the people of the role can answer through the store
            self.journal.note_escalation(self.id, voter=vote.approver, role=vote.role, reason=vote.reason)
        if vote.remembered_from is not None and not math.isinf(ballot.expires_at):
            kept["ends_at"] = time.time() + ballot.remaining_seconds
        self.journal.keep_value(f"{self._place}/vote[{len(ballot.votes.given) - 1}]", kept)

    def _vote_place(self, ballot: Ballot) -> str:
        return f"{self._place}/vote[{len(ballot.votes.given)}]"


def holds_in_every_life(digest: str, is_valid: Callable[[], bool]) -> bool:
    """Whether an approval is valid; in a run with a journal, the recorded result of the same check.

    Args:
        digest: The digest of the approved action.
        is_valid: Makes the check.
    """
    journal = find_journal()
    if journal is None:
        return is_valid()
    place = take_place("check()", digest)
    kept = journal.find_value(place)
    if kept is not None:
        return kept[0]
    result = is_valid()
    journal.keep_value(place, result)
    return result
