"""`gather`: like asyncio's, for both backends."""

import gc
import warnings
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async import parallel
from nighthawk_async.parallel import CallCancelledError

pytestmark = pytest.mark.anyio


async def echo(value: Any) -> Any:
    await checkpoint()
    return value


async def fail(error: Exception) -> None:
    raise error


class Deferred:
    """An awaitable that is no coroutine."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, Any, object]:
        return echo(self._value).__await__()


async def test_results_are_a_list_in_the_order_of_the_awaitables() -> None:
    slow_may_end = anyio.Event()

    async def slow() -> str:
        await slow_may_end.wait()
        return "slow"

    async def fast() -> str:
        slow_may_end.set()
        return "fast"

    assert await parallel.gather(slow(), fast(), Deferred("deferred")) == ["slow", "fast", "deferred"]
    assert await parallel.gather() == []


async def test_the_first_failure_cancels_the_others_and_arrives_bare() -> None:
    events: list[str] = []

    async def forever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            events.append("cancelled")

    async def fail_later() -> None:
        await anyio.wait_all_tasks_blocked()
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        await parallel.gather(forever(), fail_later())
    assert events == ["cancelled"]


async def test_exceptions_can_take_the_place_of_results() -> None:
    error = ValueError("wrong")
    assert await parallel.gather(echo(1), fail(error), echo(2), return_exceptions=True) == [1, error, 2]


async def test_coroutines_that_never_began_are_closed_without_a_warning() -> None:
    begun: list[int] = []

    async def begin(number: int) -> None:
        begun.append(number)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await parallel.gather(*(begin(number) for number in range(3)))
        with pytest.raises(TypeError, match="not for 3"):
            await parallel.gather(begin(1), 3)  # type: ignore[call-overload]
        gc.collect()
    assert begun == []


async def test_an_awaitable_given_twice_is_awaited_once() -> None:
    coroutine = echo("once")
    assert await parallel.gather(coroutine, echo("other"), coroutine) == ["once", "other", "once"]


async def test_the_callers_cancellation_reaches_all() -> None:
    events: list[int] = []

    async def forever(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            events.append(number)

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(parallel.gather, forever(1), forever(2))
        await anyio.wait_all_tasks_blocked()
        task_group.cancel_scope.cancel()
    assert sorted(events) == [1, 2]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tasks_and_futures_of_asyncio_are_awaitables() -> None:
    import asyncio

    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(echo("task"))
    asyncio.get_running_loop().call_soon(future.set_result, "future")
    assert await parallel.gather(task, future) == ["task", "future"]
    cancelled = asyncio.ensure_future(anyio.sleep_forever())
    cancelled.cancel()
    results = await parallel.gather(cancelled, echo(1), return_exceptions=True)
    assert isinstance(results[0], CallCancelledError)
    assert results[1] == 1
