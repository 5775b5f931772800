"""`settle`: how every call ended."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.parallel import DeadlineExceededError, Failed, Settled, Succeeded
from nighthawk_async.testing import ScriptedExecutor

pytestmark = pytest.mark.anyio


async def invert(number: int) -> float:
    await checkpoint()
    return 1 / number


async def test_failures_are_outcomes_in_the_order_of_the_items() -> None:
    settled = await parallel.settle(invert, [1, 0, 2, 0])
    assert (settled.succeeded, settled.failed, len(settled)) == (2, 2, 4)
    assert settled.values() == [1.0, 0.5]
    assert [type(error) for error in settled.errors()] == [ZeroDivisionError, ZeroDivisionError]
    match list(settled):
        case [Succeeded(1.0), Failed(ZeroDivisionError()), Succeeded(0.5), Failed(_)]:
            pass
        case outcomes:
            pytest.fail(repr(outcomes))


async def test_a_failure_cancels_nobody() -> None:
    failed = anyio.Event()

    async def call(number: int) -> int:
        if number == 0:
            failed.set()
            raise ValueError(number)
        await failed.wait()
        await checkpoint()
        return number

    settled = await parallel.settle(call, range(3))
    assert settled.values() == [1, 2]


async def test_nothing_settles_to_nothing() -> None:
    assert await parallel.settle(invert, []) == Settled(outcomes=())


async def test_the_callers_cancellation_goes_on_and_is_no_failure() -> None:
    results: list[object] = []

    async def settle() -> None:
        results.append(await parallel.settle(lambda _: anyio.sleep_forever(), range(3)))

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(settle)
        await anyio.wait_all_tasks_blocked()
        task_group.cancel_scope.cancel()
    assert results == []


async def test_what_a_call_raises_while_the_caller_is_cancelled_does_not_stop_the_cancellation() -> None:
    async def fail_in_cleanup() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError("cleanup")

    async def call(number: int) -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(fail_in_cleanup)
            task_group.start_soon(anyio.sleep_forever)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(parallel.settle, call, range(2))
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


@pytest.mark.virtual_time
async def test_a_deadline_of_each_call_is_a_failure_of_that_call_alone() -> None:
    async def wait(seconds: int) -> int:
        await anyio.sleep(seconds)
        return seconds

    settled = await parallel.settle(parallel.deadline(5)(wait), [1, 10, 2])
    assert settled.values() == [1, 2]
    assert [type(error) for error in settled.errors()] == [DeadlineExceededError]


@pytest.mark.virtual_time
async def test_the_deadline_of_everything_keeps_what_has_finished() -> None:
    async def wait(seconds: int) -> int:
        await anyio.sleep(seconds)
        return seconds

    def seconds() -> Iterator[int]:
        yield from (1, 10, 2, 4, 5)

    cases: list[tuple[Iterable[int], list[int]]] = [
        ([1, 10, 2, 4, 5], [10, 4, 5]),
        (seconds(), [10, 4]),  # no further item was taken
    ]
    for items, left in cases:
        settled = await parallel.settle(wait, items, deadline=5, max_concurrent=2)
        assert settled.values() == [1, 2]
        late = [each for each in settled if isinstance(each, parallel.Failed)]
        assert [each.item for each in late] == left
        assert [str(each.error) for each in late] == [
            "parallel.settle exceeded its deadline of 5 seconds"
        ] * len(left)
    assert (await parallel.settle(wait, [1, 2], deadline=5)).values() == [1, 2]


async def test_outcomes_know_their_items() -> None:
    async def halve(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number // 2

    settled = await parallel.settle(halve, [4, 3])
    assert [each.item for each in settled] == [4, 3]
    assert settled.outcomes[0] == parallel.Succeeded(2)
    assert repr(settled.outcomes[0]) == "Succeeded(value=2)"


async def test_the_deadline_of_everything_is_raised_in_a_run_with_a_journal(tmp_path: Path) -> None:
    """A later life could not tell which calls had ended in time."""
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with nh.run(ScriptedExecutor(), journal=store, run_id="run"):
            with pytest.raises(DeadlineExceededError, match=r"parallel\.settle"):
                await parallel.settle(anyio.sleep, [0, 100], deadline=0.01)
