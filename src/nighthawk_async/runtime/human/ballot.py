"""The answers to a request for approval as they come: from any thread, until its time is over. Floor 3.

It lives in memory as long as somebody waits for it. What the answers mean, `human.votes` says.
"""

from collections.abc import Callable

import anyio

from .errors import RequestClosedError
from .home import HomeLoop
from .votes import ApprovalStatus, EndStatus, Votes

__all__ = ["Ballot"]


class Ballot:
    """The answers to one request. Made on the event loop that waits for them.

    Args:
        quorum: How many different people have to approve.
        approvers: Who may answer; None for everybody.
        expires: In how many seconds it ends; infinity for never.
    """

    __slots__ = ("_changed", "_home", "expires_at", "votes")

    def __init__(self, *, quorum: int, approvers: frozenset[str] | None, expires: float) -> None:
        self.votes = Votes(quorum=quorum, approvers=approvers)
        self._home = HomeLoop()
        self.expires_at = self._home.current_time() + expires
        """When it ends, on the clock of `anyio.current_time`; infinity for never."""
        self._changed = anyio.Event()

    @property
    def is_pending(self) -> bool:
        """Whether answers are taken."""
        return self.votes.status == "pending"

    @property
    def remaining_seconds(self) -> float:
        """How many seconds are left; infinity without a limit. For every thread."""
        return max(0.0, self.expires_at - self._home.current_time())

    def approve(self, approver: str) -> None:
        """Count an approval, from any thread.

        Raises:
            AnswerRefusedError: It does not count.
        """
        self._call_home(self._approve, approver)

    def deny(self, approver: str, reason: str) -> None:
        """Count a denial, from any thread.

        Raises:
            AnswerRefusedError: It does not count.
        """
        self._call_home(self._deny, approver, reason)

    def end(self, status: EndStatus) -> None:
        """End it without an answer; nothing when it has ended before."""
        if self.votes.end(status):
            self._tell_change()

    async def wait_changed(self) -> None:
        """Wait for the next answer that changes something, or the end."""
        await self._changed.wait()

    async def wait_closed(self) -> ApprovalStatus:
        """Wait until no more answers are taken; how it ended."""
        while self.is_pending:
            await self._changed.wait()
        return self.votes.status

    def _approve(self, approver: str) -> None:
        self._end_when_late()
        self.votes.approve(approver)
        self._tell_change()

    def _deny(self, approver: str, reason: str) -> None:
        self._end_when_late()
        self.votes.deny(approver, reason)
        self._tell_change()

    def _end_when_late(self) -> None:
        """The answer may come before who waits has noticed that the time is over."""
        if self.remaining_seconds <= 0:
            self.end("expired")

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _call_home(self, function: Callable[..., None], *args: str) -> None:
        try:
            self._home.call(function, *args)
        except anyio.RunFinishedError:
            raise RequestClosedError("the event loop of the request has ended") from None
