"""Approvals of people, to show before an action."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import ApprovalExpiredError
from .ballot import Ballot
from .digest import digest_action
from .errors import ArgumentsChangedError
from .votes import Vote

__all__ = ["Approval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """That enough people approved an action with exactly these arguments. `request_approval` gives it.

    Args:
        id: The id of the request.
        action: What was approved.
        digest: The digest of the action and its arguments.
        approvals: Who approved and when, in the order in which they did.
        expires_at: When it ends to be valid, on the clock of `anyio.current_time`; infinity for never.
    """

    id: str
    action: str
    digest: str
    approvals: tuple[Vote, ...]
    expires_at: float
    _ballot: Ballot = field(repr=False, compare=False)

    @property
    def approvers(self) -> tuple[str, ...]:
        """The people who approved, in that order."""
        return tuple(vote.approver for vote in self.approvals)

    @property
    def is_valid(self) -> bool:
        """Whether it has not expired. For every thread."""
        return self._ballot.remaining_seconds > 0

    def check(self, action: str, arguments: Mapping[str, object] | None = None) -> None:
        """Make sure that this is what was approved, right before it happens.

        Args:
            action: What is about to happen.
            arguments: With which arguments.

        Raises:
            ApprovalExpiredError: The approval has expired.
            ArgumentsChangedError: It is another action, or an argument is different.
            UndigestibleArgumentError: An argument has no stable JSON form.
        """
        if not self.is_valid:
            raise ApprovalExpiredError(f"{self.action}: the approval has expired")
        if digest_action(action, arguments or {}).digest != self.digest:
            raise ArgumentsChangedError(
                f"{action}: the action or its arguments are not what was approved; ask for another approval"
            )
