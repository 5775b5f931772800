"""Budgets by windows of time, which a store keeps for all processes."""

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.journal import JournalStore
from nighthawk_async.journal.postgresql_database import PostgresqlDatabase
from nighthawk_async.journal.sqlite_database import SqliteDatabase
from nighthawk_async.testing import ModelResponse, model_response, tool_call
from nighthawk_async.testing.model_server import ModelServer
from tests.budget_functions import act
from tests.in_memory_workers import InMemoryWorkers
from tests.unit.asgi.dashboard.dashboard_client import data_of, fetch
from tests.unit.distributed.budget_support import DONE, executor_of

from .durable_runs import AnsweringModel, address_of, change_tables, opened, shout
from .queue_jobs import note
from .test_workers import health_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

USED = nh.Usage(requests=1, input_tokens=10_000, output_tokens=50)
COST = Decimal("0.01025")
NOTHING = nh.policies.BudgetAmounts()


class PricedModel(AnsweringModel):
    """Shouts, for a price.

    Attributes:
        before: Called before each response.
    """

    capabilities = nh.models.ModelCapabilities(
        max_output_tokens=50, price=nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))
    )

    def __init__(self) -> None:
        super().__init__(self._shout)
        self.before: Callable[[], object] = lambda: None

    def _shout(self, prompt: str, turn: int) -> ModelResponse:
        self.before()
        assign = tool_call("nh_assign", target_path="loud", expression="word.upper()")
        return model_response(assign, tool_call("nh_outcome", kind="pass"), usage=USED)


class HangingModel(PricedModel):
    """Begins no response, until it is cancelled."""

    def _shout(self, prompt: str, turn: int) -> ModelResponse:
        raise AssertionError

    def stream(self, request: nh.models.ModelRequest) -> Any:
        """Hang."""
        return _Hanging()


class _Hanging:
    async def __aenter__(self) -> None:
        await anyio.sleep_forever()

    async def __aexit__(self, *exc_details: object) -> None:
        pass


class Clock:
    """The clock of the databases."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def set(self, time: str) -> None:
        """Set it to a time in UTC."""
        seconds = datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()
        for database in (SqliteDatabase, PostgresqlDatabase):
            self._monkeypatch.setattr(database, "NOW", f"CAST({seconds!r} AS double precision)")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def spend(budget: nh.policies.Budget, model: PricedModel, times: int = 1) -> int:
    """Shout some times; return how often there was room."""
    done = 0
    async with nh.run(nh.AgentStepExecutor.from_model(model), budget=budget):
        for _ in range(times):
            try:
                await shout("cup")
                done += 1
            except nh.BudgetExceededError:
                break
    return done


async def test_a_day_ends_at_midnight_of_its_time_zone_also_for_a_clock_that_goes_back(
    tmp_path: Path, clock: Clock
) -> None:
    model = PricedModel()
    with opened(tmp_path) as store:
        budget = nh.budget(turns=2, cost=1, per="day", timezone="Europe/Zurich", store=store, name="team")
        clock.set("2026-03-28T22:59:30")  # 23:59 there
        assert await spend(budget, model, 3) == 2
        clock.set("2026-03-28T23:00:00")
        assert budget.spent == NOTHING
        assert budget.remaining == nh.policies.BudgetLimits(turns=2, cost=Decimal(1))
        assert await spend(budget, model) == 1
        clock.set("2026-03-28T22:59:59")  # the day before, whose limit still holds
        with pytest.raises(nh.BudgetExceededError) as caught:
            async with nh.run(nh.AgentStepExecutor.from_model(model), budget=budget):
                await shout("cup")
        error = caught.value
        assert str(error) == (
            "budget team: no room for 1 turn: 2 spent of 2 in the day until 2026-03-29 00:00 Europe/Zurich"
        )
        assert (error.budget, error.resource, error.limit, error.spent) == ("team", "turns", 2, 2)
        assert pickle.loads(pickle.dumps(error)).window == error.window
        clock.set("2026-03-29T21:59:59")  # a day of 23 hours
        assert (budget.spent.turns, budget.spent.cost) == (1, COST)
        assert await spend(budget, model, 2) == 1
        clock.set("2026-03-29T22:00:00")
        assert await spend(budget, model, 3) == 2
        assert budget.usage.requests == 6
        assert budget.reserved == NOTHING


async def test_rolling_windows_and_decisions_count_the_time_before(tmp_path: Path, clock: Clock) -> None:
    model = PricedModel()
    with opened(tmp_path) as store:
        rolling = nh.budget(tokens=20_500, per=timedelta(hours=2), store=store, name="rolling")
        decisions = nh.budget(decisions_per_hour=3, store=store)
        assert decisions.name == "decisions_per_hour=3"
        clock.set("2026-01-31T23:30")
        assert await spend(rolling, model) == 1
        clock.set("2026-02-01T00:45")
        assert await spend(rolling, model, 2) == 1
        clock.set("2026-02-01T01:30:59")  # of the minute before which it could have been
        assert await spend(rolling, model) == 0
        clock.set("2026-02-01T01:31")
        assert rolling.spent.tokens == 10_050
        assert await spend(rolling, model, 2) == 1
        clock.set("2026-01-31T23:31")  # backwards: what is spent later counts, too
        assert await spend(rolling, model) == 0

        clock.set("2026-02-01T10:00")
        assert await spend(decisions, model, 2) == 2
        clock.set("2026-02-01T10:59")
        assert await spend(decisions, model, 2) == 1
        clock.set("2026-02-01T11:01")
        assert decisions.remaining.steps == 2
        assert await spend(decisions, model, 3) == 2
        async with nh.run(nh.AgentStepExecutor.from_model(model), budget=decisions):
            with pytest.raises(nh.BudgetExceededError, match="3 spent of 3 in any hour"):
                await shout("cup")


async def test_a_request_counts_in_the_window_in_which_it_was_reserved(tmp_path: Path, clock: Clock) -> None:
    model = PricedModel()
    with opened(tmp_path) as store:
        budget = nh.budget(tokens=30_000, per="day", store=store)
        clock.set("2026-11-30T23:59:59")
        model.before = lambda: clock.set("2026-12-01T00:00:01")
        assert await spend(budget, model) == 1
        assert budget.spent.tokens == 0
        clock.set("2026-11-30T12:00")
        assert budget.spent.tokens == 10_050


async def test_several_stores_share_a_budget_and_never_exceed_it(tmp_path: Path) -> None:
    with opened(tmp_path) as first, opened(tmp_path) as second, opened(tmp_path) as third:
        stores = [first, second, third]
        budgets = [nh.budget(turns=10, cost=1, per="month", store=store, name="team") for store in stores]
        done: list[int] = []

        async def work(budget: nh.policies.Budget) -> None:
            done.append(await spend(budget, PricedModel(), 2))

        async with anyio.create_task_group() as group:
            for budget in budgets * 3:
                group.start_soon(work, budget)
        assert sum(done) == 10
        for budget in budgets:
            assert (budget.spent.turns, budget.spent.cost, budget.reserved) == (10, 10 * COST, NOTHING)
        assert sum(budget.usage.requests for budget in budgets) == 10
        (row,) = third.budgets()
        assert (row.name, [each.remaining for each in row.windows]) == ("team", [1 - 10 * COST, 0])


async def test_a_request_waits_for_what_another_process_returns(tmp_path: Path) -> None:
    async def hang(budget: nh.policies.Budget) -> None:
        async with nh.run(nh.AgentStepExecutor.from_model(HangingModel()), budget=budget):
            await shout("cup")

    async def reserved(budget: nh.policies.Budget) -> int:
        while not budget.reserved.tokens:
            await anyio.lowlevel.checkpoint()
        return budget.reserved.tokens

    done: list[int] = []

    async def wait(budget: nh.policies.Budget) -> None:
        done.append(await spend(budget, PricedModel()))

    with opened(tmp_path) as first, opened(tmp_path) as second:
        async with anyio.create_task_group() as group:
            measured = nh.budget(tokens=100_000, per="day", store=first)
            group.start_soon(hang, measured)
            bound = await reserved(measured)
            group.cancel_scope.cancel()
        limits: dict[str, Any] = {"tokens": 2 * bound - 10, "per": "day", "name": "team"}
        budget, same = (nh.budget(**limits, store=each) for each in (first, second))
        async with anyio.create_task_group() as group, anyio.create_task_group() as hanging:
            hanging.start_soon(hang, budget)
            await reserved(same)
            group.start_soon(wait, same)
            assert not done
            hanging.cancel_scope.cancel()
        assert done == [1]
        assert same.reserved == NOTHING  # what it has written behind is read after it
        assert budget.reserved == NOTHING


async def test_dead_processes_reserve_nothing_and_leases_end(tmp_path: Path) -> None:
    """What they have spent stays."""
    model = PricedModel()
    with opened(tmp_path) as store:
        budget = nh.budget(turns=3, per="day", store=store, name="team")
        assert await spend(budget, model) == 1
        columns = (
            "id, name, request, minute, holder, leased_until, charged, tokens, cost, steps, turns, tool_calls"
        )
        minute = int(datetime.now(UTC).timestamp() // 60)
        later, earlier = "99999999999", "1"
        for name, holder, until in (
            ("dead", "999999999:1:a:" + _machine() + ":here", later),
            ("away", "7:1:a:another-machine:there", later),
            ("lapsed", "7:1:a:another-machine:there", earlier),
        ):
            change_tables(
                tmp_path,
                f"INSERT INTO budget_reservations ({columns}) VALUES "
                f"('{name}', 'team', '', {minute}, '{holder}', {until}, '{{}}', 0, 0, 0, 1, 0)",
            )
        assert (budget.spent.turns, budget.reserved.turns, budget.remaining.turns) == (1, 1, 1)
        assert await spend(budget, model) == 1
        change_tables(tmp_path, "UPDATE budget_reservations SET leased_until = 1")
        assert await spend(budget, model, 2) == 1
        assert (budget.spent.turns, budget.reserved.turns) == (3, 0)


def _machine() -> str:
    from nighthawk_async.journal import holders

    return holders._machine()


async def test_a_life_charges_what_it_consumes_and_no_earlier_one_again(tmp_path: Path, clock: Clock) -> None:
    clock.set("2026-11-30T12:00")
    model = PricedModel()

    async def life(store: JournalStore, *words: str, budget: nh.policies.Budget) -> None:
        executor = nh.AgentStepExecutor.from_model(model)
        async with nh.run(executor, journal=store, run_id="run-1", budget=budget):
            for word in words:
                await shout(word)

    with opened(tmp_path) as store:
        budget = nh.budget(turns=3, cost=1, steps=3, per="day", store=store)
        await life(store, "a", "b", budget=budget)
        await life(store, "a", "b", "c", budget=budget)
        await life(store, "a", "b", "c", budget=budget)  # also where there is no room any more
        assert budget.spent == nh.policies.BudgetAmounts(turns=3, cost=3 * COST, steps=3)
        assert budget.reserved == NOTHING
        with pytest.raises(nh.BudgetExceededError):
            await life(store, "a", "b", "c", "d", budget=budget)
        assert budget.spent.steps == 3
        assert len(model.prompts) == 3

        # A process that was killed before it has settled: its next life does.
        change_tables(tmp_path, "UPDATE budget_spending SET amount = 2 WHERE resource = 'turns'")
        change_tables(tmp_path, "DELETE FROM budget_spending WHERE resource = 'cost'")
        columns = (
            "id, name, request, minute, holder, leased_until, charged, tokens, cost, steps, turns, tool_calls"
        )
        minute = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() // 60)
        place = next(each.place for each in store.records("run-1") if each.kind == "response")
        change_tables(
            tmp_path,
            f"INSERT INTO budget_reservations ({columns}) VALUES ('left', '{budget.name}', 'run-1 {place}', "
            f"{minute}, '999999999:1:a:b:c', 1, '{{}}', 0, 0, 0, 1, 0)",
        )
        for _ in range(2):
            await life(store, "a", "b", "c", budget=budget)
            assert (budget.spent.turns, budget.spent.cost) == (3, COST)


async def test_shared_budgets_are_one_however_often_they_are_active(tmp_path: Path) -> None:
    model = PricedModel()
    with opened(tmp_path) as store:
        budget = nh.budget(turns=9, per="day", store=store, name="team")
        equal = nh.budget(turns=9, per="day", store=store, name="team")
        other = nh.budget(turns=8, per="day", store=store, name="team")
        plain = nh.budget(steps=1)
        executor = nh.AgentStepExecutor.from_model(model)
        async with nh.run(executor, budget=budget):
            with equal:
                await nh.budget(shout, turns=9, per="day", store=store, name="team")("cup")
            with pytest.raises(nh.NighthawkError, match="active already, with other limits"), other:
                pass
            with pytest.raises(nh.NighthawkError, match="not as step_budget"), nh.scope(step_budget=budget):
                pass
            with plain:
                await shout("cup")
                with pytest.raises(nh.BudgetExceededError, match="steps=1"):
                    await shout("cup")
        assert budget.spent.turns == 2
        assert budget.fresh() is budget
        for duplicate in (pickle.dumps, copy.copy):
            with pytest.raises(nh.NighthawkError, match="kept in a store"):
                duplicate(budget.account)
        assert repr(budget) == "budget(turns=9 per day, name='team')"


async def test_a_shared_budget_has_the_last_request_conclude(tmp_path: Path) -> None:
    told: list[bool] = []

    class Thinking(PricedModel):
        def stream(self, request: nh.models.ModelRequest) -> Any:
            told.append("nearly spent" in str(request.messages[-1]))
            return super().stream(request)

        def _shout(self, prompt: str, turn: int) -> ModelResponse:
            if told[-1]:
                return super()._shout(prompt, turn)
            return model_response(tool_call("nh_eval", expression="word"), usage=USED)

    with opened(tmp_path) as store:
        budget = nh.budget(turns=3, per="hour", on_exceeded="conclude", store=store)
        assert await spend(budget, Thinking(), 2) == 1
    assert told == [False, False, True]


async def test_what_is_left_is_shown(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the metrics of workers, at the dashboard, and in the command line."""
    clock.set("2026-11-30T12:00")
    with opened(tmp_path) as store:
        worker = nh.journal.Worker(store, [note], run=lambda run_id: nh.run(journal=store, run_id=run_id))
        assert "nighthawk_budget" not in (await health_of(worker, "/metrics")).text
        budget = nh.budget(turns=4, cost=2, per="day", store=store, name='te"am')
        assert await spend(budget, PricedModel()) == 1
        lines = (await health_of(worker, "/metrics")).text.splitlines()
        labels = 'queue="default",budget="te\\"am",resource="turns",window="the day"'
        for name, value in (("limit", 4.0), ("spent", 1.0), ("remaining", 3.0)):
            assert f"nighthawk_budget_{name}{{{labels}}} {value}" in lines
        shown = data_of(await fetch(Dashboard(journal=store), "/api/budgets"))
        assert shown["budgets"][0] == {
            "name": 'te"am',
            "resource": "cost",
            "limit": "2",
            "spent": str(COST),
            "reserved": "0",
            "remaining": str(2 - COST),
            "window": "the day until 2026-12-01 00:00 UTC",
        }
    assert run_command_line(["journal", "budgets", address_of(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "LEFT" in output
    assert "1.98975" in output


async def test_calls_on_workers_are_charged_once_in_all_lives(tmp_path: Path) -> None:
    async with ModelServer(lambda _: DONE) as server, InMemoryWorkers() as workers:
        with opened(tmp_path) as store:
            budget = nh.budget(turns=3, steps=3, tokens=100_000, per="day", store=store)
            executor = executor_of(server.base_url)
            for _ in range(2):
                async with nh.run(executor, journal=store, run_id="run-1", budget=budget):
                    await nh.parallel.map(act, range(3), on=workers)
                assert (budget.spent.turns, budget.spent.steps) == (3, 3)
                assert budget.reserved == NOTHING
            assert len(server.requests) == 3
            async with nh.run(executor, budget=budget):
                with pytest.raises(nh.BudgetExceededError, match="3 spent of 3 in the day"):
                    await nh.parallel.map(act, range(1), on=workers)


async def test_an_unknown_price_is_refused_before_anything_is_reserved(tmp_path: Path) -> None:
    class Unpriced(PricedModel):
        capabilities = nh.models.ModelCapabilities(max_output_tokens=50)

    with opened(tmp_path) as store:
        budget = nh.budget(cost=1, per="day", store=store)
        with pytest.raises(nh.ConfigurationError, match="the price of the model is unknown"):
            await spend(budget, Unpriced())
        assert store.budgets() == []
        assert budget.reserved == NOTHING
        flat = nh.budget(cost=1, per="day", store=store, prices=lambda model, usage: Decimal("0.5"))
        assert await spend(flat, Unpriced(), 3) == 2
