"""Section 8.3: an assignment that is refused half way leaves every kind of object as it was."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr, model_validator

import nighthawk_async as nh
from nighthawk_async.values.snapshots import MAX_REMEMBERED_ITEMS, MAX_REMEMBERED_OBJECTS, Snapshot
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning

REFUSED = "too much"


@nh.natural_function
async def change(target: Any) -> object:
    """natural
    Change <target>.
    """


async def error_of(target: object, path: str, expression: str = "50") -> dict[str, Any]:
    """What the model is told when it assigns."""
    steps = ScriptedSteps(assigning(path, expression), PASS)
    async with nh.run(steps.executor):
        await change(target)
    (envelope,) = steps.envelopes
    assert envelope["value"] is None, "the assignment must fail"
    return envelope["error"]


class Range(BaseModel):
    model_config = ConfigDict(validate_assignment=True, extra="allow")

    low: int = 0
    high: int = 10
    _seen: list[int] = PrivateAttr(default_factory=list[int])

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        self._seen.append(self.low)
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Wrapped(BaseModel):
    model_config = ConfigDict(validate_assignment=True)

    low: int = 0

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, value: Any, handler: Callable[[Any], Any]) -> Any:
        result = handler(value)
        low = result["low"] if isinstance(result, dict) else getattr(result, "low", 0)
        if low > 10:
            raise ValueError(REFUSED)
        return result


class HalfWay(BaseModel):
    model_config = ConfigDict(extra="allow")

    low: int = 0
    _count: int = PrivateAttr(default=0)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "low" and value > 10:
            super().__setattr__("_count", self._count + 1)
            super().__setattr__("more", "something")
            super().__setattr__(name, value)
            raise RuntimeError(REFUSED)
        super().__setattr__(name, value)


@pydantic.dataclasses.dataclass(config=ConfigDict(validate_assignment=True))
class CheckedData:
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _ordered(self) -> "CheckedData":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@dataclass(slots=True)
class Slotted:
    low: int = 0
    late: str = field(init=False)
    history: list[int] = field(default_factory=list[int])

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "low" and value > 10:
            object.__setattr__(self, "late", "set")
            self.history.append(value)
            raise RuntimeError(REFUSED)


@dataclass(frozen=True)
class Frozen:
    low: int = 0


@attrs.define
class WithAttrs:
    low: int = attrs.field(default=0, validator=attrs.validators.le(10))
    history: list[int] = attrs.field(factory=list)


class WithMsgspec(msgspec.Struct):
    low: int = 0
    high: int = 1

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__("high", value)
        super().__setattr__(name, value)
        if value > 10:
            raise RuntimeError(REFUSED)


class Parent:
    def __init__(self) -> None:
        self.total = 0
        self.child = Child(self)


class Child:
    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.entries: dict[str, list[int]] = {"all": []}
        self._low = 0

    @property
    def low(self) -> int:
        return self._low

    @low.setter
    def low(self, value: int) -> None:
        self.parent.total += value
        self.entries["all"].append(value)
        self.entries["more"] = []
        self._low = value
        raise RuntimeError(REFUSED)


class KeepsValues:
    """A descriptor that keeps the values of all objects itself."""

    def __init__(self) -> None:
        self.values: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.count = 0

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        return self if owner is None else self.values.get(owner, 0)

    def __set__(self, owner: Any, value: int) -> None:
        self.count += 1
        self.values[owner] = value
        raise RuntimeError(REFUSED)


class Described:
    low = KeepsValues()


class ReplacesItsDictionary:
    def __init__(self) -> None:
        self.low = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if value == 50:
            self.__dict__ = {"low": 50, "new": 1}
            raise RuntimeError(REFUSED)
        object.__setattr__(self, name, value)


class Meta(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setattr__("extra", value)
        raise RuntimeError(REFUSED)


class LateError(Exception):
    low = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        raise SystemExit(REFUSED)


@pytest.mark.anyio
async def test_8_3_a_model_that_validates_assignments_is_as_before_when_it_refuses_one() -> None:
    value = Range.model_validate({"low": 1, "more": 2})
    value._seen.clear()
    variables, fields_set, extra, private = (
        vars(value),
        set(value.model_fields_set),
        value.__pydantic_extra__,
        value.__pydantic_private__,
    )
    error = await error_of(value, "target.low", "'50'")
    assert error["kind"] == "invalid_input"
    assert "low is above high" in error["message"]
    assert vars(value) is variables
    assert (value.low, value.high, value.model_fields_set) == (1, 10, fields_set)
    assert value.__pydantic_extra__ is extra == {"more": 2}
    assert value.__pydantic_private__ is private == {"_seen": []}


@pytest.mark.anyio
async def test_8_3_further_fields_and_private_attributes_are_put_back() -> None:
    value = HalfWay()
    await error_of(value, "target.low")
    assert value == HalfWay()
    assert value.__pydantic_extra__ == {}
    assert value.model_fields_set == set()
    assert value.__pydantic_private__ == {"_count": 0}


@pytest.mark.anyio
@pytest.mark.parametrize("make", [Wrapped, CheckedData, Frozen, WithAttrs])
async def test_8_3_a_class_with_checks_of_its_own_is_as_before(make: Callable[[], Any]) -> None:
    value = make()
    error = await error_of(value, "target.low")
    assert error["kind"] in ("invalid_input", "execution")
    assert value == make()


@pytest.mark.anyio
async def test_8_3_slots_that_were_not_set_are_not_set_again() -> None:
    value = Slotted()
    await error_of(value, "target.low")
    assert (value.low, value.history, hasattr(value, "late")) == (0, [], False)
    struct = WithMsgspec()
    await error_of(struct, "target.low")
    assert (struct.low, struct.high) == (0, 1)


@pytest.mark.anyio
async def test_8_3_what_a_setter_changes_around_its_object_is_put_back() -> None:
    parent = Parent()
    child = parent.child
    await error_of(parent, "target.child.low")
    assert parent.child is child
    assert (parent.total, child.entries, child.low) == (0, {"all": []}, 0)


@pytest.mark.anyio
async def test_8_3_what_a_descriptor_keeps_is_put_back() -> None:
    value = Described()
    await error_of(value, "target.low")
    descriptor = vars(Described)["low"]
    assert (value.low, descriptor.count, len(descriptor.values)) == (0, 0, 0)


@pytest.mark.anyio
async def test_8_3_an_instance_dictionary_that_was_replaced_is_put_back() -> None:
    value = ReplacesItsDictionary()
    variables = vars(value)
    await error_of(value, "target.low")
    assert vars(value) is variables == {"low": 0}


@pytest.mark.anyio
async def test_8_3_a_class_whose_metaclass_refuses_is_as_before() -> None:
    class Options(metaclass=Meta):
        low = 0

    await error_of(Options, "target.low")
    assert Options.low == 0
    assert not hasattr(Options, "extra")


@pytest.mark.anyio
async def test_8_3_a_setter_that_exits_is_an_error_for_the_model() -> None:
    value = LateError()
    error = await error_of(value, "target.low")
    assert error["message"] == "cannot assign 'target.low': SystemExit: too much"
    assert vars(value) == {}


def test_what_is_beyond_the_bounds_is_compared_by_its_size() -> None:
    large = list(range(MAX_REMEMBERED_ITEMS + 1))
    snapshot = Snapshot([large])
    large[0] = -1
    assert not snapshot.is_changed()
    large.append(1)
    assert snapshot.is_changed()
    snapshot.restore()
    assert len(large) == MAX_REMEMBERED_ITEMS + 2
    many: list[list[int]] = [[] for _ in range(MAX_REMEMBERED_OBJECTS * 2)]
    snapshot = Snapshot(*many[:1], many)
    many[-1].append(1)
    assert not snapshot.is_changed()
    many[0].append(1)
    assert snapshot.is_changed()


class Hostile:
    """A key that can be put into a dictionary once."""

    def __init__(self) -> None:
        self.is_refusing = False

    def __hash__(self) -> int:
        if self.is_refusing:
            raise RuntimeError("no hash")
        return 1


def test_an_object_that_cannot_be_put_back_does_not_hinder_the_others() -> None:
    key = Hostile()
    one, other = {key: 1}, [1]
    snapshot = Snapshot(one, other)
    one.clear()
    other.append(2)
    key.is_refusing = True
    snapshot.restore()
    assert (one, other) == ({}, [1])


def test_objects_that_refer_to_each_other_are_remembered_once() -> None:
    one: list[Any] = []
    one.append(one)
    snapshot = Snapshot(one)
    one.clear()
    snapshot.restore()
    assert one[0] is one
