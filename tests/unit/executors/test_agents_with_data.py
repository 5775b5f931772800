"""Agents of the user's own give data: values of write bindings, a value to return, whole answers."""

from collections.abc import Awaitable, Callable

import pytest

import nighthawk_async as nh

pytestmark = pytest.mark.anyio


@nh.natural_function
async def rate(text: str) -> tuple[str, int]:
    label: str
    stars: int = 0
    """natural
    Set <:label> and <:stars> for <text>.
    """
    return label, stars


class Agent:
    def __init__(self, run: Callable[[nh.executors.AgentTask], Awaitable[nh.executors.StepOutcome]]) -> None:
        self._run = run

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        return await self._run(task)


async def rated_by(
    run: Callable[[nh.executors.AgentTask], Awaitable[nh.executors.StepOutcome]],
) -> tuple[str, int]:
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Agent(run))):
        return await rate("fine")


async def test_an_agent_sets_write_bindings_to_data_and_learns_what_does_not_fit() -> None:
    async def run(task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        with pytest.raises(nh.ExecutionError, match=r"bindings.stars must be int.*set already: label"):
            await task.set_bindings({"label": "good", "stars": "many"})
        await task.set_bindings({"stars": 5})
        return nh.executors.PassStepOutcome()

    assert await rated_by(run) == ("good", 5)


async def test_an_agent_returns_a_value() -> None:
    async def run(task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        return nh.executors.ReturnStepOutcome(return_value=["good", 4])

    assert await rated_by(run) == ("good", 4)


async def test_an_agent_that_answers_under_the_schema_gives_the_whole_answer() -> None:
    async def run(task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        bindings = task.answer_schema["properties"]["bindings"]["properties"]
        assert bindings == {"label": {"type": "string"}, "stars": {"type": "integer"}}
        with pytest.raises(nh.ExecutionError, match=r"bindings.size: the block has no such variable"):
            await task.take_answer({"kind": "pass", "bindings": {"size": 3}})
        outcome = await task.take_answer({"kind": "pass", "bindings": {"label": "good", "stars": 3}})
        await task.conclude(outcome)
        return outcome

    assert await rated_by(run) == ("good", 3)


async def test_a_wrong_value_to_return_fails_as_before() -> None:
    async def run(task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        return nh.executors.ReturnStepOutcome(return_value="many")

    with pytest.raises(nh.ExecutionError, match="the return value must be"):
        await rated_by(run)


def test_an_outcome_has_a_value_or_an_expression() -> None:
    with pytest.raises(ValueError, match="not both"):
        nh.executors.ReturnStepOutcome(return_expression="1", return_value=1)
    with pytest.raises(ValueError, match="raise_message"):
        nh.executors.RaiseStepOutcome(raise_message="m", raise_expression="error")
    assert nh.executors.ReturnStepOutcome(return_value=None) != nh.executors.ReturnStepOutcome(
        return_expression="None"
    )
