"""Values as short texts, at the moment when they are told. Floor 4.

No code of the values runs, and no more of a value is looked at than can be shown. What is told stays text:
nothing is escaped here, and whoever shows it escapes it for where it is shown.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType

from ..prompt.containers import to_bounded_value
from ..prompt.introspection import type_name
from ..prompt.plain_text import clean_text, single_line
from ..prompt.scalars import BIG_INTEGER_MARK
from ..runtime.error_text import describe_error
from ..types.json import JsonableValue
from .views import NO_VALUES, ErrorView

__all__ = [
    "MAX_NAMES",
    "MAX_NAME_CHARACTERS",
    "preview_attributes",
    "preview_error",
    "preview_name",
    "preview_values",
    "shorten",
]

MAX_NAMES = 64
"""How many named values of one kind a node has; the rest is counted."""

MAX_NAME_CHARACTERS = 200

_CHARACTERS_PER_CELL = 2
_OMITTED = "…"

_BIG_INTEGER = re.compile(rf'"{BIG_INTEGER_MARK}(-?\d+)"')

_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False).encode


def preview_values(values: Mapping[str, object] | None, max_characters: int) -> Mapping[str, str]:
    """Each value as JSON-like text of at most so many characters."""
    if not values:
        return NO_VALUES
    shown = {
        preview_name(name): _preview(value, max_characters)
        for name, value in islice(values.items(), MAX_NAMES)
    }
    if len(values) > MAX_NAMES:
        shown[_OMITTED] = f"{len(values) - MAX_NAMES} more"
    return MappingProxyType(shown)


def preview_attributes(
    attributes: Mapping[str, str | int | float | bool] | None, max_characters: int
) -> Mapping[str, str | int | float | bool]:
    """Attributes, their texts of at most so many characters."""
    if not attributes:
        return NO_VALUES
    return MappingProxyType(
        {
            preview_name(name): shorten(value, max_characters) if isinstance(value, str) else value
            for name, value in islice(attributes.items(), MAX_NAMES)
        }
    )


def preview_error(error: BaseException | None, max_characters: int) -> ErrorView | None:
    """An error, with at most so many characters of what it says."""
    if error is None:
        return None
    said = describe_error(error).removeprefix(type(error).__name__).removeprefix(": ")
    return ErrorView(type=type_name(type(error)), message=shorten(said, max_characters))


def preview_name(name: str) -> str:
    """A name, on one line and of bounded length."""
    if len(name) <= MAX_NAME_CHARACTERS and name.isprintable():
        return name
    return single_line(name, MAX_NAME_CHARACTERS)


def shorten(text: str, max_characters: int) -> str:
    """At most so many characters of a text."""
    if len(text) > max_characters:
        return clean_text(text[: max_characters - 1]) + _OMITTED
    return clean_text(text)


def _preview(value: object, max_characters: int) -> str:
    bounded = to_bounded_value(value, cells=max_characters // _CHARACTERS_PER_CELL, with_marks=False)
    text = _to_json(bounded.value)
    if BIG_INTEGER_MARK in text:
        text = _BIG_INTEGER.sub(r"\1", text)
    if bounded.is_complete and len(text) <= max_characters:
        return text
    return text[: max_characters - 1] + _OMITTED
