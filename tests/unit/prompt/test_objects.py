"""Object capability blocks (specification 8.2.2)."""

import abc
import dataclasses
import functools
import types
from collections.abc import Iterator
from typing import Any, ClassVar

import pydantic
import pytest

from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.prompt.objects import find_members, object_lines, readable_fields
from nighthawk_async.prompt.plain_text import ValueLine
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.tokens import TokenCounter


def _block(
    value: object, counter: TokenCounter, *, hoisted: tuple[str, ...] = (), **limits: int
) -> list[str]:
    chosen = StepContextLimits(**limits)
    lines = object_lines(
        "box",
        value,
        find_members(value, limits=chosen),
        ambiguous_signatures=(),
        hoisted_fields=hoisted,
        limits=chosen,
    )
    return [line if isinstance(line, str) else _field_line(line, counter) for line in lines]


def _field_line(line: ValueLine, counter: TokenCounter) -> str:
    max_tokens = line.max_tokens or line.share
    return line.start + render_preview(line.value, max_tokens=max_tokens, style="default", counter=counter)


@dataclasses.dataclass
class _Account:
    owner: str
    balance: float = 0.0
    _secret: str = "hidden"
    currency: ClassVar[str] = "EUR"

    def withdraw(self, amount: float) -> float:
        """Take money out.

        More.
        """
        return amount

    async def audit(self) -> None: ...

    @staticmethod
    def convert(amount: float) -> float:
        return amount

    @classmethod
    def open(cls, owner: str) -> "_Account":
        return cls(owner)

    @functools.lru_cache  # noqa: B019
    def history(self, days: int) -> list[str]:
        return []

    @property
    def total(self) -> float:
        raise AssertionError("user code ran")

    @functools.cached_property
    def report(self) -> str:
        raise AssertionError("user code ran")

    def _private(self) -> None: ...


def test_8_2_2_block_has_header_methods_then_fields_each_in_lexicographic_order(
    counter: TokenCounter,
) -> None:
    assert _block(_Account("Ada", 1.5), counter) == [
        "box: object = _Account",
        "box.audit: () -> None  # async",
        "box.convert: (amount: float) -> float",
        "box.history: (days: int) -> list[str]",
        "box.open: (owner: str) -> _Account",
        "box.withdraw: (amount: float) -> float  # Take money out.",
        "box.report: str  # property",
        "box.total: float  # property",
        "box.balance: float = 1.5",
        'box.currency: str = "EUR"',
        'box.owner: str = "Ada"',
    ]


def test_8_2_2_member_limits_add_omission_lines(counter: TokenCounter) -> None:
    assert _block(_Account("Ada"), counter, object_max_methods=1, object_max_fields=2) == [
        "box: object = _Account",
        "box.audit: () -> None  # async",
        "box.<methods>: <snipped 4 public methods>",
        "box.report: str  # property",
        "box.total: float  # property",
        "box.balance: float = 0.0",
        'box.currency: str = "EUR"',
        "box.<fields>: <snipped 1 public fields>",
    ]


def test_8_2_2_no_omission_line_without_omission(counter: TokenCounter) -> None:
    assert (
        _block(_Account("Ada"), counter, object_max_methods=5, object_max_fields=3)[-1]
        == 'box.owner: str = "Ada"'
    )


def test_8_2_2_field_previews_are_bounded(counter: TokenCounter) -> None:
    line = _block(_Account("Ada " * 10_000), counter, object_field_value_max_tokens=20)[-1]
    assert line.endswith(" of 40,000 characters")
    assert counter.count(line.removeprefix("box.owner: str = ")) <= 20


def test_8_2_2_hoisted_field_is_omitted_and_keeps_its_slot(counter: TokenCounter) -> None:
    lines = _block(_Account("Ada"), counter, hoisted=("balance",), object_max_methods=0, object_max_fields=2)
    assert lines[4:] == ['box.currency: str = "EUR"', "box.<fields>: <snipped 1 public fields>"]


def test_8_2_2_slots_are_fields_and_unset_ones_are_ignored(counter: TokenCounter) -> None:
    class Slotted:
        __slots__ = ("_private", "here", "missing")

        def __init__(self) -> None:
            self.here = [1]

    assert _block(Slotted(), counter) == ["box: object = Slotted", "box.here: list = [1]"]


def test_8_2_2_pydantic_fields_are_shown_without_the_machinery_of_models(counter: TokenCounter) -> None:
    class Order(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")

        number: int
        _private: int = 1

        def ship(self) -> None: ...

    order = Order(number=1, note="x")
    assert _block(order, counter) == [
        "box: object = Order",
        "box.ship: () -> None",
        'box.note: str = "x"',
        "box.number: int = 1",
    ]


def test_root_models_are_shown_without_the_machinery_of_models(counter: TokenCounter) -> None:
    class Tags(pydantic.RootModel[list[str]]):
        pass

    assert _block(Tags(["new"]), counter) == ["box: object = Tags", 'box.root: list = ["new"]']


def test_8_2_2_callable_attributes_are_methods(counter: TokenCounter) -> None:
    def callback(x: int) -> None: ...

    class Holder:
        adapt = functools.partial(max, 1)
        Nested = dict

        def replaced(self) -> None: ...

    holder = Holder()
    holder.callback = callback
    holder.replaced = 3
    lines = _block(holder, counter)
    assert "box.callback: (x: int) -> None" in lines
    assert "box.replaced: int = 3" in lines
    assert any(line.startswith("box.Nested: ") for line in lines)
    assert not any(line.startswith("box.replaced: (") for line in lines)


def test_8_2_2_overridden_members_are_shown_once(counter: TokenCounter) -> None:
    class Base:
        kind = "base"
        gone = 1

        def run(self, x: int) -> None: ...

    class Derived(Base):
        kind = "derived"

        def run(self, y: str) -> None: ...

        @property
        def gone(self) -> int:
            raise AssertionError("user code ran")

    assert _block(Derived(), counter) == [
        "box: object = Derived",
        "box.run: (y: str) -> None",
        "box.gone: int  # property",
        'box.kind: str = "derived"',
    ]


def test_8_2_2_descriptors_are_never_asked(counter: TokenCounter) -> None:
    class Descriptor:
        def __get__(self, instance: object, owner: object) -> Any:
            raise AssertionError("user code ran")

        def __call__(self) -> None: ...

    class Wrapped:
        value = Descriptor()
        method = functools.partialmethod(print)

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("user code ran")

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("user code ran")

    wrapped = Wrapped()
    object.__setattr__(wrapped, "kept", 1)
    assert _block(wrapped, counter) == ["box: object = Wrapped", "box.kept: int = 1"]


def test_8_2_2_abstract_base_classes_add_nothing_of_their_own(counter: TokenCounter) -> None:
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    class Square(Shape):
        def area(self) -> float:
            return 1.0

    assert _block(Square(), counter) == ["box: object = Square", "box.area: () -> float"]


def test_exceptions_show_their_arguments(counter: TokenCounter) -> None:
    assert 'box.args: tuple = ["no", 1]' in _block(KeyError("no", 1), counter)

    class QuietError(Exception):
        args = property()

    assert readable_fields(QuietError("x")) == {}


def test_methods_written_in_c_are_listed(counter: TokenCounter) -> None:
    names = [line.partition(":")[0] for line in _block((item for item in ()), counter)]
    assert names[:4] == ["box", "box.close", "box.send", "box.throw"]


def test_broken_classmethod_is_left_out(counter: TokenCounter) -> None:
    class Broken:
        odd = classmethod(3)

    assert _block(Broken(), counter) == ["box: object = Broken"]


@pytest.mark.parametrize("name", ["two words", "line\nbreak", "<<<NH:X>>>", "1", "class.attribute"])
def test_names_that_cannot_stand_after_a_dot_are_no_fields(name: str, counter: TokenCounter) -> None:
    holder = types.SimpleNamespace(**{name: 1})
    assert _block(holder, counter) == ["box: object = SimpleNamespace"]


class _Shelf:
    """A shelf of books."""

    def __init__(self) -> None:
        self.owner = "Ada"

    @property
    def size(self) -> "_Book | None":
        """The greatest book. More."""
        raise AssertionError("user code ran")

    @property
    def label(self):  # type: ignore[no-untyped-def]
        raise AssertionError("user code ran")

    @label.setter
    def label(self, value: str) -> None: ...

    @property
    def _private(self) -> int:
        raise AssertionError("user code ran")

    odd = property()

    def __len__(self) -> int:
        raise AssertionError("user code ran")

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("user code ran")

    def __getitem__(self, key: int) -> str:
        raise AssertionError("user code ran")


class _Book: ...


class _Shop(pydantic.BaseModel):
    prices: list[int]

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        raise AssertionError("user code ran")


def test_properties_and_methods_behind_syntax_are_shown_and_none_is_called(counter: TokenCounter) -> None:
    assert _block(_Shelf(), counter) == [
        "box: object = _Shelf",
        "box.__len__: () -> int",
        "box.__iter__: () -> Iterator[str]",
        "box.__getitem__: (key: int) -> str",
        "box.label: ...  # property, can be set",
        "box.odd: ...  # property",
        "box.size: _Book | None  # property: The greatest book. More.",
        'box.owner: str = "Ada"',
    ]
    assert _block(_Shop(prices=[1]), counter) == [
        "box: object = _Shop",
        "box.total: int  # property",
        "box.prices: list = [1]",
    ]
    assert _block(_Shelf(), counter, object_max_methods=1, object_max_fields=1) == [
        "box: object = _Shelf",
        "box.__len__: () -> int",
        "box.<methods>: <snipped 2 public methods>",
        "box.label: ...  # property, can be set",
        "box.<properties>: <snipped 2 public properties>",
        'box.owner: str = "Ada"',
    ]


def test_property_whose_value_is_kept_is_a_field(counter: TokenCounter) -> None:
    class Cached:
        @functools.cached_property
        def report(self) -> str:
            return "done"

    cached = Cached()
    assert _block(cached, counter) == ["box: object = Cached", "box.report: str  # property"]
    assert cached.report == "done"
    assert _block(cached, counter) == ["box: object = Cached", 'box.report: str = "done"']


def test_hostile_property_is_harmless(counter: TokenCounter) -> None:
    class Loud(property):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("user code ran")

    class Owner:
        value = Loud(lambda self: 1)

    assert _block(Owner(), counter) == ["box: object = Owner", "box.value: ...  # property"]
