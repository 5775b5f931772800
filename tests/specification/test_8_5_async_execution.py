"""Specification 8.5: awaitables, and steps that run concurrently."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio


async def fetch(name: str) -> str:
    await checkpoint()
    return name.upper()


@nh.natural_function
async def greet(name: str) -> str:
    result = ""
    """natural
    Set <:result> with <fetch> of <name>.
    """
    return result


@nh.natural_function
def greet_from_sync(name: str) -> str:
    result = ""
    """natural
    Set <:result> with <fetch> of <name>.
    """
    return result


def calling(*calls: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel([model_response(*calls), model_response(tool_call("nh_outcome", kind="pass"))])
    return model, nh.AgentStepExecutor.from_model(model=model)


@pytest.mark.parametrize("expression", ["fetch(name)", "await fetch(name)"])
async def test_8_5_an_awaitable_of_nh_eval_is_awaited_before_the_model_sees_it(expression: str) -> None:
    model, executor = calling(tool_call("nh_eval", expression=expression))
    async with nh.run(executor):
        await greet("ada")
    results = model.requests[1].messages[-1]
    assert isinstance(results, nh.models.ToolResultsMessage)
    assert results.results[0].content == ('{"value": "ADA", "error": null}',)


async def test_8_5_an_awaitable_of_nh_assign_is_awaited_before_it_is_assigned() -> None:
    _, executor = calling(tool_call("nh_assign", target_path="result", expression="fetch(name)"))
    async with nh.run(executor):
        assert await greet("ada") == "ADA"


async def test_8_5_an_awaitable_return_value_is_awaited_before_validation() -> None:
    async with nh.run(ScriptedExecutor([return_response("fetch(name)")])):
        assert await greet("ada") == "ADA"


def test_8_5_a_sync_natural_function_that_returns_an_awaitable_fails() -> None:
    executor = ScriptedExecutor([return_response("fetch(name)")])
    with nh.run(executor), pytest.raises(nh.ExecutionError, match="awaitable"):
        greet_from_sync("ada")


def test_8_3_awaitables_of_tool_calls_are_awaited_in_sync_natural_functions_too() -> None:
    _, executor = calling(tool_call("nh_assign", target_path="result", expression="fetch(name)"))
    with nh.run(executor):
        assert greet_from_sync("ada") == "ADA"


async def test_8_5_an_error_of_an_awaited_return_value_is_an_execution_error_with_its_cause() -> None:
    async with nh.run(ScriptedExecutor([return_response("fetch(3)")])):
        with pytest.raises(nh.ExecutionError, match=r"'fetch.3.'.*AttributeError") as caught:
            await greet("ada")
    assert isinstance(caught.value.__cause__, nh.ToolEvaluationError)


async def test_8_5_concurrent_steps_have_independent_contexts() -> None:
    everybody_is_in = anyio.Event()
    contexts: list[nh.StepContext] = []
    results: dict[str, str] = {}

    async def answer(call: StepCall) -> StepResponse:
        contexts.append(nh.get_current_step_context())
        if len(contexts) == 10:
            everybody_is_in.set()
        await everybody_is_in.wait()
        own = nh.get_current_step_context()
        assert own.step_locals["name"] == call.step_locals["name"]
        return pass_response(result=f"hello {own.step_locals['name']}")

    async def one(name: str) -> None:
        results[name] = await greet(name)

    async with nh.run(CallbackExecutor(answer)), anyio.create_task_group() as task_group:
        for number in range(10):
            task_group.start_soon(one, f"name {number}")
    assert results == {f"name {number}": f"hello name {number}" for number in range(10)}
    assert len({id(context) for context in contexts}) == 10


async def test_8_5_parallel_calls_of_async_functions_overlap_and_results_keep_the_calls_order() -> None:
    waiting = 0
    all_in = anyio.Event()

    async def meet(number: int) -> int:
        nonlocal waiting
        waiting += 1
        if waiting == 8:
            all_in.set()
        await all_in.wait()  # one after the other, the first would wait for ever
        return number

    model, executor = calling(*[tool_call("nh_eval", expression=f"meet({number})") for number in range(8)])
    async with nh.run(executor):
        with nh.scope(implicit_references={"meet": meet}), anyio.fail_after(240):
            await greet("ada")
    results = model.requests[1].messages[-1]
    assert isinstance(results, nh.models.ToolResultsMessage)
    assert [result.content for result in results.results] == [
        (f'{{"value": {number}, "error": null}}',) for number in range(8)
    ]


@pytest.mark.parametrize("function", [lambda name: name.title(), nh.blocking(lambda name: name.title())])
async def test_8_5_sync_binding_functions_give_their_value_in_async_functions(
    function: Callable[[str], str],
) -> None:
    async with nh.run(ScriptedExecutor([return_response("function(name)")])):
        with nh.scope(implicit_references={"function": function}):
            assert await greet("ada") == "Ada"
