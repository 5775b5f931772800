"""What callables are called, what they stand for, and for which of them permissions are."""

import collections
import datetime
import decimal
import functools
import math
import operator
import os
import sys
import types
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from nighthawk_async.policies.permissions.callables import (
    called_function,
    function_title,
    layers_of,
    names_of,
    other_names_of,
)
from nighthawk_async.policies.permissions.declared_methods import exported_names
from nighthawk_async.policies.permissions.free_calls import is_data_callable

HERE = __name__


class Base:
    def close(self) -> None: ...


class Shop(Base):
    def __call__(self) -> None: ...

    def order(self) -> None: ...

    @classmethod
    def open_shop(cls) -> None: ...

    @staticmethod
    def greet() -> None: ...


class Basket(list[int]):
    def pay(self) -> None: ...


def outer() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


SHOP = Shop()
FUNCTIONS: list[tuple[object, tuple[str, ...]]] = [
    (outer, ("outer", f"{HERE}.outer")),
    (outer(), ("inner", f"{HERE}.inner")),
    (SHOP.order, ("order", "Shop.order", f"{HERE}.Shop.order")),
    (Shop.open_shop, ("open_shop", "Shop.open_shop", f"{HERE}.Shop.open_shop")),
    (SHOP.close, ("close", "Base.close", f"{HERE}.Base.close")),
    (Shop.greet, ("greet", "Shop.greet", f"{HERE}.Shop.greet")),
    (Shop, ("Shop", f"{HERE}.Shop")),
    (SHOP, ("Shop", f"{HERE}.Shop")),
    (functools.partial(outer), ("outer", f"{HERE}.outer")),
    (outer.__call__, ("outer", f"{HERE}.outer")),
    (functools.cache(outer), ("outer", f"{HERE}.outer")),
    (eval, ("eval", "builtins.eval")),
    (math.sqrt, ("sqrt", "math.sqrt")),
]


@pytest.mark.parametrize(("function", "names"), FUNCTIONS)
def test_a_callable_has_the_names_of_what_it_stands_for(function: object, names: tuple[str, ...]) -> None:
    assert set(names_of(function)) == set(names)


@pytest.mark.parametrize(
    ("function", "title"),
    [(outer(), "inner"), (SHOP.order, "Shop.order"), (SHOP, "Shop"), (functools.partial(outer), "outer")],
)
def test_a_callable_has_a_title(function: object, title: str) -> None:
    assert function_title(function) == title


def test_other_names_are_how_code_reaches_a_callable() -> None:
    scopes = ({"shop": SHOP, "do": SHOP.order}, {"again": Shop().order, "order": SHOP.order})
    assert set(other_names_of(functools.partial(outer), "", {"alias": outer, "shop": SHOP})) == {"alias"}
    assert set(other_names_of(SHOP.order, "shop.order", *scopes)) == {
        "shop.order",
        "do",
        "order",
        "Shop.order",
        "Base.order",
        "object.order",
    }


def test_a_callable_that_has_every_attribute_is_seen_through_in_the_end() -> None:
    mock = Mock()
    assert layers_of(mock) == (mock,)
    assert function_title(mock) == "Mock"
    mock.__wrapped__ = mock
    assert called_function(mock) is mock
    assert set(layers_of(mock)) == {mock}


@pytest.mark.parametrize(
    "function",
    [
        len,
        print,
        "".upper,
        str.upper,
        [].append,
        Basket().append,
        {}.__getitem__,
        dict.fromkeys,
        ValueError,
        KeyError("x").with_traceback,
        int,
        map,
        datetime.datetime,
        datetime.datetime.now,
        decimal.Decimal("1").quantize,
        collections.Counter().most_common,
        functools.partial(int, base=2),
        (value for value in "ab").send,
    ],
)
def test_what_computes_with_values_of_python_is_free(function: object) -> None:
    assert is_data_callable(function)


@pytest.mark.parametrize(
    "function",
    [
        outer,
        SHOP,
        Shop,
        SHOP.order,
        Basket,
        Basket().pay,
        eval,
        exec,
        compile,
        open,
        input,
        types.FunctionType,
        breakpoint,
        __import__,
        os.system,
        math.sqrt,
        operator.call,
        functools.partial(eval),
        eval.__call__,
        outer.__call__,
        Mock(),
    ],
)
def test_everything_else_is_not(function: object) -> None:
    assert not is_data_callable(function)


def test_libraries_that_only_say_that_they_are_modules_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Library:
        """As those of cffi are, which cryptography has among its modules."""

        __slots__ = ()

        @property
        def __class__(self) -> type:
            return types.ModuleType

    monkeypatch.setitem(sys.modules, "library_of_cffi", Library())
    assert f"{HERE}.Shop" in exported_names(Shop)
