"""Effects of a reply's faults on the events and bodies of a `ModelServer`. Pure.

Faults in what a protocol says are the protocols' business, and faults of HTTP are in `model_server_http`.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from .model_reply import ModelReply

__all__ = ["cut_off", "spoil_body", "spoil_events", "spoil_text"]

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
    """The text of a reply with its fault, if that is one of the text.

    Args:
        reply: The reply.
    """
    return reply.text + "\udcff" if reply.fault == "invalid_utf8" else reply.text


def spoil_events(events: list[bytes], reply: ModelReply) -> Iterable[bytes]:
    """The events of a stream with the reply's fault, if that is one of the stream.

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
    """A whole body with the reply's fault, if that is one of bodies.

    Args:
        body: The body.
        reply: The reply.
    """
    if reply.fault == "broken_json":
        return body[: len(body) // 2]
    return _PAGE if reply.fault == "html" else body


def cut_off(events: Iterable[bytes], after: float | None) -> Iterator[bytes]:
    """The events up to where the reply ends.

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
    """An event in many pieces, so that it need not be held here."""
    yield b'data: {"type":"nobody.knows","padding":"'
    for _ in range(size // len(_PADDING)):
        yield _PADDING
    yield _PADDING[: size % len(_PADDING)] + b'"}\n\n'


def _repeat(event: bytes, size: int) -> Iterator[bytes]:
    for _ in range(size // len(event)):
        yield event
