"""Every transformer keeps what a function is: its signature, its name, whether it is async, how it binds."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience.transforming import Call, Transformer

anyio_test = pytest.mark.anyio


class Twice(Transformer):
    """Calls twice and gives both results."""

    title = "twice"

    def run(self, call: Call[Any]) -> Any:
        return [call(), call()]

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        return [await call(), await call()]


twice = Twice()


async def add_async(left: int, right: int = 1) -> int:
    """Add."""
    return left + right


def add(left: int, right: int = 1) -> int:
    """Add."""
    return left + right


class Adder:
    def __init__(self, left: int) -> None:
        self.left = left

    @twice
    def method(self, right: int) -> int:
        return self.left + right

    @twice
    async def method_async(self, right: int) -> int:
        return self.left + right

    @twice
    @staticmethod
    def static(right: int) -> int:
        return right

    @staticmethod
    @twice
    def static_below(right: int) -> int:
        return right

    @twice
    @classmethod
    def on_class(cls, right: int) -> tuple[type, int]:
        return cls, right

    @twice
    @classmethod
    async def on_class_async(cls, right: int) -> tuple[type, int]:
        return cls, right

    def __call__(self, right: int) -> int:
        return self.left + right


class AsyncAdder(Adder):
    async def __call__(self, right: int) -> int:  # type: ignore[override]
        return self.left + right


@anyio_test
async def test_async_stays_async_and_sync_stays_sync() -> None:
    assert inspect.iscoroutinefunction(twice(add_async))
    assert not inspect.iscoroutinefunction(twice(add))
    assert await twice(add_async)(1, right=2) == [3, 3]
    assert twice(add)(1, right=2) == [3, 3]


@pytest.mark.parametrize("function", [add, add_async])
def test_signature_name_and_docstring_are_kept(function: Callable[..., object]) -> None:
    transformed = twice(function)
    assert inspect.signature(transformed) == inspect.signature(function)
    assert transformed.__name__ == function.__name__
    assert transformed.__doc__ == "Add."
    assert vars(transformed)["__wrapped__"] is function


@anyio_test
async def test_methods_bind_as_they_did() -> None:
    adder = Adder(1)
    assert adder.method(2) == [3, 3]
    assert await adder.method_async(2) == [3, 3]
    assert adder.static(2) == Adder.static(2) == adder.static_below(2) == [2, 2]
    assert adder.on_class(2) == Adder.on_class(2) == [(Adder, 2), (Adder, 2)]
    assert await AsyncAdder.on_class_async(2) == [(AsyncAdder, 2), (AsyncAdder, 2)]
    assert twice(adder.__call__)(2) == [3, 3]


@anyio_test
async def test_partials_and_callable_objects_are_async_when_what_they_call_is() -> None:
    assert await twice(partial(add_async, 5))(right=1) == [6, 6]
    assert twice(partial(add, 5))(right=1) == [6, 6]
    assert twice(Adder(1))(2) == [3, 3]
    transformed: Callable[..., Any] = twice(AsyncAdder(1))
    assert inspect.iscoroutinefunction(transformed)
    assert await transformed(2) == [3, 3]


def test_arguments_may_have_any_name() -> None:
    @twice
    def of(function: int, self: int, args: int, /, call: int, **kwargs: int) -> tuple[int, ...]:
        return function, self, args, call, *kwargs.values()

    assert of(1, 2, 3, call=4, function=5) == [(1, 2, 3, 4, 5)] * 2


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


class GeneratorObject:
    def __call__(self) -> Iterator[int]:
        yield 1


GENERATOR = GeneratorObject()


@pytest.mark.parametrize(
    "function",
    [_generator, _async_generator, partial(_generator), GENERATOR, GENERATOR.__call__],
)
def test_a_generator_is_refused_at_once(function: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"twice cannot take .*: it is a generator"):
        twice(function)


def test_a_generator_is_refused_as_a_static_method_too() -> None:
    with pytest.raises(TypeError, match="it is a generator"):
        twice(staticmethod(_generator))


@pytest.mark.parametrize("function", [None, 5, "name"])
def test_what_cannot_be_called_is_refused_at_once(function: Any) -> None:
    with pytest.raises(TypeError, match="twice needs a function, not"):
        twice(function)


def test_an_async_function_in_disguise_is_refused_when_it_is_called() -> None:
    disguised: Callable[[int], object] = lambda left: add_async(left)  # noqa: E731
    with pytest.raises(TypeError, match=r"<lambda> is not `async def` but gave an awaitable"):
        twice(disguised)(1)


def test_a_function_for_a_worker_thread_is_refused_when_it_is_called() -> None:
    with pytest.raises(TypeError, match="add is not `async def` but gave an awaitable"):
        twice(nh.blocking(add))(1)
