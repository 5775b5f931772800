"""What others see of a cached response: usage, budgets, hooks, the tree and recorders."""

from decimal import Decimal
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.environment import begin_policy
from nighthawk_async.kernel.policy import Position
from nighthawk_async.models import ModelPrice
from nighthawk_async.resilience import cached

from .cached_models import Counting, number

pytestmark = pytest.mark.anyio


async def test_a_cached_response_costs_nothing_and_takes_nothing_from_budgets() -> None:
    capabilities = nh.models.ModelCapabilities(
        max_output_tokens=50, price=ModelPrice(input=Decimal(1), output=Decimal(5))
    )
    model = Counting(capabilities=capabilities)
    budget = nh.budget(turns=1, cost=Decimal("0.003"))
    async with nh.run(model, budget=budget), cached():
        assert await nh.parallel.map(number, ["a"] * 50) == [1] * 50
        usage = nh.get_usage_meter().usage
        with pytest.raises(nh.BudgetExceededError):
            await number("b")
    assert (usage.requests, usage.cached_requests, usage.cost) == (1, 49, Decimal("0.000035"))
    assert model.asked == 1


async def test_a_request_that_a_budget_refuses_lets_the_next_one_ask() -> None:
    model = Counting()
    async with nh.run(model), cached():
        with nh.scope(budget=nh.budget(turns=1)):
            await number("b")
            with pytest.raises(nh.BudgetExceededError):
                await number("a")
        assert await number("a") == 2


async def test_a_forced_conclusion_is_not_kept_for_requests_that_are_free() -> None:
    model = Counting()
    async with nh.run(model), cached():
        with nh.scope(budget=nh.budget(turns=1)):
            first = await number("a")
        second = await number("a")
    concluded = model.requests[0] != model.requests[-1]
    assert (second != first) is concluded


async def test_a_budget_that_cannot_be_kept_fails_no_equal_request_without_it() -> None:
    model, is_asked, answers = Counting(), anyio.Event(), list[int]()

    class Refusing(nh.Policy):
        position = Position.BUDGETS

        async def before_request(self, call: nh.policies.ModelCall) -> None:
            is_asked.set()
            await anyio.wait_all_tasks_blocked()  # until the other one waits
            raise nh.ConfigurationError("the price is unknown")

    async def refused() -> None:
        begin_policy(Refusing())
        with pytest.raises(nh.ConfigurationError, match="price"):
            await number("a")

    async def ask() -> None:
        answers.append(await number("a"))

    async with nh.run(model), cached(), anyio.create_task_group() as group:
        group.start_soon(refused)
        await is_asked.wait()
        group.start_soon(ask)
    assert answers == [1]


async def test_a_limit_of_the_output_makes_no_other_request() -> None:
    model = Counting(capabilities=nh.models.ModelCapabilities(max_output_tokens=50))
    async with nh.run(model), cached():
        with nh.scope(budget=nh.budget(tokens=10_000, max_output_tokens=40)):
            assert await number("a") == 1
        assert await number("a") == 1
    assert model.requests[0].settings == {"max_tokens": 40}


async def test_hooks_and_the_tree_see_that_it_was_cached() -> None:
    hooks, seen = nh.hooks.Hooks(), list[nh.Usage | None]()

    @hooks.on(nh.hooks.AfterModelRequest)
    async def note(event: nh.hooks.AfterModelRequest) -> None:
        seen.append(event.usage)

    with nh.observe.recording() as tree:
        async with nh.run(Counting(), hooks=hooks), cached():
            await number("a")
            await number("a")
    assert [usage and (usage.requests, usage.cached_requests) for usage in seen] == [(1, 0), (0, 1)]
    snapshot = tree.snapshot()
    requests = [view for view in snapshot.walk() if view.kind == "model_request"]
    assert [view.attributes.get("nighthawk.response.cached", False) for view in requests] == [False, True]
    assert [view.usage.cached_requests for view in requests] == [0, 1]
    assert "  1 cached" in nh.observe.view_as_text(snapshot)


async def test_a_recorder_records_only_what_is_asked(tmp_path: Path) -> None:
    path, model = tmp_path / "exchanges.yaml", Counting()
    for _ in range(2):
        with nh.testing.cassette(path) as cassette:
            async with nh.run(model), cached():
                assert [await number("a"), await number("a")] == [1, 1]
    assert (cassette.recorded, cassette.replayed) == (0, 1)
    assert model.asked == 1
