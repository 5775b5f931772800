"""Values as bytes and back: faithfully, or refused by name."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.journal import JournalValueError
from nighthawk_async.journal.values import decode_value, encode_value


class Colour(Enum):
    """An enumeration."""

    RED = "red"


class Order(BaseModel):
    """A model with types of its own."""

    items: list[tuple[str, Decimal]]
    colour: Colour = Colour.RED
    at: datetime | None = None


class Special(Order):
    """A subclass, with more."""

    extra: int = 1


@dataclass(frozen=True)
class Point:
    """A dataclass."""

    x: int
    y: tuple[float, ...] = ()


@dataclass(frozen=True)
class Deeper(Point):
    """A subclass of it, with more."""

    depth: int = 0


class Pair(NamedTuple):
    """A named tuple."""

    first: int
    second: str


class Money:
    """A type that only its program understands."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None  # type: ignore[assignment]


def round_trip(value: object, declared: object = None) -> Any:
    return decode_value(encode_value(value, place="here", declared=declared), place="here", declared=declared)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes(timezones=st.just(UTC) | st.none())
    | st.times()
    | st.timedeltas()
    | st.uuids()
)
hashable = scalars.filter(lambda value: value == value)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
        | st.dictionaries(st.integers() | st.tuples(st.integers()), inner)
        | st.sets(st.integers())
        | st.frozensets(st.text(st.characters(exclude_categories=["Cs"])))
    ),
    max_leaves=12,
)


def same(first: object, second: object) -> bool:
    """Whether two values are equal, with the same types all the way down."""
    if type(first) is not type(second):
        return False
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    return first == second


@given(plain)
def test_plain_data_comes_back_as_it_was(value: object) -> None:
    assert same(round_trip(value), value)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (Order(items=[("a", Decimal("1.50"))], at=datetime(2026, 1, 1, tzinfo=UTC)), Order),
        ([Point(1, (2.0,)), Point(3)], list[Point]),
        (Pair(1, "a"), Pair),
        ({"a": Colour.RED}, dict[str, Colour]),
        (Colour.RED, Colour | None),
        (Path("a/b"), None),
        (5, Annotated[int, Field(gt=1)]),
        ({"$": "tag", "of": 1}, None),
        (1 + 2j, None),
        (2**80, None),
        (date(2026, 1, 1), None),
        (time(12, 30), None),
        (timedelta(days=-1, microseconds=1), None),
        (UUID(int=5), None),
    ],
)
def test_values_come_back_by_their_declared_types(value: object, declared: object) -> None:
    result = round_trip(value, declared)
    assert result == value
    assert type(result) is type(value)


def test_what_is_no_number_comes_back() -> None:
    assert math.isnan(round_trip(math.nan))


@pytest.mark.parametrize(
    ("value", "declared", "name"),
    [
        (object(), None, "object"),
        (Order(items=[]), None, "Order"),
        (Special(items=[], extra=5), Order, "Special"),
        ([Special(items=[], extra=5)], list[Order], "list"),
        ({"a": (Deeper(1, depth=2),)}, dict[str, tuple[Point, ...]], "dict"),
        (Point(1), Any, "Point"),
        (Money(3), None, "Money"),
        (len, None, "builtin_function_or_method"),
        ([Colour.RED], list[Any], "list"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name(value: object, declared: object, name: str) -> None:
    with pytest.raises(JournalValueError, match=name) as caught:
        round_trip(value, declared)
    assert caught.value.place == "here"


def test_registered_types_are_stored_wherever_they_stand() -> None:
    nh.journal.register(Money, dump=lambda money: money.cents, load=Money, name="money")
    assert round_trip({"price": [Money(5)]}) == {"price": [Money(5)]}
    with pytest.raises(ValueError, match="registered for Money"):
        nh.journal.register(Point, dump=vars, load=Point, name="money")


def test_a_stored_value_that_fits_its_type_no_more_is_an_error() -> None:
    body = encode_value(Point(1), place="here", declared=Point)
    with pytest.raises(JournalValueError, match="cannot be read"):
        decode_value(body, place="here", declared=Order)


@pytest.mark.parametrize(
    ("body", "value", "declared"),
    [
        (
            b"\x82\xa1$\xa8declared\xa2of\x83\xa5items\x91\x92\xa1a\xa41.50\xa6colour\xa3red\xa2at\xc0",
            Order(items=[("a", Decimal("1.50"))]),
            Order,
        ),
        (
            b"\x82\xa1$\xa8declared\xa2of\x91\x82\xa1x\x01\xa1y\x82\xa1$\xa5tuple\xa2of\x91\xcb@"
            b"\x00\x00\x00\x00\x00\x00\x00",
            [Point(1, (2.0,))],
            list[Point],
        ),
        (b"\x82\xa1$\xa8declared\xa2of\xa3red", Colour.RED, Colour),
        (
            b"\x82\xa1$\xa4dict\xa2of\x92\x92\x82\xa1$\xa5tuple\xa2of\x92\x01\x02\x82\xa1$\xa3set\xa2of\x91\x03"
            b"\x92\xa1$\x82\xa1$\xa9frozenset\xa2of\x91\xc4\x01x",
            {(1, 2): {3}, "$": frozenset({b"x"})},
            None,
        ),
        (
            b"\x82\xa1$\xa8datetime\xa2of\x93\xb32026-10-25T02:30:00\x01\xadEurope/Berlin",
            datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            None,
        ),
        (
            b"\x82\xa1$\xa8datetime\xa2of\xb92026-01-01T00:00:00+00:00",
            datetime(2026, 1, 1, tzinfo=UTC),
            None,
        ),
        (
            b"\x92\x82\xa1$\xa3int\xa2of\xb61180591620717411303424\x82\xa1$\xa9timedelta\xa2of\x93\x01\x02\x03",
            [2**70, timedelta(1, 2, 3)],
            None,
        ),
    ],
)
def test_values_of_earlier_versions_are_read(body: bytes, value: object, declared: object) -> None:
    assert same(decode_value(body, place="here", declared=declared), value)


def test_a_class_that_has_changed_is_made_by_pydantic_of_the_fields() -> None:
    class Old(BaseModel):
        number: int
        word: str = "a"

    class New(BaseModel):
        number: str = Field(alias="theNumber", coerce_numbers_to_str=True)
        extra: int = 5

    New.__qualname__ = Old.__qualname__
    body = encode_value([Old(number=1)], place="here", declared=list[Old])
    (read,) = decode_value(body, place="here", declared=list[New])
    assert (read.number, read.extra) == ("1", 5)


def test_a_value_that_is_too_large_is_an_error_with_its_size() -> None:
    with pytest.raises(JournalValueError, match=r"67,\d+,\d+ bytes"):
        encode_value(b"x" * (64 * 1024 * 1024), place="here")
