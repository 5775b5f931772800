"""`race`: the first success wins."""

import itertools
from collections.abc import AsyncGenerator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async import parallel
from nighthawk_async.parallel import DeadlineExceededError, NothingToRaceError

pytestmark = pytest.mark.anyio


async def wait(seconds: int) -> int:
    await anyio.sleep(seconds)
    return seconds


@pytest.mark.virtual_time
async def test_the_first_success_wins_and_the_rest_are_cancelled_and_awaited() -> None:
    ended: list[int] = []

    async def call(seconds: int) -> int:
        try:
            return await wait(seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            ended.append(seconds)

    assert await parallel.race(call, [30, 10, 20]) == 10
    assert sorted(ended) == [10, 20, 30]


@pytest.mark.virtual_time
async def test_a_failure_leaves_the_race_to_the_others() -> None:
    async def call(seconds: int) -> int:
        await anyio.sleep(seconds)
        if seconds < 3:
            raise ValueError(seconds)
        return seconds

    assert await parallel.race(call, [1, 2, 3, 4]) == 3


@pytest.mark.parametrize("count", [1, 3])
async def test_when_all_fail_the_errors_come_in_a_group_in_the_order_of_the_items(count: int) -> None:
    async def call(number: int) -> None:
        for _ in range(count - number):
            await checkpoint()
        raise ValueError(number)

    with pytest.raises(ExceptionGroup, match=r"every call of parallel\.race failed") as caught:
        await parallel.race(call, range(count))
    assert [error.args for error in caught.value.exceptions] == [(number,) for number in range(count)]


async def test_a_race_without_runners_is_an_error() -> None:
    with pytest.raises(NothingToRaceError):
        await parallel.race(wait, [])


@pytest.mark.parametrize("max_concurrent", [None, 2])
async def test_runners_may_have_no_end(max_concurrent: int | None) -> None:
    async def call(number: int) -> int:
        if number < 10:
            raise ValueError(number)
        return number

    assert await parallel.race(call, itertools.count(), max_concurrent=max_concurrent) == 10


async def test_what_losers_raise_while_they_end_is_dropped() -> None:
    async def call(number: int) -> int:
        if number == 0:
            await anyio.wait_all_tasks_blocked()
            return number
        try:
            return await anyio.sleep_forever()
        finally:
            raise ValueError("loser")

    assert await parallel.race(call, [0, 1, 2]) == 0


@pytest.mark.parametrize("deadline", [None, 60])
async def test_what_the_items_raise_while_they_are_closed_is_dropped(deadline: float | None) -> None:
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await anyio.sleep_forever()
        finally:
            raise ValueError("closed badly")

    async def call(number: int) -> int:
        await anyio.wait_all_tasks_blocked()
        return number

    assert await parallel.race(call, items(), deadline=deadline) == 0


async def test_what_ends_the_program_while_the_items_are_closed_is_kept() -> None:
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await anyio.sleep_forever()
        finally:
            raise SystemExit(3)

    async def call(number: int) -> int:
        await anyio.wait_all_tasks_blocked()
        return number

    with pytest.raises(SystemExit):
        await parallel.race(call, items())


@pytest.mark.virtual_time
async def test_a_winner_in_time_has_won_however_long_the_others_take_to_end() -> None:
    async def call(seconds: int) -> int:
        try:
            return await wait(seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0 if seconds == 5 else 100)

    assert await parallel.race(call, [5, 50], deadline=10) == 5


@pytest.mark.virtual_time
@pytest.mark.parametrize(("seconds", "wins"), [(10, True), (11, False)])
async def test_who_arrives_with_the_end_of_the_time_wins_and_who_arrives_later_does_not(
    seconds: int, wins: bool
) -> None:
    async def call(number: int) -> int:
        with anyio.CancelScope(shield=True):
            return await wait(seconds)

    if wins:
        assert await parallel.race(call, [0], deadline=10) == 10
    else:
        with pytest.raises(DeadlineExceededError):
            await parallel.race(call, [0], deadline=10)


@pytest.mark.virtual_time
async def test_a_race_has_a_deadline() -> None:
    with pytest.raises(DeadlineExceededError, match=r"parallel\.race"):
        await parallel.race(wait, [20, 30], deadline=10)
