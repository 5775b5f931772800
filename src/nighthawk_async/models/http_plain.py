"""HTTP/1.1 in its plain form, which is the one that endpoints of models use. No I/O.

h11 reads all that HTTP allows, and takes as long for it as everything else that a connection does. Here a
part of that is read, with the same result: a response whose head is in ASCII, came as a whole with the first
bytes, has no continued lines, and says in exactly one header that the body has a length or comes in chunks;
chunks without extensions, and no trailers. `tests/property/test_plain_http.py` compares the two.

Nothing is guessed about the rest, and little of it is refused here: it goes to h11, byte for byte; see
`http_h11`.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(
    rb"HTTP/1\.1 [2-9][0-9]{2}(?: [\t\x20-\x7e]*)?\r\n" + rb"(?:" + _TOKEN + rb":[\t\x20-\x7e]*\r\n)+\r\n"
)
_BODILESS = (204, 304)
_MOST_LENGTH_DIGITS = 15

_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_MOST_SIZE_LINE_BYTES = 8 + len(b"\r\n")

# A value begins and ends with a visible character; what lies between lines is checked by their number.
_REQUEST_HEADERS = re.compile(rb"(?:" + _TOKEN + rb": (?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?\r\n)+")
_REQUEST_TARGET = re.compile(rb"[\x21-\x7e]+")
_PLAIN_METHODS = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})
_ODD_REQUEST_HEADERS = frozenset({"connection", "expect", "te", "transfer-encoding", "upgrade"})


class SizedBody:
    """A body of a known length.

    Args:
        length: The number of bytes.

    Attributes:
        is_ended: Whether it has arrived as a whole.
        rest: The bytes that arrived after it.
    """

    __slots__ = ("_missing", "is_ended", "rest")

    failure: str | None = None
    odd: bytes | None = None

    def __init__(self, length: int) -> None:
        self._missing = length
        self.is_ended = not length
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they arrived; returns those of the body."""
        if len(data) > self._missing:
            data, self.rest = data[: self._missing], data[self._missing :]
        self._missing -= len(data)
        self.is_ended = not self._missing
        return data

    def break_off(self) -> str:
        """Return the error of a connection that ends before the body does."""
        return "The connection ended before the body did."


class ChunkedBody:
    """A body in chunks.

    Attributes:
        is_ended: Whether it has arrived as a whole.
        rest: The bytes that arrived after it.
        odd: The bytes from a chunk on that is not plain, for h11; None while all were.
        failure: The error of a chunk that is longer than it says; None while there is none.
    """

    __slots__ = ("_held", "_is_open", "_missing", "failure", "is_ended", "odd", "rest")

    def __init__(self) -> None:
        self._held = b""  # the beginning of what lies between the data of two chunks
        self._is_open = False  # a chunk's size was read, and its final line break was not
        self._missing = 0
        self.is_ended = False
        self.rest = b""
        self.odd: bytes | None = None
        self.failure: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they arrived; returns those of the body, which may be none."""
        if self._held:
            data, self._held = self._held + data, b""
        parts: list[bytes] = []
        position = 0 if self._is_open else _take_whole_chunks(data, parts)
        end = len(data)
        while True:
            if self._is_open:
                stop = position + self._missing
                if stop + 2 > end:
                    self._keep_part(data, position, stop, parts)
                    break
                parts.append(data[position:stop])
                if data[stop : stop + 2] != b"\r\n":
                    self.failure = "A chunk does not end where it should."
                    break
                self._is_open = False
                position = stop + 2
            break_at = data.find(b"\r\n", position, position + _MOST_SIZE_LINE_BYTES)
            if break_at < 0 and end - position < _MOST_SIZE_LINE_BYTES:
                self._held = data[position:]
                break
            size = data[position:break_at]
            if break_at < 0 or _CHUNK_SIZE.fullmatch(size) is None:
                self.odd = data[position:]
                break
            self._missing = int(size, 16)
            if not self._missing:
                self._end(data, position, break_at + 2)
                break
            self._is_open = True
            position = break_at + 2
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def break_off(self) -> str:
        """Return the error of a connection that ends before the body does."""
        return "The connection ended before the body did."

    def _keep_part(self, data: bytes, position: int, stop: int, parts: list[bytes]) -> None:
        """Take the last bytes that arrived, which do not reach the end of their chunk."""
        part = data[position:stop]
        parts.append(part)
        self._missing -= len(part)
        self._held = data[stop:]
        if self._held not in (b"", b"\r"):
            self.failure = "A chunk does not end where it should."

    def _end(self, data: bytes, position: int, after: int) -> None:
        """Take the last chunk, which begins at a position; what follows its size is a line break."""
        following = data[after : after + 2]
        if following == b"\r\n":
            self.is_ended = True
            self.rest = data[after + 2 :]
        elif following in (b"", b"\r"):
            self._held = data[position:]
        else:
            self.odd = data[position:]


def _take_whole_chunks(data: bytes, parts: list[bytes]) -> int:
    """Take the data of chunks that arrived as a whole and hold no line break; returns where the rest begins.

    This is the usual case, an event of a stream in each chunk, and takes a fifth of the time of the long way.
    """
    position = 0
    lines = data.split(b"\r\n")
    lines.pop()  # no line break follows the last one
    for size, part in zip(lines[::2], lines[1::2], strict=False):
        if not part or size != b"%x" % len(part):
            break
        parts.append(part)
        position += len(size) + len(part) + 4
    return position


PlainBody: TypeAlias = SizedBody | ChunkedBody
"""The body of a plain response."""


class PlainHead(Struct, frozen=True):
    """The head of a plain response, and the bytes of the body that came with it."""

    status: int
    headers: Mapping[str, str]
    body: PlainBody
    rest: bytes


def parse_head(received: bytes) -> PlainHead | None:
    """The head of a response; None when it is not plain, or not there as a whole.

    Args:
        received: The first bytes that arrived.
    """
    match = _HEAD.match(received)
    if match is None:
        return None
    end = match.end()
    status_line, *lines = received[: end - 4].decode("ascii").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    status = int(status_line[9:12])
    body = None if status in _BODILESS else _body_of(headers)
    return None if body is None else PlainHead(status, headers, body, received[end:])


def _body_of(headers: Mapping[str, str]) -> PlainBody | None:
    """The body as one header, and only one, describes it: repeated ones hold a comma by now."""
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        return ChunkedBody() if coding == "chunked" and length is None else None
    if length is None or not length.isdecimal() or len(length) > _MOST_LENGTH_DIGITS:
        return None
    return SizedBody(int(length))


def write_head(method: str, target: bytes, headers: Mapping[str, str]) -> bytes | None:
    """The head of a request up to its length, for `end_head`; None when it is not plain.

    Args:
        method: The HTTP method.
        target: The path and query.
        headers: The headers, the host first, and without the length; names in lower case.

    Raises:
        UnicodeError: A header is not in ASCII.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode("ascii")
    is_plain = (
        method in _PLAIN_METHODS
        and next(iter(headers), None) == "host"
        and _ODD_REQUEST_HEADERS.isdisjoint(headers)
        and _REQUEST_TARGET.fullmatch(target) is not None
        and _REQUEST_HEADERS.fullmatch(lines) is not None
        and lines.count(b"\r\n") == len(headers)
    )
    return b"%b %b HTTP/1.1\r\n%b" % (method.encode("ascii"), target, lines) if is_plain else None


def end_head(head: bytes, length: int | None) -> bytes:
    """The whole head of a request.

    Args:
        head: The head up to its length.
        length: The number of bytes of the body; None for a request that gives none.
    """
    if length is None:
        return head + b"\r\n"
    return b"%bcontent-length: %d\r\n\r\n" % (head, length)
