"""Whether validating a value changed it.

pydantic makes new containers of what it validates, also where everything in them is as it was.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
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
"""Subclasses that mean something else than what they are subclasses of, `int` and `date`."""
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_LAZY = "ValidatorIterator"


def kept(value: object, validated: object) -> object:
    """The value itself where validation changed nothing of it, else what validation made of it.

    An instance of a subclass, of `dict` for example, is kept too where only its class was changed. So is an
    iterable that pydantic would validate item by item, when somebody iterates over it.

    Args:
        value: The validated value.
        validated: What its validation returned.
    """
    try:
        return value if _is_same(value, validated) else validated
    except Exception:  # operators of the user's objects may raise anything, and so does deep nesting
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
        return cast("Any", kind).__eq__(before, after) is True  # as pydantic sees an instance of a subclass
    if kind in _SEQUENCES or issubclass(kind, tuple):  # a named one
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
