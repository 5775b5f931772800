"""Votes for and against, and their result. Plain state, no waiting.

    pending ── enough different approvers said yes ──> approved
       ├────── somebody said no who had not said yes, or nobody can be asked ──> denied
       ├────── its time is over ──> expired
       └────── nobody waits for it any more ──> cancelled

Somebody who had said yes and says no takes the yes back; a second no denies. From the moment it is not
pending, nothing changes.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from .errors import RequestClosedError, UnknownApproverError

__all__ = ["ApprovalStatus", "EndStatus", "Vote", "Votes"]

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
EndStatus: TypeAlias = Literal["denied", "expired", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One person's answer.

    Args:
        approver: Who.
        answer: What: `withdrawn` takes back an approval that the same person gave.
        given_at: When, in UTC.
        reason: Why, when it was said.
    """

    approver: str
    answer: Literal["approved", "denied", "withdrawn"]
    given_at: datetime
    reason: str = ""


class Votes:
    """The answers to one request.

    Args:
        quorum: How many different people have to approve.
        approvers: Who may answer; None for everybody.
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
