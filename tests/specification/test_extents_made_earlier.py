"""A run or scope that is made first and entered later: what is in force where it is entered holds in it."""

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    model_response,
    pass_response,
    tool_call,
)

anyio_test = pytest.mark.anyio


@nh.natural_function
async def act() -> None:
    """natural
    Call <send>.
    """


sent: list[str] = []


def send(to: str) -> None:
    sent.append(to)


def executor_that_sends() -> nh.AgentStepExecutor:
    def answer(request: nh.models.ModelRequest) -> Any:
        end = tool_call("nh_outcome", kind="pass")
        if len(request.messages) > 1:
            return model_response(end)
        return model_response(tool_call("nh_eval", expression="send('ada')"))

    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))


def passing(call: StepCall) -> Any:
    return pass_response()


@anyio_test
async def test_a_scope_made_before_another_one_narrows_what_that_one_permits() -> None:
    sent.clear()
    async with nh.run(executor_that_sends()):
        inner = nh.scope()
        async with nh.scope(permissions=nh.permissions(default="deny")), inner:
            await act()
    assert sent == []


@anyio_test
async def test_a_scope_made_before_a_budget_is_within_it() -> None:
    async with nh.run(CallbackExecutor(passing)):
        inner = nh.scope(system_prompt_suffix_fragments=["Be brief."])
        with nh.budget(steps=0), inner:
            assert nh.runtime.get_system_prompt_suffix_fragments() == ("Be brief.",)
            with pytest.raises(nh.BudgetExceededError):
                await act()


@anyio_test
async def test_a_run_made_before_a_budget_is_within_it_and_counts_for_it() -> None:
    inner = nh.run(CallbackExecutor(passing))
    async with nh.run(CallbackExecutor(passing)) as outer:
        with nh.budget(steps=1) as budget:
            async with inner:
                await act()
                with pytest.raises(nh.BudgetExceededError):
                    await act()
    assert budget.spent.steps == 1
    assert outer.usage_meter.steps >= inner.usage_meter.steps > 0


@anyio_test
async def test_bad_arguments_of_a_scope_are_refused_where_it_is_made() -> None:
    async with nh.run(CallbackExecutor(passing)):
        bad: Any = "nothing of the kind"
        with pytest.raises(nh.NighthawkError, match="permissions must be"):
            nh.scope(permissions=bad)
    with pytest.raises(nh.NighthawkError, match="No run is active"), nh.scope():
        raise AssertionError
