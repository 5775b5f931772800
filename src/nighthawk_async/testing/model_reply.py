"""Requests that a `ModelServer` receives, its replies, and the interface of its protocols.

The protocols are implemented from their specifications, without the library's codecs, so that each checks the
other.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from ..types.json import is_json_list, is_json_mapping, is_json_object
from ..types.messages import ToolCall
from ..types.usage import Usage
from ..wire.json_text import NOT_JSON, decode_json

ReplyEnding: TypeAlias = Literal["complete", "close", "reset", "hang"]
"""The end of a reply: normal, by closing or resetting the connection, or by stalling forever."""

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
"""A fault of a reply, or something unusual in it.

Between two events of a stream:

- `comment`, `empty_event`, `unknown_event`: parts that every client must ignore.
- `garbage`: bytes that are no field of an event.
- `huge_event`: an event of 40 MiB.
- `flood`: the next event repeated, up to 100 MB.

In a stream or in a whole body:

- `broken_json`: the next event, or the body, breaks off in the middle of its JSON.
- `invalid_utf8`: the text holds a byte that is not UTF-8.
- `html`: a web page replaces the whole body; the status stays.

In the protocol:

- `no_terminal`: the event that ends the response is missing, and so is the finish reason.
- `no_call_ids`, `duplicate_call_ids`: tool calls have no ids, or all have the same.
- `no_call_index`: events have no call index, in protocols that number the calls.

In HTTP:

- `informational`: a response with status 103 comes first.
- `http_1_0`: HTTP/1.0 without a length: the body ends with the connection.
- `compressed`: the body is compressed, even if the client did not ask for it.
- `content_length_too_long`, `content_length_too_short`: the head gives a greater, or smaller, length than the
  body has.
- `broken_chunks`: the chunked encoding breaks off.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request that reached the server.

    Args:
        method: The HTTP method; `WEBSOCKET` for a request on a WebSocket.
        path: The path, with the query.
        headers: The headers, on a WebSocket those that opened it; names in lower case.
        content: The raw body.
        body: The body as JSON; None when it is not JSON.
        earlier_items: The items of the conversation that the server knew already, on a WebSocket.
        stream_id: The name of its lane on a WebSocket; None without one.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    body: Any
    earlier_items: tuple[Any, ...] = ()
    stream_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPacing:
    """Speed and granularity in which a reply is written.

    Args:
        first_byte_seconds: Seconds before the first byte of the reply, its head included.
        between_writes_seconds: Seconds between two writes of the body.
        write_bytes: Bytes per write; None writes event by event if there is time between writes, otherwise
            as much as possible at once.
        fragment_characters: Characters of text or of arguments per event.

    Raises:
        ValueError: A number is out of range.
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
    """One reply of a `ModelServer`: its content, its transmission and its faults.

    Args:
        text: The visible text.
        reasoning: The reasoning text; signed or sealed in protocols that expect it back.
        tool_calls: The tool calls; a call with an empty id gets one that is unique at the server.
        blocks: Parts in the protocol's own form, sent as they are between the reasoning and the text: content
            blocks of Anthropic Messages, output items of Responses, parts of the Gemini API, and fields of
            the message in Chat Completions. Native tools are scripted so. A request in which they come back
            changed is refused.
        usage: The reported usage; None for none.
        finish_reason: The finish reason, in the protocol's own word; None for the one that fits.
        status: The HTTP status code. Any but 200 sends an error body.
        headers: More headers, or other values for those that the server sends by itself.
        error: An error object in the protocol's own form: in the body if the status is not 200, otherwise in
            the stream, in place of the finish reason.
        body: The bytes of the body, which replace the content described by all fields above but the status
            and headers.
        sends_done: Whether a stream of Chat Completions ends with `[DONE]`.
        pacing: The speed of writing it.
        ending: The way in which it ends.
        ending_after: The number of events after which it ends that way; 1.5 is in the middle of the second
            one, 0 is after the head, `"request"` is before the head, None is after everything.
        fault: A further fault.
        fault_after: The number of events before a fault that affects one event, or is between two.
        fault_bytes: The size of a large fault; None for its default size.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    blocks: tuple[Mapping[str, Any], ...] = ()
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
    """Writes the replies of one server in one protocol, and remembers earlier ones."""

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
        """Return the events of a streamed reply, each as bytes.

        Args:
            reply: The reply.
            request: The request it answers.
        """
        ...

    def whole(self, reply: ModelReply, request: RecordedRequest) -> bytes:
        """Return the body of a reply that is not streamed.

        Args:
            reply: The reply.
            request: The request it answers.
        """
        ...

    def error(self, reply: ModelReply) -> bytes:
        """Return the body of a reply with an error status.

        Args:
            reply: The reply.
        """
        ...

    def check(self, request: RecordedRequest) -> ModelReply | None:
        """Return the reply to a request that a real endpoint would refuse; None for a valid request.

        Args:
            request: The request; its body is a JSON object.
        """
        ...


def refusal(message: str, *, status: int = 400) -> ModelReply:
    """Return the reply to a request that a real endpoint would refuse.

    Args:
        message: The cause, similar to the message of the endpoint.
        status: The HTTP status code.
    """
    return ModelReply(status=status, text=f"{message} (ModelServer(checks_requests=False) lets it pass.)")


def failure(what: str, error: Exception | None = None, *, status: int = 500) -> ModelReply:
    """Return an error reply, which clients should not retry, in place of one that cannot be made.

    Args:
        what: The failure.
        error: The error, which is quoted after it.
        status: The HTTP status code.
    """
    text = what if error is None else f"{what} {type(error).__name__}: {error}"
    text = text.encode(errors="backslashreplace").decode()  # it may quote a text that cannot be sent
    return ModelReply(status=status, text=text, headers={"x-should-retry": "false"})


def identified_calls(reply: ModelReply, new_id: Callable[[], str]) -> list[ToolCall]:
    """Return the tool calls of a reply with their ids, or with the ids that its fault requires.

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


class SentBlocks:
    """The blocks that a server has sent; clients must send them back byte for byte."""

    def __init__(self) -> None:
        self._sent: dict[str, bytes] = {}

    def remember(self, blocks: Iterable[Mapping[str, Any]]) -> None:
        """Remember the blocks of a reply.

        Args:
            blocks: The blocks.
        """
        self._sent.update((name, to_json(block)) for block in blocks if (name := _name_of(block)))

    def find_changed(self, blocks: Iterable[Mapping[str, Any]], content: bytes) -> str | None:
        """Return the name of a block that was sent in another form; None when there is none.

        Args:
            blocks: The blocks of a request.
            content: The bytes of the request.
        """
        names = filter(None, map(_name_of, blocks))
        return next((name for name in names if self._sent.get(name, b"") not in content), None)


def _name_of(block: Mapping[str, Any]) -> str:
    """Return the identity of a block: its type and id; for a part of Gemini, its field and the id in it."""
    for field_name in ("toolCall", "toolResponse", "executableCode", "codeExecutionResult"):
        if is_json_mapping(inner := block.get(field_name)):
            return f"{field_name} {inner.get('id', '')}"
    if str(block.get("type")) in ("message", "reasoning", "text", "thinking", "tool_result", "tool_use"):
        return ""
    id = block.get("tool_use_id") or block.get("id")
    return f"{block.get('type')} {id}" if isinstance(id, str) else ""


def parsed_arguments(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call as a JSON object; None when they are not one, for example cut off.

    Args:
        call: The call.
    """
    try:
        arguments: object = decode_json(call.arguments or "{}")
    except NOT_JSON:
        return None
    return arguments if is_json_object(arguments) else None


def pieces(text: str, reply: ModelReply) -> Iterator[str]:
    """Return a text in the fragments that the reply's pacing requires.

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
    """Return the JSON objects in a list; none if the value is no list.

    Args:
        value: A JSON value.
    """
    entries = value if is_json_list(value) else []
    return [entry for entry in entries if is_json_object(entry)]


def server_sent_event(data: object, name: str = "") -> bytes:
    """Return an event.

    Args:
        data: Its data as a JSON value.
        name: Its type; empty for an event without a type.
    """
    line = f"event: {name}\n".encode() if name else b""
    return line + b"data: " + to_json(data) + b"\n\n"


def to_json(value: object) -> bytes:
    """Return a value as compact JSON. Lone surrogates that represent bytes become those bytes.

    Args:
        value: The value.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogateescape")
