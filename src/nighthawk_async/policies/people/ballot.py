"""The answers to a request for approval as they come: from any thread, until its time is over.

It lives in memory as long as somebody waits for it. `Votes` says what the answers mean; it is plain state:

    pending ── enough different approvers said yes ──> approved
       ├────── somebody said no who had not said yes, or nobody can be asked ──> denied
       ├────── its time is over ──> expired
       └────── nobody waits for it any more ──> cancelled

Somebody who had said yes and says no takes the yes back; a second no denies. From the moment it is not
pending, nothing changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import anyio

from ...errors import NighthawkError
from ...parallel.event_loop import EventLoop, OtherLoopError
from .errors import RequestClosedError, UnknownApproverError

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
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
        quorum: The number of different people who have to approve.
        approvers: The people who may answer; None for everybody.
    """

    __slots__ = ("_approvals", "_approvers", "_quorum", "given", "status")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None) -> None:
        self._quorum = quorum
        self._approvers = approvers
        self._approvals: dict[str, Vote] = {}
        self.given: list[Vote] = []
        """Every answer that changed something, in order."""
        self.status: ApprovalStatus = "pending"

    @property
    def approvals(self) -> tuple[Vote, ...]:
        """The approvals that count at present, in the order in which they were given."""
        return tuple(self._approvals.values())

    @property
    def denial(self) -> Vote | None:
        """The answer that denied the request; None when nobody did."""
        last = self.given[-1:]
        return last[0] if last and last[0].answer == "denied" else None

    def approve(self, approver: str) -> None:
        """Count an approval. The second one of the same person changes nothing.

        Raises:
            AnswerRefusedError: The request is not pending, or nobody asked that person.
        """
        self._check(approver)
        if approver in self._approvals:
            return
        vote = Vote(approver=approver, answer="approved", given_at=datetime.now(UTC))
        self._approvals[approver] = vote
        self.given.append(vote)
        if len(self._approvals) >= self._quorum:
            self.status = "approved"

    def deny(self, approver: str, reason: str) -> None:
        """Take back that person's approval; if there is none, deny the request.

        Raises:
            AnswerRefusedError: The request is not pending, or nobody asked that person.
        """
        self._check(approver)
        is_withdrawal = self._approvals.pop(approver, None) is not None
        answer = "withdrawn" if is_withdrawal else "denied"
        self.given.append(Vote(approver=approver, answer=answer, given_at=datetime.now(UTC), reason=reason))
        if not is_withdrawal:
            self.status = "denied"

    def end(self, status: EndStatus) -> bool:
        """End a pending request without an answer; False when it had ended before."""
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
        quorum: The number of different people who have to approve.
        approvers: The people who may answer; None for everybody.
        expires: In how many seconds it ends; infinity for never.
    """

    __slots__ = ("_changed", "_clock_offset", "_loop", "expires_at", "votes")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None, expires: float) -> None:
        self.votes = Votes(quorum=quorum, approvers=approvers)
        self._loop = EventLoop()
        self._clock_offset = anyio.current_time() - time.monotonic()
        self.expires_at = anyio.current_time() + expires
        """When it ends, on the clock of `anyio.current_time`; infinity for never."""
        self._changed = anyio.Event()

    @property
    def is_pending(self) -> bool:
        """Whether answers are taken."""
        return self.votes.status == "pending"

    @property
    def remaining_seconds(self) -> float:
        """Return the remaining seconds; infinity without a limit. Thread-safe."""
        now = anyio.current_time() if self._loop.is_here else time.monotonic() + self._clock_offset
        return max(0.0, self.expires_at - now)

    def approve(self, approver: str) -> None:
        """Count an approval, from any thread.

        Raises:
            AnswerRefusedError: It does not count.
        """
        self._take(self.votes.approve, approver)

    def deny(self, approver: str, reason: str) -> None:
        """Count a denial, from any thread.

        Raises:
            AnswerRefusedError: It does not count.
        """
        self._take(self.votes.deny, approver, reason)

    def end(self, status: EndStatus) -> None:
        """End it without an answer; nothing when it has ended before."""
        if self.votes.end(status):
            self._notify_change()

    async def wait_changed(self) -> None:
        """Wait for the next answer that changes something, or the end."""
        await self._changed.wait()

    async def wait_closed(self) -> ApprovalStatus:
        """Wait until no more answers are taken; how it ended."""
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
        if self.remaining_seconds <= 0:  # who waits may not have noticed yet that the time is over
            self.end("expired")
        count(*answer)
        self._notify_change()

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
