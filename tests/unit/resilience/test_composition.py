"""What it means which transformer is around which other."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.resilience import (
    CircuitOpenError,
    VoteError,
    circuit_breaker,
    fallback,
    rate_limit,
    retrying,
    timeout,
    vote,
)
from tests.unit.resilience.resilience_support import Script

anyio_test = pytest.mark.anyio


async def fail() -> str:
    await checkpoint()
    raise nh.ExecutionError("failed")


async def give_up(seconds: float = 0) -> str:
    await anyio.sleep(seconds)
    return "done"


@anyio_test
@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("make", "seconds", "calls"),
    [
        (lambda function: retrying(timeout(function, 5), on=TimeoutError, wait=0), 15, 3),
        (lambda function: timeout(retrying(function, on=TimeoutError, wait=0), 5), 5, 1),
        (lambda function: timeout(retrying(timeout(function, 5), on=TimeoutError, wait=0), 12), 12, 3),
    ],
    ids=["a time for each attempt", "a time for all attempts", "both"],
)
async def test_a_timeout_is_for_what_it_is_around(
    make: Callable[[Any], Any], seconds: float, calls: int
) -> None:
    count = 0

    async def sleep() -> None:
        nonlocal count
        count += 1
        await anyio.sleep(100)

    begin = anyio.current_time()
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await make(sleep)()
    assert (anyio.current_time() - begin, count) == (seconds, calls)


@anyio_test
async def test_a_circuit_breaker_counts_the_calls_that_go_through_it() -> None:
    inner, outer = circuit_breaker(), circuit_breaker()
    for function in (retrying(inner(fail), wait=0), outer(retrying(fail, wait=0))):
        with pytest.raises(nh.ExecutionError):
            await function()
    assert inner.statistics().failed == 3
    assert outer.statistics().failed == 1


@anyio_test
async def test_an_open_circuit_leads_to_the_fallback_and_ends_the_attempts() -> None:
    breaker = circuit_breaker(fail_threshold=2)
    with pytest.raises(CircuitOpenError) as caught:
        await retrying(breaker(fail), attempts=5, wait=0)()
    assert "ExecutionError: failed" in caught.value.__notes__[0]
    assert breaker.statistics().refused == 1
    assert await fallback(breaker(fail), give_up)() == "done"


@anyio_test
@pytest.mark.virtual_time
async def test_an_attempt_waits_until_the_circuit_may_close_when_it_is_told_to() -> None:
    script = Script(OSError("down"), OSError("down"), "up")
    breaker = circuit_breaker(fail_threshold=2, reset_timeout=30)
    begin = anyio.current_time()
    function = retrying(breaker(script.call_async), on=(OSError, CircuitOpenError), attempts=4, wait=1)
    assert await function() == "up"
    assert anyio.current_time() - begin == pytest.approx(1 + 1 + 29)


@anyio_test
@pytest.mark.virtual_time
async def test_attempts_inside_a_rate_limit_count_once_and_outside_each_for_itself() -> None:
    begin = anyio.current_time()
    function = rate_limit(retrying(Script(nh.ExecutionError(), "done").call_async, wait=0), per_minute=1)
    assert await function() == "done"
    assert anyio.current_time() == begin
    function = retrying(rate_limit(Script(nh.ExecutionError(), "done").call_async, per_minute=1), wait=0)
    assert await function() == "done"
    assert anyio.current_time() - begin == pytest.approx(60)


@anyio_test
@pytest.mark.virtual_time
async def test_a_late_function_falls_back() -> None:
    function = fallback(timeout(give_up, 5), timeout(give_up, 20), default="late")
    assert await function(1) == "done"
    assert await function(10) == "done"
    assert await function(30) == "late"


@anyio_test
@pytest.mark.virtual_time
async def test_the_wait_for_a_turn_is_within_a_timeout_around_the_rate_limit() -> None:
    limited = rate_limit(give_up, per_minute=1)
    await limited()
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await timeout(limited, 5)()
    assert await timeout(limited, 100)() == "done"


@anyio_test
@pytest.mark.virtual_time
async def test_a_timeout_inside_a_vote_is_for_each_call_and_around_it_for_all() -> None:
    begun: list[int] = []

    async def third_is_slow() -> str:
        begun.append(len(begun))
        await anyio.sleep(20 if begun[-1] == 2 else 1)
        return "done"

    begin = anyio.current_time()
    assert await vote(timeout(third_is_slow, 5), decide=max)() == "done"
    assert anyio.current_time() - begin == pytest.approx(5)
    begun.clear()
    with pytest.raises(nh.parallel.DeadlineExceededError):
        await timeout(vote(third_is_slow, decide=max), 5)()


@anyio_test
async def test_attempts_inside_a_vote_are_for_each_call_and_around_it_for_all() -> None:
    failures = [nh.ExecutionError()] * 2
    inside = Script(*failures, "done")
    assert await vote(retrying(inside.call_async, wait=0), decide=max)() == "done"
    assert inside.calls == 5
    around = Script(*failures, "done")
    with pytest.raises(VoteError):
        await retrying(vote(around.call_async), wait=0)()
    around = Script(*failures, "done", "done")
    assert await retrying(vote(around.call_async, decide=max, count=2), on=VoteError, wait=0)() == "done"
    assert around.calls == 4
