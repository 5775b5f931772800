"""One connection of the server: HTTP/1.1, kept alive, one request after the other, on asyncio's transports.

It understands what HTTP clients send (bodies with a length or in chunks), and not all that they could.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

from .answer import Answer, error_answer
from .library import Due, RefusedError

__all__ = ["Connection", "Handler"]

Handler = Callable[[str, str, bytes], bytes | Due]
"""Method, path and body of a request to what is sent at once, or when it is due."""


class Connection(asyncio.Protocol):
    """Serves the requests of one client.

    Args:
        handle: Answers requests.
        on_change: Called with "opened", "closed", "answered", "lost" and "refused".
    """

    def __init__(self, handle: Handler, on_change: Callable[[str], None]) -> None:
        self._handle = handle
        self._on_change = on_change
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass
        self._on_change("opened")

    def connection_lost(self, exc: Exception | None) -> None:
        """Send nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._on_change("lost")
        self._transport = None
        self._on_change("closed")

    def data_received(self, data: bytes) -> None:
        """Answer what is complete; a request behind another one waits for its turn."""
        self._received += data
        if self._timer is None:
            self._serve()

    def _serve(self) -> None:
        while self._transport is not None and self._timer is None and self._received:
            try:
                request = take_request(self._received)
                if request is None:
                    return
                reply = self._handle(*request)
            except RefusedError as refused:
                self._on_change("refused")
                reply = error_answer(refused.status, refused.message)
            if isinstance(reply, Due):
                self._begin(reply)
            else:
                self._transport.write(reply)

    def _begin(self, due: Due) -> None:
        delay = due.first_byte_seconds + due.held_seconds
        if delay <= 0:
            self._send_first(due)
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay, self._send_first, due)

    def _send_first(self, due: Due) -> None:
        assert self._transport is not None
        was_late, self._timer = self._timer is not None, None
        answer = due.answer
        self._transport.write(
            answer.stamped(time.monotonic() - due.held_seconds) if answer.is_stamped else answer.first
        )
        if answer.later:
            self._send_later(answer, due.after_calls_seconds / len(answer.later), 0)
            return
        self._on_change("answered")
        if was_late:
            self._serve()

    def _send_later(self, answer: Answer, delay: float, position: int) -> None:
        if position:
            assert self._transport is not None
            self._transport.write(answer.later[position - 1])
        self._timer = None
        if position < len(answer.later):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay, self._send_later, answer, delay, position + 1)
            return
        self._on_change("answered")
        self._serve()


def take_request(received: bytearray) -> tuple[str, str, bytes] | None:
    """Cut the first request off what was received; None as long as it is not complete.

    Args:
        received: What was received and not taken yet.

    Raises:
        ValueError: A length is no number.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[:end])
    method, _, rest = head.partition(b" ")
    path, _, _ = rest.partition(b" ")
    length = _length_of(head)
    if length is None:
        found = _take_chunks(received, end + 4)
        if found is None:
            return None
        body, stop = found
    else:
        stop = end + 4 + length
        if len(received) < stop:
            return None
        body = bytes(received[end + 4 : stop])
    del received[:stop]
    return method.decode("latin-1"), path.decode("latin-1"), body


def _length_of(head: bytes) -> int | None:
    """Length of the body that a head announces; None for a body in chunks."""
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at >= 0:
        return int(lowered[at + 17 :].partition(b"\r\n")[0])
    return None if b"\r\ntransfer-encoding: chunked" in lowered else 0


def _take_chunks(received: bytearray, position: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while (end := received.find(b"\r\n", position)) >= 0:
        size = int(received[position:end].partition(b";")[0], 16)
        start, stop = end + 2, end + 2 + size
        if len(received) < stop + 2:
            return None
        body += received[start:stop]
        position = stop + 2
        if size == 0:
            return bytes(body), position
    return None
