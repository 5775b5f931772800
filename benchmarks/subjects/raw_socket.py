"""The raw floor: the bare loop over a socket and msgspec, without any HTTP client.

It shows how much of a step is not the network, the system and the decoding of JSON. Nothing else is in it: it
trusts the server, whose responses it takes apart as that writes them.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from . import harness
from .bare_loop import SCRIPTS, converse, request_body


class Function(Struct):
    """A part of a call: its name, or a fragment of its arguments."""

    name: str = ""
    arguments: str = ""


class Call(Struct):
    """A part of a call."""

    index: int
    function: Function
    id: str = ""


class Delta(Struct):
    """A part of a message."""

    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(Struct):
    """A part of an answer."""

    delta: Delta


class Chunk(Struct):
    """The content of an event."""

    choices: list[Choice]


DECODER = msgspec.json.Decoder(Chunk)


class Connection:
    """A connection, for one request after the other."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)

    async def ask(self, body: bytes) -> bytes:
        """Send a request, and return the body of its response."""
        self._socket.send(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            try:
                received += self._socket.recv(65_536)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
        return _without_chunks(received.partition(b"\r\n\r\n")[2])

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _without_chunks(body: bytes) -> bytes:
    parts: list[bytes] = []
    start = 0
    while size := int(body[start : (begin := body.index(b"\r\n", start))], 16):
        parts.append(body[begin + 2 : begin + 2 + size])
        start = begin + size + 4
    return b"".join(parts)


def _message_of(body: bytes) -> dict[str, Any]:
    """The assistant's message, put together from the events of a stream."""
    content, calls = "", dict[int, Call]()
    for line in body.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        for choice in DECODER.decode(line[6:]).choices:
            content += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, part)
                if call is not part:
                    call.function.arguments += part.function.arguments
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    return {**message, "tool_calls": msgspec.to_builtins(list(calls.values()))} if calls else message


@asynccontextmanager
async def open_steps(base_url: str, kind: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open the list of connections; see `harness`.

    Args:
        base_url: The base URL of the model.
        kind: The kind of the steps.
    """
    url = urlsplit(base_url)
    assert url.hostname is not None
    assert url.port is not None
    place = (url.hostname, url.port, f"{url.path}/chat/completions")
    free: list[Connection] = []

    async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        connection = free.pop() if free else Connection(*place)
        body = await connection.ask(request_body(messages, is_streamed=True))
        free.append(connection)
        return _message_of(body)

    async def step() -> None:
        await converse(ask)

    try:
        yield step
    finally:
        for connection in free:
            connection.close()


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
