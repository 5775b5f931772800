"""Which functions certainly give back what they are given, as far as their code says."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from nighthawk_async.values.schemas import gives_back
from tests.cases import every


def fail(value: object) -> object:
    raise ValueError(value)


def check_alone(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    return value


def check_with_info(value: int, info: object) -> int:
    assert value > 0, info
    return value


def check_early(value: int | None) -> int | None:
    if value is None:
        return value
    limit = value * 2
    if limit > 100:
        raise ValueError(limit)
    return value


def check_in_try(value: str) -> str:
    try:
        int(value)
    except TypeError as error:
        raise ValueError("no number") from error
    return value


def check_in_loop(value: list[int]) -> list[int]:
    for each in value:
        if each < 0:
            raise ValueError(each)
    return value


def check_after_others(value: int) -> int:
    first, second = 1, 2
    if first + second > value:
        raise ValueError(value)
    return value


def check_with_a_variable(value: int) -> int:
    limit = value * 2  # noqa: F841
    return value


def check_by_attribute(value: Any) -> Any:
    value.value = 1
    return value


def change_in_place(value: list[int]) -> list[int]:
    value.append(1)
    return value


class Checks:
    @classmethod
    def of_class(cls, value: int) -> int:
        if value < 0:
            raise ValueError(cls)
        return value

    def of_instance(self, value: int) -> int:
        if value < 0:
            raise ValueError(self)
        return value

    def other(self, value: int) -> "Checks":
        return self


def with_limit(value: int, *, limit: int) -> int:
    if value > limit:
        raise ValueError(value)
    return value


CHECKS: list[Callable[..., object]] = [
    check_alone,
    check_with_info,
    check_early,
    check_in_try,
    check_in_loop,
    check_after_others,
    check_with_a_variable,
    check_by_attribute,
    change_in_place,
    Checks.of_class,
    Checks().of_instance,
    functools.partial(with_limit, limit=1),
    lambda value: value,
]


def rebound(value: int) -> int:
    value = abs(value)
    return value  # noqa: RET504


def rebound_with_others(value: int) -> int:
    other, value = value, 1
    assert other
    return value


def rebound_by_loop(value: Any) -> Any:
    for value in value:  # noqa: B007, B020
        pass
    return value


def rebound_by_with(value: Any) -> Any:
    with value as value:
        return value


def rebound_by_import(value: Any) -> Any:
    import json as value

    return value


def rebound_by_match(value: Any) -> Any:
    match value:
        case [value]:
            return value
    return value


def rebound_by_handler(value: Any) -> Any:
    try:
        value.run()
    except ValueError as value:
        return value
    return value


def rebound_inside(value: int) -> int:
    def change() -> None:
        nonlocal value
        value += 1

    change()
    return value


def seen_inside(value: int) -> int:
    def see() -> int:
        return value

    if see() < 0:
        raise ValueError(value)
    return value


def in_finally(value: Any) -> Any:
    try:
        return value
    finally:
        return 1  # noqa: B012, SIM107


def only_a_check_with_end(value: int) -> None:
    if value < 0:
        raise ValueError(value)


def other_or_value(value: Any) -> Any:
    return value.strip() or value


def value_or_other(value: Any) -> Any:
    return value or 1


def value_and_other(value: Any) -> Any:
    return fail and value and 2


def conditional(value: Any) -> Any:
    return value if value > 0 else -value


def conditional_kept(value: Any) -> Any:
    found = (value if value > 0 else 0) or value
    return found  # noqa: RET504


def nested_conditional(value: Any) -> Any:
    return (value.a if value.b else value.c) if value.d else value


def compared(value: Any) -> Any:
    return 0 < value < value


def another(value: int, info: object) -> object:
    return info


def walrus(value: int) -> int:
    return (value := value + 1)


def walrus_before(value: int) -> int:
    assert (value := value + 1)  # noqa: RUF018
    return value


def comprehension(value: list[int]) -> Any:
    return [value for value in value]  # noqa: C416


def yields(value: int) -> Any:
    yield 1
    return value


async def waits(value: int) -> int:
    return value


async def yields_and_waits(value: int) -> Any:
    yield value


def takes_all(*values: int) -> Any:
    return values


def takes_by_name(**values: int) -> Any:
    return values


@functools.wraps(check_alone)
def wrapped(*args: Any) -> Any:
    return check_alone(*args) * 100


class CallableObject:
    def __call__(self, value: int) -> int:
        return value


OTHERS: list[Callable[..., object]] = [
    rebound,
    rebound_with_others,
    rebound_by_loop,
    rebound_by_with,
    rebound_by_import,
    rebound_by_match,
    rebound_by_handler,
    rebound_inside,
    seen_inside,  # unknown: the function inside might set it
    in_finally,
    only_a_check_with_end,
    other_or_value,
    value_or_other,
    value_and_other,
    conditional,
    lambda value: value if value > 0 else fail(value) and value,
    conditional_kept,
    nested_conditional,
    compared,
    another,
    walrus,
    walrus_before,
    comprehension,
    yields,
    waits,
    yields_and_waits,
    takes_all,
    takes_by_name,
    wrapped,
    CallableObject(),
    Checks().other,
    functools.partial(another, 1),
    functools.lru_cache(check_alone),
    str.strip,
    abs,
]


@pytest.mark.parametrize("function", CHECKS)
def test_functions_that_only_check_give_back_what_they_are_given(function: Any) -> None:
    assert gives_back(function)


@every("function", OTHERS)
def test_functions_that_may_convert_are_no_checks(function: Any) -> None:
    assert not gives_back(function)
