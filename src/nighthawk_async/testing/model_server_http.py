"""Replies of a `ModelServer` as the bytes of an HTTP/1.1 response. Pure.

Written by hand, since an HTTP library refuses to write what is wrong.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import responses

from .model_reply import ModelReply, RecordedRequest
from .model_server_faults import cut_off, spoil_body, spoil_events, spoil_text
from .model_server_protocol import ReplyProtocol

__all__ = ["HttpResponse", "compose_response"]

_WRITE_BYTES = 65_536
_WRONG_LENGTH = {"content_length_too_long": 100, "content_length_too_short": -40}
_EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response.

    Args:
        head: Its head.
        writes: The pieces of its body as they are written, framing included.
        end: What ends the body.
        is_kept: Whether the connection can be used again.
    """

    head: bytes
    writes: Iterable[bytes]
    end: bytes
    is_kept: bool


def compose_response(reply: ModelReply, protocol: ReplyProtocol, request: RecordedRequest) -> HttpResponse:
    """The response that a reply stands for.

    Args:
        reply: The reply.
        protocol: Writes what it says.
        request: The request it answers; its body is a JSON object unless the status is an error.
    """
    is_streamed = reply.status == 200 and protocol.is_streamed(request)
    body = _render(reply, protocol, request, is_streamed=is_streamed)
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


def _render(
    reply: ModelReply, protocol: ReplyProtocol, request: RecordedRequest, *, is_streamed: bool
) -> Iterable[bytes]:
    """The body: events, or one piece."""
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
    """The body cut into the writes that the pacing wants; none is empty, which would end chunked encoding."""
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
