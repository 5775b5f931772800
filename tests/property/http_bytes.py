"""Bytes of HTTP responses, good and bad, and a connection that receives them piece by piece.

`python -m tests.property.http_bytes CASES [SEED]` compares the plain reading with h11's for that many cases
(`make http`).
"""

import sys
import time
from collections.abc import Coroutine, Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import anyio
from anyio.abc import ByteStream

from nighthawk_async.models.http_library import httpx
from nighthawk_async.models.http_plain import parse_head
from nighthawk_async.models.http_socket import HttpSocket, RequestHead

_Result = TypeVar("_Result")

STATUS_LINES = (
    *(b"HTTP/1.1 200 OK",) * 60,
    *(b"HTTP/1.1 200", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 503 ", b"HTTP/1.1 999 \t odd "),
    *(b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified", b"HTTP/2.0 200 OK"),
    *(b"HTTP/1.1  200 OK", b"HTTP/1.1 2000 OK", b"http/1.1 200 OK", b" HTTP/1.1 200 OK", b"HTTP/1.1 200OK"),
    *(
        b"HTTP/1.1 200 \xc3\xa9",
        b"HTTP/1.1 200 a\x00b",
        b"HTTP/1.1 200 a\x01b",
        b"HTTP/1.1 099 x",
        b"GET / x",
    ),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    b"HTTP/1.1 101 Switching Protocols",
    b"\r\nHTTP/1.1 200 OK",
)
HEADERS = (
    *(b"server: nginx", b"Content-Type: text/event-stream", b"x-request-id: req_1", b"date:Mon, 30 Nov 2026"),
    *(b"connection: keep-alive", b"Connection: close", b"connection: x, Close", b"x-empty:", b"x-blank: \t "),
    *(b"set-cookie: a=1", b"Set-Cookie: b=2", b"x: y ", b"!#$%&'*+-.^_`|~: \x21~", b"x:\ty\t"),
    *(b"x-utf: \xc3\xa9", b"x-latin: \xe9", b"x-control: a\x01b", b"x-nul: a\x00b", b"x y: z", b"x : y"),
    *(b": nameless", b"nothing", b" folded", b"\tfolded", b"x: a\rb", b"x: a\nb", b"x: a\x0bb", b"x(: y"),
    *(b"upgrade: websocket", b"trailer: x", b"content-encoding: gzip", b"server: llama.cpp"),
)
LENGTHS = (
    *(b"content-length: %d", b"Content-Length: %d", b"content-length:%d", b"content-length: %d "),
    *(b"content-length: +%d", b"content-length: -%d", b"content-length: %d, %d", b"content-length: 0%d"),
    *(b"content-length: %dx", b"content-length : %d", b"content-length: 1_%d", b"content-length: 0x%d"),
    *(b"content-length: %d\r\ncontent-length: %d", b"content-length: 9999999999999999%d", b"content-length:"),
    *(
        b"content-length: %d\r\n 1",
        b"content-length: %d\r\ntransfer-encoding: chunked",
        b"content_length: %d",
    ),
)
CODINGS = (
    *(b"transfer-encoding: chunked",) * 40,
    *(b"Transfer-Encoding: chunked", b"transfer-encoding:chunked ", b"transfer-encoding: Chunked"),
    *(b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", b"transfer-encoding: gzip, chunked"),
    *(b"transfer-encoding: identity", b"transfer-encoding: xchunked", b"transfer-encoding : chunked"),
    *(b"transfer-encoding: chunked\r\ncontent-length: 5", b"content-length: 5\r\ntransfer-encoding: chunked"),
    *(b"transfer-encoding:\r\n chunked", b"transfer-encoding: chunked\x0b", b"transfer-encoding: chunked,"),
)
SIZES = (
    *(b"%x\r\n",) * 12,
    *(
        b"%X\r\n",
        b"0%x\r\n",
        b"0000%x\r\n",
        b"00000000000%x\r\n",
        b"%x;name=value\r\n",
        b"%x ;a\r\n",
        b"%x \r\n",
    ),
    *(
        b" %x\r\n",
        b"%x\n",
        b"%x\r",
        b"0x%x\r\n",
        b"+%x\r\n",
        b"-%x\r\n",
        b"%x_0\r\n",
        b"\r\n",
        b"g\r\n",
        b"%x\t\r\n",
    ),
    *(b"ffffffffffffffff%x\r\n", b"ffffffffffffffffffffff%x\r\n", b"ffffffff\r\n", b"%x;\xff\x00\r\n"),
)
FOOTERS = (*(b"\r\n",) * 20, b"\n", b"\r", b"", b"x\r\n", b"\r\r\n", b"\n\r", b"\rx")
LAST_CHUNKS = (
    *(b"0\r\n\r\n",) * 10,
    *(
        b"000\r\n\r\n",
        b"0\r\n\n",
        b"0\n\n",
        b"0;x\r\n\r\n",
        b"0\r\nx: y\r\n\r\n",
        b"0\r\nx: y\r\n",
        b"0\r\n x\r\n\r\n",
    ),
    *(
        b"0\r\nbad\r\n\r\n",
        b"0\r\n",
        b"0\r\n\r",
        b"",
        b"00000000000000000\r\n\r\n",
        b"0 \r\n\r\n",
        b"0\r\n\rx",
    ),
)
TAILS = (*(b"",) * 8, b"\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"x", b"\x00" * 9)
LINE_BREAKS = (*(b"\r\n",) * 120, b"\n", b"\r", b"\r\r\n", b"\n\n")


def response_by(random: Random) -> bytes:
    """A response, often a good one."""
    choose = random.choice
    parts = [choose(STATUS_LINES), choose(LINE_BREAKS)]
    is_chunked = random.random() < 0.6
    lines = [choose(HEADERS[:13] if random.random() < 0.9 else HEADERS) for _ in range(random.randrange(4))]
    body = _chunks(random) if is_chunked else random.randbytes(random.randrange(30))
    if random.random() < 0.97:
        length = len(body) + choose((0,) * 9 + (-1, 1, 5))
        form = choose(LENGTHS[:4] if random.random() < 0.8 else LENGTHS)
        framing = choose(CODINGS) if is_chunked else form.replace(b"%d", b"%d" % max(0, length))
        lines.insert(random.randrange(len(lines) + 1), framing)
    for line in lines:
        parts += (line, choose(LINE_BREAKS))
    response = bytearray(b"".join([*parts, choose(LINE_BREAKS), body, choose(TAILS)]))
    for _ in range(choose((0,) * 12 + (1, 1, 2, 3))):
        _mutate(response, random)
    return bytes(response)


def _chunks(random: Random) -> bytes:
    parts: list[bytes] = []
    for _ in range(random.randrange(5)):
        data = random.choice((b"data: {}\n\n", b"\r\n", b"0\r\n\r\n", b"x" * random.randrange(1, 40)))
        size = random.choice(SIZES[:12] if random.random() < 0.6 else SIZES)
        told = len(data) + random.choice((0,) * 20 + (-1, 1))
        parts += (
            size.replace(b"%x", b"%x" % told).replace(b"%X", b"%X" % told),
            data,
            random.choice(FOOTERS),
        )
    return b"".join([*parts, random.choice(LAST_CHUNKS)])


def _mutate(response: bytearray, random: Random) -> None:
    at = random.randrange(len(response))
    kind = random.randrange(3)
    if kind == 0:
        del response[at]
    elif kind == 1:
        response[at] = random.randrange(256)
    else:
        response.insert(at, random.choice(b"\r\n\t :;0\x00\xff"))


def pieces_by(random: Random, response: bytes) -> list[bytes]:
    """The response in pieces: the head whole or not, and anything down to single bytes."""
    if random.random() < 0.1:
        return [response[at : at + 1] for at in range(len(response))]
    head_ends = response.find(b"\r\n\r\n") + 4
    first = head_ends if random.random() < 0.9 and head_ends < len(response) else 1
    cuts = {random.randrange(first, len(response)) for _ in range(random.choice((0, 1, 2, 3, 8, 30)))}
    return split(response, cuts)


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data in pieces that end at those places."""
    places = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places) if a < b]


class _Pieces(ByteStream):
    """Gives pieces; then it is at its end, or would wait for ever."""

    def __init__(self, pieces: Sequence[bytes], *, ends: bool) -> None:
        self._pieces, self._ends = pieces, ends
        self.given = 0

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self.given < len(self._pieces):
            self.given += 1
            return self._pieces[self.given - 1]
        self.given += 1
        if self._ends:
            raise anyio.EndOfStream
        raise StalledError

    async def send(self, item: bytes) -> None:
        pass

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class StalledError(Exception):
    """A connection waits for more than its peer sends."""


class FedSocket(HttpSocket):
    """A connection that receives those pieces."""

    def __init__(self, pieces: _Pieces) -> None:
        super().__init__("any", 80, ssl_context=None, connecting=None)  # type: ignore[arg-type]
        self._pieces_in = pieces
        self.is_closed = False

    async def _connected(self, seconds: float | None) -> ByteStream:
        self._stream = self._pieces_in
        return self._pieces_in

    async def aclose(self) -> None:
        self._stream = None
        self.is_closed = True


PLAIN = RequestHead("POST", b"/", {"host": "any"}, b"POST / HTTP/1.1\r\nhost: any\r\n")
NOT_PLAIN = RequestHead("POST", b"/", {"host": "any"}, None)


def reading_of(pieces: Sequence[bytes], *, ends: bool, request: RequestHead) -> list[object]:
    """Everything that a connection says about a response, and after which piece it says so."""
    stream = _Pieces(pieces, ends=ends)
    connection = FedSocket(stream)
    said: list[object] = []
    arrived: dict[int, bytes] = {}  # by the number of pieces, however often it was asked
    try:
        head = _run(connection.send(request, b"{}", connect_timeout=None))
        said += [(stream.given, head.status, head.headers, head.is_last), arrived]
        while data := _run(connection.receive()):
            arrived[stream.given] = arrived.get(stream.given, b"") + data
        said.append((stream.given, "the end", connection.is_kept))
        _run(connection.end_response())
        said.append(connection.is_closed)
    except (httpx.TransportError, StalledError) as error:
        said.append((stream.given, type(error)))
    return said


def _run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _Result = stop.value
        return result
    raise AssertionError("it waits")


def compare(pieces: Sequence[bytes], *, ends: bool) -> None:
    """Require that the plain reading and h11's are the same."""
    mine, its = (reading_of(pieces, ends=ends, request=request) for request in (PLAIN, NOT_PLAIN))
    assert mine == its, (pieces, ends)


def compare_plain(pieces: Sequence[bytes], *, ends: bool) -> bool:
    """Compare a response whose head is plain; of any other, both give the same bytes to h11."""
    is_plain = parse_head(pieces[0]) is not None
    if is_plain:
        compare(pieces, ends=ends)
    return is_plain


def case_of(random: Random) -> tuple[list[bytes], bool]:
    """The pieces of a response, and whether the connection ends after them."""
    response = response_by(random)
    return pieces_by(random, response), random.random() < 0.7


def main(cases: int, seed: int) -> None:
    """Compare that many cases whose head is plain; of others, both give the same bytes to h11."""
    others = done = 0
    began = time.monotonic()
    while done < cases:
        pieces, ends = case_of(Random(f"{seed}-{done + others}"))
        if not compare_plain(pieces, ends=ends):
            others += 1
            continue
        done += 1
        if done % 20_000 == 0 or done == cases:
            seconds = time.monotonic() - began
            print(f"{done:,} cases with a plain head, {others:,} others, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
