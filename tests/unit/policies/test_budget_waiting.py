"""Requests that wait for what others have set aside: who waits, in which order, and who does not."""

import threading
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.policies.budgets.account import BudgetAccount, Payer
from nighthawk_async.policies.budgets.reservation import Entry, Reservation, reserve, reserve_in_turn
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

from .budget_models import DONE, PRICE, StagedModel, act, executor_of, known_model, used

pytestmark = pytest.mark.anyio

Amounts = Mapping[Any, int]


def account(**limits: int) -> BudgetAccount:
    return nh.budget(**limits).account  # type: ignore[arg-type]


def settle(reservation: Reservation, *spent: Amounts) -> None:
    reservation.settle(spent, "a:model", nh.Usage())


class Line:
    """Tasks that reserve tokens in accounts, by name."""

    def __init__(self, tasks: Any) -> None:
        self.tasks = tasks
        self.reserved: dict[str, Reservation] = {}
        self.refused: dict[str, nh.BudgetExceededError] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}

    async def start(self, name: str, tokens: int, *accounts: BudgetAccount, payers: Any = ()) -> None:
        entries = [Entry(each, {"tokens": tokens}) for each in accounts]

        async def ask() -> None:
            with anyio.CancelScope() as self.scopes[name]:
                try:
                    self.reserved[name] = await reserve_in_turn(entries, payers=payers)
                except nh.BudgetExceededError as error:
                    self.refused[name] = error

        self.tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()


async def test_whoever_finds_no_room_for_now_waits_until_others_have_settled() -> None:
    total = account(tokens=100)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 80, total)
        await line.start("second", 60, total)
        assert (line.reserved.keys(), line.refused) == ({"first"}, {})
        settle(line.reserved["first"], {"tokens": 40})
        await anyio.wait_all_tasks_blocked()
        assert line.reserved.keys() == {"first", "second"}
        assert (total.spent.tokens, total.reserved.tokens) == (40, 60)


async def test_whoever_will_never_find_room_is_refused_at_once_and_when_that_shows() -> None:
    total = account(tokens=100)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 80, total)
        await line.start("too much", 101, total)
        await line.start("second", 60, total)
        assert line.refused.keys() == {"too much"}
        settle(line.reserved["first"], {"tokens": 50})
        await anyio.wait_all_tasks_blocked()
        assert line.refused.keys() == {"too much", "second"}
        assert (line.refused["second"].spent, line.refused["second"].asked) == (50, 60)
        assert total.reserved.tokens == 0


async def test_a_refusal_names_what_is_spent_and_not_what_others_have_only_set_aside() -> None:
    both = account(tokens=100, turns=1)
    settle(reserve([Entry(both, {"turns": 1})]), {"turns": 1})
    reserve([Entry(both, {"tokens": 100})])
    with pytest.raises(nh.BudgetExceededError) as caught:
        await reserve_in_turn([Entry(both, {"tokens": 60, "turns": 1})], payers=[])
    assert caught.value.resource == "turns"


async def test_the_line_keeps_its_order_and_small_requests_do_not_overtake() -> None:
    total, other = account(tokens=100), account(tokens=100)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 80, total)
        await line.start("large", 90, total)
        await line.start("small", 20, total)
        await line.start("elsewhere", 1, other)
        assert line.reserved.keys() == {"first", "elsewhere"}
        settle(line.reserved["first"], {"tokens": 0})
        await anyio.wait_all_tasks_blocked()
        assert line.reserved.keys() == {"first", "elsewhere", "large"}
        settle(line.reserved["large"], {"tokens": 0})
        await anyio.wait_all_tasks_blocked()
        assert "small" in line.reserved


async def test_who_waits_for_one_account_sets_nothing_aside_in_another() -> None:
    outer, inner = account(tokens=100), account(tokens=50)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 40, outer, inner)
        await line.start("second", 40, outer, inner)
        assert (outer.reserved.tokens, inner.reserved.tokens) == (40, 40)
        settle(line.reserved["first"], {"tokens": 10}, {"tokens": 10})
        await anyio.wait_all_tasks_blocked()
        assert (outer.reserved.tokens, inner.reserved.tokens) == (40, 40)


async def test_a_cancelled_one_leaves_the_line_and_those_behind_it_move() -> None:
    total = account(tokens=100)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 80, total)
        await line.start("large", 90, total)
        await line.start("small", 20, total)
        line.scopes["large"].cancel()
        await anyio.wait_all_tasks_blocked()
        assert line.reserved.keys() == {"first", "small"}
        assert total.reserved.tokens == 100


async def test_one_that_is_cancelled_as_its_turn_comes_gives_it_back() -> None:
    total = account(tokens=100)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 80, total)
        await line.start("second", 90, total)
        await line.start("third", 50, total)
        settle(line.reserved["first"], {"tokens": 0})
        line.scopes["second"].cancel()
        await anyio.wait_all_tasks_blocked()
        if "second" in line.reserved:  # it was faster; both is right
            settle(line.reserved["second"], {"tokens": 0})
            await anyio.wait_all_tasks_blocked()
        assert (total.reserved.tokens, "third" in line.reserved) == (50, True)


async def test_a_step_with_something_set_aside_and_the_steps_inside_it_never_wait() -> None:
    total, outer, inner = account(tokens=100), Payer(), Payer()
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("outer", 60, total, payers=[outer])
        await line.start("waiting", 90, total, payers=[Payer()])
        await line.start("inner", 60, total, payers=[outer, inner])
        assert (line.refused.keys(), line.refused["inner"].reserved) == ({"inner"}, 60)
        await line.start("small", 40, total, payers=[outer, inner])
        assert line.reserved.keys() == {"outer", "small"}
        settle(line.reserved["small"], {"tokens": 0})
        settle(line.reserved["outer"], {"tokens": 10})
        await anyio.wait_all_tasks_blocked()
        assert line.reserved.keys() == {"outer", "small", "waiting"}
        settle(line.reserved["waiting"], {"tokens": 0})
        await line.start("inner again", 60, total, payers=[outer, inner])
        assert "inner again" in line.reserved


def test_those_who_wait_in_other_threads_are_woken() -> None:
    total = account(tokens=100)
    order: list[str] = []
    is_reserved, may_settle = threading.Event(), threading.Event()

    async def hold() -> None:
        reservation = await reserve_in_turn([Entry(total, {"tokens": 80})], payers=[])
        is_reserved.set()
        await anyio.to_thread.run_sync(may_settle.wait)
        order.append("settled")
        settle(reservation, {"tokens": 10})

    async def wait() -> None:
        may_settle.set()
        await reserve_in_turn([Entry(total, {"tokens": 80})], payers=[])
        order.append("woken")

    holder = threading.Thread(target=anyio.run, args=[hold], kwargs={"backend": "trio"})
    holder.start()
    is_reserved.wait()
    anyio.run(wait, backend="asyncio")
    holder.join()
    assert order == ["settled", "woken"]


# ---- steps


async def test_siblings_whose_requests_find_no_room_at_once_all_succeed() -> None:
    for on_exceeded in ("fail", "conclude"):
        model = StagedModel(before=checkpoint)
        model.capabilities = nh.models.ModelCapabilities(max_output_tokens=8_000, price=PRICE)
        budget = nh.budget(tokens=25_000, on_exceeded=on_exceeded)  # type: ignore[arg-type]
        async with nh.run(executor_of(model), budget=budget):
            await nh.parallel.map(lambda _: act(), range(10))
        assert (budget.spent.turns, budget.spent.tokens, budget.reserved.tokens) == (10, 1_200, 0)


async def test_a_model_is_told_to_conclude_by_what_is_spent_and_not_by_what_siblings_set_aside() -> None:
    told: list[bool] = []

    def answer(request: nh.models.ModelRequest) -> Any:
        told.append("nearly spent" in str(request.messages[-1]))
        return model_response(DONE, usage=used())

    capabilities = nh.models.ModelCapabilities(max_output_tokens=8_000)
    model = ScriptedModel(answer, capabilities=capabilities)
    budget = nh.budget(tokens=25_000, on_exceeded="conclude")
    async with nh.run(executor_of(model), budget=budget):
        await nh.parallel.map(lambda _: act(), range(5))
    assert told == [False] * 5


@nh.natural_function
async def ask_for_help(help_me: Any) -> None:
    """natural
    Ask <help_me>.
    """


@pytest.mark.usefixtures("specification_profile")  # whose requests have about 1,500 tokens
async def test_a_step_of_a_tool_does_not_wait_for_the_request_that_called_the_tool() -> None:
    ended = anyio.Event()
    refused: list[nh.BudgetExceededError] = []

    async def help_me() -> None:
        try:
            async with nh.run(executor_of(known_model())):  # a run inside is under the same budgets
                await act()
        except nh.BudgetExceededError as error:
            refused.append(error)
        finally:
            ended.set()

    class CallsBeforeItsEnd(StagedModel):
        async def _events(self) -> Any:
            call = model_response(tool_call("nh_eval", expression="await help_me()"), usage=used())
            for event in call.events:
                if isinstance(event, nh.models.ResponseFinished):
                    await ended.wait()
                yield event

    budget = nh.budget(tokens=2_600)
    async with nh.run(executor_of(CallsBeforeItsEnd(), max_turns=1), budget=budget):
        with pytest.raises((nh.errors.StepLimitError, nh.BudgetExceededError)), anyio.fail_after(240):
            await ask_for_help(help_me)
    assert len(refused) == 1
    assert budget.reserved.tokens == 0


# ---- every schedule


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], int, list[int], int, int | None]:
    accounts = draw(st.sampled_from([[0], [1], [0, 1], [0, 2], [0, 1, 2]]))
    asked = draw(st.integers(1, 60))
    patience = draw(st.none() | st.integers(0, 12))
    attempts = draw(st.lists(st.integers(0, asked), min_size=1, max_size=3))
    return accounts, asked, attempts, draw(st.integers(0, 4)), patience


@given(plan=st.lists(requests(), min_size=1, max_size=10))
async def test_under_every_schedule_nobody_waits_for_ever_and_nothing_is_overspent(plan: Any) -> None:
    accounts = [account(tokens=limit) for limit in (100, 60, 40)]
    refused: list[nh.BudgetExceededError] = []
    missing: list[Any] = []

    def check() -> None:
        for each in accounts:
            assert 0 <= each.spent.tokens + each.reserved.tokens <= (each.terms.limits.tokens or 0)

    async def play(
        positions: list[int], asked: int, attempts: list[int], duration: int, patience: int | None
    ) -> None:
        def in_each(tokens: int) -> list[Amounts]:
            return [{"tokens": tokens} for _ in positions]

        async def work() -> None:
            spent = 0
            entries = [Entry(accounts[position], {"tokens": asked}) for position in positions]
            try:
                reservation = await reserve_in_turn(entries, payers=[Payer()])
            except nh.BudgetExceededError as error:
                refused.append(error)
                return
            try:
                for position, consumed in enumerate(attempts):
                    if position and not reservation.renew(in_each(spent), in_each(asked)):
                        break
                    spent += consumed
                    for _ in range(duration):
                        check()
                        await checkpoint()
            except nh.BudgetExceededError as error:  # no room for another attempt, whatever others do
                missing.append(error.spent + spent + asked - error.limit)
            finally:
                settle(reservation, *in_each(spent))
                check()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            if patience is not None:
                for _ in range(patience):
                    await checkpoint()
                tasks.cancel_scope.cancel()

    with anyio.fail_after(240):
        async with anyio.create_task_group() as tasks:
            for each in plan:
                tasks.start_soon(play, *each)
    assert [each.reserved.tokens for each in accounts] == [0, 0, 0]
    assert all(error.spent + error.asked > error.limit for error in refused)
    assert all(tokens > 0 for tokens in missing)


async def test_an_agent_of_ones_own_is_not_refused_for_what_others_have_only_set_aside() -> None:
    class Quick:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            await task.turn_boundary()
            return nh.executors.PassStepOutcome()

    budget = nh.budget(tokens=100)
    set_aside = reserve([Entry(budget.account, {"tokens": 100})])
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Quick()), budget=budget):
        await act()
        settle(set_aside, {"tokens": 100})
        with pytest.raises(nh.BudgetExceededError):
            await act()


async def test_what_an_attempt_gives_back_lets_others_go_on() -> None:
    total = account(tokens=1_000)
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        await line.start("first", 800, total)
        await line.start("second", 500, total)
        assert line.reserved.keys() == {"first"}
        line.reserved["first"].renew([{"tokens": 10}], [{"tokens": 200}])
        await anyio.wait_all_tasks_blocked()
        assert line.reserved.keys() == {"first", "second"}


async def test_another_attempt_finds_no_room_for_now_or_for_good() -> None:
    total = account(tokens=1_000)
    others = reserve([Entry(total, {"tokens": 500})])
    mine = reserve([Entry(total, {"tokens": 400})])
    assert not mine.renew([{"tokens": 200}], [{"tokens": 400}])
    assert total.reserved.tokens == 500 + 200
    with pytest.raises(nh.BudgetExceededError) as caught:
        mine.renew([{"tokens": 300}], [{"tokens": 701}])
    assert (caught.value.reserved, caught.value.asked) == (500 + 300, 701)
    assert total.reserved.tokens == 500 + 300
    others.cancel()
    assert mine.renew([{"tokens": 300}], [{"tokens": 700}])
    assert total.reserved.tokens == 1_000
