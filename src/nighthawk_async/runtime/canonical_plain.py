"""Plain values, which msgpack can tell apart: they are encoded at once, because most arguments are such.

Plain are texts, numbers, bytes and None, and lists and dicts of plain values. It would not tell tuples from
lists, or a subclass from its base, so those are none.
"""

import types
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

import msgspec

PLAIN = frozenset({str, int, float, bool, bytes, types.NoneType})
ENCODER = msgspec.msgpack.Encoder(order="deterministic")
UNENCODABLE = (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError)
"""Errors of the encoder: a number is too large, for example."""

_DICTS: frozenset[type[Any]] = frozenset({dict})
_LISTS: frozenset[type[Any]] = frozenset({list})
_HOLDERS = _LISTS | _DICTS
_NESTED: frozenset[type[Any]] = PLAIN | _HOLDERS
_VALUES = dict[Any, Any].values
_TEXT: frozenset[type[Any]] = frozenset({str})
_MAX_LEVELS = 8  # that are looked at
_MAX_NESTED = 1_000_000


def are_plain(values: Collection[object]) -> bool:
    """Whether values are plain, and neither too many nor too deep below each other."""
    for _ in range(_MAX_LEVELS):
        kinds: set[type[Any]] = {type(value) for value in values}
        if kinds <= PLAIN:
            return True
        if not kinds <= _NESTED:
            return False
        nested = _of_kinds(values, kinds, _HOLDERS)
        if sum(map(len, nested)) > _MAX_NESTED:
            return False
        if dict in kinds:
            dicts = _of_kinds(nested, kinds & _HOLDERS, _DICTS)
            if not have_text_keys(dicts):
                return False
            lists = _of_kinds(nested, kinds & _HOLDERS, _LISTS) if list in kinds else ()
            nested = [*map(_VALUES, dicts), *lists]
        values = list(chain.from_iterable(nested))
    return False


def _of_kinds(
    values: Collection[Any], kinds: set[type[Any]], wanted: frozenset[type[Any]]
) -> Collection[Any]:
    """The values of some types; all of them if there are no others."""
    return values if kinds <= wanted else [each for each in values if type(each) in wanted]


def have_text_keys(values: Iterable[dict[Any, Any]]) -> bool:
    """Whether all keys of some dicts are texts."""
    return {type(key) for each in values for key in each} <= _TEXT
