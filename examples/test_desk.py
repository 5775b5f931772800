"""Tests of a natural function: with a scripted executor, and with a real answer that was recorded once."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, cassette, pass_response

pytestmark = pytest.mark.anyio
CASSETTE = Path(__file__).parent / "cassettes" / "desk.yaml"


@nh.natural_function
async def is_urgent(mail: str) -> bool:
    urgent: bool = nh.unset
    """natural
    Set <:urgent> to whether <mail> needs an answer today.
    """
    return urgent


async def test_the_values_of_the_block_are_returned() -> None:
    executor = ScriptedExecutor([pass_response(urgent=True)])
    async with nh.run(executor):
        assert await is_urgent("The cellar is under water!")
    assert executor.calls[0].step_locals["mail"] == "The cellar is under water!"


async def test_the_answer_of_a_real_model() -> None:
    recorded = nh.StepExecutorConfiguration(
        model="openai-chat:gpt-5-nano",
        profile="specification",
        code="shown",
        provided_tools=("nh_eval", "nh_assign", "nh_exec"),
    )
    async with cassette(CASSETTE), nh.run(recorded):
        assert not await is_urgent("I wish you a nice summer.")
