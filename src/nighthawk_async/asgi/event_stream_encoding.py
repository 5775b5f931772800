"""Events as the bytes of an event stream. Pure.

Source: the event stream format of the HTML standard, section "Server-sent events".
"""

import json
import re
from collections.abc import Callable

from msgspec import Struct

from ..types.json import JsonableValue

__all__ = ["HEARTBEAT", "StreamEvent", "encode_event", "encode_lines"]

HEARTBEAT = b":\n\n"
"""A comment, which clients skip."""

_LINE_END = re.compile(r"\r\n|\r|\n")
"""No more than these: text line splitters know others, which are part of the text here."""

_NOT_IN_NAMES = re.compile(r"[\r\n\0]")

_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StreamEvent(Struct, frozen=True, kw_only=True):
    """Something that a client is told.

    Args:
        name: The type of the event.
        data: What it holds.
    """

    name: str
    data: dict[str, JsonableValue]


def encode_event(event: StreamEvent, event_id: str) -> bytes:
    """An event with its data as JSON, which is one line.

    Args:
        event: The event.
        event_id: Its id.
    """
    return encode_lines(_to_json(event.data), event=event.name, event_id=event_id)


def encode_lines(data: str, *, event: str, event_id: str) -> bytes:
    """An event with any text as its data.

    A client joins the lines with line feeds, whatever they ended with, and drops an event without data. What
    UTF-8 cannot say becomes a question mark.

    Args:
        data: What the event holds.
        event: Its type.
        event_id: Its id.

    Raises:
        ValueError: The type or the id holds a line end or NUL.
    """
    if _NOT_IN_NAMES.search(event) or _NOT_IN_NAMES.search(event_id):
        raise ValueError("the type and the id of an event hold neither line ends nor NUL")
    lines = [f"id: {event_id}", f"event: {event}", *(f"data: {line}" for line in _LINE_END.split(data))]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")
