"""Plain HTTP is read as h11 reads it, however it arrives, and nothing else is taken for plain."""

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from nighthawk_async.models.http_h11 import AnyExchange
from nighthawk_async.models.http_library import httpx
from nighthawk_async.models.http_plain import end_head, parse_head, write_head

from .http_bytes import CODINGS, LENGTHS, SIZES, STATUS_LINES, case_of, compare, compare_plain, split

HEAD = b"HTTP/1.1 200 OK\r\nserver: x\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
CHUNKS = b"5\r\nHello\r\nA\r\n, world!\r\n\r\n00b\r\n0\r\n\r\n0\r\n\r\nx\r\n"
RESPONSES = {
    "a length": HEAD + b"content-length: 5\r\n\r\nHello",
    "no body": HEAD + b"content-length: 0\r\nconnection: close\r\n\r\n",
    "more than its length": HEAD + b"content-length: 5\r\n\r\nHello, world",
    "chunks": CHUNKED + CHUNKS + b"0\r\n\r\n",
    "no chunks, and more": CHUNKED + b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "an extension": CHUNKED + CHUNKS + b"3;a=b\r\nabc\r\n0\r\n\r\n",
    "a trailer": CHUNKED + CHUNKS + b"0\r\nx: y\r\n\r\n",
    "a bare line feed": CHUNKED + CHUNKS + b"0\r\n\n",
    "a wrong end of a chunk": CHUNKED + CHUNKS + b"3\r\nabcd\r\n0\r\n\r\n",
    "a short chunk": CHUNKED + CHUNKS + b"4\r\nabc\r\n0\r\n\r\n",
    "a size that is none": CHUNKED + CHUNKS + b"+3\r\nabc\r\n0\r\n\r\n",
    "a long size": CHUNKED + CHUNKS + b"0000000000000003\r\nabc\r\n0\r\n\r\n",
    "a size without end": CHUNKED + CHUNKS + b"3" * 50,
    "a size with blanks": CHUNKED + CHUNKS + b"3 \t\r\nabc\r\n0\r\n\r\n",
    "both": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "no length": HEAD + b"\r\nHello",
    "an interim response": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: 1\r\n\r\nx",
    "an old version": HEAD.replace(b"1.1", b"1.0") + b"content-length: 1\r\n\r\nx",
    "a folded line": HEAD + b" y\r\ncontent-length: 1\r\n\r\nx",
    "bare line feeds": (HEAD + b"content-length: 1\r\n\r\n").replace(b"\r\n", b"\n") + b"x",
}


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_is_the_same_wherever_it_is_cut(name: str) -> None:
    response = RESPONSES[name]
    compare([response[at : at + 1] for at in range(len(response))], ends=True)
    for ends in (True, False):
        for cut in range(len(response)):
            compare(split(response, {cut}), ends=ends)
    head = response.find(b"\r\n\r\n") + 4
    compare([response[:head], *(response[at : at + 1] for at in range(head, len(response)))], ends=True)


def test_a_connection_that_ends_anywhere_is_the_same() -> None:
    for response in RESPONSES.values():
        for length in range(1, len(response), 2):
            compare([response[:length]], ends=True)


def test_each_odd_line_is_read_as_h11_reads_it() -> None:
    """Every status line, length, coding and size of a chunk, each in a response that is good but for it."""
    for line in STATUS_LINES:
        compare([line + b"\r\ncontent-length: 5\r\n\r\nHello"], ends=False)
    for line in LENGTHS:
        compare([HEAD + line.replace(b"%d", b"5") + b"\r\n\r\nHello"], ends=True)
    for line in CODINGS:
        compare([HEAD + line + b"\r\n\r\n" + CHUNKS + b"0\r\n\r\n"], ends=False)
    for size in SIZES:
        line = size.replace(b"%x", b"A").replace(b"%X", b"a")
        for ends in (True, False):
            compare([CHUNKED, CHUNKS + line + b"0123456789\r\n0\r\n\r\n"], ends=ends)


def test_every_byte_is_plain_where_h11_takes_it_and_nowhere_else() -> None:
    for byte in range(256):
        for good in (b"server: ?x", b"ser?ver: x", b"server: x?", b"server:?x", b"?server: x", b"server?: x"):
            line = good.replace(b"?", bytes([byte]))
            compare_plain([b"HTTP/1.1 200 OK\r\n" + line + b"\r\ncontent-length: 1\r\n\r\nx"], ends=False)
        compare_plain([b"HTTP/1.1 200 O%cK\r\ncontent-length: 1\r\n\r\nx" % byte], ends=False)
        compare_plain([b"HTTP/1.1 200%cOK\r\ncontent-length: 1\r\n\r\nx" % byte], ends=False)
        compare_plain([CHUNKED + b"%c5\r\nHello\r\n0\r\n\r\n" % byte], ends=False)
        compare_plain([CHUNKED + b"5%c\r\nHello\r\n0\r\n\r\n" % byte], ends=True)


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_any_response_is_read_as_h11_reads_it(seed: int) -> None:
    """`make http` compares millions."""
    pieces, ends = case_of(Random(seed))
    compare_plain(pieces, ends=ends)


def test_the_responses_that_are_compared_are_of_all_kinds() -> None:
    plain = [pieces for pieces, _ in (case_of(Random(seed)) for seed in range(300)) if parse_head(pieces[0])]
    assert 80 < len(plain) < 250
    assert sum(len(pieces) > 2 for pieces in plain) > 40


def test_a_head_that_is_long_is_left_to_h11() -> None:
    """It refuses one of 100 KB, whatever its pieces."""
    lines = b"".join(b"x-%d: %b\r\n" % (number, b"y" * 1000) for number in range(110))
    response = HEAD + lines + b"content-length: 0\r\n\r\n"
    pieces = [response[at : at + 65_536] for at in range(0, len(response), 65_536)]
    compare(pieces, ends=False)
    assert parse_head(pieces[0]) is None


METHODS = ("POST", "GET", "DELETE", "HEAD", "OPTIONS", "P ST", "POST\r\n")
TARGETS = (b"/v1/chat", b"/a?b=c%20d", b"/a b", b"/a\r\nx: y", b"", b"*", b"/\x7f", b"/\xc3")
REQUEST_HEADERS: tuple[dict[str, str], ...] = (
    {"host": "a:80", "authorization": "Bearer x", "content-type": "application/json", "x-empty": ""},
    {"host": "a", "x": "a b\tc", "traceparent": "00-1-2-01", "!#$%&'*+-.^_`|~": "~!"},
    *(
        {"host": "a", "x": value}
        for value in ("a\r\ny: z", "a\nb", "a\rb", "a\x00b", "a\x01b", " a", "a ", "\x7f")
    ),
    *({"host": "a", name: "b"} for name in ("x y", "", "x:y", "x\r\ny", "x\r\ny: z\r\nw", "(", " x")),
    *({"host": "a", name: "close"} for name in ("connection", "upgrade", "expect", "transfer-encoding")),
    *({}, {"x": "y"}, {"x": "y", "host": "a"}, {"host": "a\r\nhost: b"}),
)


def test_a_plain_request_is_written_as_h11_writes_it() -> None:
    """The rest is left to h11, which writes it or refuses it."""
    plain = 0
    for method in METHODS:
        for target in TARGETS:
            for headers in REQUEST_HEADERS:
                head = write_head(method, target, headers)
                if head is None:
                    continue
                coded = [(name.encode(), value.encode()) for name, value in headers.items()]
                coded.append((b"content-length", b"5"))
                written = b"".join(AnyExchange().write(method, target, coded, b"Hello"))
                assert end_head(head, 5) + b"Hello" == written, (method, target, headers)
                plain += 1
    assert plain == 3 * 3 * 2


def test_what_cannot_be_sent_is_refused_by_h11() -> None:
    for headers in ({"host": "a", "x": "a\r\ny: z"}, {"host": "a", "x y": "b"}):
        assert write_head("POST", b"/", headers) is None
        with pytest.raises(httpx.LocalProtocolError):
            AnyExchange().write("POST", b"/", [(n.encode(), v.encode()) for n, v in headers.items()], b"")
