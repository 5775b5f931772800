"""Texts in small pieces, and values as server-sent events."""

import json
from collections.abc import Iterable, Iterator

__all__ = ["PROSE", "named_event", "pieces", "split", "tool_arguments", "unnamed_event"]

PROSE = (
    "The quarterly figures show that revenue rose by 4.2 % while costs fell slightly, mostly because the "
    'new warehouse in Łódź — opened in March — handles returns itself. "We did not expect this," said the '
    "manager, 但是 the trend is clear:\n\n1. fewer parcels are lost;\n2. customers wait less.\n\n"
)
"""Prose as models write it: mostly ASCII, some quotes, line breaks and other scripts."""


def pieces(text: str, deltas: int) -> Iterator[str]:
    """A text, said again and again, in pieces of a few characters as tokens are.

    Args:
        text: The text.
        deltas: How many pieces.
    """
    position = 0
    for number in range(deltas):
        length = 2 + number * 7 % 5
        piece = (text + text)[position : position + length]
        position = (position + length) % len(text)
        yield piece


def tool_arguments(numbers: int) -> str:
    """The arguments of a call: a JSON object of that many small numbers, about three characters each.

    Args:
        numbers: How many.
    """
    return json.dumps({"target_path": "result", "expression": str([each % 10 for each in range(numbers)])})


def split(text: str, length: int) -> Iterable[str]:
    """A text in pieces of a length, which add up to it."""
    return (text[start : start + length] for start in range(0, len(text), length))


def unnamed_event(value: object) -> bytes:
    """A value as one event without a name."""
    return b"data: " + _to_json(value) + b"\n\n"


def named_event(name: str, value: object) -> bytes:
    """A value as one event with a name."""
    return b"event: " + name.encode() + b"\ndata: " + _to_json(value) + b"\n\n"


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
