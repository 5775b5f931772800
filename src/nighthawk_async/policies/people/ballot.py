"""The answers to a request for approval, from any thread, until it expires.

They are kept in memory as long as the asker waits for them. `Votes` interprets the answers; it is plain
state:

    pending ── enough different approvers approved ──> approved
       ├────── a person who had not approved denies, or nobody can be asked ──> denied
       ├────── it has expired ──> expired
       └────── the asker no longer waits ──> cancelled

A denial by a person who had approved only withdraws that approval; a second denial denies the request. Once
the request is not pending, nothing changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import anyio

from ...errors import NighthawkError
from ...journal_ports import GivenVote
from ...parallel.event_loop import EventLoop, OtherLoopError
from .errors import RequestClosedError, UnknownApproverError

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
"""The state of a request for approval."""

EndStatus: TypeAlias = Literal["denied", "expired", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One person's answer.

    Args:
        approver: The person.
        answer: The answer; `withdrawn` takes back an approval that the same person gave.
        given_at: The time of the answer, in UTC.
        reason: The reason, if one was given.
    """

    approver: str
    answer: Literal["approved", "denied", "withdrawn"]
    given_at: datetime
    reason: str = ""


class Votes:
    """The answers to one request.

    Args:
        quorum: The number of different people who must approve.
        approvers: The people who may answer; None for everybody.
    """

    __slots__ = ("_approvals", "_approvers", "_quorum", "given", "status")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None) -> None:
        self._quorum = quorum
        self._approvers = approvers
        self._approvals: dict[str, Vote] = {}
        self.given: list[Vote] = []
        """The answers that had an effect, in order."""
        self.status: ApprovalStatus = "pending"

    @property
    def approvals(self) -> tuple[Vote, ...]:
        """The approvals that currently count, in the order in which they were given."""
        return tuple(self._approvals.values())

    @property
    def denial(self) -> Vote | None:
        """The answer that denied the request; None for none."""
        last = self.given[-1:]
        return last[0] if last and last[0].answer == "denied" else None

    def approve(self, approver: str, at: datetime | None = None) -> None:
        """Count an approval. A second approval of the same person changes nothing.

        Args:
            approver: The person.
            at: The time of the answer; None for now.

        Raises:
            AnswerRefusedError: The request is not pending, or that person is not an approver.
        """
        self._check(approver)
        if approver in self._approvals:
            return
        self.add(Vote(approver=approver, answer="approved", given_at=at or datetime.now(UTC)))

    def deny(self, approver: str, reason: str, at: datetime | None = None) -> None:
        """Withdraw that person's approval; if there is none, deny the request.

        Args:
            approver: The person.
            reason: The reason; empty for none.
            at: The time of the answer; None for now.

        Raises:
            AnswerRefusedError: The request is not pending, or that person is not an approver.
        """
        self._check(approver)
        answer = "withdrawn" if approver in self._approvals else "denied"
        self.add(Vote(approver=approver, answer=answer, given_at=at or datetime.now(UTC), reason=reason))

    def add(self, vote: Vote) -> None:
        """Count an answer that has an effect."""
        self.given.append(vote)
        match vote.answer:
            case "approved":
                self._approvals[vote.approver] = vote
                if len(self._approvals) >= self._quorum:
                    self.status = "approved"
            case "withdrawn":
                del self._approvals[vote.approver]
            case "denied":
                self.status = "denied"

    def end(self, status: EndStatus) -> bool:
        """End a pending request without an answer; return False when it had already ended."""
        if self.status != "pending":
            return False
        self.status = status
        return True

    def _check(self, approver: str) -> None:
        if self.status != "pending":
            raise RequestClosedError(f"the request is {self.status} already")
        if not approver or (self._approvers is not None and approver not in self._approvers):
            raise UnknownApproverError(f"{approver!r} is not among the approvers")


class Ballot:
    """The answers to one request. Made on the event loop that waits for them.

    Args:
        quorum: The number of different people who must approve.
        approvers: The people who may answer; None for everybody.
        expires: The seconds until it expires; infinity for never.
    """

    __slots__ = ("_changed", "_clock_offset", "_loop", "expires_at", "on_vote", "votes")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None, expires: float) -> None:
        self.votes = Votes(quorum=quorum, approvers=approvers)
        self.on_vote: Callable[[Vote], object] | None = None
        """Called with each answer that has an effect, on the event loop of the ballot."""
        self._loop = EventLoop()
        self._clock_offset = anyio.current_time() - time.monotonic()
        self.expires_at = anyio.current_time() + expires
        """The time at which it expires, on the clock of `anyio.current_time`; infinity for never."""
        self._changed = anyio.Event()

    @property
    def is_pending(self) -> bool:
        """Whether answers are accepted."""
        return self.votes.status == "pending"

    @property
    def remaining_seconds(self) -> float:
        """Return the remaining seconds; infinity without a limit. Thread-safe."""
        now = anyio.current_time() if self._loop.is_here else time.monotonic() + self._clock_offset
        return max(0.0, self.expires_at - now)

    def approve(self, approver: str) -> None:
        """Count an approval, from any thread.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._take(self.votes.approve, approver)

    def deny(self, approver: str, reason: str) -> None:
        """Count a denial, from any thread.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._take(self.votes.deny, approver, reason)

    def count_given(self, vote: GivenVote) -> None:
        """Count an answer that was given through the store, on the event loop of the ballot.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        at = datetime.fromtimestamp(vote.at, UTC)
        if vote.approves:
            self._count(lambda: self.votes.approve(vote.voter, at))
        else:
            self._count(lambda: self.votes.deny(vote.voter, vote.reason, at))

    def end(self, status: EndStatus) -> None:
        """End it without an answer; does nothing when it has already ended."""
        if self.votes.end(status):
            self._notify_change()

    async def wait_changed(self) -> None:
        """Wait for the next answer that has an effect, or the end."""
        await self._changed.wait()

    async def wait_closed(self) -> ApprovalStatus:
        """Wait until no more answers are accepted; return how it ended."""
        while self.is_pending:
            await self._changed.wait()
        return self.votes.status

    def _take(self, count: Callable[..., None], *answer: str) -> None:
        try:
            self._loop.call(self._count, count, *answer)
        except anyio.RunFinishedError:
            raise RequestClosedError("the event loop of the request has ended") from None
        except OtherLoopError:
            raise NighthawkError(
                "A request is answered on the event loop on which it was made, or from a thread without one; "
                "go through `anyio.to_thread.run_sync`."
            ) from None

    def _count(self, count: Callable[..., None], *answer: str) -> None:
        if self.remaining_seconds <= 0:  # the waiter may not have noticed yet that it has expired
            self.end("expired")
        before = len(self.votes.given)
        count(*answer)
        if self.on_vote is not None and len(self.votes.given) > before:
            self.on_vote(self.votes.given[-1])
        self._notify_change()

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
