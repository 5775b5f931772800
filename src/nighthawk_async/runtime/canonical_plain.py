"""Plain values, which msgpack can tell apart: they are encoded at once, because most arguments are such.

Plain are texts, numbers, bytes and None, and lists and dicts of plain values. It would not tell tuples from
lists, or a subclass from its base, so those are none.
"""

import types
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, cast

import msgspec

PLAIN = frozenset({str, int, float, bool, bytes, types.NoneType})
ENCODER = msgspec.msgpack.Encoder(order="deterministic")
UNENCODABLE = (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError)
"""What the encoder raises: a number is too large, for example."""

_HOLDERS: frozenset[type[Any]] = frozenset({list, dict})
_NESTED: frozenset[type[Any]] = PLAIN | _HOLDERS
_VALUES = dict[Any, Any].values
_TEXT: frozenset[type[Any]] = frozenset({str})
_MAX_LEVELS = 8
_MAX_NESTED = 1_000_000


def are_plain(values: Collection[object]) -> bool:
    """Whether values are plain, and not too many below each other."""
    for _ in range(_MAX_LEVELS):
        kinds: set[type[Any]] = {type(value) for value in values}
        if kinds <= PLAIN:
            return True
        if not kinds <= _NESTED:
            return False
        holders = cast("Collection[Any]", values)
        nested = holders if kinds.isdisjoint(PLAIN) else [each for each in holders if type(each) in _HOLDERS]
        if sum(map(len, nested)) > _MAX_NESTED:
            return False
        if dict in kinds:
            dicts = nested if list not in kinds else [each for each in nested if type(each) is dict]
            if not have_text_keys(dicts):
                return False
            lists = () if list not in kinds else [each for each in nested if type(each) is list]
            nested = [*map(_VALUES, dicts), *lists]
        values = list(chain.from_iterable(nested))
    return False


def have_text_keys(values: Iterable[dict[Any, Any]]) -> bool:
    """Whether all keys of some dicts are texts."""
    return {type(key) for each in values for key in each} <= _TEXT
