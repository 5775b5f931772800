"""The recorded response to a request: its status, its headers and its body. Pure."""

from collections.abc import Sequence
from http import HTTPStatus

from msgspec import Struct

from .protocol import Message

_OF_ONE_CONNECTION = frozenset(
    {
        b"connection",
        b"content-length",
        b"date",
        b"keep-alive",
        b"proxy-connection",
        b"server",
        b"transfer-encoding",
        b"upgrade",
        b"x-request-id",
    }
)
"""Headers that are made anew for each response."""

_AGAIN_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
"""The statuses below 500 that ask a client to send its request again."""

MOST_BYTES = 32 * 1024 * 1024
"""The maximum size of a recorded body. A larger response is made again, from the records of its run."""

_LAST_EVENTS = frozenset({"result", "end"})
_OTHER_EVENTS = frozenset(
    {"cut", "dropped", "error", "message", "note", "partial", "progress", "reasoning", "snapshot", "step"}
    | {"text", "tool_call", "tool_result", "usage"}
)
"""Event streams of this library that end with one of these have failed, or have ended early."""


class KeptResponse(Struct, frozen=True, kw_only=True):
    """A whole response.

    Args:
        status: Its status.
        headers: The names and values of its headers, as Latin-1.
        body: Its body.
    """

    status: int
    headers: list[list[str]]
    body: bytes

    @property
    def is_final(self) -> bool:
        """Whether it answers all repetitions: it can be recorded, and does not ask for another attempt."""
        is_retried = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status in _AGAIN_LATER
        if is_retried or len(self.body) > MOST_BYTES:
            return False
        return not (self._is_event_stream and _event_name(self.body) in _OTHER_EVENTS)

    def as_value(self) -> dict[str, object]:
        """Return it as plain data, for a journal; only the last event of an event stream with a result."""
        has_result = self._is_event_stream and _event_name(self.body) in _LAST_EVENTS
        body = _last_event(self.body) if has_result else self.body
        return {"status": self.status, "headers": self.headers, "body": body}

    def messages(self) -> tuple[Message, Message]:
        """Return it for a server, with the header `idempotent-replayed`."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        if not self._is_event_stream and self.body:
            headers.append((b"content-length", str(len(self.body)).encode()))
        headers.append((b"idempotent-replayed", b"true"))
        return (
            {"type": "http.response.start", "status": self.status, "headers": headers},
            {"type": "http.response.body", "body": self.body, "more_body": False},
        )

    @property
    def _is_event_stream(self) -> bool:
        return any(
            name.lower() == "content-type" and value.startswith("text/event-stream")
            for name, value in self.headers
        )


class ResponseCollector:
    """Collects the messages of a response.

    Attributes:
        response: The response, once it is whole.
    """

    def __init__(self) -> None:
        self.response: KeptResponse | None = None
        self._start: Message | None = None
        self._body = bytearray()

    def add(self, message: Message) -> None:
        """Add the next message of the application."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                self.response = KeptResponse(
                    status=self._start["status"],
                    headers=_lasting(self._start.get("headers", ())),
                    body=bytes(self._body),
                )


def _lasting(headers: Sequence[tuple[bytes, bytes]]) -> list[list[str]]:
    return [
        [bytes(name).decode("latin-1"), bytes(value).decode("latin-1")]
        for name, value in headers
        if bytes(name).lower() not in _OF_ONE_CONNECTION
    ]


def _last_event(stream: bytes) -> bytes:
    """Return the last event of a stream, without comments."""
    blocks = [block for block in stream.split(b"\n\n") if block.strip() and not block.startswith(b":")]
    return blocks[-1].strip(b"\n") + b"\n\n" if blocks else b""


def _event_name(stream: bytes) -> str:
    """Return the name of the last event of a stream; empty for none."""
    lines = _last_event(stream).split(b"\n")
    return next((line[6:].strip().decode() for line in lines if line.startswith(b"event:")), "")
