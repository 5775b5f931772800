"""The answers to a request for approval, from any thread, until it expires.

They are kept in memory as long as the asker waits for them. `Votes` interprets the answers; it is plain
state:

    pending ── enough different approvers approved ──> approved
       ├────── a person who had not approved denies, or nobody can be asked ──> denied
       ├────── it has expired ──> expired
       └────── the asker no longer waits ──> cancelled

A denial by a person who had approved only withdraws that approval; a second denial denies the request. A
person who is asked may hand the request on to a role: from then on the people of that role alone answer, and
approvals of others no longer count. Once the request is not pending, nothing changes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TypeAlias

import anyio

from ...errors import NighthawkError
from ...journal_ports import GivenVote
from ...parallel.event_loop import EventLoop, OtherLoopError
from .errors import (
    EscalationRefusedError,
    NotRememberedError,
    RequestClosedError,
    UnknownApproverError,
    UnknownRoleError,
)

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
"""The state of a request for approval."""

EndStatus: TypeAlias = Literal["denied", "expired", "cancelled"]

Remember: TypeAlias = Literal["run"]
"""The calls that an approval counts for, beside the one that was asked about: equal ones of the same run."""

Roles: TypeAlias = Mapping[str, frozenset[str]]
"""The people of each role."""

NO_ROLES: Roles = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One person's answer.

    Args:
        approver: The person.
        answer: The answer; `withdrawn` takes back an approval that the same person gave, `escalated` hands
            the request on to a role.
        given_at: The time of the answer, in UTC.
        reason: The reason, if one was given.
        remember: `run` for an approval that is remembered for equal calls of the run; None for others.
        role: The role that the request is handed on to; None for other answers.
        remembered_from: The id of the request that this approval was given to and remembered from; None for
            an answer to the request itself.
    """

    approver: str
    answer: Literal["approved", "denied", "withdrawn", "escalated"]
    given_at: datetime
    reason: str = ""
    remember: Remember | None = None
    role: str | None = None
    remembered_from: str | None = None


class Votes:
    """The answers to one request.

    Args:
        quorum: The number of different people who must approve.
        approvers: The people who may answer; None for everybody.
        roles: The people of the roles that it may be handed on to.
    """

    __slots__ = ("_approvals", "_quorum", "approvers", "asked", "given", "role", "roles", "status")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None, roles: Roles = NO_ROLES) -> None:
        self._quorum = quorum
        self.approvers = approvers
        """The people who may answer now; None for everybody."""
        self.asked = approvers
        """Those who might answer at first."""
        self.roles = roles
        self.role: str | None = None
        """The role that it was handed on to last; None for none."""
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

    @property
    def is_remembered(self) -> bool:
        """Whether it is approved, for equal calls as well: every approval that counts was given so."""
        return self.status == "approved" and all(each.remember for each in self._approvals.values())

    def approve(self, approver: str, at: datetime | None = None, *, remember: Remember | None = None) -> None:
        """Count an approval. A second approval of the same person changes nothing.

        Args:
            approver: The person.
            at: The time of the answer; None for now.
            remember: Whether it counts for equal calls of the run as well.

        Raises:
            AnswerRefusedError: The request is not pending, or that person is not an approver.
        """
        self._check(approver)
        if approver in self._approvals:
            return
        at = at or datetime.now(UTC)
        self.add(Vote(approver=approver, answer="approved", given_at=at, remember=remember))

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

    def escalate(self, approver: str, role: str, reason: str, at: datetime | None = None) -> None:
        """Hand the request on to the people of a role.

        Args:
            approver: The person who hands it on.
            role: The role.
            reason: The reason; empty for none.
            at: The time of the answer; None for now.

        Raises:
            AnswerRefusedError: The request is not pending, that person is not an approver, or the role cannot
                decide.
        """
        self._check(approver)
        if role == self.role:
            raise EscalationRefusedError(f"the request was handed on to the role {role!r} already")
        people = people_of(self.roles, role)
        if len(people) < self._quorum:
            raise EscalationRefusedError(
                f"the request takes {self._quorum} people, and the role {role!r} has {len(people)}"
            )
        at = at or datetime.now(UTC)
        self.add(Vote(approver=approver, answer="escalated", given_at=at, reason=reason, role=role))

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
            case "escalated":
                self._hand_on(vote.role or "")

    def _hand_on(self, role: str) -> None:
        self.approvers = people_of(self.roles, role)
        self.role = role
        kept = {name: vote for name, vote in self._approvals.items() if name in self.approvers}
        self._approvals = kept

    def end(self, status: EndStatus) -> bool:
        """End a pending request without an answer; return False when it had already ended."""
        if self.status != "pending":
            return False
        self.status = status
        return True

    def _check(self, approver: str) -> None:
        if self.status != "pending":
            raise RequestClosedError(f"the request is {self.status} already")
        if not approver or (self.approvers is not None and approver not in self.approvers):
            raise UnknownApproverError(f"{approver!r} is not among the approvers")


def people_of(roles: Roles, role: str) -> frozenset[str]:
    """Return the people of a role.

    Raises:
        UnknownRoleError: There is no such role.
    """
    if role not in roles:
        known = f"its roles are {', '.join(sorted(roles))}" if roles else "no roles were given"
        raise UnknownRoleError(f"there is no role {role!r} to hand a request on to: {known}")
    return roles[role]


def count_vote(votes: Votes, vote: GivenVote) -> None:
    """Count an answer that was given through a store or another process.

    Raises:
        AnswerRefusedError: The answer does not count.
    """
    at = datetime.fromtimestamp(vote.at, UTC)
    if vote.role:
        votes.escalate(vote.voter, vote.role, vote.reason, at)
    elif vote.approves:
        votes.approve(vote.voter, at, remember="run" if vote.is_remembered else None)
    else:
        votes.deny(vote.voter, vote.reason, at)


class Ballot:
    """The answers to one request. Made on the event loop that waits for them.

    Args:
        quorum: The number of different people who must approve.
        approvers: The people who may answer; None for everybody.
        timeout: The seconds until it expires; infinity for never.
        roles: The people of the roles that it may be handed on to.
    """

    __slots__ = ("_changed", "_clock_offset", "_loop", "expires_at", "on_revoke", "on_vote", "votes")

    def __init__(
        self, *, quorum: int, approvers: frozenset[str] | None, timeout: float, roles: Roles = NO_ROLES
    ) -> None:
        self.votes = Votes(quorum=quorum, approvers=approvers, roles=roles)
        self.on_vote: Callable[[Vote], object] | None = None
        """Called with each answer that has an effect, on the event loop of the ballot."""
        self.on_revoke: Callable[[str, str], object] | None = None
        """Revokes the approval for a person and a reason, while it is remembered; None when it is not."""
        self._loop = EventLoop()
        self._clock_offset = anyio.current_time() - time.monotonic()
        self.expires_at = anyio.current_time() + timeout
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

    def approve(self, approver: str, *, remember: Remember | None = None) -> None:
        """Count an approval, from any thread.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._take(lambda: self.votes.approve(approver, remember=remember))

    def deny(self, approver: str, reason: str) -> None:
        """Count a denial, from any thread.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._take(lambda: self.votes.deny(approver, reason))

    def escalate(self, approver: str, role: str, reason: str) -> None:
        """Hand the request on to a role, from any thread.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._take(lambda: self.votes.escalate(approver, role, reason))

    def revoke(self, person: str, reason: str) -> None:
        """Take a remembered approval back, from any thread.

        Raises:
            NotRememberedError: It is not remembered.
        """
        revoke, self.on_revoke = self.on_revoke, None
        if revoke is None or self.remaining_seconds <= 0:
            raise NotRememberedError("the approval is not remembered for its run, or no longer")
        revoke(person, reason)

    def count_given(self, vote: GivenVote) -> None:
        """Count an answer that was given through the store, on the event loop of the ballot.

        Raises:
            AnswerRefusedError: The answer does not count.
        """
        self._count(lambda: count_vote(self.votes, vote))

    def count_crossed(self, vote: Vote, seconds: float) -> None:
        """Count an answer that the ballot of the same request in another process has counted.

        Args:
            vote: The answer.
            seconds: The seconds until the request expires there; infinity for never.
        """
        self._count_remembered((vote,), seconds)

    def count_remembered(self, votes: Sequence[Vote], seconds: float) -> None:
        """Count the approvals of an equal call of the run, from any thread; soon if it is another one.

        Args:
            votes: The approvals, which suffice.
            seconds: The seconds until they expire; infinity for never.
        """
        if self._loop.is_here:
            self._count_remembered(votes, seconds)
        else:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon(lambda: self._count_remembered(votes, seconds))

    def _count_remembered(self, votes: Sequence[Vote], seconds: float) -> None:
        self.expires_at = min(self.expires_at, anyio.current_time() + seconds)
        for vote in votes:
            if self.is_pending:
                self._count(lambda vote=vote: self.votes.add(vote))

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

    def _take(self, count: Callable[[], None]) -> None:
        try:
            self._loop.call(self._count, count)
        except anyio.RunFinishedError:
            raise RequestClosedError("the event loop of the request has ended") from None
        except OtherLoopError:
            raise NighthawkError(
                "A request is answered on the event loop on which it was made, or from a thread without one; "
                "go through `anyio.to_thread.run_sync`."
            ) from None

    def _count(self, count: Callable[[], None]) -> None:
        if self.remaining_seconds <= 0:  # the waiter may not have noticed yet that it has expired
            self.end("expired")
        before = len(self.votes.given)
        count()
        if self.on_vote is not None and len(self.votes.given) > before:
            self.on_vote(self.votes.given[-1])
        self._notify_change()

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
