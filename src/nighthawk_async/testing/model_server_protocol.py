"""The interface of a `ModelServer`'s protocols, and their common parts.

The protocols are written from their descriptions and not with the library's codecs, so that the two check
each other.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol, cast

from ..types.messages import ToolCall
from ..wire.response_json import NOT_JSON, decode_json
from .model_reply import ModelReply, RecordedRequest

__all__ = [
    "ReplyProtocol",
    "as_objects",
    "failure",
    "identified_calls",
    "parsed_arguments",
    "pieces",
    "refusal",
    "seal",
    "server_sent_event",
    "to_json",
]


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
        message: Why, much as the endpoint would say it.
        status: The HTTP status code.
    """
    return ModelReply(status=status, text=f"{message} (ModelServer(checks_requests=False) lets it pass.)")


def failure(what: str, error: Exception | None = None, *, status: int = 500) -> ModelReply:
    """The reply in place of one that cannot be given; clients need not try again.

    Args:
        what: What went wrong.
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
        texts: What is signed.
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
