"""Replies of a `ModelServer` as the bytes of an HTTP/1.1 response, and its sockets.

No HTTP library is used, because libraries refuse to write malformed responses. AnyIO's own streams are not
used, because they cannot reset a connection.
"""

import errno
import gzip
import socket
import struct
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import responses
from itertools import chain
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from .model_reply import ModelReply, RecordedRequest, ReplyProtocol

_BACKLOG = 65_535
_RECEIVE_BYTES = 65_536
_ACCEPT_PAUSE_SECONDS = 0.05
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_LINGERING = struct.pack("ii", 1, 0)


class ServerSocket:
    """A connection. One task may receive while another sends.

    Args:
        connection: The socket; it is closed when the context ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    async def receive(self) -> bytes:
        """Wait for bytes; return none when the client has closed the connection or its sending side."""
        while True:
            try:
                return self._connection.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._connection)
            except ConnectionError:
                return b""

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting while the client does not read.

        Raises:
            ConnectionError: The client has closed the connection.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._connection)

    def reset_at_end(self) -> None:
        """Reset the connection when it is closed: data in transit is lost."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)


class ServerListener:
    """A port on loopback; open once created, and closed when the context ends.

    Args:
        port: Its number; 0 for any that is free.
    """

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._listener.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()

    @property
    def port(self) -> int:
        """The number of the port."""
        return self._listener.getsockname()[1]

    async def serve(
        self, handle: Callable[[ServerSocket], Coroutine[Any, Any, None]], task_group: TaskGroup
    ) -> None:
        """Accept connections until cancelled.

        Args:
            handle: Serves one connection and closes it.
            task_group: The task group that serves connections.
        """
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                await anyio.wait_readable(self._listener)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                # The client waits in the backlog until descriptors or memory are free again.
                await anyio.sleep(_ACCEPT_PAUSE_SECONDS)
            else:
                task_group.start_soon(handle, ServerSocket(connection))


_HUGE_EVENT_BYTES = 40 * 1024 * 1024
_FLOOD_BYTES = 100_000_000
_PADDING = b"x" * 65_536

_INSERTED = {
    "comment": b": this is a comment\n\n",
    "empty_event": b"data:\n\n",
    "unknown_event": b'event: nobody.knows\ndata: {"type":"nobody.knows"}\n\n',
    "garbage": b"\x00\xff\xfe this is no field\n\n",
}
_PAGE = b"<!DOCTYPE html>\n<html><body><h1>Please log in</h1></body></html>\n"


def spoil_text(reply: ModelReply) -> str:
    """Return the text of a reply, with the fault of the reply if it is one of texts.

    Args:
        reply: The reply.
    """
    return reply.text + "\udcff" if reply.fault == "invalid_utf8" else reply.text


def spoil_events(events: list[bytes], reply: ModelReply) -> Iterable[bytes]:
    """Return the events of a stream, with the fault of the reply if it is one of streams.

    Args:
        events: The events.
        reply: The reply.
    """
    before, after = events[: reply.fault_after], events[reply.fault_after :]
    if reply.fault in _INSERTED:
        return [*before, _INSERTED[reply.fault], *after]
    if reply.fault == "broken_json":
        return [*before, *map(_break_event, after[:1]), *after[1:]]
    if reply.fault == "huge_event":
        return chain(before, _huge_event(reply.fault_bytes or _HUGE_EVENT_BYTES), after)
    if reply.fault == "flood" and after:
        return chain(before, _repeat(after[0], reply.fault_bytes or _FLOOD_BYTES), after)
    return [_PAGE] if reply.fault == "html" else events


def spoil_body(body: bytes, reply: ModelReply) -> bytes:
    """Return a whole body, with the fault of the reply if it is one of bodies.

    Args:
        body: The body.
        reply: The reply.
    """
    if reply.fault == "broken_json":
        return body[: len(body) // 2]
    return _PAGE if reply.fault == "html" else body


def cut_off(events: Iterable[bytes], after: float | None) -> Iterator[bytes]:
    """Return the events until the reply ends.

    Args:
        events: The events.
        after: Their number, with a fraction for a part of the last one; None for all.
    """
    for number, event in enumerate(events):
        if after is not None and number + 1 > after:
            yield event[: int(len(event) * max(after - number, 0.0))]
            return
        yield event


def _break_event(event: bytes) -> bytes:
    content = event.rstrip(b"\r\n")
    start = content.find(b"data:") + len(b"data:")
    return content[: start + (len(content) - start) // 2] + b"\n\n"


def _huge_event(size: int) -> Iterator[bytes]:
    """Yield an event in many pieces, so that it is never in memory as a whole."""
    yield b'data: {"type":"nobody.knows","padding":"'
    for _ in range(size // len(_PADDING)):
        yield _PADDING
    yield _PADDING[: size % len(_PADDING)] + b'"}\n\n'


def _repeat(event: bytes, size: int) -> Iterator[bytes]:
    for _ in range(size // len(event)):
        yield event


_WRITE_BYTES = 65_536
_WRONG_LENGTH = {"content_length_too_long": 100, "content_length_too_short": -40}
_EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response.

    Args:
        head: Its head.
        writes: The pieces of its body as they are written, framing included.
        end: The end of the body.
        is_kept: Whether the connection can be used again.
    """

    head: bytes
    writes: Iterable[bytes]
    end: bytes
    is_kept: bool


def compose_response(reply: ModelReply, protocol: ReplyProtocol, request: RecordedRequest) -> HttpResponse:
    """Return the response for a reply.

    Args:
        reply: The reply.
        protocol: The protocol.
        request: The request it answers; its body is a JSON object unless the status is an error.
    """
    is_streamed = reply.status == 200 and protocol.is_streamed(request)
    body = render_reply(reply, protocol, request, is_streamed=is_streamed)
    headers = {"content-type": "text/event-stream" if is_streamed else "application/json"}
    if reply.fault == "html":
        headers["content-type"] = "text/html"
    if reply.fault == "compressed":
        headers["content-encoding"] = "gzip"
        body = [gzip.compress(b"".join(body))]
    if not is_streamed or reply.fault in _WRONG_LENGTH:
        body = list(body)
        length = sum(map(len, body)) + _WRONG_LENGTH.get(reply.fault or "", 0)
        headers["content-length"] = str(max(length, 0))
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    cut = reply.ending_after if isinstance(reply.ending_after, int | float) else None
    return _frame(reply, headers, cut_off(body, cut))


def compose_document(reply: ModelReply) -> HttpResponse:
    """Return the response for a reply whose body is given.

    Args:
        reply: The reply.
    """
    body = reply.body or b""
    headers = {"content-type": "application/json", "content-length": str(len(body)), **reply.headers}
    return _frame(reply, headers, [body])


def render_reply(
    reply: ModelReply, protocol: ReplyProtocol, request: RecordedRequest, *, is_streamed: bool
) -> Iterable[bytes]:
    """Return the body of a reply, as events or in one piece.

    Args:
        reply: The reply.
        protocol: The protocol.
        request: The request it answers.
        is_streamed: Whether it is a stream of events.
    """
    spoilt = replace(reply, text=spoil_text(reply))
    if reply.body is not None:
        return [bytes(reply.body)]
    if reply.status != 200:
        return [spoil_body(protocol.error(spoilt), reply)]
    if is_streamed:
        return spoil_events(protocol.stream(spoilt, request), reply)
    return [spoil_body(protocol.whole(spoilt, request), reply)]


def _frame(reply: ModelReply, headers: Mapping[str, str], body: Iterable[bytes]) -> HttpResponse:
    is_chunked = reply.fault != "http_1_0" and "content-length" not in headers
    version = "1.0" if reply.fault == "http_1_0" else "1.1"
    framing = {"transfer-encoding": "chunked"} if is_chunked else {}
    head = _head(version, reply.status, {**headers, **framing})
    writes = _writes(body, reply)
    if is_chunked:
        writes = (b"%x\r\n%b\r\n" % (len(each), each) for each in writes)
    if reply.fault == "broken_chunks":
        writes = _break_off(writes, after=reply.fault_after)
    is_wrong = reply.fault in ("http_1_0", "broken_chunks", "content_length_too_long")
    return HttpResponse(
        head=_EARLY_HINTS + head if reply.fault == "informational" else head,
        writes=writes,
        end=b"0\r\n\r\n" if is_chunked and reply.fault != "broken_chunks" else b"",
        is_kept=not is_wrong and "close" not in headers.get("connection", "").lower(),
    )


def _head(version: str, status: int, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/{version} {status} {responses.get(status, '')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def _writes(body: Iterable[bytes], reply: ModelReply) -> Iterator[bytes]:
    """Yield the body as the pacing requires; no piece is empty, which would end a chunked body."""
    pacing = reply.pacing
    is_by_event = pacing.between_writes_seconds > 0 or reply.fault == "broken_chunks"
    if pacing.write_bytes is None and is_by_event:
        yield from filter(None, body)
        return
    size = pacing.write_bytes or _WRITE_BYTES
    gathered = bytearray()
    for piece in body:
        gathered += piece
        full = len(gathered) - len(gathered) % size
        for start in range(0, full, size):
            yield bytes(gathered[start : start + size])
        del gathered[:full]
    if gathered:
        yield bytes(gathered)


def _break_off(writes: Iterable[bytes], *, after: int) -> Iterator[bytes]:
    for number, write in enumerate(writes):
        if number == after:
            yield b"oops\r\n"
        yield write
