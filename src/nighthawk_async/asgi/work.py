"""One request in progress, and how it is made to end before its time."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal, TypeAlias

import anyio

from ..parallel.task_node import TaskNode
from .inbox import Inbox
from .problems import CANCELLED, SHUTTING_DOWN, TIMED_OUT, Problem
from .protocol import Message

__all__ = ["EndReason", "Work"]

EndReason: TypeAlias = Literal["disconnected", "timed_out", "shut_down", "cancelled"]
"""The client has left, the time is over, the service ends, or somebody who watches asked for it."""

_PROBLEMS: Mapping[EndReason | None, Problem] = MappingProxyType(
    {"timed_out": TIMED_OUT, "shut_down": SHUTTING_DOWN, "cancelled": CANCELLED}
)

_OWN_END_SECONDS = 1.0
"""For an application that waits for the client to leave, to end tasks that no scope here reaches."""


class Work:
    """The work of an application for one request.

    Args:
        end_message: What the application gets from `receive` when it is to end.
        is_complete: Says whether it has answered, so that only the end of the service ends what goes on.
        on_end: Is called when it is asked to end.
    """

    def __init__(
        self,
        end_message: Message,
        *,
        is_complete: Callable[[], bool] = bool,
        on_end: Callable[[], object] = bool,
    ) -> None:
        self.scope = anyio.CancelScope()
        """What is cancelled."""
        self.end_reason: EndReason | None = None
        """Why it was asked to end; None when it was not."""
        self.reason_given: str | None = None
        """What was said by who asked, if anything."""
        self.task_node: TaskNode | None = None
        """The task of the request, which is asked to end too."""
        self.inbox: Inbox | None = None
        self._end_message = end_message
        self._is_complete = is_complete
        self._outlives_client = False
        self._on_end = on_end

    @property
    def problem(self) -> Problem | None:
        """The problem for a client that is still there when the work must end; None for none."""
        return _PROBLEMS.get(self.end_reason)

    def request_cancel(self, reason: str | None) -> None:
        """Ask it to end, for somebody who watches."""
        self.reason_given = reason
        self.ask_to_end("cancelled")

    @contextmanager
    def outliving_client(self) -> Generator[None, None, None]:
        """Let it go on when its client leaves: it may come back, and whoever asks this sees to the end.

        Its response may be over before it is itself, when another one takes over.
        """
        self._outlives_client = True
        try:
            yield
        finally:
            self._outlives_client = False

    def ask_to_end(self, reason: EndReason) -> None:
        """Ask it to end; only the first reason counts.

        Args:
            reason: Why.
        """
        if self.end_reason is not None or not self._can_end(reason):
            return
        self.end_reason = reason
        self._on_end()
        if self.task_node is not None:
            self.task_node.ask_to_end(reason)
        if self.inbox is not None and self.inbox.is_awaited:
            self.inbox.end(self._end_message)
            self.scope.deadline = min(self.scope.deadline, anyio.current_time() + _OWN_END_SECONDS)
        else:
            self.scope.cancel()

    def _can_end(self, reason: EndReason) -> bool:
        if self._outlives_client:
            return reason != "disconnected"
        return reason == "shut_down" or not self._is_complete()

    async def end_after(self, seconds: float) -> None:
        """Let its time pass.

        Args:
            seconds: How much it has.
        """
        await anyio.sleep(seconds)
        self.ask_to_end("timed_out")
