"""Values whose digests are compared with those of another process, and pairs that must differ."""

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import math
import pathlib
import re
import sys
import time
import types
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretBytes, SecretStr, create_model

from nighthawk_async.values.stable_digest import stable_digest

Content = TypeVar("Content")


@dataclass
class Order:
    """A dataclass."""

    name: str
    _token: int = field(default=0, init=False)


@dataclass
class Invoice:
    """Another dataclass with equal fields."""

    name: str
    _token: int = field(default=0, init=False)


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: int


class Color(enum.Enum):
    """An enumeration."""

    RED = 1
    GREEN = 2


class Size(enum.Enum):
    """Another one, with equal values."""

    RED = 1


class Open(BaseModel):
    """A model with extra fields and private attributes."""

    model_config = ConfigDict(extra="allow")

    name: str = "a"
    _secret: int = PrivateAttr(0)


class Row:
    """An object of an ordinary class."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self) -> str:
        """A method."""
        return self.name

    @functools.cached_property
    def shout(self) -> str:
        """What is computed from the rest."""
        return self.name.upper()


class Slotted:
    """An object with slots."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@attrs.define
class Parcel:
    """A class of attrs."""

    name: str


class Letter(msgspec.Struct):
    """A struct."""

    name: str


class Envelope(msgspec.Struct, dict=True):
    """A struct with attributes of its own."""

    name: str


class Box(Generic[Content]):
    """An object of a generic class."""

    def __init__(self, content: Content) -> None:
        self.content = content


class Table(dict[str, int]):
    """A dict of a class of its own."""


class Number(int):
    """A number of a class of its own, which Python holds otherwise than a text."""


class Pair(tuple[int, int]):
    """A tuple of a class of its own."""


class Name(str):
    """A text of a class of its own."""


def make(number: int) -> Callable[[], int]:
    """A closure."""
    return lambda: number


def with_private(value: Any, name: str, content: object) -> Any:
    """Set an attribute of a value."""
    setattr(value, name, content)
    return value


def cyclic(name: str) -> list[Any]:
    """A list that holds itself."""
    items: list[Any] = [name]
    items.append(items)
    return items


def ordered(*names: str) -> "collections.OrderedDict[str, int]":
    """Names in an order."""
    return collections.OrderedDict((name, 1) for name in names)


def noted(*notes: str) -> ValueError:
    """An error with notes."""
    error = ValueError("a")
    for note in notes:
        error.add_note(note)
    return error


variadic = [lambda x, *y: x, lambda x, **y: x]
plus = [lambda x: x + 1, lambda x: x - 1]
UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

PAIRS: dict[str, tuple[Any, Any]] = {
    "dataclasses": (Order("a"), Invoice("a")),
    "lists of dataclasses": ([Order("a"), Order("b")], [Invoice("a"), Invoice("b")]),
    "private fields in a list": ([Order("a")], [with_private(Order("a"), "_token", 1)]),
    "lists of tuples": ([(1, "a")], [[1, "a"]]),
    "a tuple of lists": (([1], [2]), ([1], (2,))),
    "lists of subclasses": ([[Name("a")]], [["a"]]),
    "private fields": (Order("a"), with_private(Order("a"), "_token", 1)),
    "closures": (make(1), make(2)),
    "lambdas": (plus[0], plus[1]),
    "bound methods": (Row("a").call, Row("b").call),
    "partials": (functools.partial(int, base=2), functools.partial(int, base=3)),
    "extra fields": (Open(name="a", more=1), Open(name="a", more=2)),
    "private attributes": (Open(), with_private(Open(), "_secret", 1)),
    "no number": (None, math.nan),
    "infinities": (math.inf, -math.inf),
    "infinity and None": (math.inf, None),
    "zeros": (0.0, -0.0),
    "one and true": (1, True),
    "one and a float": (1, 1.0),
    "decimals": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "decimal and text": (decimal.Decimal("1"), "1"),
    "moment and text": (MOMENT, MOMENT.isoformat()),
    "folds": (MOMENT, MOMENT.replace(fold=1)),
    "zones": (MOMENT, MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
    "bytes and text": (b"a", "a"),
    "bytes and base64": (b"a", "YQ=="),
    "bytearray": (b"a", bytearray(b"a")),
    "tuple and list": ((1, 2), [1, 2]),
    "named tuple": (Point(1, 2), (1, 2)),
    "nested": ([[1]], [(1,)]),
    "sets": ({1}, frozenset({1})),
    "set and list": ({1}, [1]),
    "keys": ({1: "a"}, {"1": "a"}),
    "order": (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    "default dict": (collections.defaultdict(int), {}),
    "deque": (collections.deque([1], 2), collections.deque([1])),
    "members": (Color.RED, Size.RED),
    "member and value": (Color.RED, 1),
    "two members": (Color.RED, Color.GREEN),
    "uuid and text": (uuid.UUID(int=1), str(uuid.UUID(int=1))),
    "path and text": (pathlib.Path("a"), "a"),
    "addresses": (ipaddress.ip_address("1.1.1.1"), "1.1.1.1"),
    "fractions": (fractions.Fraction(1, 2), 0.5),
    "patterns": (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "ranges": (range(3), [0, 1, 2]),
    "subclasses": (Name("a"), "a"),
    "subclasses of numbers": (Number(1), Number(2)),
    "subclasses of tuples": (Pair((1, 2)), Pair((2, 1))),
    "arrays": (array.array("i", [1]), array.array("i", [2])),
    "kinds of arrays": (array.array("i", [1]), array.array("I", [1])),
    "rows": (Row("a"), Row("b")),
    "slots": (Slotted("a"), Slotted("b")),
    "attrs": (Parcel("a"), Parcel("b")),
    "structs": (Letter("a"), Letter("b")),
    "struct and attrs": (Letter("a"), Parcel("a")),
    "exceptions": (ValueError("a"), ValueError("b")),
    "exceptions of classes": (ValueError("a"), KeyError("a")),
    "classes": (Row, Slotted),
    "aliases": (list[int], list[str]),
    "unions": (int | str, int | None),
    "cycles": (cyclic("a"), cyclic("b")),
    "large numbers": (10**5000, 10**5000 + 1),
    "halves of pairs": ("\ud83d", "\ud83e"),
    "namespaces": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    "private parts of namespaces": (types.SimpleNamespace(_a=1), types.SimpleNamespace(_a=2)),
    "namespace and dict": (types.SimpleNamespace(a=1), {"a": 1}),
    "proxies of mappings": (types.MappingProxyType(Table(a=1)), types.MappingProxyType({"a": 1})),
    "keys of dicts": ({"a": 1}.keys(), {"b": 1}.keys()),
    "values of dicts": ({"a": 1}.values(), {"a": 2}.values()),
    "items of dicts": ({"a": 1}.items(), {"a": 2}.items()),
    "ordered keys": (ordered("a", "b").keys(), ordered("b", "a").keys()),
    "matches": (re.search("a", "ba"), re.search("a", "aa")),
    "matches of groups": (re.search("a", "ba"), re.search("(a)", "ba")),
    "secrets": (SecretStr("1234"), SecretStr("1235")),
    "secret and text": (SecretStr("1234"), "1234"),
    "secrets of bytes": (SecretBytes(b"a"), SecretBytes(b"b")),
    "fields that were given": (Open(), Open(name="a")),
    "notes": (noted("first"), noted("second")),
    "no notes": (noted("first"), noted()),
    "notes in groups": (ExceptionGroup("a", [noted("first")]), ExceptionGroup("a", [noted("second")])),
    "attributes of functions": (with_private(make(1), "unit", "m"), with_private(make(1), "unit", "ft")),
    "kinds of parameters": (variadic[0], variadic[1]),
    "cached functions": (functools.lru_cache(make(1)), functools.lru_cache(make(2))),
    "attributes of structs": (with_private(Envelope("a"), "size", 1), with_private(Envelope("a"), "size", 2)),
    "type arguments of objects": (Box[int](1), Box[str](1)),
    "attributes of partials": (
        with_private(functools.partial(int), "unit", 1),
        with_private(functools.partial(int), "unit", 2),
    ),
    "methods as such": (staticmethod(make), classmethod(make)),
    "properties as such": (property(make), property(with_private)),
    "literals": (Literal["a"], Literal["b"]),
    "callables": (Callable[[int], str], Callable[[str], str]),
    "models made at run time": (create_model("Made", a=(int, ...)), create_model("Made", a=(str, ...))),
    "limits of such models": (
        create_model("Made", a=(int, Field(gt=1))),
        create_model("Made", a=(int, Field(gt=2))),
    ),
    "methods of patterns": (re.compile("a").match, re.compile("b").match),
    "views of memory": (memoryview(b"a"), memoryview(bytearray(b"a"))),
    "named times": (time.gmtime(0), time.gmtime(1)),
    "zones of named times": (
        time.struct_time((2026, 1, 1, 0, 0, 0, 3, 1, 0, "CET", 3600)),
        time.struct_time((2026, 1, 1, 0, 0, 0, 3, 1, 0, "WAT", 3600)),
    ),
    "objects that stand for functions": (
        functools.update_wrapper(Row("a"), make),
        functools.update_wrapper(Row("a"), ordered),
    ),
    "joined": (["a", "b"], ["ab"]),
    "shifted": (["a", ["b"]], [["a"], "b"]),
}
"""Values of which each has a digest of its own."""

SAMPLES = [
    *(value for pair in PAIRS.values() for value in pair),
    {"b", "a", "c"},
    frozenset({("x", 1), ("y", 2), Name("z")}),
    {"b": 1, "a": {2, 1}},
    Color,
    sys,
    MOMENT,
]

if __name__ == "__main__":
    sys.modules["tests.unit.values.digest_samples"] = sys.modules["__main__"]
    print("\n".join(map(stable_digest, SAMPLES)))
