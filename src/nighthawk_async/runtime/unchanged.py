"""Detection of values that validation did not change.

Pydantic makes new containers of validated values, even if nothing in them has changed.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import is_
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel

_SCALARS = (
    *(str, bytes, bytearray, int, float, complex, bool, type(None), Decimal, UUID),
    *(date, datetime, time, timedelta),
)
_SPECIAL = (bool, datetime)
"""Subclasses with another meaning than their bases, `int` and `date`."""
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_LAZY = "ValidatorIterator"


def kept(value: object, validated: object) -> object:
    """Return the value itself if validation changed nothing, else the result of validation.

    An instance of a subclass, of `dict` for example, is kept too if only its class was changed. So is an
    iterable whose items pydantic would validate only on iteration.

    Args:
        value: The value.
        validated: The result of its validation.
    """
    try:
        return value if _is_same(value, validated) else validated
    except Exception:  # operators of user objects may raise anything; deep nesting raises too
        return validated


def _is_same(before: object, after: object) -> bool:
    if before is after or type(after).__name__ == _LAZY:
        return True
    if isinstance(before, MappingProxyType):
        before = dict(cast("Mapping[object, object]", before))
    kind = type(after)
    if not isinstance(before, kind) or any(
        isinstance(before, special) and not issubclass(kind, special) for special in _SPECIAL
    ):
        return False
    if kind in _SCALARS or issubclass(kind, PurePath):
        return cast("Any", kind).__eq__(before, after) is True  # as pydantic compares subclass instances
    if kind in _SEQUENCES or issubclass(kind, tuple):  # including named tuples
        return _are_same(cast("list[object]", before), cast("list[object]", after))
    if kind in _SETS:
        items = {item: item for item in cast("set[object]", before)}
        others = cast("set[object]", after)
        return len(items) == len(others) and all(
            other in items and _is_same(items[other], other) for other in others
        )
    if kind in _MAPPINGS:
        first, second = (cast("dict[object, object]", each) for each in (before, after))
        return _are_same(first, second) and _are_same(first.values(), second.values())
    if isinstance(before, BaseModel):
        return _are_same_models(before, cast("BaseModel", after))
    if is_dataclass(before):
        names = [each.name for each in fields(cast("Any", before))]
        return _are_same(*([getattr(each, name) for name in names] for each in (before, after)))
    return False


def _are_same(before: Iterable[object], after: Iterable[object]) -> bool:
    first, second = list(before), list(after)
    return len(first) == len(second) and all(map(_is_same, first, second))


def _are_same_models(before: BaseModel, after: BaseModel) -> bool:
    return all(
        _is_same(getattr(before, name), getattr(after, name))
        for name in ("__dict__", "__pydantic_extra__", "__pydantic_private__", "model_fields_set")
    )


def is_alike(held: object, result: object) -> bool:
    """Whether the result of a field counts as unchanged: containers of the same kinds, with similar items.

    Args:
        held: The value that the field holds.
        result: The result of its validation.
    """
    if held is result:
        return True
    kind = type(held)
    if kind is not type(result):
        return False
    if issubclass(kind, list | tuple | deque):
        one, other = cast("tuple[list[object], list[object]]", (held, result))
        if len(one) != len(other) or all(map(is_, one, other)):
            return len(one) == len(other)
        return all(is_alike(*pair) for pair in zip(one, other, strict=True))
    if issubclass(kind, dict):
        one, other = cast("tuple[dict[object, object], dict[object, object]]", (held, result))
        return is_alike(list(one), list(other)) and is_alike(list(one.values()), list(other.values()))
    if issubclass(kind, set | frozenset):
        one, other = ({(type(item), item) for item in cast("set[object]", each)} for each in (held, result))
        return one == other
    return _may_stay(held)


def _may_stay(held: object) -> bool:
    """Whether an item stays if its result has the same type, even if validators changed the value.

    An object was validated when it was made. A validator that must not see its own results, one that hashes
    a password for example, would otherwise change it again and again.
    """
    return not isinstance(held, BaseModel) and not is_dataclass(held)
