"""One response as its bytes in HTTP, made when its script is registered and then only sent. No I/O here."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["STAMP", "Answer", "error_answer", "streamed_answer", "whole_answer"]

STAMP = b"@@@@@@@@@@@@@@@@"
"""Stands in an answer for the moment of sending: as long as the number that takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The bytes of a response.

    Args:
        first: What is sent when the first byte is due: the head, and all that has no reason to come later.
        later: What is sent one by one over the time that the response goes on after its calls.
        is_stamped: Whether the moment of sending has a place in `first`.
    """

    first: bytes
    later: tuple[bytes, ...] = ()
    is_stamped: bool = False

    def stamped(self, now: float) -> bytes:
        """`first` with the moment of sending in it."""
        return self.first.replace(STAMP, f"{now:.9f}"[: len(STAMP)].ljust(len(STAMP), "0").encode())


def streamed_answer(before: Iterable[bytes], later: Iterable[bytes] = ()) -> Answer:
    """A response of server-sent events, each a chunk of its own as providers send them.

    Args:
        before: The events up to the end of the last call's arguments.
        later: Those after.
    """
    kind = b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\n" + kind
    first = head + b"".join(_chunk(event) for event in before)
    rest = [_chunk(event) for event in later]
    end = b"0\r\n\r\n"
    if rest:
        rest[-1] += end
    else:
        first += end
    return Answer(first=first, later=tuple(rest), is_stamped=STAMP in first)


def whole_answer(body: bytes) -> Answer:
    """A response in one piece."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return Answer(first=head + body, is_stamped=STAMP in body)


def error_answer(status: int, message: str) -> bytes:
    """A refusal, in the form that OpenAI's protocols have for it."""
    body = b'{"error":{"type":"invalid_request_error","message":"%s"}}' % message.replace('"', "'").encode()
    return b"HTTP/1.1 %d Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(event), event)
