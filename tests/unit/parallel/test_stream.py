"""`stream`: results in the order in which the calls end."""

import asyncio
import itertools

import anyio
import pytest
from anyio.lowlevel import checkpoint
from rich.progress import Progress as RichProgress

from nighthawk_async import parallel
from nighthawk_async.parallel import DeadlineExceededError

pytestmark = pytest.mark.anyio


async def wait(seconds: int) -> int:
    await anyio.sleep(seconds)
    return seconds


async def echo(number: int) -> int:
    await checkpoint()
    return number


@pytest.mark.virtual_time
async def test_results_come_in_the_order_in_which_the_calls_end() -> None:
    async with parallel.stream(wait, [3, 1, 2]) as results:
        assert [result async for result in results] == [1, 2, 3]
        with pytest.raises(StopAsyncIteration):
            await anext(results)


@pytest.mark.virtual_time
async def test_results_can_tell_the_position_of_their_item() -> None:
    async with parallel.stream(wait, [3, 1, 2]) as results:
        assert [pair async for pair in results.indexed()] == [(1, 1), (2, 2), (0, 3)]


async def test_leaving_early_cancels_what_is_in_flight_and_waits_for_it() -> None:
    ended: list[int] = []

    async def call(number: int) -> int:
        if number == 0:
            return number
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
            ended.append(number)
        return number

    async with parallel.stream(call, range(3)) as results:
        assert await anext(results) == 0
        await anyio.wait_all_tasks_blocked()
    assert sorted(ended) == [1, 2]
    with pytest.raises(anyio.ClosedResourceError):
        await anext(results)


@pytest.mark.parametrize("max_concurrent", [None, 4])
async def test_items_may_have_no_end(max_concurrent: int | None) -> None:
    async with parallel.stream(echo, itertools.count(), max_concurrent=max_concurrent) as results:
        seen = [await anext(results) for _ in range(100)]
    assert len(set(seen)) == 100


async def test_results_that_nobody_takes_hold_up_the_calls() -> None:
    begun: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        return number

    async with parallel.stream(call, itertools.count(), max_concurrent=3) as results:
        await anyio.wait_all_tasks_blocked()
        assert begun == [0, 1, 2]
        await anext(results)
        await anyio.wait_all_tasks_blocked()
        assert begun == [0, 1, 2, 3]


@pytest.mark.virtual_time
async def test_a_failure_cancels_the_rest_and_is_raised_at_its_pull() -> None:
    events: list[str] = []

    async def call(seconds: int) -> int:
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            events.append(f"{seconds} cancelled")
            raise
        if seconds == 2:
            raise ValueError(seconds)
        return seconds

    async with parallel.stream(call, [3, 2, 1]) as results:
        await anyio.sleep(10)  # the block is not interrupted
        assert events == ["3 cancelled"]
        assert await anext(results) == 1
        with pytest.raises(ValueError, match="2") as caught:
            await anext(results)
        assert caught.value.__context__ is None
        with pytest.raises(ValueError, match="2"):  # whoever asks next learns of it too
            await anext(results)


async def test_a_failure_is_raised_to_everyone_who_takes_results() -> None:
    learned: list[int] = []
    go_on = anyio.Event()

    async def call(number: int) -> int:
        await go_on.wait()
        if number == 2:
            raise ValueError(number)
        return number

    async def take(results: parallel.Stream[int]) -> None:
        with pytest.raises(ValueError, match="2") as caught:
            async for _ in results:
                pass
        frames = [entry.name for entry in caught.traceback]
        assert frames.count("take") == 1  # not the way that it took to the others
        learned.append(caught.value.args[0])

    async with (
        parallel.stream(call, range(3)) as results,
        anyio.create_task_group() as task_group,
    ):
        for _ in range(3):
            task_group.start_soon(take, results)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert learned == [2, 2, 2]


async def test_a_failure_that_nobody_pulls_is_dropped() -> None:
    async def fail(number: int) -> int:
        raise ValueError(number)

    async with parallel.stream(fail, range(3)):
        await anyio.wait_all_tasks_blocked()


async def test_an_exit_that_nobody_pulls_is_raised_at_the_end() -> None:
    async def leave(number: int) -> int:
        raise SystemExit(number)

    with pytest.raises(SystemExit):
        async with parallel.stream(leave, [1]):
            await anyio.wait_all_tasks_blocked()


async def test_what_the_block_raises_goes_on_bare() -> None:
    error = LookupError("block")

    async def leave() -> None:
        async with parallel.stream(echo, itertools.count()) as results:
            await anext(results)
            raise error

    with pytest.raises(LookupError) as caught:
        await leave()
    assert caught.value is error
    assert caught.value.__context__ is None


async def test_the_callers_cancellation_goes_on() -> None:
    events: list[str] = []

    async def call(number: int) -> int:
        try:
            await anyio.sleep_forever()
        finally:
            events.append("cancelled")
        return number

    with anyio.CancelScope() as scope:
        async with parallel.stream(call, range(2)) as results:
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anext(results)
    assert scope.cancelled_caught
    assert events == ["cancelled", "cancelled"]


async def test_a_cancelled_pull_takes_no_result() -> None:
    begin = anyio.Event()

    async def call(number: int) -> int:
        await begin.wait()
        return number

    async with parallel.stream(call, range(3), max_concurrent=1) as results:
        with anyio.move_on_after(0):
            await anext(results)
        begin.set()
        assert [result async for result in results] == [0, 1, 2]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio knows no cancellation without a scope
@pytest.mark.parametrize("turns_before", range(5))
async def test_a_pull_that_asyncio_cancels_takes_no_result(turns_before: int) -> None:
    pulls: list[asyncio.Task[None]] = []
    taken: list[int] = []

    async def call(number: int) -> int:
        if number == 0:
            asyncio.get_running_loop().call_soon(cancel_after, turns_before)
        return number

    def cancel_after(turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(cancel_after, turns - 1)
        else:
            pulls[0].cancel()

    async def pull(results: parallel.Stream[int]) -> None:
        taken.append(await anext(results))

    async with parallel.stream(call, range(4), max_concurrent=1) as results:
        pulls.append(asyncio.create_task(pull(results)))
        await asyncio.wait(pulls)
        with anyio.fail_after(240):
            taken += [result async for result in results]
    assert taken == [0, 1, 2, 3]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio knows no cancellation without a scope
async def test_the_turn_of_a_cancelled_pull_passes_on() -> None:
    go_on = anyio.Event()
    pulls: list[asyncio.Task[int]] = []

    async def call(number: int) -> int:
        await go_on.wait()
        asyncio.get_running_loop().call_soon(pulls[0].cancel)  # after its turn has come
        return number

    async with parallel.stream(call, [7]) as results:
        pulls += [asyncio.create_task(anext(results)) for _ in range(2)]  # pyright: ignore[reportArgumentType]
        await anyio.wait_all_tasks_blocked()
        go_on.set()
        with anyio.fail_after(240):
            await asyncio.wait(pulls[:1])
            ends = await asyncio.gather(*pulls, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError)
    assert ends[1] == 7


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio cannot wait outside of the block
async def test_who_waits_when_the_block_is_left_early_is_told() -> None:
    async def call(number: int) -> int:
        await anyio.sleep_forever()
        return number

    async with parallel.stream(call, [1]) as results:
        pull = asyncio.ensure_future(results.indexed().__anext__())  # pyright: ignore[reportArgumentType]
        await anyio.wait_all_tasks_blocked()
    with pytest.raises(anyio.ClosedResourceError):
        await pull


async def test_a_stream_that_was_cancelled_does_not_seem_to_have_ended() -> None:
    async def call(number: int) -> int:
        await anyio.sleep_forever()
        return number

    with anyio.CancelScope() as scope:
        async with parallel.stream(call, [1]) as results:
            scope.cancel()
            with anyio.CancelScope(shield=True), pytest.raises(anyio.ClosedResourceError):
                await anext(results)
    assert scope.cancel_called


async def test_nothing_is_shown_before_the_stream_is_entered() -> None:
    bars = RichProgress(disable=True)
    results = parallel.stream(echo, range(3), progress=bars)
    assert bars.tasks == []
    async with results:
        assert [bar.description for bar in bars.tasks] == ["parallel.stream"]


async def test_several_tasks_take_each_result_once() -> None:
    taken: list[int] = []

    async def take(results: parallel.Stream[int]) -> None:
        async for result in results:
            taken.append(result)

    async with (
        parallel.stream(echo, range(50), max_concurrent=5) as results,
        anyio.create_task_group() as task_group,
    ):
        for _ in range(4):
            task_group.start_soon(take, results)
    assert sorted(taken) == list(range(50))


@pytest.mark.virtual_time
async def test_the_deadline_is_raised_at_the_pull_after_what_is_there() -> None:
    async with parallel.stream(wait, [1, 10], deadline=5) as results:
        await anyio.sleep(20)
        assert await anext(results) == 1
        with pytest.raises(DeadlineExceededError, match=r"parallel\.stream"):
            await anext(results)


async def test_a_stream_is_entered_once_and_before_its_results_are_taken() -> None:
    results = parallel.stream(echo, range(3))
    with pytest.raises(RuntimeError, match="async with"):
        await anext(results)
    async with results:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        await results.__aenter__()


async def test_limits_are_checked_before_the_stream_is_entered() -> None:
    with pytest.raises(parallel.InvalidLimitError):
        parallel.stream(echo, range(3), max_concurrent=0)
