"""A request for approval: what people see of it and how they answer.

The answers themselves are kept by `human.ballot`, and counted by `human.votes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ...types.execution import ExecutionRef
from ...types.json import JsonableValue
from .ballot import Ballot
from .errors import WrongDigestError
from .votes import ApprovalStatus, Vote

__all__ = ["ApprovalRequest"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApprovalRequest:
    """A request for approval, as its handler sees it. `request_approval` makes it.

    `approve` and `deny` work on the event loop where the request was made, in any task, and from threads
    without an event loop.

    Args:
        id: What identifies the request.
        action: What is to be approved. A model may have written it: show it as text, not as markup.
        arguments: With which arguments, in the JSON form that the digest is made of.
        digest: The digest of the action and its arguments, which an approval has to name.
        quorum: How many different people have to approve.
        approvers: Who may answer; None for everybody.
        created_at: When the request was made, in UTC.
        execution_ref: Which run, scope and step asks; None outside a run.
        ballot: Takes the answers; for whoever made the request.
    """

    id: str
    action: str
    arguments: Mapping[str, JsonableValue]
    digest: str
    quorum: int
    approvers: frozenset[str] | None
    created_at: datetime
    execution_ref: ExecutionRef | None
    ballot: Ballot = field(repr=False)

    @property
    def status(self) -> ApprovalStatus:
        """Whether it is `pending`, or how it ended."""
        return self.ballot.votes.status

    @property
    def is_pending(self) -> bool:
        """Whether it still takes answers."""
        return self.ballot.is_pending

    @property
    def expires_at(self) -> float:
        """The time at which it expires, on the clock of `anyio.current_time`; infinity for never."""
        return self.ballot.expires_at

    @property
    def remaining_seconds(self) -> float:
        """Return the seconds until it expires; infinity when it never does. Thread-safe."""
        return self.ballot.remaining_seconds

    @property
    def approvals(self) -> tuple[Vote, ...]:
        """The approvals that count at present, in the order in which they were given."""
        return self.ballot.votes.approvals

    @property
    def denial(self) -> Vote | None:
        """The denial, with its author and reason; None for none."""
        return self.ballot.votes.denial

    @property
    def answers(self) -> tuple[Vote, ...]:
        """Every answer that changed something, in order."""
        return tuple(self.ballot.votes.given)

    def approve(self, approver: str, *, digest: str) -> None:
        """Approve. The second approval of the same person changes nothing.

        Args:
            approver: Who approves. Whether it is really them, the host has to know.
            digest: The digest of what that person saw.

        Raises:
            RequestClosedError: The request is not pending any more.
            UnknownApproverError: Nobody asked that person.
            WrongDigestError: The person saw another action or other arguments.
        """
        if digest != self.digest:
            raise WrongDigestError(
                f"the approval of {approver!r} is not for this action, {self.action!r}, with these arguments"
            )
        self.ballot.approve(approver)

    def deny(self, approver: str, reason: str = "") -> None:
        """Say no: takes back that person's approval; if they gave none, the request is denied.

        Args:
            approver: Who denies.
            reason: Why.

        Raises:
            RequestClosedError: The request is not pending any more.
            UnknownApproverError: Nobody asked that person.
        """
        self.ballot.deny(approver, reason)

    async def wait_closed(self) -> ApprovalStatus:
        """Wait until it takes no more answers, on the event loop where it was made.

        Returns:
            How it ended.
        """
        return await self.ballot.wait_closed()
