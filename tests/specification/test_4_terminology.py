"""Section 4: the words, as a program meets them."""

from dataclasses import fields
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, ScriptedExecutor, StepCall, StepResponse, pass_response
from tests.specification.scripted_steps import PASS, ScriptedSteps

pytestmark = pytest.mark.anyio


@nh.natural_function
async def docstring_block(value: int) -> None:
    """natural
    Docstring block of <value>.
    """


@nh.natural_function
async def inline_blocks(value: int) -> None:
    """Not a natural block."""
    """natural
    Inline block of <value>.
    """
    f"""natural
    Inline block of {value}.
    """


async def test_4_a_natural_block_is_a_docstring_or_an_inline_literal() -> None:
    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await docstring_block(1)
        await inline_blocks(2)
    assert [call.natural_program for call in executor.calls] == [
        "Docstring block of <value>.\n",
        "Inline block of <value>.\n",
        "Inline block of 2.\n",
    ]


async def test_4_a_step_context_is_made_for_each_step_and_has_a_step_id() -> None:
    contexts: list[nh.StepContext] = []

    def keep(call: StepCall) -> StepResponse:
        contexts.append(nh.get_current_step_context())
        assert contexts[-1].step_id == call.step_id == nh.get_execution_ref().step_id
        return pass_response()

    async with nh.run(CallbackExecutor(keep)):
        await inline_blocks(1)
        await inline_blocks(1)
    assert len({id(context) for context in contexts}) == 4
    assert len({id(context.step_locals) for context in contexts}) == 4
    module, line = contexts[0].step_id.split(":")
    assert module == __name__
    assert int(line) == inline_blocks.__wrapped__.__code__.co_firstlineno + 3  # type: ignore[attr-defined]
    assert [context.step_id for context in contexts[:2]] == [context.step_id for context in contexts[2:]]
    assert contexts[0].step_id != contexts[1].step_id


def test_4_a_step_context_carries_no_model_configuration() -> None:
    names = " ".join(field.name for field in fields(nh.StepContext))
    for word in ("model", "prompt", "configuration", "temperature"):
        assert word not in names


async def test_4_step_globals_are_the_globals_of_the_compiled_functions_module() -> None:
    seen: list[Any] = []

    def keep(call: StepCall) -> StepResponse:
        seen.append(nh.get_current_step_context().step_globals)
        return pass_response()

    async with nh.run(CallbackExecutor(keep)):
        await docstring_block(1)
    assert seen[0] is globals()


async def test_4_prompt_suffix_fragments_stand_at_the_end_of_the_prompts_of_their_scope() -> None:
    steps = ScriptedSteps(PASS, PASS)
    async with nh.run(steps.executor):
        with nh.scope(
            system_prompt_suffix_fragments=["SYSTEM END"], user_prompt_suffix_fragments=["USER END"]
        ):
            await docstring_block(1)
        await docstring_block(1)
    inside, outside = steps.model.requests
    assert inside.system_prompt.rstrip().endswith("SYSTEM END")
    assert steps.user_prompt.rstrip().endswith("USER END")
    assert "SYSTEM END" not in outside.system_prompt
    assert "USER END" not in str(outside.messages)


async def test_4_the_allowed_outcome_set_depends_on_the_block() -> None:
    @nh.natural_function
    async def blocks() -> None:
        """natural
        ---
        deny: [return]
        ---
        Outside.
        """
        for _ in range(1):
            """natural
            Inside.
            """

    executor = ScriptedExecutor(default_response=pass_response())
    async with nh.run(executor):
        await blocks()
    assert [call.allowed_step_kinds for call in executor.calls] == [
        ("pass", "raise"),
        ("pass", "return", "break", "continue", "raise"),
    ]
    assert executor.calls[0].natural_program == "Outside.\n"
