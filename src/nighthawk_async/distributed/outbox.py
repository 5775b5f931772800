"""Messages that wait to be sent, in order; put from any thread, sent by one task."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio

from ..parallel.event_loop import EventLoop

_MOST_BYTES = 1024 * 1024
"""The size from which on no more messages are sent together, in bytes."""

_REPORT_SECONDS = 0.03
"""The seconds for which reports are collected, if nothing else is to be sent."""


class Outbox:
    """Messages that wait to be sent. It belongs to the event loop on which it is made."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._reports: deque[Callable[[], bytes]] = deque()
        self._filled = anyio.Event()
        self._loop = EventLoop()

    def put(self, message: bytes) -> None:
        """Put a message in, from the event loop or from any thread."""
        self._messages.append(message)
        self._fill()

    def put_report(self, take: Callable[[], bytes]) -> None:
        """Put a message in that is made when it is sent: soon, and before any message that is put in later.

        Args:
            take: Makes the message; called once, on the event loop.
        """
        self._reports.append(take)
        self._fill()

    def _fill(self) -> None:
        if self._loop.is_here:
            self._filled.set()
        else:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon(self._wake)

    @property
    def is_here(self) -> bool:
        """Whether its event loop runs on the current thread."""
        return self._loop.is_here

    def take_all(self) -> list[bytes]:
        """Take all messages out, on the event loop's own thread, to send them in another way."""
        taken = self._take_reports()
        # One by one, because other threads put messages in meanwhile.
        taken += [self._messages.popleft() for _ in range(len(self._messages))]
        return taken

    def _wake(self) -> None:
        self._filled.set()

    async def send_all(self, send: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        """Send what is put in, until cancelled or until sending fails.

        Args:
            send: Sends several messages, in order.
        """
        while True:
            while self._messages:
                await send(self._take())
            if self._reports:
                await self._collect_reports()
                await send(self._take())
                continue
            self._filled = anyio.Event()
            if not self._messages and not self._reports:
                await self._filled.wait()

    async def _collect_reports(self) -> None:
        """Wait until the reports are to be sent: after a time, or with the next message."""
        with anyio.move_on_after(_REPORT_SECONDS):
            while not self._messages:
                self._filled = anyio.Event()
                if not self._messages:
                    await self._filled.wait()

    def _take(self) -> list[bytes]:
        taken = self._take_reports()
        size = sum(map(len, taken))
        while self._messages and (size < _MOST_BYTES or not taken):
            taken.append(self._messages.popleft())
            size += len(taken[-1])
        return taken

    def _take_reports(self) -> list[bytes]:
        return [self._reports.popleft()() for _ in range(len(self._reports))]
