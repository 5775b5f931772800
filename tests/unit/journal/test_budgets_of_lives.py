"""Usage and budgets over several lives: a recorded response counts in each of them as it did in the first."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStore
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import AnsweringModel, change_tables, opened, shout

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

HOUR = 3_600.0
USED = nh.Usage(requests=1, input_tokens=10_000, output_tokens=50)
COST = Decimal("0.01025")


class PricedModel(AnsweringModel):
    """Shouts, for a price."""

    capabilities = nh.models.ModelCapabilities(
        max_output_tokens=50, price=nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))
    )

    def __init__(self) -> None:
        super().__init__(self._shout)

    def _shout(self, prompt: str, turn: int) -> ModelResponse:
        assign = tool_call("nh_assign", target_path="loud", expression="word.upper()")
        return model_response(assign, tool_call("nh_outcome", kind="pass"), usage=USED)


async def interrupted(
    store: JournalStore, model: PricedModel, program: Callable[[], Awaitable[Any]], **options: Any
) -> Any:
    """A life that a test may cancel."""
    executor = nh.AgentStepExecutor.from_model(model)
    async with nh.run(executor, journal=store, run_id="run-1", **options) as run:
        await program()
        return run.usage_meter.usage


async def test_the_usage_of_a_run_and_a_scope_adds_up(tmp_path: Path) -> None:
    model = PricedModel()
    scopes: list[nh.Usage] = []

    async def program(*words: str) -> None:
        with nh.scope():
            for word in words:
                await shout(word)
            scopes.append(nh.get_usage_meter().usage)

    with opened(tmp_path) as store:
        await interrupted(store, model, lambda: program("cup"))
        usage = await interrupted(store, model, lambda: program("cup", "lamp"))
    assert len(model.prompts) == 2
    for counted in (usage, scopes[-1]):
        assert (counted.requests, counted.input_tokens, counted.cost) == (2, 20_000, 2 * COST)


@pytest.mark.parametrize(
    ("limits", "resource"),
    [
        ({"tokens": 21_000}, "tokens"),
        ({"cost": Decimal("0.021")}, "cost"),
        ({"turns": 2}, "turns"),
        ({"steps": 2}, "steps"),
    ],
)
@pytest.mark.parametrize("level", ["run", "scope", "block", "function"])
async def test_a_budget_is_exceeded_by_the_usage_of_all_lives(
    tmp_path: Path, limits: dict[str, Any], resource: str, level: str
) -> None:
    model = PricedModel()
    life = 0

    async def work() -> None:
        await shout("cup")
        await shout("lamp")
        if life == 1:
            raise InterruptedError
        await shout("vase")

    async def program() -> None:
        if level == "function":
            await nh.budget(work, **limits)()
        elif level == "block":
            with nh.budget(**limits):
                await work()
        elif level == "scope":
            with nh.scope(budget=nh.budget(**limits)):
                await work()
        else:
            await work()

    with opened(tmp_path) as store:
        for life in (1, 2, 3):
            budget = nh.budget(**limits) if level == "run" else None
            error = InterruptedError if life == 1 else nh.BudgetExceededError
            with pytest.raises(error) as caught:
                await interrupted(store, model, program, budget=budget)
            if isinstance(caught.value, nh.BudgetExceededError):
                assert caught.value.resource == resource
    assert len(model.prompts) == 2


@pytest.mark.parametrize("level", ["run", "scope", "block"])
async def test_the_seconds_of_a_budget_add_up(tmp_path: Path, level: str) -> None:
    model = PricedModel()
    lives: list[Any] = []

    async def work() -> None:
        await shout("cup")
        if len(lives) == 1:
            scope.cancel()
        await shout("lamp")
        await shout("vase")

    async def program() -> None:
        budget = lives[-1]
        if level == "scope":
            with nh.scope(budget=budget):
                await work()
        elif level == "block":
            with budget:
                await work()
        else:
            await work()

    async def life(store: JournalStore) -> Any:
        lives.append(nh.budget(seconds=HOUR))
        return await interrupted(store, model, program, budget=lives[-1] if level == "run" else None)

    with opened(tmp_path) as store:
        with anyio.CancelScope() as scope:
            await life(store)
        change_tables(tmp_path, "UPDATE records SET at = at - 7200 WHERE place LIKE '%/budget[0]/counted[1]'")
    with opened(tmp_path) as store, pytest.raises(nh.BudgetExceededError, match="seconds"):
        await life(store)
    assert lives[0].spent.seconds < HOUR / 2
    assert lives[1].spent.seconds > HOUR
    assert "vase" not in "".join(model.prompts)
