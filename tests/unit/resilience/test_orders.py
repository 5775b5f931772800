"""Transformers put together, in every order, around every kind of function.

Every two by themselves, and all of them so that any three come in each order.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import combinations, permutations
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import under_thread_deadlines
from nighthawk_async.resilience import (
    CircuitOpenError,
    EnsembleError,
    VoteError,
    budget,
    circuit_breaker,
    rate_limit,
    timeout,
)
from nighthawk_async.testing import StepCall, StepResponse, pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import Script, wait_for_waiting
from tests.unit.resilience.transformer_table import (
    FAILURES,
    ORDERS,
    ORDERS_OF_FAILURES,
    TRANSFORMERS,
    calls_at_once,
    composed,
    modelled,
)

anyio_test = pytest.mark.anyio

OUTCOMES = {
    "success": ["done"],
    "one failure": [nh.ExecutionError("first"), "done"],
    "all failures": [nh.ExecutionError("always")],
}
KINDS = ["async", "sync", "async natural", "sync natural"]
GIVES_UP = (*FAILURES, nh.BudgetExceededError)


def orders_with(name: str) -> list[tuple[str, ...]]:
    return [order for order in ORDERS_OF_FAILURES if name in order]


def around(name: str, order: tuple[str, ...]) -> tuple[str, ...]:
    """The transformers that are around one."""
    return order[order.index(name) + 1 :]


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


class Stage:
    """Calls functions of one kind, all in one run, that do what the present actor does.

    Args:
        kind: Of which kind the functions are.
    """

    def __init__(self, kind: str) -> None:
        self.actor: Script | Sleeper = Script(None)
        self.is_async = kind.startswith("async")
        self._is_natural = kind.endswith("natural")

    @property
    def function(self) -> Callable[..., Any]:
        if self._is_natural:
            return natural if self.is_async else natural_here
        return self.actor.call_async if self.is_async else self.actor.call

    @property
    def executor(self) -> ModelsExecutor:
        """For a run: ensembles and budgets need one, for functions without steps too."""
        return ModelsExecutor(self._answer)

    async def call(self, function: Callable[..., Any]) -> Any:
        return await (function() if self.is_async else anyio.to_thread.run_sync(function))

    async def _answer(self, model: str, call: StepCall) -> StepResponse:
        return pass_response(result=await self.actor.call_async())


class Sleeper:
    """Sleeps until it is cancelled, async, or in a worker thread on the event loop."""

    def __init__(self) -> None:
        self.calls = 0
        self.sleeping = anyio.Event()

    async def call_async(self) -> None:
        self.calls += 1
        self.sleeping.set()
        await anyio.sleep_forever()

    def call(self) -> None:
        # By itself, AnyIO does not cancel what a thread begins after its caller was cancelled.
        anyio.from_thread.run(under_thread_deadlines(self.call_async))


def counted(script: Script, function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """Count the calls of a function by those of a script."""

    async def call_async() -> object:
        script.call()
        return await function()

    def call() -> object:
        script.call()
        return function()

    return call_async if is_async else call


def text_of(error: Exception) -> str:
    """What a failure is compared by."""
    if isinstance(error, VoteError | EnsembleError):
        return "the calls failed"
    return str(error) if isinstance(error, nh.ExecutionError) else type(error).__name__


async def result_of(awaitable: Awaitable[object]) -> object:
    try:
        return await awaitable
    except GIVES_UP as error:
        return text_of(error)


def result_here(function: Callable[[], object]) -> object:
    try:
        return function()
    except GIVES_UP as error:
        return text_of(error)


def expected(order: tuple[str, ...], steps: list[Any]) -> tuple[object, int]:
    """What comes of it, and how often the function is called."""
    script = Script(*steps)
    return result_here(partial(modelled, order, script.call)), script.calls


def test_the_orders_hold_every_pair_by_itself_and_every_three() -> None:
    assert set(permutations(TRANSFORMERS, 2)) <= set(ORDERS)
    for names in (set(TRANSFORMERS), set(TRANSFORMERS) - {"fallback"}):
        whole = [order for order in ORDERS_OF_FAILURES if set(order) == names]
        assert {each for order in whole for each in combinations(order, 3)} == set(permutations(names, 3))


@anyio_test
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_order_gives_the_expected_result_after_the_expected_calls(
    kind: str, outcome: str
) -> None:
    stage = Stage(kind)
    async with nh.run(stage.executor):
        for order in ORDERS if outcome == "success" else ORDERS_OF_FAILURES:
            stage.actor = Script(*OUTCOMES[outcome])
            result = await result_of(stage.call(composed(order, stage.function)))
            assert (result, stage.actor.calls) == expected(order, OUTCOMES[outcome]), order


@pytest.mark.parametrize("kind", ["sync", "sync natural"])
def test_a_synchronous_function_does_so_without_an_event_loop(kind: str) -> None:
    stage, outcome = Stage(kind), "one failure"
    with nh.run(stage.executor):
        for order in ORDERS_OF_FAILURES:
            stage.actor = Script(*OUTCOMES[outcome])
            result = result_here(composed(order, stage.function))
            assert (result, stage.actor.calls) == expected(order, OUTCOMES[outcome]), order


@anyio_test
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancellation_goes_through_every_order_and_leads_to_no_other_call(kind: str) -> None:
    stage = Stage(kind)
    async with nh.run(stage.executor):
        for order in ORDERS:
            stage.actor = Sleeper()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.call, composed(order, stage.function))
                await stage.actor.sleeping.wait()
                tasks.cancel_scope.cancel()
            assert tasks.cancel_scope.cancelled_caught, order
            assert 1 <= stage.actor.calls <= calls_at_once(order), order


# A limit that is reached, in every order.


@anyio_test
@pytest.mark.parametrize("kind", KINDS)
async def test_a_timeout_ends_what_is_in_it_and_is_a_failure_to_what_is_around_it(kind: str) -> None:
    stage = Stage(kind)
    failure = [nh.parallel.DeadlineExceededError(0)]
    async with nh.run(stage.executor):
        for order in orders_with("timeout"):
            stage.actor, limited = Sleeper(), Script(None)

            def late(function: Callable[..., Any], limited: Script = limited) -> Callable[..., Any]:
                return counted(limited, timeout(function, 0), is_async=stage.is_async)

            result = await result_of(stage.call(composed(order, stage.function, {"timeout": late})))
            assert (result, limited.calls) == expected(around("timeout", order), failure), order


@anyio_test
@pytest.mark.parametrize("kind", KINDS)
async def test_an_open_circuit_refuses_what_is_in_it_and_is_a_failure_to_what_is_around_it(kind: str) -> None:
    stage = Stage(kind)
    failure = [CircuitOpenError("open", retry_in=1)]
    async with nh.run(stage.executor):
        for order in orders_with("circuit_breaker"):
            stage.actor, breaker = Script("done"), circuit_breaker(fail_threshold=1, reset_timeout=1_000)
            with pytest.raises(nh.ExecutionError):
                breaker(Script(nh.ExecutionError("down")).call)()
            function = composed(order, stage.function, {"circuit_breaker": breaker})
            result = await result_of(stage.call(function))
            refused = breaker.statistics().refused
            assert (result, refused) == expected(around("circuit_breaker", order), failure), order
            assert stage.actor.calls == 0, order


@anyio_test
@pytest.mark.parametrize("kind", ["async natural", "sync natural"])
async def test_a_budget_of_one_step_is_for_all_steps_in_it_and_for_each_call_around_it(kind: str) -> None:
    stage = Stage(kind)
    async with nh.run(stage.executor):
        for order in orders_with("budget"):
            stage.actor = Script(*OUTCOMES["all failures"])
            one_step = budget(steps=1)
            result = await result_of(stage.call(composed(order, stage.function, {"budget": one_step})))
            wanted, calls = within_one_step(order)
            assert result == wanted, order
            if result == "BudgetExceededError":  # at once, for all calls in progress
                assert stage.actor.calls <= calls_at_once(around("budget", order)), order
            else:
                assert stage.actor.calls == calls, order


def within_one_step(order: tuple[str, ...]) -> tuple[object, int]:
    """What comes of steps that always fail, one of which may begin in each call within the budget."""
    script, begun = Script(*OUTCOMES["all failures"]), 0

    def begin_step() -> object:
        nonlocal begun
        begun += 1
        if begun > 1:
            raise nh.BudgetExceededError(
                budget="budget", resource="steps", limit=1, spent=1, reserved=0, asked=1
            )
        return script.call()

    def begin_budget(function: Callable[[], object]) -> object:
        nonlocal begun
        begun = 0
        return function()

    return result_here(partial(modelled, order, begin_step, {"budget": begin_budget})), script.calls


@anyio_test
@pytest.mark.parametrize("kind", KINDS)
async def test_who_waits_for_a_turn_calls_nothing_and_can_be_asked_to_end_in_every_order(kind: str) -> None:
    stage = Stage(kind)
    async with nh.run(stage.executor):
        for order in (order for order in ORDERS if "rate_limit" in order):
            stage.actor, limit = Script("done"), rate_limit(per_minute=1)
            limit(lambda: None)()
            async with nh.open_tasks() as tasks:
                handle = tasks.start(stage.call, composed(order, stage.function, {"rate_limit": limit}))
                await wait_for_waiting(limit, calls_at_once(around("rate_limit", order)))
                assert await handle.cancel_gracefully(3_600) == "cancelled", order
            assert (stage.actor.calls, limit.statistics().waiting) == (0, 0), order
