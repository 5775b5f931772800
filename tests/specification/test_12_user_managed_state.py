"""Specification 12: persistence is the user's, through ordinary bindings."""

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")


class Memory:
    """What a user keeps."""

    def __init__(self) -> None:
        self.facts: dict[str, int] = {}
        self.title = ""


@nh.natural_function
async def learn(memory: Memory, carry: list[str]) -> None:
    """natural
    Remember what is new in <memory>, and add a line to <carry>.
    """


@nh.natural_function
async def learn_twice(carry: list[str]) -> int:
    """natural
    Add a line to <carry>.
    """
    between = len(carry)
    """natural
    Add another line to <carry>, and set <:between> to the number of lines.
    """
    return between


def executor(*responses: list[str]) -> nh.AgentStepExecutor:
    answers = [
        model_response(*[tool_call("nh_eval", expression=text) for text in texts], DONE)
        for texts in responses
    ]
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answers))


async def test_12_a_bound_object_is_mutated_in_place() -> None:
    memory, carry = Memory(), ["before"]
    calls = ["memory.facts.update(answer=42)", "setattr(memory, 'title', 'All')", "carry.append('after')"]
    async with nh.run(executor(calls)):
        await learn(memory, carry)
    assert (memory.facts, memory.title, carry) == ({"answer": 42}, "All", ["before", "after"])


async def test_12_1_carry_keeps_the_callers_reference_across_blocks() -> None:
    carry: list[str] = []
    answers = [
        model_response(tool_call("nh_eval", expression="carry.append('first')"), DONE),
        model_response(
            tool_call("nh_eval", expression="carry.append('second')"),
            tool_call("nh_assign", target_path="between", expression="len(carry)"),
            DONE,
        ),
    ]
    async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(answers))):
        assert await learn_twice(carry) == 2
    assert carry == ["first", "second"]


async def test_12_1_a_read_binding_cannot_be_rebound_in_python() -> None:
    carry = ["kept"]
    answer = model_response(tool_call("nh_assign", target_path="carry", expression="['replaced']"), DONE)
    async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel([answer]))):
        await learn(Memory(), carry)
    assert carry == ["kept"]
