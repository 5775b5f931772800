"""What every combinator promises about its items, its function and its limits."""

import functools
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async import parallel
from nighthawk_async.parallel import InvalidLimitError

pytestmark = pytest.mark.anyio


async def consume(function: Any, items: Any, **options: Any) -> list[Any]:
    async with parallel.stream(function, items, **options) as results:
        return sorted([result async for result in results])


async def settled_values(function: Any, items: Any, **options: Any) -> list[Any]:
    return (await parallel.settle(function, items, **options)).values()


COMBINATORS = {"map": parallel.map, "settle": settled_values, "stream": consume, "race": parallel.race}
Combinator = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["map", "settle", "stream"])
def combinator(request: pytest.FixtureRequest) -> Combinator:
    """Those that call the function for every item."""
    return COMBINATORS[request.param]


@pytest.fixture(params=list(COMBINATORS))
def any_combinator(request: pytest.FixtureRequest) -> Combinator:
    return COMBINATORS[request.param]


async def double(number: int) -> int:
    await checkpoint()
    return number * 2


class Doubler:
    async def __call__(self, number: int) -> int:
        return await double(number)

    async def method(self, number: int) -> int:
        return await double(number)


async def multiply(factor: int, number: int) -> int:
    return factor * number


def double_in_thread(number: int) -> int:
    return number * 2


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(double, id="async def"),
        pytest.param(Doubler(), id="object with an async call"),
        pytest.param(Doubler().method, id="bound method"),
        pytest.param(functools.partial(multiply, 2), id="partial"),
        pytest.param(functools.partial(Doubler()), id="partial of an object"),
        pytest.param(lambda number: double(number), id="lambda that gives an awaitable"),
        pytest.param(double_in_thread, id="def"),
        pytest.param((2).__mul__, id="builtin"),
    ],
)
async def test_any_callable_can_be_called(combinator: Combinator, function: Any) -> None:
    assert await combinator(function, range(5), max_concurrent=2) == [0, 2, 4, 6, 8]


async def an_async_generator() -> AsyncGenerator[int, None]:
    for number in range(3):
        await checkpoint()
        yield number


class ReceivesThree:
    """An async iterator that is no generator."""

    def __init__(self) -> None:
        self._numbers = iter(range(3))

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        for number in self._numbers:
            return number
        raise StopAsyncIteration


@pytest.mark.parametrize(
    "make_items",
    [
        pytest.param(lambda: [0, 1, 2], id="list"),
        pytest.param(lambda: iter([0, 1, 2]), id="iterator"),
        pytest.param(lambda: {0: "a", 1: "b", 2: "c"}, id="mapping"),
        pytest.param(lambda: (number for number in range(3)), id="generator"),
        pytest.param(an_async_generator, id="async generator"),
        pytest.param(ReceivesThree, id="async iterator"),
    ],
)
@pytest.mark.parametrize("max_concurrent", [None, 1, 2, 100])
async def test_items_come_from_any_iterable(
    combinator: Combinator, make_items: Callable[[], Any], max_concurrent: int | None
) -> None:
    assert await combinator(double, make_items(), max_concurrent=max_concurrent) == [0, 2, 4]


async def test_without_items_there_is_nothing_to_do(combinator: Combinator) -> None:
    assert await combinator(double, []) == []


@pytest.mark.parametrize("limit", [0, -1, True, False, 1.5, 2.0, "3", [1]], ids=repr)
async def test_a_limit_that_is_no_positive_integer_is_refused_before_anything_starts(
    any_combinator: Combinator, limit: Any
) -> None:
    taken: list[int] = []
    with pytest.raises(InvalidLimitError, match="max_concurrent"):
        await any_combinator(double, (taken.append(number) for number in range(3)), max_concurrent=limit)
    assert taken == []


@pytest.mark.parametrize("seconds", [-1, True, "5", float("nan")], ids=repr)
async def test_a_deadline_that_is_no_number_of_seconds_is_refused(
    any_combinator: Combinator, seconds: Any
) -> None:
    with pytest.raises(InvalidLimitError, match="deadline"):
        await any_combinator(double, [1], deadline=seconds)


async def test_what_is_no_function_no_items_or_no_progress_is_refused(any_combinator: Combinator) -> None:
    with pytest.raises(TypeError, match="needs a function"):
        await any_combinator(3, [1])
    with pytest.raises(TypeError, match="not iterable"):
        await any_combinator(double, 3)
    with pytest.raises(TypeError, match=r"rich\.progress\.Progress"):
        await any_combinator(double, [1], progress="bar")


@pytest.mark.parametrize("max_concurrent", [1, 3])
async def test_never_more_calls_are_in_flight_than_allowed_and_no_item_is_taken_early(
    combinator: Combinator, max_concurrent: int
) -> None:
    in_flight = 0
    taken = 0
    ended = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(20):
            assert taken - ended < max_concurrent
            taken += 1
            yield number

    async def call(number: int) -> int:
        nonlocal in_flight, ended
        in_flight += 1
        assert in_flight <= max_concurrent
        for _ in range(number % 4):
            await checkpoint()
        in_flight -= 1
        ended += 1
        return number

    assert await combinator(call, items(), max_concurrent=max_concurrent) == list(range(20))


async def test_all_calls_are_in_flight_at_once_without_a_bound(combinator: Combinator) -> None:
    count = 50
    everybody_is_there = anyio.Event()
    present: list[int] = []

    async def call(number: int) -> int:
        present.append(number)
        if len(present) == count:
            everybody_is_there.set()
        await everybody_is_there.wait()
        return number

    assert await combinator(call, range(count)) == list(range(count))


async def test_many_items_do_not_become_many_tasks(combinator: Combinator) -> None:
    most = 0

    async def call(number: int) -> int:
        nonlocal most
        most = max(most, len(anyio.get_running_tasks()))
        return number

    before = len(anyio.get_running_tasks())
    assert len(await combinator(call, range(2_000), max_concurrent=3)) == 2_000
    assert most <= before + 3 + 1  # and the one of a stream that starts them


async def test_what_the_iterable_raises_ends_everything_and_arrives_bare(any_combinator: Combinator) -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(number)
        return number

    def items() -> Iterator[int]:
        yield from range(3)
        raise LookupError("no more to be had")

    with pytest.raises(LookupError, match="no more to be had"):
        await any_combinator(call, items())
    assert sorted(cancelled) == sorted(begun)


async def test_an_error_ends_the_items_and_closes_an_async_generator(combinator: Combinator) -> None:
    events: list[str] = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            for number in itertools.count():
                yield number
        finally:
            await checkpoint()
            events.append("closed")

    async def fail(number: int) -> int:
        raise ValueError(number)

    generator = items()
    if combinator is settled_values:
        await parallel.settle(double, generator, max_concurrent=2, deadline=0)
    else:
        with pytest.raises(ValueError, match="0"):
            await combinator(fail, generator, max_concurrent=1)
        assert events == ["closed"]
    with pytest.raises(StopAsyncIteration):
        await anext(generator)


async def test_a_synchronous_generator_can_be_used_on() -> None:
    numbers = iter(range(10))

    async def fail_at_two(number: int) -> int:
        if number == 2:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="2"):
        await parallel.map(fail_at_two, numbers, max_concurrent=1)
    assert list(numbers) == list(range(3, 10))


async def test_context_variables_flow_into_calls_and_not_between_them(combinator: Combinator) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    variable.set("outside")
    seen: list[str] = []

    async def call(number: int) -> int:
        seen.append(variable.get())
        variable.set(f"inside {number}")
        await checkpoint()
        assert variable.get() == f"inside {number}"
        return number

    def call_in_thread(number: int) -> int:
        seen.append(variable.get())
        variable.set(f"inside {number}")
        return number

    for function in (call, call_in_thread):
        await combinator(function, range(4), max_concurrent=2)
    assert seen == ["outside"] * 8
    assert variable.get() == "outside"


async def test_an_iterator_keeps_its_context_variables_and_calls_begin_with_them(
    combinator: Combinator,
) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")

    def items() -> Iterator[int]:
        for number in range(4):
            seen.append(variable.get())
            variable.set(f"item {number}")
            yield number

    async def call(number: int) -> str:
        begins_with = variable.get()
        variable.set("of a call")
        await checkpoint()
        return begins_with

    for most in (1, 3):
        seen: list[str] = []
        assert await combinator(call, items(), max_concurrent=most) == [f"item {index}" for index in range(4)]
        assert seen == ["unset", "item 0", "item 1", "item 2"]


async def test_calls_that_never_wait_let_others_run(combinator: Combinator) -> None:
    passed: list[int] = []

    async def look() -> None:
        while len(passed) < 100:
            await checkpoint()
        looked.append(len(passed))

    async def call(number: int) -> int:
        passed.append(number)
        return number

    looked: list[int] = []
    async with anyio.create_task_group() as others:
        others.start_soon(look)
        await combinator(call, range(2_000), max_concurrent=2)
    assert looked[0] < 2_000


async def test_an_exit_ends_everything_and_arrives_bare(any_combinator: Combinator) -> None:
    async def leave(number: int) -> int:
        if number == 1:
            raise SystemExit(3)
        return await anyio.sleep_forever()

    with pytest.raises(SystemExit) as caught:
        await any_combinator(leave, range(3))
    assert caught.value.code == 3


async def test_the_cancellation_of_the_caller_reaches_every_call(any_combinator: Combinator) -> None:
    cancelled: list[int] = []

    async def call(number: int) -> int:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(number)
            raise
        return number

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(any_combinator, call, range(3))
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert sorted(cancelled) == [0, 1, 2]


async def test_an_error_takes_the_place_of_the_callers_cancellation() -> None:
    async def fail_when_cancelled(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError(number)

    caught: list[BaseException] = []

    async def run() -> None:
        try:
            await parallel.map(fail_when_cancelled, [1])
        except LookupError as error:
            caught.append(error)

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        task_group.cancel_scope.cancel()
    assert [str(error) for error in caught] == ["1"]
    assert not isinstance(caught[0].__context__, BaseExceptionGroup)
