"""A node whole, as text for a terminal. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from .live_tree_words import (
    MARKS,
    STYLES,
    cost_text,
    one_line,
    seconds_text,
    sent_and_received_text,
    visible,
)
from .top_nodes import usage_of

__all__ = ["details_text"]

_MAX_VALUE = 2_000
_MAX_ATTRIBUTES = 40
_PART_STYLES = {
    "text": "",
    "reasoning": "italic dim",
    "tool_call": "cyan",
    "tool_result": "",
    "message": "yellow",
    "note": "magenta",
}


def details_text(details: Mapping[str, Any], now: float) -> Text:
    """Return the details of a node as text.

    Args:
        details: The node as the dashboard tells it.
        now: The time of the service, in Unix seconds.
    """
    text = Text()
    for part in (_head(details, now), _figures(details), _values(details), _transcript(details)):
        for line in part:
            text.append_text(line).append("\n")
    return text


def _head(details: Mapping[str, Any], now: float) -> Iterator[Text]:
    state = details["state"]
    line = Text(f"{MARKS[state]} {state}", STYLES[state])
    yield line.append(f"  {details['kind']} {one_line(details['name'], 200)}  #{details['id']}", "bold")
    began, ended = details["began_at"], details["ended_at"]
    clock = datetime.fromtimestamp(began).strftime("%H:%M:%S")
    took = seconds_text(max(0.0, (now if ended is None else ended) - began))
    source = "" if details["source"] is None else f"  {one_line(details['source'])}"
    yield Text(f"began {clock}  {took}{source}", "dim")
    if (error := details["error"]) is not None:
        yield from _block(": ".join(filter(None, (error["type"], error["message"]))), "red")


def _figures(details: Mapping[str, Any]) -> Iterator[Text]:
    for name, words in (("usage", "itself"), ("subtree_usage", "with all below")):
        usage = usage_of(details[name])
        if not usage.requests:
            continue
        parts = [f"{usage.requests:,} requests", sent_and_received_text(usage), cost_text(usage)]
        yield Text(f"{words}: {', '.join(part for part in parts if part)}")
    if details["subtree_retries"]:
        yield Text(f"retries: {details['subtree_retries']:,}")
    if details["controls"]:
        yield Text(f"can be asked to: {', '.join(details['controls'])}", "dim")


def _values(details: Mapping[str, Any]) -> Iterator[Text]:
    for title, values in (("before", details["inputs"]), ("after", details["outputs"])):
        if values:
            yield Text(f"\n{title}", "bold")
        for name, value in values.items():
            yield from _block(f"{name} = {value[:_MAX_VALUE]}", "")
    attributes = list(details["attributes"].items())[:_MAX_ATTRIBUTES]
    if attributes:
        yield Text("\nattributes", "bold")
    for name, value in attributes:
        yield from _block(f"{name}: {str(value)[:_MAX_VALUE]}", "dim")


def _transcript(details: Mapping[str, Any]) -> Iterator[Text]:
    if details["transcript"]:
        yield Text("\ntranscript", "bold")
    for part in details["transcript"]:
        key = f" {one_line(part['key'])}" if part["key"] else ""
        cut = "  (something is left out before)" if part["is_cut"] else ""
        yield Text(f"{part['kind'].replace('_', ' ')}{key}{cut}", "dim underline")
        yield from _block(part["text"].rstrip(), _PART_STYLES[part["kind"]])


def _block(text: str, style: str) -> Iterator[Text]:
    for line in text.replace("\t", "    ").splitlines():
        yield Text(visible(line), style)
