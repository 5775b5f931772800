"""Budgets of the caller's scope over calls on workers."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import CrossingError
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from tests.budget_functions import (
    FINISHED,
    PASSED,
    THRESHOLDS,
    act,
    act_in_own_budget,
    act_in_thread,
    act_looking,
    act_or_name,
    act_twice,
    place_more,
)
from tests.in_memory_workers import InMemoryWorkers
from tests.rate_functions import OwnAgent

from .budget_support import DONE, HANGING, PRICES, USED, executor_of, until

pytestmark = pytest.mark.anyio

TOKENS = USED.input_tokens + USED.output_tokens


def check_settled(budget: nh.policies.Budget, run: Any, *, requests: int) -> None:
    usage = run.usage_meter.usage
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert usage.requests == budget.usage.requests == budget.spent.turns == requests
    assert (
        budget.spent.tokens
        == usage.input_tokens + usage.output_tokens
        == budget.usage.input_tokens + (budget.usage.output_tokens)
    )


@pytest.mark.parametrize("function", [act_twice, act_in_thread, place_more], ids=lambda each: each.__name__)
async def test_what_calls_consume_is_charged_exactly(function: Any) -> None:
    total, inner = nh.budget(tokens=100_000), nh.budget(cost=1, prices=PRICES)
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers() as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        with inner:
            await parallel.map(function, range(4), on=workers)
        requests = len(server.requests)
    check_settled(total, run, requests=requests)
    assert total.spent.tokens == requests * TOKENS
    assert inner.spent.cost == requests * Decimal("0.000054")
    assert inner.spent.steps == total.spent.steps == requests


@pytest.mark.parametrize(
    ("limits", "resource"),
    [({"turns": 5}, "turns"), ({"steps": 5}, "steps"), ({"tokens": 6_000}, "tokens")],
    ids=["turns", "steps", "tokens"],
)
async def test_calls_on_many_workers_never_overspend_and_the_error_has_the_figures(
    limits: Any, resource: str, all_cases: bool
) -> None:
    total = nh.budget(**limits, name="total")
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(3) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        calls = 200 if all_cases or resource == "tokens" else 40
        settled = await parallel.settle(act, range(calls), on=workers)
        requests = len(server.requests)
    failures = [each.error for each in settled.outcomes if isinstance(each, parallel.Failed)]
    assert failures
    for error in failures:
        assert isinstance(error, nh.BudgetExceededError)
        assert (error.budget, error.resource) == ("total", resource)
        assert error.spent + error.reserved + error.asked > error.limit
    check_settled(total, run, requests=requests)
    assert getattr(total.spent, resource) <= limits[resource]
    if resource != "tokens":
        assert requests == 5


async def test_budgets_of_a_worker_apply_besides_those_of_the_program() -> None:
    total = nh.budget(turns=3, name="total")
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        outcomes = await parallel.map(act_in_own_budget, range(3), on=workers, max_concurrent=1)
        last = await parallel.map(act_or_name, [0], on=workers)
        requests = len(server.requests)
    assert outcomes == ["done, own: turns"] * 3
    assert last == ["total: turns"]
    check_settled(total, run, requests=requests)


async def test_step_budgets_are_those_of_each_step() -> None:
    async with (
        ModelServer(lambda _: ModelReply(text="nonsense", usage=USED)) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), step_budget=nh.budget(turns=2, name="each")),
    ):
        assert await parallel.map(act_or_name, range(2), on=workers) == ["each: turns"] * 2
        assert len(server.requests) == 4


async def test_tool_calls_are_asked_for_and_the_model_learns_of_the_end_if_it_is_to_conclude() -> None:
    looks = tuple(nh.models.ToolCall(id=str(each), name="look", arguments="{}") for each in range(3))
    total = nh.budget(tool_calls=2, on_exceeded="conclude")
    async with (
        ModelServer([ModelReply(tool_calls=looks, usage=USED), DONE]) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total),
    ):
        await parallel.map(act_looking, [0], on=workers)
        assert "the budget allows no further tool calls" in server.requests[-1].content.decode()
    assert total.spent.tool_calls == 2


async def test_the_last_request_that_fits_tells_the_model_to_conclude() -> None:
    total = nh.budget(turns=3, on_exceeded="conclude")
    nonsense = ModelReply(text="nonsense", usage=USED)
    async with (
        ModelServer([nonsense, nonsense, DONE]) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total),
    ):
        await parallel.map(act, [0], on=workers)
        told = ["budget for this work is nearly spent" in each.content.decode() for each in server.requests]
    assert told == [False, False, True]


async def test_calls_wait_while_only_the_reservations_of_others_are_in_the_way() -> None:
    total = nh.budget(tokens=6_000)
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(2) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        await parallel.map(act, range(40), on=workers)
        requests = len(server.requests)
    check_settled(total, run, requests=requests)
    assert requests == 40


async def test_seconds_end_calls_on_workers() -> None:
    total = nh.budget(seconds=0.3, name="short")
    async with (
        ModelServer(lambda _: HANGING) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total),
    ):
        assert await parallel.map(act_or_name, [0], on=workers) == ["short: seconds"]
        assert await parallel.map(act_or_name, [0], on=workers) == ["short: seconds"]


async def test_a_cancelled_call_pays_for_what_it_may_have_consumed_and_returns_the_rest() -> None:
    total = nh.budget(tokens=100_000)
    async with (
        ModelServer(lambda _: HANGING) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(parallel.call_placed, workers, act, 0)
            await until(lambda: len(server.requests) == 1)
            assert total.reserved.turns == 1
            group.cancel_scope.cancel()
        check_settled(total, run, requests=1)
        assert 0 < total.spent.tokens < 100_000


async def test_a_cancelled_wait_for_room_reserves_nothing() -> None:
    total = nh.budget(turns=2, tokens=3_000)
    async with (
        ModelServer(lambda _: HANGING) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total),
        anyio.create_task_group() as group,
    ):
        group.start_soon(parallel.call_placed, workers, act, 0)
        await until(lambda: len(server.requests) == 1)
        reserved = total.reserved
        async with anyio.create_task_group() as others:
            others.start_soon(parallel.call_placed, workers, act, 1)
            await until(lambda: total.spent.steps == 2)
            for _ in range(20):
                await checkpoint()
            others.cancel_scope.cancel()
        assert total.reserved == reserved
        group.cancel_scope.cancel()


async def test_the_loans_of_a_lost_worker_count_as_spent() -> None:
    total = nh.budget(tokens=100_000)
    replies = [HANGING, DONE]
    async with (
        ModelServer(replies) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
        anyio.create_task_group() as group,
    ):
        group.start_soon(parallel.call_placed, workers, act, 0)
        await until(lambda: len(server.requests) == 1)
        reserved = total.reserved.tokens
        workers.lose(*workers.workers)
    assert total.reserved == nh.policies.BudgetAmounts()
    assert total.spent.tokens == reserved + TOKENS
    assert total.spent.turns == total.usage.requests == run.usage_meter.usage.requests == 2
    assert not run.usage_meter.usage.is_complete


async def test_another_attempt_at_a_request_is_reserved_in_the_program() -> None:
    total = nh.budget(tokens=100_000)
    async with (
        ModelServer([ModelReply(status=503), DONE]) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url, max_retries=2), budget=total) as run,
    ):
        await parallel.map(act, [0], on=workers)
    check_settled(total, run, requests=1)
    assert run.usage_meter.usage.retries == 1
    assert total.spent.tokens == TOKENS


async def test_another_attempt_without_room_is_not_sent() -> None:
    broken = ModelReply(text="so far", ending="close", ending_after=0)
    async with ModelServer(lambda _: broken) as server, InMemoryWorkers(1) as workers:
        async with nh.run(executor_of(server.base_url, max_retries=3)) as run:
            with nh.budget(tokens=0), pytest.raises(nh.BudgetExceededError) as caught:
                await act(0)
            bound = int(caught.value.asked)
            with nh.budget(tokens=2 * bound, name="total") as total:
                assert await parallel.map(act_or_name, [0], on=workers) == ["total: tokens"]
        sent = len(server.requests)
    assert 1 <= sent <= 3
    assert total.reserved == nh.policies.BudgetAmounts()
    assert 0 < total.spent.tokens <= 2 * bound
    assert total.usage == run.usage_meter.usage


async def test_thresholds_are_reported_once_to_the_hooks_of_the_program() -> None:
    PASSED.clear()
    total = nh.budget(turns=4, thresholds=(0.5, 1.0))
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(2) as workers,
        nh.run(executor_of(server.base_url), budget=total, hooks=THRESHOLDS),
    ):
        await parallel.map(act, range(4), on=workers)
    assert sorted(PASSED) == [0.5, 1.0]


async def test_agents_of_the_programs_own_are_charged_what_they_report() -> None:
    total = nh.budget(tokens=150, turns=9, name="total")
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(2))
    async with InMemoryWorkers(1) as workers, nh.run(executor, budget=total) as run:
        outcomes = await parallel.map(act_or_name, range(2), on=workers, max_concurrent=1)
    assert outcomes == ["done", "total: tokens"]
    assert (total.spent.tokens, total.spent.turns, total.spent.steps) == (240, 2, 2)
    assert total.usage == run.usage_meter.usage


async def test_the_model_of_an_agent_of_the_programs_own_needs_a_price_under_a_budget_of_cost() -> None:
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(1))
    prices = {"own:model": nh.models.ModelPrice(input=Decimal(1), output=Decimal(1))}
    async with InMemoryWorkers(1) as workers, nh.run(executor):
        with nh.budget(cost=1), pytest.raises(nh.ConfigurationError, match="without a known price"):
            await parallel.map(act, range(2), on=workers, max_concurrent=1)
        with nh.budget(cost=1, prices=prices) as priced:
            await parallel.map(act, range(2), on=workers)
    assert priced.cost == Decimal(240) / 1_000_000


@nh.natural_function
async def outer_step(help_me: Any) -> int:
    """natural
    Return what <help_me> gives.
    """
    return 0


HELP = nh.models.ToolCall(
    id="", name="nh_outcome", arguments='{"kind": "return", "return_expression": "await help_me()"}'
)


async def test_a_refusal_on_a_worker_ends_the_step_that_has_placed_the_call_and_counts_in_its_usage() -> None:
    FINISHED.clear()
    total = nh.budget(turns=2, name="total")

    async def place() -> int:
        return await parallel.call_placed(workers, act_twice, 7)

    async with (
        ModelServer([ModelReply(tool_calls=(HELP,), usage=USED), DONE, DONE]) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=total, hooks=THRESHOLDS),
    ):
        with pytest.raises(nh.BudgetExceededError, match="total"):
            await outer_step(place)
        assert len(server.requests) == 2
    assert FINISHED[-1].usage.requests == 2, "its own request, and one on the worker"


async def test_a_price_function_that_cannot_cross_is_an_error_at_submission() -> None:
    prices: Callable[..., Decimal] = lambda name, usage: Decimal(1)  # noqa: E731
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(1) as workers,
        nh.run(executor_of(server.base_url), budget=nh.budget(cost=1, prices=prices)),
    ):
        with pytest.raises(CrossingError, match="a price function is pickled by its name"):
            await parallel.map(act, [0], on=workers)
