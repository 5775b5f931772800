"""A quick `__init__` does what that of a dataclass does, whatever it is given."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from nighthawk_async.types.quick_init import quick_init


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    name: str
    count: int = 1
    items: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.items.append(self.count)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    name: str
    count: int = 1
    items: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.items.append(self.count)


def test_its_signature_is_that_of_the_dataclass() -> None:
    assert inspect.signature(Quick) == inspect.signature(Plain)
    assert Quick.__init__.__annotations__ == Plain.__init__.__annotations__
    assert Quick.__init__.__qualname__ == "Quick.__init__"


def test_it_sets_every_field_and_its_default() -> None:
    one, other = Quick(name="a"), Quick(name="b", count=2, items=[5])
    assert (one.name, one.count, one.items) == ("a", 1, [1])
    assert (other.name, other.count, other.items) == ("b", 2, [5, 2])
    assert Quick(name="a").items is not one.items
    assert repr(one) == "Quick(name='a', count=1, items=[1])"


def test_instances_are_replaced_pickled_and_frozen_as_before() -> None:
    one = Quick(name="a", items=[])
    assert replace(one, name="b", items=[]) == Quick(name="b", items=[])
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("arguments", [{}, {"count": 3}, {"name": "a", "other": 1}])
def test_it_refuses_what_the_dataclass_refuses(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as expected:
        Plain(**arguments)
    with pytest.raises(TypeError) as refused:
        Quick(**arguments)
    assert str(refused.value) == str(expected.value).replace("Plain", "Quick")
