"""JSON as Python values, and checks of values that may be JSON, which tell type checkers what they found.

Keys and items are not looked at: those of decoded JSON are what the checks say; whoever is given a value by a
user checks them where it matters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, Union

JsonableValue: TypeAlias = Union[  # noqa: UP007  (a recursive alias needs the quoted form)
    dict[str, "JsonableValue"], list["JsonableValue"], str, int, float, bool, None
]
"""A Python value that JSON can represent (specification 5.3)."""


def is_json_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dictionary, as a decoded JSON object is."""
    return isinstance(value, dict)


def is_json_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a mapping, whatever its class, as those that become JSON objects."""
    return isinstance(value, Mapping)


def is_json_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list, as a decoded JSON array is."""
    return isinstance(value, list)


def is_list_or_tuple(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether a value is a list or a tuple, both of which become JSON arrays."""
    return isinstance(value, list | tuple)


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text: also of arguments that must be one, for callers without a type checker."""
    return isinstance(value, str)


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list_of_texts(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    """Whether a value is a list or a tuple in which all items are texts."""
    return is_list_or_tuple(value) and all(isinstance(each, str) for each in value)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a sequence, such as a list; texts and bytes are sequences, too."""
    return isinstance(value, Sequence)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Whether a value is a mapping, with keys of any type."""
    return isinstance(value, Mapping)
