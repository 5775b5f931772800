"""Short texts that show values as they were when they were reported.

No code of the values runs, and no more of a value is read than can be shown. The one exception is the
`__str__` that the class of an error defines: nothing else knows the error's message. Previews are plain text:
nothing is escaped here; the code that displays them must escape them.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, cast

from pydantic import ValidationError

from ..observation import Preview, PreviewedError
from ..prompt.plain_text import (
    BIG_INTEGER_MARK,
    clean_text,
    find_class_attribute,
    has_base,
    is_string,
    single_line,
    type_name,
)
from ..prompt.walk import to_bounded_value
from ..secret_names import HIDDEN, hides_value
from ..types.json import JsonableValue
from ..values.error_text import describe_validation_error
from .views import NO_VALUES, ErrorView


class PreviewLimits(NamedTuple):
    """The numbers of characters that a tree keeps.

    Args:
        value: Those of each input, output, attribute and error.
        transcript: Those of the transcript of each node.
    """

    value: int = 2_000
    transcript: int = 65_536


MAX_NAMES = 64
"""The maximum number of named values of one kind per node; the others are only counted."""

MAX_NAME_CHARACTERS = 200

UNSPEAKABLE = "its message cannot be shown"
"""Shown for an error whose `__str__` fails."""

_CHARACTERS_PER_CELL = 2
_MAX_WRAPPED_ERRORS = 4
_MAX_BITS = 64
_OMITTED = "…"

_BIG_INTEGER = re.compile(rf'"{BIG_INTEGER_MARK}(-?\d+)"')

_CANCELLATIONS = ("CancelledError", "Cancelled")
"""Cancellation exceptions of event loops: their messages quote task names, file paths and addresses."""

_str_of_errors = BaseException.__dict__["__str__"]
_args_of_errors = BaseException.__dict__["args"]
_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(ensure_ascii=False).encode


def preview_values(values: Mapping[str, object] | None, max_characters: int) -> Mapping[str, str]:
    """Show each value as JSON-like text of at most so many characters."""
    if not values:
        return NO_VALUES
    shown = {
        preview_name(name): _preview_value(name, value, max_characters)
        for name, value in islice(values.items(), MAX_NAMES)
    }
    if len(values) > MAX_NAMES:
        shown[_OMITTED] = f"{len(values) - MAX_NAMES} more"
    return MappingProxyType(shown)


def _preview_value(name: str, value: object, max_characters: int) -> str:
    if type(value) is Preview:
        return shorten(str(value), max_characters)
    return _preview(HIDDEN if hides_value(name, value) else value, max_characters)


def preview_attributes(
    attributes: Mapping[str, str | int | float | bool] | None, max_characters: int
) -> Mapping[str, str | int | float | bool]:
    """Shorten the text attributes to at most so many characters."""
    if not attributes:
        return NO_VALUES
    return MappingProxyType(
        {
            preview_name(name): _preview_attribute(value, max_characters)
            for name, value in islice(attributes.items(), MAX_NAMES)
        }
    )


def _preview_attribute(value: str | int | float | bool, max_characters: int) -> str | int | float | bool:
    if isinstance(value, str):
        return shorten(value, max_characters)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return _preview(value, max_characters)
    return value


def preview_error(error: BaseException | None, max_characters: int) -> ErrorView | None:
    """Show an error, with at most so many characters of its message."""
    if error is None:
        return None
    if type(error) is PreviewedError:
        return ErrorView(type=error.type_name, message=shorten(error.message, max_characters))
    name = type_name(type(error))
    if name in _CANCELLATIONS and not has_base(type(error), Exception):
        return ErrorView(type=name, message="")
    return ErrorView(type=name, message=shorten(_words_of(error, max_characters), max_characters))


def preview_name(name: str) -> str:
    """Shorten a name to one line of bounded length."""
    if len(name) <= MAX_NAME_CHARACTERS and name.isprintable():
        return name
    return single_line(name, MAX_NAME_CHARACTERS)


def shorten(text: str, max_characters: int) -> str:
    """Return a text, shortened to at most so many characters."""
    if len(text) > max_characters:
        return clean_text(text[: max_characters - 1]) + _OMITTED
    return clean_text(text)


def _words_of(error: BaseException, max_characters: int) -> str:
    """Return the message of an error: its arguments when it has no message of its own."""
    for _ in range(_MAX_WRAPPED_ERRORS):
        if find_class_attribute(type(error), "__str__")[1] is not _str_of_errors:
            return _own_words_of(error, max_characters)
        arguments: tuple[object, ...] = _args_of_errors.__get__(error)
        if len(arguments) != 1:
            return _preview(arguments, max_characters) if arguments else ""
        (said,) = arguments
        if is_string(said):
            return _beginning(said, max_characters)
        if not has_base(type(said), BaseException):
            return _preview(said, max_characters)
        error = cast("BaseException", said)  # for `raise RuntimeError(error)`, show the inner error's message
    return UNSPEAKABLE


def _own_words_of(error: BaseException, max_characters: int) -> str:
    try:
        if isinstance(error, ValidationError):
            return f"{error.title}: {describe_validation_error(error)}"
        return _beginning(str(error), max_characters)
    except Exception:  # `__str__` of the user's exception may raise anything
        return UNSPEAKABLE


def _beginning(text: str, max_characters: int) -> str:
    """Return one character more than is shown, as a plain `str` even for a subclass of `str`."""
    return str.__getitem__(text, slice(max_characters + 1))


def _preview(value: object, max_characters: int) -> str:
    bounded = to_bounded_value(value, cells=max_characters // _CHARACTERS_PER_CELL)
    text = _to_json(bounded.value)
    if BIG_INTEGER_MARK in text:
        text = _BIG_INTEGER.sub(r"\1", text)
    if bounded.is_complete and len(text) <= max_characters:
        return text
    return text[: max_characters - 1] + _OMITTED
