"""Requests that a `ModelServer` receives, its replies, and the interface of its protocols.

The protocols are written from their descriptions and not with the library's codecs, so that the two check
each other.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..types.messages import ToolCall
from ..types.usage import Usage
from ..wire.response_json import NOT_JSON, decode_json

ReplyEnding: TypeAlias = Literal["complete", "close", "reset", "hang"]
"""How a reply ends: as it should, by closing or resetting the connection, or by never going on."""

ReplyFault: TypeAlias = Literal[
    "comment",
    "empty_event",
    "unknown_event",
    "garbage",
    "broken_json",
    "invalid_utf8",
    "huge_event",
    "flood",
    "html",
    "no_terminal",
    "no_call_ids",
    "duplicate_call_ids",
    "no_call_index",
    "informational",
    "http_1_0",
    "compressed",
    "content_length_too_long",
    "content_length_too_short",
    "broken_chunks",
]
"""What is wrong, or merely odd, with a reply.

Between two events of a stream:

- `comment`, `empty_event`, `unknown_event`: what every client must pass over.
- `garbage`: bytes that are no field of an event.
- `huge_event`: an event of 40 MiB.
- `flood`: the next event again and again, 100 MB of them.

In a stream or in a whole body:

- `broken_json`: the next event, or the body, breaks off in the middle of its JSON.
- `invalid_utf8`: the text holds a byte that is no UTF-8.
- `html`: a web page in place of everything, with the status the reply has.

In what the protocol says:

- `no_terminal`: the event that ends the response is missing, and so is the reason why it ended.
- `no_call_ids`, `duplicate_call_ids`: tool calls have no ids, or all the same.
- `no_call_index`: events leave out which call they belong to, where a protocol says so by a number.

In HTTP:

- `informational`: a response with status 103 comes first.
- `http_1_0`: HTTP/1.0 and no length: the body ends when the connection does.
- `compressed`: the body is compressed, asked for or not.
- `content_length_too_long`, `content_length_too_short`: the body is shorter, or longer, than the head says.
- `broken_chunks`: the chunked encoding breaks off.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request that reached the server.

    Args:
        method: The HTTP method.
        path: The path, with the query.
        headers: The headers; names in lower case.
        content: The body as it came.
        body: The body as JSON; None when it is not JSON.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPacing:
    """Speed and pieces in which a reply is written.

    Args:
        first_byte_seconds: Seconds before the first byte of the reply, its head included.
        between_writes_seconds: Seconds between two writes of the body.
        write_bytes: Bytes per write; None writes event by event where there is time between writes, and as
            much as possible at once where there is none.
        fragment_characters: Characters of text or of arguments per event.

    Raises:
        ValueError: A number makes no sense.
    """

    first_byte_seconds: float = 0.0
    between_writes_seconds: float = 0.0
    write_bytes: int | None = None
    fragment_characters: int = 24

    def __post_init__(self) -> None:
        for name in ("first_byte_seconds", "between_writes_seconds"):
            seconds: float = getattr(self, name)
            if not seconds >= 0:  # neither is "not a number"
                raise ValueError(f"{name} must be at least 0, not {seconds}")
        if self.write_bytes is not None and self.write_bytes < 1:
            raise ValueError(f"write_bytes must be at least 1 or None, not {self.write_bytes}")
        if self.fragment_characters < 1:
            raise ValueError(f"fragment_characters must be at least 1, not {self.fragment_characters}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One reply of a `ModelServer`: what it says, how it is sent, and how it goes wrong.

    Args:
        text: The visible text.
        reasoning: The reasoning text. Protocols that want reasoning back get it signed or sealed.
        tool_calls: The tool calls; a call with an empty id gets one that is unique at the server.
        usage: The usage it tells; None for none.
        finish_reason: The finish reason in the protocol's own word; None for the one that fits.
        status: The HTTP status code. Any but 200 sends an error body.
        headers: More headers, or other values of those the server sends by itself.
        error: An error object: the body's where the status is not 200, else one in the stream, in the
            protocol's own form and in place of the finish reason.
        body: Bytes sent in place of everything that the fields above describe, the status and headers
            excepted.
        sends_done: Whether a stream of Chat Completions says that it is done.
        pacing: The speed of writing it.
        ending: The way in which it ends.
        ending_after: Number of events after which it ends that way; 1.5 is in the middle of the second one,
            0 is after the head, `"request"` is before the head, None is after everything.
        fault: A further fault of it.
        fault_after: Number of events before a fault that strikes one event, or stands between two.
        fault_bytes: The size of a fault that is large by nature; None for the size its name stands for.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = field(default_factory=lambda: Usage(requests=1, input_tokens=10, output_tokens=5))
    finish_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Mapping[str, Any] | None = None
    body: bytes | None = None
    sends_done: bool = True
    pacing: ReplyPacing = field(default_factory=ReplyPacing)
    ending: ReplyEnding = "complete"
    ending_after: float | Literal["request"] | None = None
    fault: ReplyFault | None = None
    fault_after: int = 1
    fault_bytes: int | None = None


class ReplyProtocol(Protocol):
    """Writes the replies of one server in one protocol, and knows what it told before."""

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the protocol.

        Args:
            path: The path without its query.
        """
        ...

    def is_streamed(self, request: RecordedRequest) -> bool:
        """Whether a request asks for a stream of events.

        Args:
            request: The request; its body is a JSON object.
        """
        ...

    def stream(self, reply: ModelReply, request: RecordedRequest) -> list[bytes]:
        """The events of a streamed reply, each as bytes.

        Args:
            reply: The reply.
            request: The request it answers.
        """
        ...

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """The body of a reply that is not streamed.

        Args:
            reply: The reply.
            request: The request it answers.
        """
        ...

    def error(self, reply: ModelReply) -> bytes:
        """The body of a reply with an error status.

        Args:
            reply: The reply.
        """
        ...

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """The reply to a request that a real endpoint would refuse; None for a good one.

        Args:
            request: The request; its body is a JSON object.
        """
        ...


def refusal(message: str, *, status: int = 400) -> ModelReply:
    """The reply to a request that a real endpoint would refuse.

    Args:
        message: The cause, much as the endpoint would say it.
        status: The HTTP status code.
    """
    return ModelReply(status=status, text=f"{message} (ModelServer(checks_requests=False) lets it pass.)")


def failure(what: str, error: Exception | None = None, *, status: int = 500) -> ModelReply:
    """The reply in place of one that cannot be given; clients need not try again.

    Args:
        what: The failure.
        error: The error, to be told after that.
        status: The HTTP status code.
    """
    text = what if error is None else f"{what} {type(error).__name__}: {error}"
    text = text.encode(errors="backslashreplace").decode()  # it may tell of a text that cannot be sent
    return ModelReply(status=status, text=text, headers={"x-should-retry": "false"})


def identified_calls(reply: ModelReply, new_id: Callable[[], str]) -> list[ToolCall]:
    """The tool calls of a reply with their ids, or with what its fault makes of them.

    Args:
        reply: The reply.
        new_id: Makes an id that is unique at the server.
    """
    if reply.fault == "no_call_ids":
        return [replace(call, id="") for call in reply.tool_calls]
    if reply.fault == "duplicate_call_ids":
        shared = new_id()
        return [replace(call, id=shared) for call in reply.tool_calls]
    return [call if call.id else replace(call, id=new_id()) for call in reply.tool_calls]


def parsed_arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of a call as a JSON object; None when they are none, for example cut off.

    Args:
        call: The call.
    """
    try:
        arguments: object = decode_json(call.arguments or "{}")
    except NOT_JSON:
        return None
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None


def pieces(text: str, reply: ModelReply) -> Iterator[str]:
    """A text in the fragments that the reply's pacing wants.

    Args:
        text: The text.
        reply: The reply.
    """
    size = reply.pacing.fragment_characters
    return (text[start : start + size] for start in range(0, len(text), size))


def seal(*texts: str) -> str:
    """Return a placeholder for a provider's signature; it can be verified with the texts.

    Args:
        texts: The texts that are signed.
    """
    signed = "\0".join(("nighthawk", *texts)).encode(errors="surrogatepass")
    return base64.b64encode(hashlib.sha256(signed).digest()).decode()


def as_objects(value: object) -> list[dict[str, Any]]:
    """The JSON objects in a list; empty when it is none.

    Args:
        value: A JSON value.
    """
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def server_sent_event(data: object, name: str = "") -> bytes:
    """An event.

    Args:
        data: Its data as a JSON value.
        name: Its type; empty for an event without a type.
    """
    line = f"event: {name}\n".encode() if name else b""
    return line + b"data: " + to_json(data) + b"\n\n"


def to_json(value: object) -> bytes:
    """A value as compact JSON. Lone surrogates that stand for bytes become those bytes.

    Args:
        value: The value.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogateescape")
