"""Calling functions, async or not."""

import functools
import threading
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.parallel import is_async_callable
from nighthawk_async.parallel.calling import call_any

pytestmark = pytest.mark.anyio


async def add(first: int, second: int = 0) -> int:
    await checkpoint()
    return first + second


class Adder:
    async def __call__(self, first: int, second: int) -> int:
        return await add(first, second)

    @classmethod
    async def add(cls, first: int, second: int) -> int:
        return await add(first, second)


def name_of(value: object) -> str:
    return getattr(value, "__qualname__", None) or type(value).__qualname__


@functools.wraps(add)
def wrapped_add(*args: int) -> Any:
    return add(*args)


@pytest.mark.parametrize(
    "function", [add, Adder(), Adder.add, functools.partial(add), AsyncMock()], ids=name_of
)
def test_what_gives_a_coroutine_for_certain_is_async(function: object) -> None:
    assert is_async_callable(function)


@pytest.mark.parametrize("function", [max, Adder, wrapped_add, functools.partial(max), 3], ids=name_of)
def test_everything_else_is_not(function: object) -> None:
    assert not is_async_callable(function)


@pytest.mark.parametrize("function", [add, Adder(), wrapped_add, int.__add__], ids=name_of)
async def test_the_result_is_what_the_function_gives_in_the_end(function: Any) -> None:
    assert await call_any(function, 1, 2) == 3


async def test_an_async_function_runs_on_the_event_loop_and_others_in_threads() -> None:
    async def own_thread() -> int:
        return threading.get_ident()

    assert await call_any(own_thread) == threading.get_ident()
    assert await call_any(threading.get_ident) != threading.get_ident()


async def test_a_limiter_bounds_the_threads() -> None:
    limiter = anyio.CapacityLimiter(1)
    running = 0

    def run() -> None:
        nonlocal running
        running += 1
        assert running == 1
        running -= 1

    async with anyio.create_task_group() as task_group:
        for _ in range(10):
            task_group.start_soon(functools.partial(call_any, run, limiter=limiter))
    assert limiter.borrowed_tokens == 0
