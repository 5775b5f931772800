"""The answers to a request for approval as they come: from any thread, until its time is over.

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
        """Return the remaining seconds; infinity without a limit. Thread-safe."""
        return max(0.0, self.expires_at - self._home.current_time())

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
            self._tell_change()

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
            self._home.call(self._count, count, *answer)
        except anyio.RunFinishedError:
            raise RequestClosedError("the event loop of the request has ended") from None

    def _count(self, count: Callable[..., None], *answer: str) -> None:
        if self.remaining_seconds <= 0:  # who waits may not have noticed yet that the time is over
            self.end("expired")
        count(*answer)
        self._tell_change()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
