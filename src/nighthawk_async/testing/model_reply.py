"""What a `ModelServer` receives and what it is told to answer. Floor 5. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..types.messages import ToolCall
from ..types.usage import Usage

__all__ = ["ModelReply", "RecordedRequest", "ReplyEnding", "ReplyPacing"]

ReplyEnding: TypeAlias = Literal["complete", "close", "hang"]
"""How a reply ends: as it should, by closing the connection, or by never going on."""


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
    """How fast, and in which pieces, a reply is written.

    Args:
        first_byte_seconds: Seconds before the first byte of the reply, its head included.
        between_writes_seconds: Seconds between two writes of the body.
        write_bytes: Bytes per write; None writes event by event where there is time between writes, and all
            events at once where there is none.
        fragment_characters: Characters of text or of arguments per event.
    """

    first_byte_seconds: float = 0.0
    between_writes_seconds: float = 0.0
    write_bytes: int | None = None
    fragment_characters: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One reply of a `ModelServer`: what it says, how it is sent, and how it goes wrong.

    Args:
        text: The visible text.
        reasoning: The reasoning text.
        tool_calls: The tool calls; a call with an empty id gets one that is unique at the server.
        usage: The usage it tells; None for none.
        finish_reason: The finish reason; None for the one that fits.
        status: The HTTP status code. Any but 200 sends an error body.
        headers: More headers, or other values of those the server sends by itself.
        error: An error object: the body's where the status is not 200, else an event in the stream, in place
            of the finish reason.
        body: Bytes sent in place of everything that the fields above describe, the status and headers
            excepted.
        sends_done: Whether the stream says that it is done.
        pacing: How fast it is written.
        ending: How it ends.
        ending_after: Number of events after which it ends that way; None for all.
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
    ending_after: int | None = None
