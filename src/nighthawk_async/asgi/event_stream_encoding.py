"""Events as the bytes of an event stream, and the events that lead from one transcript to another. Pure.

Source: the event stream format of the HTML standard, section "Server-sent events".

A transcript grows at its end. Long ones are cut in the middle too: whole parts, and the beginning of the part
after them, are removed.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from ..observe.views import TranscriptPart
from ..types.json import JsonableValue

HEARTBEAT = b":\n\n"
"""A comment, which clients skip."""

_LINE_END = re.compile(r"\r\n|\r|\n")
"""Only these: text line splitters know further line ends, which are part of the text here."""

_NOT_IN_NAMES = re.compile(r"[\r\n\0]")

_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StreamEvent(Struct, frozen=True, kw_only=True):
    """An event that a client receives.

    Args:
        name: The type of the event.
        data: Its data.
    """

    name: str
    data: dict[str, JsonableValue]


def encode_event(event: StreamEvent, event_id: str) -> bytes:
    """Encode an event with its data as JSON on one line.

    Args:
        event: The event.
        event_id: Its id.
    """
    return encode_lines(_to_json(event.data), event=event.name, event_id=event_id)


def encode_lines(data: str, *, event: str, event_id: str) -> bytes:
    """Encode an event with any text as its data.

    A client joins the lines with line feeds, whatever their line ends were, and drops an event without data.
    Characters that UTF-8 cannot encode become question marks.

    Args:
        data: The data of the event.
        event: Its type.
        event_id: Its id.

    Raises:
        ValueError: The type or the id holds a line end or NUL.
    """
    if _NOT_IN_NAMES.search(event) or _NOT_IN_NAMES.search(event_id):
        raise ValueError("the type and the id of an event hold neither line ends nor NUL")
    lines = [f"id: {event_id}", f"event: {event}", *(f"data: {line}" for line in _LINE_END.split(data))]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")


_PROBE_CHARACTERS = 64
_MAX_STARTS = 64
"""The limit of the search: in a repetitive text it costs more than sending the text anew."""

Parts: TypeAlias = tuple[TranscriptPart, ...]


def transcript_events(node_id: str, before: Parts, now: Parts) -> Iterator[StreamEvent]:
    """Return the events for the changes of a node's transcript.

    Args:
        node_id: The id of the node.
        before: The transcript that is known.
        now: The current transcript.
    """
    if before is now:
        return
    same = _count_same(before, now)
    if not _goes_on(before, now, same):
        parts, characters = _find_cut(before[same:], now[same:])
        yield StreamEvent(
            name="cut", data={"id": node_id, "part": same, "parts": parts, "characters": characters}
        )
        before = _cut(before, same, parts, characters)
        same = _count_same(before, now)
    for number in range(same, len(now)):
        part = now[number]
        known = len(before[number].text) if number < len(before) else 0
        yield StreamEvent(
            name=part.kind,
            data={
                "id": node_id,
                "part": number,
                "key": part.key,
                "is_cut": part.is_cut,
                "text": part.text[known:],
            },
        )


def _count_same(before: Parts, now: Parts) -> int:
    """Count the equal parts at the beginning."""
    same = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        same += 1
    return same


def _goes_on(before: Parts, now: Parts, same: int) -> bool:
    """Whether text or parts were only appended to the parts from there on."""
    rest = before[same:]
    if len(rest) > 1 or len(now) < len(before):
        return False
    return not rest or _grows(rest[0], now[same])


def _grows(old: TranscriptPart, new: TranscriptPart) -> bool:
    is_same_part = (old.kind, old.key, old.is_cut) == (new.kind, new.key, new.is_cut)
    return is_same_part and new.text.startswith(old.text)


def _find_cut(before: Parts, now: Parts) -> tuple[int, int]:
    """Find the number of removed parts, and of characters removed from the next one; at worst all parts."""
    if now and now[0].is_cut:
        for parts, old in enumerate(before):
            if (old.kind, old.key) != (now[0].kind, now[0].key):
                continue
            for characters in islice(_find_starts(old.text, now[0].text), _MAX_STARTS):
                rest = _cut(before, 0, parts, characters)
                if _goes_on(rest, now, _count_same(rest, now)):
                    return parts, characters
    return len(before), 0


def _find_starts(old: str, new: str) -> Iterator[int]:
    """Find the positions in the old text where the new one may begin; its end for an empty one."""
    probe = new[:_PROBE_CHARACTERS]
    start = old.find(probe) if probe else len(old)
    while start >= 0:
        yield start
        start = old.find(probe, start + 1) if probe else -1
    for known in range(len(probe) - 1, -1, -1):  # it may hold less of the old text than the probe
        if old.endswith(probe[:known]):
            yield len(old) - known


def _cut(parts: Parts, number: int, left_out: int, characters: int) -> Parts:
    rest = parts[number + left_out :]
    if rest:
        first = rest[0]
        cut = TranscriptPart(kind=first.kind, text=first.text[characters:], key=first.key, is_cut=True)
        rest = (cut, *rest[1:])
    return (*parts[:number], *rest)
