"""What budgets limit, where they hold, and what they tell."""

import threading
from decimal import Decimal
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.hooks import BudgetThreshold, StepFinished, StepStarted
from nighthawk_async.resilience import budget as budget_per_call
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    tool_call,
)

from .budget_models import DONE, StagedModel, act, executor_of, known_model, set_number, used

pytestmark = pytest.mark.anyio

EVALUATE = tool_call("nh_eval", expression="1")


@nh.natural_function
def act_in_thread() -> None:
    """natural
    Do something.
    """


# ---- arguments


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "limits something"),
        ({"tokens": None}, "limits something"),
        ({"tokens": -1}, "tokens is a whole number"),
        ({"tokens": 1.5}, "tokens is a whole number"),
        ({"tokens": True}, "tokens is a whole number"),
        ({"turns": "3"}, "turns is a whole number"),
        ({"cost": -0.01}, "cost is a number of US dollars"),
        ({"cost": float("nan")}, "cost is a number of US dollars"),
        ({"cost": Decimal("inf")}, "cost is a number of US dollars"),
        ({"cost": False}, "cost is a number of US dollars"),
        ({"seconds": float("inf")}, "seconds is a number of seconds"),
        ({"steps": 1, "on_exceeded": "stop"}, "on_exceeded must be"),
        ({"steps": 1, "seconds": 1, "on_exceeded": "conclude"}, "'conclude' needs a limit of tokens"),
        ({"steps": 1, "name": ""}, "name of a budget"),
        ({"steps": 1, "thresholds": (0.5, 1.5)}, "thresholds are parts"),
        ({"steps": 1, "thresholds": 0.5}, "thresholds are parts"),
        ({"steps": 1, "max_output_tokens": 0}, "max_output_tokens"),
        (
            {"steps": 1, "prices": {"model": nh.models.ModelPrice(input=Decimal(1), output=Decimal(1))}},
            "provider:name",
        ),
        ({"steps": 1, "prices": {"a:b": 5}}, "must be a ModelPrice"),
        ({"steps": 1, "prices": {"a:b": nh.models.ModelPrice(input="1", output="1")}}, "of Decimals"),  # type: ignore[arg-type]
        ({"steps": 1, "prices": 5}, "prices is a mapping"),
    ],
)
def test_a_bad_argument_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(nh.NighthawkError, match=complaint):
        nh.budget(**arguments)


async def test_what_is_no_budget_is_refused_where_one_is_expected() -> None:
    with pytest.raises(nh.NighthawkError, match="budget must be a budget"):
        nh.run(executor_of(known_model()), budget=5)  # type: ignore[arg-type]
    async with nh.run(executor_of(known_model())):
        with pytest.raises(nh.NighthawkError, match="step_budget must be a budget"):
            nh.scope(step_budget=5)  # type: ignore[arg-type]


def test_a_budget_is_entered_within_a_run_only() -> None:
    with pytest.raises(nh.NighthawkError, match="No run is active"), nh.budget(steps=1):
        pass


# ---- reading


async def test_a_budget_tells_what_is_spent_and_left_also_afterwards() -> None:
    budget = nh.budget(tokens=10_000, cost=1, turns=5, name="the budget")
    async with nh.run(executor_of(known_model()), budget=budget) as run:
        await act()
        await act()
        assert budget.spent.tokens == 240
    assert (budget.spent.tokens, budget.spent.steps, budget.spent.turns) == (240, 2, 2)
    assert budget.cost == budget.spent.cost == 2 * (100 * Decimal(1) + 20 * Decimal(5)) / 1_000_000
    assert budget.remaining.tokens == 9_760
    assert budget.remaining.cost == 1 - budget.cost
    assert budget.remaining.turns == 3
    assert budget.remaining.steps is budget.limits.steps is None
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert budget.usage == run.usage_meter.usage
    assert budget.usage_by_model == {"scripted:model": budget.usage}
    assert "tokens=10000" in repr(budget)


async def test_the_time_of_a_budget_passes_only_while_it_is_in_force() -> None:
    budget = nh.budget(seconds=1_000)
    async with nh.run(executor_of(known_model())):
        with budget:
            await act()
        spent = budget.spent.seconds
        await act()
        assert budget.spent.seconds == spent > 0


# ---- what is counted


async def test_steps_beyond_the_limit_are_refused_before_they_begin() -> None:
    model = known_model()
    budget = nh.budget(steps=2, name="two steps")
    async with nh.run(executor_of(model), budget=budget):
        await act()
        await act()
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
    error = caught.value
    assert (error.budget, error.resource, error.limit, error.spent, error.asked) == (
        "two steps",
        "steps",
        2,
        2,
        1,
    )
    assert len(model.requests) == 2


async def test_steps_are_limited_whatever_carries_them_out() -> None:
    executor = CallbackExecutor(lambda call: StepResponse())
    async with nh.run(executor, budget=nh.budget(steps=1)):
        await act()
        with pytest.raises(nh.BudgetExceededError, match="no room for 1 step:"):
            await act()


async def test_turns_beyond_the_limit_are_refused_before_a_request_is_sent() -> None:
    model = known_model(model_response(EVALUATE), model_response(EVALUATE), model_response(DONE))
    async with nh.run(executor_of(model), budget=nh.budget(turns=2)):
        with pytest.raises(nh.BudgetExceededError, match="no room for 1 turn:"):
            await act()
    assert len(model.requests) == 2


async def test_tool_calls_beyond_the_limit_fail_the_step() -> None:
    model = known_model(model_response(EVALUATE, EVALUATE, EVALUATE, DONE))
    budget = nh.budget(tool_calls=2)
    async with nh.run(executor_of(model), budget=budget):
        with pytest.raises(nh.BudgetExceededError, match="no room for 1 tool call:"):
            await act()
    assert budget.spent.tool_calls == 2


# ---- where budgets hold


async def test_all_budgets_around_a_step_hold_and_are_charged() -> None:
    outer, middle, inner = nh.budget(steps=3), nh.budget(steps=2), nh.budget(steps=5)
    async with nh.run(executor_of(known_model()), budget=outer):
        with nh.scope(budget=middle):
            async with inner:
                await act()
                await act()
                with pytest.raises(nh.BudgetExceededError) as caught:
                    await act()
                assert middle.name == caught.value.budget
        await act()
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
        assert caught.value.limit == 3
    assert [budget.spent.steps for budget in (outer, middle, inner)] == [3, 2, 2]


async def test_what_one_budget_refuses_is_charged_to_none() -> None:
    outer, inner = nh.budget(steps=9), nh.budget(steps=0)
    async with nh.run(executor_of(known_model()), budget=outer):
        with inner, pytest.raises(nh.BudgetExceededError):
            await act()
    assert outer.spent.steps == 0


async def test_a_run_inside_a_run_is_under_its_budgets() -> None:
    executor = executor_of(known_model())
    outer = nh.budget(steps=1)
    async with nh.run(executor, budget=outer, step_budget=nh.budget(turns=5)), nh.run(executor):
        await act()
        with pytest.raises(nh.BudgetExceededError):
            await act()


async def test_each_step_of_a_run_inside_a_run_has_the_accounts_of_both() -> None:
    model = known_model(model_response(EVALUATE), model_response(DONE))
    executor = executor_of(model)
    async with nh.run(executor, step_budget=nh.budget(turns=1)), nh.run(executor):
        with pytest.raises(nh.BudgetExceededError):
            await act()


async def test_a_budget_that_was_left_is_charged_no_more() -> None:
    outer, inner = nh.budget(steps=5), nh.budget(steps=5)
    async with nh.run(executor_of(known_model())):
        with outer:
            with inner:
                await act()
            await act()
        await act()
    assert (outer.spent.steps, inner.spent.steps) == (2, 1)


async def test_a_budget_that_is_in_force_already_is_charged_once() -> None:
    budget = nh.budget(steps=2)
    async with nh.run(executor_of(known_model()), budget=budget):
        with budget, nh.scope(budget=budget):
            await act()
        assert budget.spent.steps == 1


async def test_each_step_has_an_account_of_its_own_under_a_step_budget() -> None:
    model = known_model(
        model_response(EVALUATE), model_response(DONE), model_response(EVALUATE), model_response(EVALUATE)
    )
    async with nh.run(executor_of(model), step_budget=nh.budget(turns=2, name="each step")):
        await act()
        with pytest.raises(nh.BudgetExceededError, match="each step: no room"):
            await act()


async def test_each_call_of_a_function_has_an_account_of_its_own() -> None:
    @nh.budget(steps=1)
    async def once() -> str:
        """Act once."""
        await act()
        return "done"

    @budget_per_call(steps=1)
    async def twice() -> None:
        await act()
        await act()

    assert once.__doc__ == "Act once."
    async with nh.run(executor_of(known_model())):
        assert [await once(), await once()] == ["done", "done"]
        with pytest.raises(nh.BudgetExceededError):
            await twice()


def test_a_synchronous_function_has_a_budget_per_call_in_any_thread() -> None:
    @nh.budget(steps=1)
    def once() -> None:
        act_in_thread()

    calm = budget_per_call(act_in_thread, steps=0)
    total = nh.budget(steps=3)
    with nh.run(executor_of(known_model()), budget=total):
        once()
        once()
        with pytest.raises(nh.BudgetExceededError):
            calm()
        act_in_thread()
        with pytest.raises(nh.BudgetExceededError):
            act_in_thread()


def test_a_generator_is_no_function_for_a_budget() -> None:
    def generate() -> Any:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        nh.budget(steps=1)(generate)
    with pytest.raises(TypeError, match="for a function"):
        nh.budget(steps=1)(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="generator"):
        budget_per_call(generate, steps=1)


async def test_tasks_that_enter_a_budget_at_once_share_its_account() -> None:
    budget = nh.budget(steps=3)
    refused = 0

    async def work() -> None:
        nonlocal refused
        async with budget:
            try:
                await act()
            except nh.BudgetExceededError:
                refused += 1

    async with nh.run(executor_of(known_model())):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(work)
        await act()
    assert (budget.spent.steps, refused) == (3, 2)


async def test_threads_share_the_account() -> None:
    budget = nh.budget(steps=20)
    refused: list[BaseException] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(10):
            try:
                act_in_thread()
            except nh.BudgetExceededError as error:
                refused.append(error)

    async with nh.run(executor_of(known_model()), budget=budget), anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(anyio.to_thread.run_sync, work)
    assert (budget.spent.steps, len(refused)) == (20, 20)


# ---- what a breach means to steps around it


@nh.natural_function
async def outer_step(help_me: Any) -> int:
    result: int
    """natural
    Ask <help_me> and set <:result>.
    """
    return result


ASK = tool_call("nh_assign", target_path="result", expression="await help_me()")


async def test_a_budget_that_the_outer_step_is_under_as_well_ends_it() -> None:
    model = known_model(model_response(ASK), model_response(DONE), model_response(DONE))
    async with nh.run(executor_of(model), budget=nh.budget(turns=1, name="both")):
        with pytest.raises(nh.BudgetExceededError, match="both"):
            await outer_step(act)
    assert len(model.requests) == 1


async def test_a_budget_of_the_inner_step_alone_is_a_failure_that_the_model_sees() -> None:
    @nh.budget(steps=0, name="inner")
    async def help_me() -> int:
        await act()
        return 1

    give_up = tool_call("nh_assign", target_path="result", expression="7")
    model = known_model(model_response(ASK), model_response(give_up, DONE))
    async with nh.run(executor_of(model), budget=nh.budget(turns=9)):
        assert await outer_step(help_me) == 7
    [result] = model.requests[1].messages[-1].results  # type: ignore[union-attr]
    assert result.is_error
    assert "budget inner" in str(result.content)


async def test_budgets_of_the_same_name_are_told_apart() -> None:
    @nh.budget(turns=0, name="same")
    async def help_me() -> None:
        await act()

    give_up = tool_call("nh_assign", target_path="result", expression="7")
    model = known_model(model_response(ASK), model_response(give_up, DONE))
    async with nh.run(executor_of(model), budget=nh.budget(turns=3, name="same")):
        assert await outer_step(help_me) == 7


async def test_a_step_pays_for_the_steps_that_its_tools_carry_out() -> None:
    model = known_model(model_response(ASK), model_response(EVALUATE), model_response(EVALUATE))
    async with nh.run(executor_of(model), step_budget=nh.budget(turns=2)):
        with pytest.raises(nh.BudgetExceededError):
            await outer_step(act)
    assert len(model.requests) == 2


@nh.natural_function
async def returning(help_me: Any) -> int:
    """natural
    Return what <help_me> gives.
    """
    return 0


async def test_a_breach_in_the_expression_of_the_outcome_reaches_the_host() -> None:
    end = tool_call("nh_outcome", kind="return", return_expression="await help_me()")
    model = known_model(model_response(end), model_response(DONE))
    async with nh.run(executor_of(model), budget=nh.budget(steps=1)):
        with pytest.raises(nh.BudgetExceededError):
            await returning(act)
    assert len(model.requests) == 1


async def test_a_breach_in_a_group_of_child_tasks_reaches_the_host() -> None:
    async def help_me() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act)
            tasks.start_soon(act)

    model = known_model(model_response(ASK))
    async with nh.run(executor_of(model), budget=nh.budget(steps=1)):
        with pytest.raises(nh.BudgetExceededError):
            await outer_step(help_me)


async def test_nothing_retries_a_breach() -> None:
    model = known_model()
    calls = 0

    @nh.resilience.retrying(attempts=3, wait=0)
    async def work() -> None:
        nonlocal calls
        calls += 1
        await act()

    async with nh.run(executor_of(model), budget=nh.budget(steps=0)):
        with pytest.raises(nh.BudgetExceededError):
            await work()
    assert calls == 1


# ---- time


@pytest.mark.virtual_time
async def test_a_step_is_cancelled_when_the_time_of_its_budget_is_over() -> None:
    async def slow(call: StepCall) -> StepResponse:
        await anyio.sleep(40)
        return StepResponse()

    budget = nh.budget(seconds=100, name="the time")
    async with nh.run(CallbackExecutor(slow), budget=budget):
        await act()
        await act()
        began = anyio.current_time()
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
        assert anyio.current_time() - began == pytest.approx(20)
        with pytest.raises(nh.BudgetExceededError):  # the time stays over, and no step begins any more
            await act()
    assert (caught.value.budget, caught.value.resource) == ("the time", "seconds")
    assert budget.spent.seconds == pytest.approx(100)
    assert budget.remaining.seconds == 0


@pytest.mark.virtual_time
async def test_the_model_of_an_outer_step_sees_the_end_of_an_inner_time() -> None:
    async def slow() -> None:
        await anyio.sleep(30)

    async def quick() -> int:
        async with nh.budget(seconds=10, name="short"):
            await outer_step(slow)
        return 1

    give_up = tool_call("nh_assign", target_path="result", expression="7")
    model = known_model(model_response(ASK), model_response(ASK), model_response(give_up, DONE))
    async with nh.run(executor_of(model), step_budget=nh.budget(seconds=50)):
        assert await outer_step(quick) == 7
        assert anyio.current_time() > 0
    assert "short" in str(model.requests[2].messages[-1])


@pytest.mark.virtual_time
async def test_a_step_that_swallows_the_end_of_the_time_is_late_all_the_same() -> None:
    async def stubborn(call: StepCall) -> StepResponse:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(30)
        return StepResponse()

    async def failing(call: StepCall) -> StepResponse:
        await stubborn(call)
        raise ValueError("late")

    for callback in (stubborn, failing):
        async with nh.run(CallbackExecutor(callback), step_budget=nh.budget(seconds=10)):
            with pytest.raises(nh.BudgetExceededError, match="seconds"):
                await act()


@pytest.mark.virtual_time
async def test_the_time_between_steps_counts_in_a_run_a_scope_and_a_block() -> None:
    async def idle_and_act() -> None:
        await act()
        await anyio.sleep(60)
        with pytest.raises(nh.BudgetExceededError, match="seconds"):
            await act()

    def make_time() -> nh.policies.Budget:
        return nh.budget(seconds=50)

    executor = executor_of(known_model())
    async with nh.run(executor, budget=make_time()):
        await idle_and_act()
    async with nh.run(executor):
        with nh.scope(budget=make_time()):
            await idle_and_act()
        with make_time() as budget:
            await idle_and_act()
        assert budget.spent.seconds == pytest.approx(60)


@pytest.mark.virtual_time
async def test_a_threshold_of_time_is_told_at_the_end_of_the_step_that_passed_it() -> None:
    async def slow(call: StepCall) -> StepResponse:
        await anyio.sleep(60)
        return StepResponse()

    hooks = nh.Hooks()
    told: list[float] = []
    hooks.on(BudgetThreshold, lambda event: told.append(event.fraction))
    budget = nh.budget(seconds=100, thresholds=(0.5,))
    async with nh.run(CallbackExecutor(slow), budget=budget, hooks=hooks):
        await act()
        assert told == [0.5]


@pytest.mark.virtual_time
async def test_the_time_of_a_budget_passes_while_a_step_waits_to_be_admitted() -> None:
    async def slow(call: StepCall) -> StepResponse:
        await anyio.sleep(50)
        return StepResponse()

    async def impatient() -> None:
        with pytest.raises(nh.BudgetExceededError), nh.budget(seconds=10):
            await act()
        assert anyio.current_time() - began == pytest.approx(10)

    async with nh.run(CallbackExecutor(slow), max_concurrent_steps=1) as run:
        began = anyio.current_time()
        run.task_group.start_soon(act)
        await checkpoint()
        await impatient()


@pytest.mark.virtual_time
async def test_the_time_of_a_budget_passes_for_tasks_that_have_outlived_its_block() -> None:
    async def slow(call: StepCall) -> StepResponse:
        await anyio.sleep(30)
        return StepResponse()

    errors: list[nh.BudgetExceededError] = []

    async def work() -> None:
        try:
            await act()
            await act()
        except nh.BudgetExceededError as error:
            errors.append(error)

    async with nh.run(CallbackExecutor(slow)) as run:
        with nh.budget(seconds=50):
            run.task_group.start_soon(work)
        began = anyio.current_time()
    assert anyio.current_time() - began == pytest.approx(50)
    assert [error.resource for error in errors] == ["seconds"]


# ---- telling


async def test_a_threshold_is_told_once_and_in_order() -> None:
    hooks = nh.Hooks()
    told: list[tuple[str, str, float, object]] = []

    @hooks.on(BudgetThreshold)
    async def listen(event: BudgetThreshold) -> None:
        told.append((event.budget, event.resource, event.fraction, event.spent))

    budget = nh.budget(steps=4, turns=100, name="watched", thresholds=(1, 0.5))
    async with nh.run(executor_of(known_model()), budget=budget, hooks=hooks):
        for _ in range(4):
            await act()
    assert told == [("watched", "steps", 0.5, 2), ("watched", "steps", 1.0, 4)]


async def test_a_hook_that_fails_at_a_threshold_fails_the_step() -> None:
    hooks = nh.Hooks()

    @hooks.on(BudgetThreshold)
    def listen(event: BudgetThreshold) -> None:
        raise ValueError("no")

    async with nh.run(
        executor_of(known_model()), budget=nh.budget(tokens=5_000, thresholds=[0.01]), hooks=hooks
    ):
        with pytest.raises(nh.errors.HookError, match="no"):
            await act()


# ---- concluding


async def test_the_last_request_that_fits_tells_the_model_to_conclude() -> None:
    model = known_model(model_response(EVALUATE, usage=used()), model_response(DONE, usage=used()))
    async with nh.run(executor_of(model), budget=nh.budget(turns=2, on_exceeded="conclude")):
        await act()
    first, last = model.requests
    assert "nearly spent" not in str(first.messages)
    assert first.tool_choice == "required"
    assert "nearly spent" in str(last.messages[-1])
    assert last.tool_choice == nh.models.NamedToolChoice(name="nh_outcome")
    assert last.tools == first.tools


async def test_a_budget_that_fails_tells_the_model_nothing() -> None:
    model = known_model()
    async with nh.run(executor_of(model), budget=nh.budget(turns=1)):
        await act()
    assert "nearly spent" not in str(model.requests[0].messages)


async def test_a_binding_that_has_a_value_already_need_not_be_set() -> None:
    @nh.natural_function
    async def improve(number: int = 1) -> int:
        """natural
        Improve <:number>.
        """
        return number

    model = known_model()
    async with nh.run(executor_of(model), budget=nh.budget(turns=1, on_exceeded="conclude")):
        assert await improve() == 1
    assert model.requests[0].tool_choice == nh.models.NamedToolChoice(name="nh_outcome")


async def test_a_model_that_has_something_left_to_set_may_still_set_it() -> None:
    assign = tool_call("nh_assign", target_path="number", expression="3")
    model = known_model(model_response(assign, DONE, usage=used()))
    async with nh.run(executor_of(model), budget=nh.budget(turns=1, on_exceeded="conclude")):
        assert await set_number() == 3
    assert "nearly spent" in str(model.requests[0].messages[-1])
    assert model.requests[0].tool_choice == "required"


@pytest.mark.parametrize(
    ("capabilities", "settings"), [({"forced_tool_choice": False}, {}), ({}, {"thinking_budget_tokens": 10})]
)
async def test_a_model_that_cannot_be_held_to_a_tool_is_only_told(
    capabilities: dict[str, Any], settings: dict[str, Any]
) -> None:
    model = known_model(**capabilities)
    executor = executor_of(model, model_settings=settings)
    async with nh.run(executor, budget=nh.budget(turns=1, on_exceeded="conclude")):
        await act()
    assert "nearly spent" in str(model.requests[0].messages[-1])
    assert model.requests[0].tool_choice == "required"


async def test_a_budget_that_has_no_room_for_one_request_fails_also_when_it_concludes() -> None:
    model = known_model()
    async with nh.run(executor_of(model), budget=nh.budget(tokens=100, on_exceeded="conclude")):
        with pytest.raises(nh.BudgetExceededError, match="tokens"):
            await act()
    assert model.requests == []


@pytest.mark.usefixtures("specification_profile")  # whose requests have about 1,500 tokens
async def test_tokens_that_have_room_for_one_more_request_only_conclude_as_well() -> None:
    model = known_model(model_response(EVALUATE, usage=used()), model_response(DONE, usage=used()))
    budget = nh.budget(tokens=3_200, on_exceeded="conclude")
    async with nh.run(executor_of(model), budget=budget):
        await act()
    assert ["nearly spent" in str(request.messages) for request in model.requests] == [True, True]


async def test_tool_calls_beyond_the_limit_are_answered_with_a_request_to_conclude() -> None:
    model = known_model(model_response(EVALUATE, EVALUATE), model_response(DONE))
    async with nh.run(executor_of(model), budget=nh.budget(tool_calls=1, on_exceeded="conclude")):
        await act()
    good, refused = model.requests[1].messages[-2].results  # type: ignore[union-attr]
    assert not good.is_error
    assert refused.is_error
    assert "no further tool calls" in str(refused.content)
    assert "nearly spent" in str(model.requests[1].messages[-1])


# ---- agents of the user's own


class OwnAgent:
    """Takes turns of its own and reports what they took."""

    def __init__(self, *usages: nh.Usage) -> None:
        self.usages = usages

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        for usage in self.usages:
            await task.turn_boundary()
            task.report_usage("own:model", usage)
        return nh.executors.PassStepOutcome()


async def test_an_agent_of_ones_own_is_charged_what_it_reports_and_refused_when_nothing_is_left() -> None:
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(used(), used()))
    budget = nh.budget(tokens=150, turns=9)
    async with nh.run(executor, budget=budget) as run:
        await act()
        with pytest.raises(nh.BudgetExceededError, match="tokens"):
            await act()
    assert (budget.spent.tokens, budget.spent.turns) == (240, 2)
    assert budget.usage == run.usage_meter.usage


async def test_the_turns_of_an_agent_of_ones_own_are_limited() -> None:
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(used(), used()))
    async with nh.run(executor, budget=nh.budget(turns=1)):
        with pytest.raises(nh.BudgetExceededError, match="turns"):
            await act()


async def test_the_model_of_an_agent_of_ones_own_needs_a_price_under_a_budget_of_cost() -> None:
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(used(), used()))
    async with nh.run(executor):
        with pytest.raises(nh.ConfigurationError, match="without a known price"), nh.budget(cost=1):
            await act()
        with nh.budget(
            cost=1, prices={"own:model": nh.models.ModelPrice(input=Decimal(1), output=Decimal(1))}
        ) as budget:
            await act()
    assert budget.cost == Decimal(240) / 1_000_000


async def test_an_agent_that_hands_its_task_on_is_charged_once() -> None:
    inner = executor_of(known_model()).agent

    class Around:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            return await inner.run(task)

    budget = nh.budget(tokens=1_000_000)
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Around()), budget=budget):
        await act()
    assert (budget.spent.tokens, budget.spent.turns) == (120, 1)


async def test_a_step_whose_time_is_over_has_failed_and_was_not_cancelled() -> None:
    async def wait_for_ever() -> None:
        await anyio.sleep_forever()

    for budgets in ({"budget": nh.budget(seconds=0.3)}, {"step_budget": nh.budget(seconds=0.3)}):
        hooks, told = nh.Hooks(), list[Any]()
        hooks.on(StepFinished, told.append)
        executor = executor_of(StagedModel(before=wait_for_ever))
        async with nh.run(executor, hooks=hooks):
            with nh.scope(**budgets), pytest.raises(nh.BudgetExceededError) as caught:  # type: ignore[arg-type]
                await act()
        [finished] = told
        assert (finished.error, finished.is_cancelled) == (caught.value, False)


async def test_a_step_that_is_cancelled_before_its_time_is_over_was_cancelled() -> None:
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(StepFinished, told.append)
    with anyio.CancelScope() as scope:

        async def cancel() -> None:
            scope.cancel()
            await checkpoint()

        async with nh.run(
            executor_of(StagedModel(before=cancel)), hooks=hooks, budget=nh.budget(seconds=900)
        ):
            await act()
    assert [each.is_cancelled for each in told] == [True]


async def test_the_time_of_a_budget_limits_the_hooks_of_the_beginning_of_a_step_as_well() -> None:
    hooks, told = nh.Hooks(), list[Any]()

    @hooks.on(StepStarted)
    async def wait(event: StepStarted) -> None:
        await anyio.sleep_forever()

    hooks.on(StepFinished, told.append)
    async with nh.run(executor_of(known_model()), hooks=hooks, budget=nh.budget(seconds=0.5)):
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert [type(each.error) for each in told] == [nh.BudgetExceededError]


async def test_a_step_without_any_time_has_neither_a_beginning_nor_an_end() -> None:
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(StepStarted, StepFinished)(told.append)
    for budgets in ({"budget": nh.budget(seconds=0)}, {"step_budget": nh.budget(seconds=0)}):
        async with nh.run(executor_of(known_model()), hooks=hooks, **budgets):  # type: ignore[arg-type]
            with pytest.raises(nh.BudgetExceededError):
                await act()
    assert told == []


# ---- telling everybody


async def test_a_threshold_that_a_run_inside_passes_is_told_to_the_hooks_of_the_run_around_it() -> None:
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(BudgetThreshold, lambda event: told.append((event.resource, event.fraction)))
    executor = executor_of(known_model())
    async with nh.run(executor, budget=nh.budget(steps=2, thresholds=(0.5,)), hooks=hooks):
        async with nh.run(executor):
            await act()
        assert told == [("steps", 0.5)]
        await act()
    assert told == [("steps", 0.5)]


async def test_hooks_that_were_not_in_force_are_told_later() -> None:
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(BudgetThreshold, lambda event: told.append(event.spent))
    async with nh.run(executor_of(known_model()), budget=nh.budget(steps=4, thresholds=(0.25,)), hooks=hooks):
        async with nh.scope(hooks=[], mode="replace"):
            await act()
        assert told == []
        await act()
        await act()
    assert told == [2]


async def test_a_hook_that_fails_at_a_threshold_does_not_keep_others_from_being_told() -> None:
    first, second, told = nh.Hooks(), nh.Hooks(), list[Any]()

    def fail(event: BudgetThreshold) -> None:
        raise ValueError("no")

    def listen(event: BudgetThreshold) -> None:
        told.append((event.resource, event.fraction))

    first.on(BudgetThreshold, fail)
    for hooks in (first, second):
        hooks.on(BudgetThreshold, listen)
    budget = nh.budget(steps=10, turns=10, thresholds=(0.1, 0.05))
    async with nh.run(executor_of(known_model()), budget=budget, hooks=[first, second]):
        for _ in range(4):  # each threshold of the first object fails one step
            with pytest.raises(nh.errors.HookError, match="no"):
                await act()
            if len(told) == 8:
                break
    assert sorted(told) == sorted(
        2 * [(resource, part) for resource in ("steps", "turns") for part in (0.05, 0.1)]
    )


async def test_a_threshold_whose_telling_was_cancelled_is_told_again() -> None:
    hooks, told = nh.Hooks(), list[Any]()

    @hooks.on(BudgetThreshold)
    async def listen(event: BudgetThreshold) -> None:
        told.append(event.fraction)
        if len(told) == 1:
            scope.cancel()
            await checkpoint()

    async with nh.run(executor_of(known_model()), budget=nh.budget(steps=4, thresholds=(0.25,)), hooks=hooks):
        with anyio.CancelScope() as scope:
            await act()
        await act()
        await act()
    assert told == [0.25, 0.25]


async def test_an_agent_of_ones_own_that_never_begins_a_turn_is_refused_before_its_step() -> None:
    class Hasty:
        async def run(self, task: Any) -> nh.executors.StepOutcome:
            task.report_usage("a:model", nh.Usage(requests=1, input_tokens=60))
            return nh.executors.PassStepOutcome()

    budget = nh.budget(tokens=100)
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Hasty()), budget=budget):
        await act()
        await act()
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert budget.spent.tokens == 120


async def test_a_budget_that_is_left_in_another_task_says_so() -> None:
    budget = nh.budget(steps=5)
    entered: list[nh.NighthawkError] = []

    async def enter() -> None:
        budget.__enter__()

    async def leave() -> None:
        with pytest.raises(nh.NighthawkError, match=r"left in another task") as caught:
            budget.__exit__(None, None, None)
        entered.append(caught.value)

    async with nh.run(executor_of(known_model())):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)
        with pytest.raises(nh.NighthawkError, match=r"left in another task"):
            budget.__exit__(None, None, None)
        with budget:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
            with nh.budget(steps=1), budget:
                await act()
    assert (len(entered), budget.spent.steps) == (1, 1)


# ---- one name


def test_both_names_are_one_function() -> None:
    assert nh.resilience.budget is nh.budget


async def test_methods_have_a_budget_per_call_and_hidden_coroutines_are_refused() -> None:
    class Worker:
        @nh.budget(steps=1)
        @staticmethod
        async def alone() -> None:
            await act()

        @nh.budget(steps=1)
        @classmethod
        async def of_all(cls) -> type:
            await act()
            return cls

    async with nh.run(executor_of(known_model())):
        await Worker.alone()
        assert await Worker().of_all() is Worker
        with pytest.raises(TypeError, match="gave an awaitable"):
            nh.budget(lambda: act(), steps=1)()


# ---- where they are entered


@nh.natural_function
async def act_within() -> None:
    """natural
    Call <nested>, whatever comes of it.
    """


async def nested() -> None:
    await act()


async def nested_in_budget() -> None:
    with nh.budget(steps=0):
        await act()


class WithBudget:
    """An executor that enters a budget around the agent of its outermost steps."""

    def __init__(self, model: Any, enter: Any) -> None:
        self.agent = nh.AgentStepExecutor.from_model(model=model)
        self.enter = enter

    async def run_step_async(self, **step: Any) -> Any:
        if nh.get_execution_ref().parent_execution_id is not None:
            return await self.agent.run_step_async(**step)
        with self.enter():
            return await self.agent.run_step_async(**step)


def no_steps() -> Any:
    return nh.budget(steps=0)


def scope_of_no_steps() -> Any:
    return nh.scope(budget=no_steps())


@pytest.mark.parametrize("enter", [no_steps, scope_of_no_steps])
async def test_a_model_is_told_of_no_refusal_by_a_budget_that_its_executor_entered(enter: Any) -> None:
    evaluate = tool_call("nh_eval", expression="nested()")
    model = ScriptedModel([model_response(evaluate), model_response(DONE)])
    async with nh.run(WithBudget(model, enter)), nh.scope(implicit_references={"nested": nested}):
        with pytest.raises(nh.BudgetExceededError, match="no room for 1 step"):
            await act_within()
    assert len(model.requests) == 1


async def test_a_model_is_told_of_a_refusal_by_a_budget_that_its_tool_entered() -> None:
    evaluate = tool_call("nh_eval", expression="nested()")
    model = ScriptedModel([model_response(evaluate), model_response(DONE)])
    executor = nh.AgentStepExecutor.from_model(model=model)
    async with nh.run(executor), nh.scope(implicit_references={"nested": nested_in_budget}):
        await act_within()
    assert "no room for 1 step" in str(model.requests[1].messages[-1].content)
