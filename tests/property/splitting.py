"""What the split-anywhere tests of all protocols share.

A fixture is the bytes of one streamed response, each event's `data:` on one line that ends with a line feed.
`stream_forms` writes it in every form in which an event stream may come; `check_every_cut` and
`check_cuts` cut it. `decode` is always the test's own function from parts to model events; where a codec
makes up ids, it gives every decoder the same ones, or leaves them out of the comparison.
"""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

from hypothesis import strategies as st

from nighthawk_async.types.model import ModelEvent
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.sse import ServerSentEventDecoder

Decode: TypeAlias = Callable[..., list[ModelEvent]]
"""All events of a response that came in these parts of bytes."""

LINE_ENDS = (b"\n", b"\r\n", b"\r")

places = st.lists(st.floats(0, 1), max_size=20)
"""Where to cut, as shares of the length."""

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=6)
"""Lengths of the pieces into which `pieces` cuts a text, over and over."""


def decode_with(codec: Codec, *parts: bytes) -> list[ModelEvent]:
    """All events of a streamed response that came in these parts.

    Args:
        codec: The codec of the protocol.
        parts: The bytes of the response.
    """
    lines = ServerSentEventDecoder()
    decoder = codec.decoder()
    events: list[ModelEvent] = []
    for part in parts:
        for line_event in lines.feed(part):
            events += decoder.feed(line_event)
    for line_event in lines.finish():
        events += decoder.feed(line_event)
    return events + decoder.finish()


def pieces(text: str, lengths: list[int]) -> list[str]:
    """A text in pieces of these lengths, over and over."""
    found: list[str] = []
    while text:
        length = lengths[len(found) % len(lengths)]
        found.append(text[:length])
        text = text[length:]
    return found


def stream_forms(stream: bytes) -> Iterator[tuple[str, bytes]]:
    """The same events in every form in which an event stream may come, with a name for each form."""
    yield "as it is", stream
    yield "CRLF", stream.replace(b"\n", b"\r\n")
    yield "CR", stream.replace(b"\n", b"\r")
    yield "with a byte order mark", b"\xef\xbb\xbf" + stream
    yield "with comments", b": hello\n\n" + stream.replace(b"\n\n", b"\n: ping\n\n:\n\n")
    yield "with unknown fields", stream.replace(b"data:", b"id: 7\nretry: 10\ndata:")
    yield "without a space after the colon", stream.replace(b"data: ", b"data:")
    yield "with empty data between", stream.replace(b"\n\n", b"\n\ndata:\n\n")
    yield "without a final blank line", stream.rstrip(b"\n") + b"\n"
    yield "without a final line end", stream.rstrip(b"\n")
    yield "with escapes", _rewrite(stream, lambda value: [json.dumps(value)])
    yield "without escapes", _rewrite(stream, lambda value: [json.dumps(value, ensure_ascii=False)])
    over_lines = _rewrite(stream, lambda value: json.dumps(value, ensure_ascii=False, indent=1).split("\n"))
    yield "with data on several lines", over_lines
    yield "with data on several lines, CR", over_lines.replace(b"\n", b"\r")


def check_forms(decode: Decode, stream: bytes) -> None:
    """Every form of a stream gives the same events, whole and byte by byte.

    Args:
        decode: Gives the events of parts of bytes.
        stream: The fixture.
    """
    expected = decode(stream)
    for name, form in stream_forms(stream):
        assert decode(form) == expected, name
        assert decode(*[form[place : place + 1] for place in range(len(form))]) == expected, name


def check_every_cut(decode: Decode, stream: bytes) -> None:
    """Cut in two at every place, and byte by byte, a stream gives the same events, with every line end.

    Args:
        decode: Gives the events of parts of bytes.
        stream: The fixture; keep it to some hundred bytes, since it is decoded once for each of them.
    """
    expected = decode(stream)
    for line_end in LINE_ENDS:
        form = stream.replace(b"\n", line_end)
        for place in range(len(form) + 1):
            assert decode(form[:place], form[place:]) == expected, (line_end, place)
        assert decode(*[form[place : place + 1] for place in range(len(form))]) == expected, line_end


def check_cuts(decode: Decode, stream: bytes, shares: list[float]) -> None:
    """Cut at these places, a stream gives the same events.

    Args:
        decode: Gives the events of parts of bytes.
        stream: The fixture.
        shares: Where to cut, as shares of the length (`places`).
    """
    bounds = [0, *sorted(int(share * len(stream)) for share in shares), len(stream)]
    assert decode(*[stream[start:end] for start, end in pairwise(bounds)]) == decode(stream)


def _rewrite(stream: bytes, write: Callable[[object], list[str]]) -> bytes:
    """The stream with every JSON document after `data:` written anew, as one or several lines."""
    lines: list[bytes] = []
    for line in stream.split(b"\n"):
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            lines.append(line)
        else:
            lines += [b"data: " + each.encode() for each in write(json.loads(line[6:]))]
    return b"\n".join(lines)
