"""`timeout`: a deadline in every form that a transformer has."""

import time
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.resilience import InvalidPolicyError, timeout

anyio_test = pytest.mark.anyio


class Sleeper:
    @timeout(5)
    async def method(self, seconds: float) -> str:
        await anyio.sleep(seconds)
        return "awake"

    @timeout(5)
    @staticmethod
    async def static(seconds: float) -> str:
        await anyio.sleep(seconds)
        return "awake"

    @timeout(5)
    @classmethod
    async def on_class(cls, seconds: float) -> str:
        await anyio.sleep(seconds)
        return cls.__name__


@anyio_test
@pytest.mark.virtual_time
async def test_each_call_has_its_own_time() -> None:
    sleeper = Sleeper()
    for function in (timeout(sleeper.method.__wrapped__.__get__(sleeper), 5), sleeper.method, Sleeper.static):  # type: ignore[attr-defined]
        assert [await function(4), await function(4)] == ["awake"] * 2
        begin = anyio.current_time()
        with pytest.raises(nh.parallel.DeadlineExceededError):
            await function(10)
        assert anyio.current_time() - begin == pytest.approx(5)
    assert await sleeper.on_class(4) == "Sleeper"


@anyio_test
@pytest.mark.virtual_time
async def test_a_block_has_a_time_limit() -> None:
    limit = timeout(5, name="the search")
    with pytest.raises(
        nh.parallel.DeadlineExceededError, match="the search exceeded its deadline of 5 seconds"
    ):
        async with limit:
            await anyio.sleep(10)
    assert limit.remaining_seconds == 0
    with pytest.raises(nh.parallel.DeadlineExceededError), timeout(5):
        await anyio.sleep(10)


@anyio_test
async def test_a_synchronous_function_ends_what_it_does_on_the_loop_in_time() -> None:
    @timeout(0.01)
    def work() -> None:
        anyio.from_thread.run(parallel.under_thread_deadlines(anyio.sleep_forever))

    with pytest.raises(nh.parallel.DeadlineExceededError, match="work exceeded"):
        await anyio.to_thread.run_sync(work)


def test_a_synchronous_function_that_ends_late_is_late() -> None:
    with pytest.raises(nh.parallel.DeadlineExceededError):
        timeout(time.sleep, 0.001)(0.01)


def test_the_error_names_the_function_unless_there_is_a_name() -> None:
    with pytest.raises(nh.parallel.DeadlineExceededError, match="sleep exceeded"):
        timeout(time.sleep, 0)(0)
    with pytest.raises(nh.parallel.DeadlineExceededError, match="the nap exceeded"):
        timeout(time.sleep, 0, name="the nap")(0)


@pytest.mark.parametrize("seconds", [-1, float("nan"), "long", None])
def test_what_is_no_number_of_seconds_is_refused(seconds: Any) -> None:
    with pytest.raises(parallel.InvalidLimitError, match="a number of seconds"):
        timeout(seconds)


def test_a_function_needs_seconds() -> None:
    with pytest.raises(InvalidPolicyError, match="timeout needs the seconds"):
        timeout(time.sleep)  # type: ignore[call-overload]


def test_what_cannot_be_called_has_no_time_limit() -> None:
    with pytest.raises(TypeError, match="timeout needs a function, not 5"):
        timeout(5, 5)  # type: ignore[call-overload]
