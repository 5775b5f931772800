"""Any value comes back from a journal equal and of the same types, or is refused with a typed error."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from enum import Enum, IntEnum
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.journal.errors import JournalValueError
from nighthawk_async.journal.values import decode_value, encode_value


class Level(IntEnum):
    LOW = 1


class Color(Enum):
    RED = "red"


class Name(str):
    __slots__ = ()


Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Box:
    content: Any


def zones() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [None, UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")]
    )


def datetimes() -> st.SearchStrategy[datetime]:
    return st.builds(
        lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
        st.datetimes(),
        zones(),
        st.sampled_from([0, 0, 1]),
    )


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.binary(max_size=5)
    | datetimes()
    | st.dates()
    | st.builds(time.replace, st.times(timezones=zones()), fold=st.sampled_from([0, 1]))
    | st.timedeltas()
    | st.decimals()
    | st.uuids()
    | st.sampled_from([Level.LOW, Color.RED, Name("a"), "$", object(), Level, print, bytearray(b"a"), 1e400])
)
HASHABLE = SCALARS.filter(lambda value: not isinstance(value, bytearray) and _is_hashable(value))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # a signaling NaN
        return False
    return True


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(HASHABLE, max_size=3)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "of", "a"]) | HASHABLE, inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2).map(OrderedDict)
        | st.builds(Pair, inner, inner)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)


@given(value=VALUES, declared=st.sampled_from([None, object, Any]))
def test_any_value_comes_back_as_it_was_or_is_refused(value: object, declared: object) -> None:
    _check(value, declared)


@given(value=VALUES)
def test_any_value_comes_back_by_its_declared_type_or_is_refused(value: object) -> None:
    _check(Box(value), Box)
    _check([value, Pair(1, 2)], list[Any])
    _check({"a": value}, dict[str, Any])


def _check(value: object, declared: object) -> None:
    try:
        body = encode_value(value, place="here", declared=declared)
    except JournalValueError:
        return
    other = decode_value(body, place="here", declared=declared)
    assert _shape(other) == _shape(value)


def _shape(value: Any) -> Any:
    """What a value is made of, with the types of everything in it, so that shapes can be compared."""
    kind = type(value)
    if isinstance(value, Box):
        return kind, _shape(value.content)
    if isinstance(value, dict):
        return kind, [(_shape(key), _shape(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return kind, [_shape(each) for each in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(_shape(each)) for each in value)
    if isinstance(value, float):
        return kind, "nan" if math.isnan(value) else repr(value)
    if isinstance(value, datetime | time):
        zone = value.tzinfo
        return kind, value.isoformat(), value.fold, type(zone), str(zone)
    return kind, repr(value)


def test_a_value_within_itself_and_a_very_deep_one_are_refused() -> None:
    within: list[Any] = []
    within.append(within)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (within, deep):
        with pytest.raises(JournalValueError, match="type list"):
            encode_value(value, place="here")
    while deep:  # one level after the other, since not every interpreter can free a deep list at once
        deep = deep.pop()
