"""Transformers put together, in every order, around every kind of function."""

from collections.abc import Awaitable, Callable
from itertools import permutations
from math import prod
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.parallel import under_thread_deadlines
from nighthawk_async.resilience import (
    CircuitOpenError,
    EnsembleError,
    VoteError,
    circuit_breaker,
    fallback,
    rate_limit,
    retrying,
    timeout,
    vote,
)
from nighthawk_async.testing import StepCall, StepResponse, pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import Script
from tests.unit.resilience.transformer_table import TRANSFORMERS

anyio_test = pytest.mark.anyio

WITHOUT_RUN = [name for name in TRANSFORMERS if name not in ("budget", "ensemble")]
ORDERS = list(
    dict.fromkeys(
        [
            *((name,) for name in TRANSFORMERS),
            *permutations(TRANSFORMERS, 2),
            *permutations(WITHOUT_RUN, 3),
            *permutations(["retrying", "fallback", "vote", "ensemble"], 3),  # those that make several calls
            *permutations(WITHOUT_RUN[:5]),
        ]
    )
)
OUTCOMES = {
    "success": ["done"],
    "one failure": [nh.ExecutionError("first"), "done"],
    "all failures": [nh.ExecutionError("always")],
}


def composed(order: tuple[str, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function within transformers; the first of the order is the innermost."""
    for name in order:
        function = TRANSFORMERS[name].transform(function)
    return function


def expected(order: tuple[str, ...], steps: list[Any]) -> tuple[object, int]:
    """What comes of it, and how often the function is called."""
    script = Script(*steps)
    function: Callable[[], object] = script.call
    for name in order:
        model = TRANSFORMERS[name].model
        function = lambda model=model, inner=function: model(inner)  # noqa: E731
    return result_here(function), script.calls


@nh.natural_function
async def natural() -> str:
    """natural
    Set <:result>.
    """
    result: str
    return result


@nh.natural_function
def natural_here() -> str:
    """natural
    Set <:result>.
    """
    result: str
    return result


def executor_of(script: Script) -> ModelsExecutor:
    async def answer(model: str, call: StepCall) -> StepResponse:
        return pass_response(result=await script.call_async())

    return ModelsExecutor(answer)


def unused_executor() -> ModelsExecutor:
    """For functions without steps: ensembles and budgets need a run nevertheless."""
    return ModelsExecutor(lambda model, call: pass_response())


def text_of(error: Exception) -> str:
    """What a failure is compared by."""
    return "the calls failed" if isinstance(error, VoteError | EnsembleError) else str(error)


async def result_of(awaitable: Awaitable[object]) -> object:
    try:
        return await awaitable
    except (nh.ExecutionError, VoteError, EnsembleError) as error:
        return text_of(error)


def result_here(function: Callable[[], object]) -> object:
    try:
        return function()
    except (nh.ExecutionError, VoteError, EnsembleError) as error:
        return text_of(error)


@anyio_test
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_an_async_function_in_every_order(outcome: str) -> None:
    async with nh.run(unused_executor()):
        for order in ORDERS:
            script = Script(*OUTCOMES[outcome])
            result = await result_of(composed(order, script.call_async)())
            assert (result, script.calls) == expected(order, OUTCOMES[outcome]), order


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_synchronous_function_in_every_order(outcome: str) -> None:
    with nh.run(unused_executor()):
        for order in ORDERS:
            script = Script(*OUTCOMES[outcome])
            result = result_here(composed(order, script.call))
            assert (result, script.calls) == expected(order, OUTCOMES[outcome]), order


@anyio_test
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_an_async_natural_function_in_every_order(outcome: str) -> None:
    for order in ORDERS:
        script = Script(*OUTCOMES[outcome])
        async with nh.run(executor_of(script)):
            result = await result_of(composed(order, natural)())
        assert (result, script.calls) == expected(order, OUTCOMES[outcome]), order


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_synchronous_natural_function_in_every_order(outcome: str) -> None:
    scripts: list[Script] = []
    with nh.run(ModelsExecutor(lambda model, call: pass_response(result=scripts[-1].call()))):
        for order in ORDERS:
            scripts.append(Script(*OUTCOMES[outcome]))
            result = result_here(composed(order, natural_here))
            assert (result, scripts[-1].calls) == expected(order, OUTCOMES[outcome]), order


class Sleeper:
    """Sleeps until it is cancelled, async, or in a worker thread on the event loop."""

    def __init__(self) -> None:
        self.calls = 0
        self.sleeping = anyio.Event()

    async def sleep_async(self) -> None:
        self.calls += 1
        self.sleeping.set()
        await anyio.sleep_forever()

    def sleep(self) -> None:
        # By itself, AnyIO does not cancel what a thread begins after its caller was cancelled.
        anyio.from_thread.run(under_thread_deadlines(self.sleep_async))


def may_be_called(order: tuple[str, ...]) -> range:
    """How often a function may have been called when the first call has begun."""
    return range(1, prod(TRANSFORMERS[name].calls_at_once for name in order) + 1)


@anyio_test
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_cancellation_goes_through_every_order_and_leads_to_no_other_call(is_async: bool) -> None:
    for order in ORDERS:
        sleeper = Sleeper()
        async with nh.run(unused_executor()), anyio.create_task_group() as tasks:
            if is_async:
                tasks.start_soon(composed(order, sleeper.sleep_async))
            else:
                tasks.start_soon(anyio.to_thread.run_sync, composed(order, sleeper.sleep))
            await sleeper.sleeping.wait()
            tasks.cancel_scope.cancel()
        assert sleeper.calls in may_be_called(order), order
        assert tasks.cancel_scope.cancelled_caught, order


@anyio_test
async def test_a_cancelled_natural_function_leaves_no_step_in_any_order() -> None:
    for order in ORDERS:
        sleeper = Sleeper()

        async def answer(model: str, call: StepCall, sleeper: Sleeper = sleeper) -> StepResponse:
            await sleeper.sleep_async()
            return pass_response()

        async with nh.run(ModelsExecutor(answer)), anyio.create_task_group() as tasks:
            tasks.start_soon(composed(order, natural))
            await sleeper.sleeping.wait()
            tasks.cancel_scope.cancel()
        assert sleeper.calls in may_be_called(order), order


# What an order means.


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
    with pytest.raises(nh.DeadlineExceededError):
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
    assert anyio.current_time() - begin == 60


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
    with pytest.raises(nh.DeadlineExceededError):
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
    assert anyio.current_time() - begin == 5
    begun.clear()
    with pytest.raises(nh.DeadlineExceededError):
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
