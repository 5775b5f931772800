"""A request costs the same in every view: budget, usage meters, hooks, and what watches."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.agent.task import AgentTask
from nighthawk_async.hooks import AfterModelRequest, StepFinished
from nighthawk_async.testing import ModelReply, ModelServer, model_response, tool_call
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import ModelEvent, ModelRequest, TextDelta, UsageReported
from nighthawk_async.types.outcomes import PassStepOutcome, StepOutcome
from tests.unit.observe.told_nodes import root

from .budget_models import DONE, PRICE, act, executor_of, known_model, used

pytestmark = pytest.mark.anyio

COST = Decimal("0.0002")  # 100 tokens in at 1 dollar and 20 out at 5, per million


class Costs:
    """The costs that hooks are told."""

    def __init__(self) -> None:
        self.requests: list[Decimal] = []
        self.steps: list[Decimal] = []
        self.hooks = nh.Hooks()
        self.hooks.on(AfterModelRequest, self._request)
        self.hooks.on(StepFinished, self._step)

    def _request(self, event: AfterModelRequest) -> None:
        assert event.usage is not None
        self.requests.append(event.usage.cost)

    def _step(self, event: StepFinished) -> None:
        self.steps.append(event.usage.cost)


async def costs_of(executor: Any, *budgets: nh.policies.Budget, hooks: Any = ()) -> dict[str, Decimal]:
    """What a step costs, by each of those who say so."""
    node = root()
    with node.watching():
        async with nh.run(executor, hooks=hooks) as run, nh.scope():
            async with AsyncExitStack() as stack:
                for budget in budgets:
                    await stack.enter_async_context(budget)
                await act()
            scope_cost = nh.get_usage_meter().usage.cost
    costs = {"run": run.usage_meter.usage.cost, "scope": scope_cost}
    told = [each for each in node.walk() if each.usages]
    costs["watched"] = sum((each.usages[-1].cost for each in told), Decimal(0))
    for budget in budgets:
        costs[f"{budget.name} spent"] = budget.cost
        costs[f"{budget.name} usage"] = budget.usage.cost
    return costs


@pytest.mark.parametrize(
    ("transport", "text"),
    [
        ("tool", ""),
        ("native", '{"result": {"kind": "pass"}}'),
        ("direct", '{"result": {"kind": "pass"}}'),
    ],
)
async def test_a_model_of_ones_own_with_a_price_costs_the_same_everywhere(transport: str, text: str) -> None:
    answer = () if text else (DONE,)
    capabilities = {"structured_output": True, "structured_output_with_tools": True}
    model = known_model(model_response(*answer, text=text, usage=used()), **capabilities)
    costs = await costs_of(executor_of(model, outcome_transport=transport), nh.budget(cost=1, name="ours"))
    assert set(costs.values()) == {COST}


async def test_without_a_budget_the_meter_and_who_watches_know_the_cost() -> None:
    costs_told = Costs()
    costs = await costs_of(executor_of(known_model()), hooks=costs_told.hooks)
    assert set(costs.values()) == {COST}
    assert (costs_told.requests, costs_told.steps) == ([COST], [COST])


async def test_the_cost_that_the_model_itself_tells_is_taken_as_it_is() -> None:
    usage = nh.Usage(requests=1, input_tokens=100, output_tokens=20, cost=Decimal("0.5"))
    model = known_model(model_response(DONE, usage=usage))
    costs = await costs_of(executor_of(model), nh.budget(cost=1, name="ours"))
    assert set(costs.values()) == {Decimal("0.5")}


async def test_prices_of_a_budget_hold_for_meters_and_who_watches_too() -> None:
    prices = {"scripted:model": nh.models.ModelPrice(input=Decimal(10), output=Decimal(50))}
    costs_told = Costs()
    for price in (None, PRICE):
        model = known_model(price=price)
        costs = await costs_of(
            executor_of(model), nh.budget(cost=1, prices=prices, name="ours"), hooks=costs_told.hooks
        )
        assert set(costs.values()) == {10 * COST}
    assert costs_told.requests == costs_told.steps == [10 * COST, 10 * COST]


async def test_meters_count_the_cost_by_the_nearest_budgets_prices() -> None:
    outer = nh.budget(cost=1, name="outer")
    inner = nh.budget(cost=1, prices=lambda model_name, usage: Decimal(3) / 100, name="inner")
    costs = await costs_of(executor_of(known_model()), outer, inner)
    assert costs.pop("outer spent") == COST  # by its own prices
    assert set(costs.values()) == {Decimal("0.03")}


async def test_a_cost_that_only_a_budget_knows_is_no_unknown_one() -> None:
    usage = nh.Usage(requests=1, input_tokens=100, output_tokens=20, unpriced_requests=1)
    model = known_model(model_response(DONE, usage=usage), price=None)
    prices = {"scripted:model": PRICE}
    async with nh.run(executor_of(model)) as run, nh.budget(cost=1, prices=prices):
        await act()
    assert run.usage_meter.usage == nh.Usage(requests=1, input_tokens=100, output_tokens=20, cost=COST)


class BreakingModel:
    """Reports its usage, and then fails."""

    name = "breaking:model"
    capabilities = nh.models.ModelCapabilities(max_output_tokens=50, price=PRICE)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        async def events() -> AsyncGenerator[ModelEvent, None]:
            yield TextDelta(text="so")
            yield UsageReported(usage=used())
            raise nh.errors.ModelConnectionError("gone")

        yield events()


@pytest.mark.parametrize("budgets", [(), ("ours",)])
async def test_a_request_that_fails_costs_the_same_everywhere(budgets: tuple[str, ...]) -> None:
    made = [nh.budget(cost=1, name=name) for name in budgets]
    node = root()
    with node.watching():
        async with nh.run(executor_of(BreakingModel())) as run, AsyncExitStack() as stack:
            for budget in made:
                await stack.enter_async_context(budget)
            with pytest.raises(nh.errors.ModelConnectionError):
                await act()
    assert run.usage_meter.usage.cost == COST
    assert [each.usages[-1].cost for each in node.walk() if each.usages] == [COST]
    assert all(budget.cost == budget.usage.cost == COST for budget in made)


class OwnAgent:
    """An agent of the user's own, which reports usage without a cost."""

    async def run(self, task: AgentTask) -> StepOutcome:
        await task.turn_boundary()
        task.report_usage("own:model", used())
        return PassStepOutcome()


async def test_prices_of_a_budget_hold_for_the_meters_of_an_agent_of_ones_own() -> None:
    prices = {"own:model": PRICE}
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent())
    costs = await costs_of(executor, nh.budget(cost=1, prices=prices, name="ours"))
    assert set(costs.values()) == {COST}


async def test_steps_within_steps_cost_what_the_budget_says() -> None:
    model = known_model(
        model_response(tool_call("nh_eval", expression="helper()"), usage=used()),
        model_response(DONE, usage=used()),
        model_response(DONE, usage=used()),
    )
    budget = nh.budget(cost=1)
    node = root()
    with node.watching():
        async with nh.run(executor_of(model)) as run, budget:
            await asks_helper(act)
    told = sum((each.usages[-1].cost for each in node.walk() if each.usages), Decimal(0))
    assert told == run.usage_meter.usage.cost == budget.cost == budget.usage.cost == 3 * COST


@nh.natural_function
async def asks_helper(helper: Any) -> None:
    """natural
    Call <helper>.
    """


PRICE_OF_USER = {"input": 3, "output": 15, "cache_write": 3.75}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("anthropic:claude-sonnet-4-5", {}),
        (
            "azure-anthropic:claude-sonnet-4-5",
            {"capabilities": {"price": PRICE_OF_USER, "prompt_caching": True}},
        ),
    ],
)
async def test_a_prompt_that_is_kept_for_an_hour_costs_twice_its_input(
    name: str, more: dict[str, Any]
) -> None:
    """Three dollars per million tokens sent, six for an hour in the cache, fifteen received."""
    end = ToolCall(id="1", name="nh_outcome", arguments='{"kind": "pass"}')
    counts = nh.Usage(
        input_tokens=1_000, cache_write_tokens=900, cache_write_1h_tokens=800, output_tokens=100
    )
    async with ModelServer([ModelReply(tool_calls=(end,), usage=counts)]) as server:
        settings = {"base_url": server.base_url, "api_key": "k", "prompt_caching": "1h", **more}
        costs = await costs_of(
            nh.StepExecutorConfiguration(model=name, model_settings=settings), nh.budget(cost=1, name="b")
        )
    cost = (Decimal(3) * 100 + Decimal("3.75") * 100 + 6 * 800 + 15 * 100) / 1_000_000
    assert set(costs.values()) == {cost}
