"""What the server alone takes: requests encoded beforehand, and answers of which only the end is looked for.

Beside the figures of the subjects this shows how much of them is the server's. No client can have less.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from . import harness
from .bare_loop import SCRIPTS, request_body

END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class Exchange(asyncio.Protocol):
    """A connection that sends a request and waits until the answer has ended."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Look for the end of the answer."""
        self._received += data
        if self._answer is not None and is_complete(self._received):
            self._answer.set_result(self._received)
            self._received, self._answer = b"", None

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the answer."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server has closed the connection"))

    def ask(self, request: bytes) -> Awaitable[bytes]:
        """Send a request; gives the answer."""
        assert self._transport is not None
        self._answer = answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def is_complete(received: bytes) -> bool:
    """Whether an answer has ended, whole or in chunks."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return False
    _, is_whole, length = head.partition(b"Content-Length: ")
    return len(body) >= int(length.partition(b"\r\n")[0]) if is_whole else received.endswith(END_OF_CHUNKS)


def encoded_requests(base_url: str, *, is_streamed: bool) -> list[bytes]:
    """The two requests of a step, as bytes in HTTP."""
    address = urlsplit(base_url)
    said = {"role": "user", "content": "Set the result to the answer."}
    called = {"role": "assistant", "content": None}
    result = {"role": "tool", "tool_call_id": "call_00000000abcdefghijklmnop", "content": "ok"}
    bodies = [
        request_body(messages, is_streamed=is_streamed) for messages in ([said], [said, called, result])
    ]
    head = f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: "
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


@asynccontextmanager
async def open_steps(
    base_url: str, kind: str, *, is_streamed: bool = False, repeated: int = 1
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open the list of connections; see `harness`.

    Args:
        base_url: The base URL of the model.
        kind: The kind of the steps.
        is_streamed: Whether responses are asked for as streams, or in one piece.
        repeated: How often one step asks both its requests.
    """
    address = urlsplit(base_url)
    requests = encoded_requests(base_url, is_streamed=is_streamed) * repeated
    free: list[Exchange] = []
    loop = asyncio.get_running_loop()

    async def step() -> None:
        if free:
            exchange = free.pop()
        else:
            _, exchange = await loop.create_connection(Exchange, address.hostname, address.port)
        for request in requests:
            answer = await exchange.ask(request)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"the server refused: {answer[:200]!r}")
        free.append(exchange)

    try:
        yield step
    finally:
        for exchange in free:
            exchange.close()


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
