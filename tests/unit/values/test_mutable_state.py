"""What of an object can change, what reading may do to it, and putting it back."""

import functools
import logging
import numbers
import pathlib
import threading
import types
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from nighthawk_async.actors import Mailbox, SharedCell
from nighthawk_async.values.snapshots import attribute_of, shapes_of
from tests.cases import every

Item = TypeVar("Item")


class Plain:
    def __init__(self) -> None:
        self.name = "a"


class Slotted:
    __slots__ = ("__secret", "name", "unset")

    def __init__(self) -> None:
        self.name = "a"
        self.__secret = 1

    def change(self) -> None:
        self.__secret += 1

    @property
    def secret(self) -> int:
        return self.__secret


class SlottedWithMore(Slotted):
    def __init__(self) -> None:
        super().__init__()
        self.more = 1


class Box(Generic[Item]):
    def __init__(self, item: Item) -> None:
        self.item = item


class Numbers(list[int]):
    def __init__(self) -> None:
        super().__init__([1])
        self.name = "a"

    def __iter__(self) -> Any:
        raise AssertionError("no code of the object runs")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("no code of the object runs")


class Model(BaseModel):
    name: str = "a"
    _private: list[int] = PrivateAttr(default_factory=lambda: [1])


@dataclass
class Data:
    name: str = "a"


@dataclass(slots=True)
class SlottedData:
    name: str = "a"


@pydantic_dataclass
class CheckedData:
    name: str = "a"


class Struct(msgspec.Struct):
    name: str = "a"


class Mapped(Mapping[str, int]):
    def __init__(self) -> None:
        self.inner = 1

    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


MadeData = make_dataclass("MadeData", [("name", str, "a")])


class NamedSpace(types.SimpleNamespace):
    pass


class Quantity(numbers.Number):
    def __init__(self) -> None:
        self.name = "a"

    __hash__ = object.__hash__


def set_name(value: Any) -> None:
    value.name = "b"


def delete_name(value: Any) -> None:
    del value.name


CHANGES: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (lambda: [1], lambda value: value.append(2)),
    (lambda: [1, 2], lambda value: value.reverse()),
    (Numbers, lambda value: value.append(2)),
    (Numbers, set_name),
    (lambda: {"a": 1}, lambda value: value.update(a=2)),
    (lambda: {"a": 1, "b": 2}, lambda value: value.pop("a")),
    (lambda: {"a": 1, "b": 2}, lambda value: value.update(a=value.pop("a"))),
    (lambda: OrderedDict(a=1), lambda value: value.update(b=2)),
    (lambda: OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    (lambda: OrderedDict(a=1, b=2, c=3), lambda value: value.move_to_end("c", last=False)),
    (lambda: defaultdict(list, a=1), lambda value: value["b"]),
    (lambda: Counter("a"), lambda value: value.update("b")),
    (lambda: {1, "a"}, lambda value: value.discard("a")),
    (lambda: deque([1], maxlen=3), lambda value: value.appendleft(0)),
    (lambda: bytearray(b"a"), lambda value: value.extend(b"b")),
    (Plain, set_name),
    (Plain, delete_name),
    (Plain, lambda value: setattr(value, "more", 1)),
    (Slotted, set_name),
    (Slotted, delete_name),
    (Slotted, lambda value: setattr(value, "unset", 1)),
    (Slotted, lambda value: value.change()),
    (SlottedWithMore, lambda value: setattr(value, "more", 2)),
    (lambda: Box(1), lambda value: setattr(value, "item", 2)),
    (Mapped, lambda value: setattr(value, "inner", 2)),
    (Model, set_name),
    (Data, set_name),
    (SlottedData, set_name),
    (CheckedData, set_name),
    (Struct, set_name),
    (MadeData, set_name),
    (lambda: NamedSpace(name="a"), set_name),
    (Quantity, set_name),
]


def read(value: object) -> list[Any]:
    return [shape.read(value) for shape in shapes_of(type(value))]


def is_same(value: object, before: list[Any], now: list[Any]) -> bool:
    shapes = shapes_of(type(value))
    return all(shape.is_same(*states) for shape, *states in zip(shapes, before, now, strict=True))


@every("make, change", CHANGES)
def test_a_change_is_seen_and_put_back(make: Callable[[], Any], change: Callable[[Any], object]) -> None:
    value = make()
    before = read(value)
    assert is_same(value, before, read(value))
    change(value)
    assert not is_same(value, before, read(value))
    for shape, state in zip(shapes_of(type(value)), before, strict=True):
        shape.restore(value, state)
    assert is_same(value, before, read(value))
    assert shapes_of(type(value))[0].is_mutable


def test_private_slots_are_put_back() -> None:
    value = Slotted()
    before = read(value)
    value.change()
    shapes_of(Slotted)[0].restore(value, before[0])
    assert value.secret == 1


class Lazy:
    @functools.cached_property
    def total(self) -> list[int]:
        return [1]


class LazyModel(BaseModel):
    @computed_field
    @functools.cached_property
    def total(self) -> int:
        return 1


@pytest.mark.parametrize("kind", [Lazy, LazyModel])
def test_what_a_cached_property_adds_is_no_change_and_is_forgotten_with_one(kind: Any) -> None:
    value = kind()
    before = read(value)
    assert value.total
    assert is_same(value, before, read(value))
    for shape, state in zip(shapes_of(kind), before, strict=True):
        shape.restore(value, state)
    assert "total" not in vars(value)


class Key:
    """A key whose hash nobody may ask for."""

    is_known = False

    def __hash__(self) -> int:
        assert not self.is_known, "no code of the object runs"
        return 1


def test_the_order_of_other_keys_than_texts_and_numbers_is_not_asked_for() -> None:
    key = Key()
    value = OrderedDict[object, int]({key: 1, "a": 2})
    key.is_known = True
    before = read(value)
    assert is_same(value, before, read(value))
    dict.update(value, a=3)
    assert not is_same(value, before, read(value))


def test_equal_texts_and_numbers_in_place_of_each_other_are_no_change() -> None:
    value = ["".join(["a", "b"]), 10**20]
    before = read(value)
    value[:] = ["".join(["a", "b"]), 10**20]
    assert is_same(value, before, read(value))
    value[1] = 1e20
    assert not is_same(value, before, read(value))


def test_a_member_taken_out_and_put_in_again_is_no_change() -> None:
    value = {*range(100), "a"}
    before = read(value)
    value.clear()
    value.update(["".join(["a"]), *reversed(range(100))])
    assert is_same(value, before, read(value))


class Color(Enum):
    RED = 1


class Point(NamedTuple):
    x: int


@dataclass(frozen=True)
class FrozenData:
    items: list[int] = field(default_factory=list[int])


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)
    items: list[int] = []


@pytest.mark.parametrize("value", [(1, [2]), Point(1), frozenset({1}), FrozenData(), FrozenModel()])
def test_what_cannot_change_is_followed_but_never_changed_itself(value: object) -> None:
    assert [shape.is_mutable for shape in shapes_of(type(value))] == [False]


@pytest.mark.parametrize(
    "value",
    [
        1,
        "text",
        b"bytes",
        None,
        object(),
        int,
        len,
        print,
        pytest,
        Plain,
        Color.RED,
        ValueError("no"),
        lambda: None,
        Plain.__init__,
        iter([]),
        (item for item in ()),
        pathlib.Path("a"),
        logging.getLogger("a"),
        threading.Lock(),
        threading.Condition(),
        Mailbox[int](),
        SharedCell([1]),
        functools.partial(print),
        range(3),
        memoryview(b"a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_and_machinery_are_not_followed(value: object) -> None:
    assert shapes_of(type(value)) == ()


class Proxy:
    """Shows the attributes of another object."""

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise AssertionError("no code of the object runs")


def test_an_object_that_pretends_to_have_other_attributes_is_not_followed() -> None:
    assert shapes_of(Proxy) == ()


def test_attributes_are_read_without_running_properties() -> None:
    assert attribute_of(Slotted(), "name") == "a"
    assert attribute_of(Slotted(), "unset") is None
    assert attribute_of(Slotted(), "secret") is None
    assert attribute_of(Numbers(), "name") == "a"
    assert attribute_of(UserDict(a=1), "data") == {"a": 1}
    assert attribute_of([1], "append", 2) == 2
