"""Specification 13: the exceptions, and that each arrives as itself."""

import traceback
from typing import Any

import anyio
import pytest
import trio

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    raise_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(number: int = 0) -> int:
    """natural
    Set <:number>, or raise ValueError.
    """
    return number


@pytest.mark.parametrize(
    "error",
    [
        nh.NaturalParseError,
        nh.ExecutionError,
        nh.ToolEvaluationError,
        nh.ToolValidationError,
        nh.ToolRegistrationError,
    ],
)
def test_13_every_exception_is_a_nighthawk_error(error: type[Exception]) -> None:
    assert issubclass(error, nh.NighthawkError)
    assert issubclass(error, Exception)


def test_13_a_bad_block_is_a_natural_parse_error_with_file_and_line() -> None:
    with pytest.raises(nh.NaturalParseError) as caught:

        @nh.natural_function
        async def without_block() -> None:
            return None

    assert caught.value.filename == __file__
    assert caught.value.line is not None


@pytest.mark.parametrize("name", ["", "1st", "wörd", "two words", "nh_eval"])
def test_13_a_bad_tool_name_is_a_tool_registration_error(name: str) -> None:
    with pytest.raises(nh.ToolRegistrationError), nh.run(ScriptedExecutor()):
        nh.tool(name=name)(lambda: None)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (tool_call("nh_eval", expression="1 / 0"), "execution"),
        (tool_call("nh_eval", expression="nobody"), "resolution"),
        (tool_call("nh_assign", target_path="number", expression="'many'"), "invalid_input"),
        (tool_call("nh_assign", target_path="no.where", expression="1"), "resolution"),
        (tool_call("nh_eval"), "invalid_input"),
        (tool_call("nothing"), "resolution"),
    ],
)
async def test_13_tool_failures_are_told_to_the_model_and_not_raised(
    call: nh.models.ToolCall, kind: str
) -> None:
    model = ScriptedModel([model_response(call), model_response(DONE)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await act(7) == 7
    results = model.requests[1].messages[-1]
    assert isinstance(results, nh.models.ToolResultsMessage)
    assert results.results[0].is_error
    assert f'"kind": "{kind}"' in str(results.results[0].content[0])


@pytest.mark.parametrize(
    "error",
    [
        LookupError("own"),
        nh.ModelError("model"),
        ExceptionGroup("of the executor's own", [LookupError("one")]),
        SystemExit(3),
        KeyboardInterrupt(),
    ],
)
async def test_13_an_exception_of_the_executor_arrives_bare(error: BaseException) -> None:
    def answer(call: StepCall) -> StepResponse:
        raise error

    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(type(error)) as caught:
            await act()
    assert caught.value.args == error.args
    if isinstance(error, ExceptionGroup):  # Trio hands on a copy of a group
        assert error.exceptions == getattr(caught.value, "exceptions", None)
    else:
        assert caught.value is error


def test_13_ctrl_c_arrives_bare_from_a_tool_call_too() -> None:
    """On Trio; asyncio itself takes such an error out of its event loop, past every task."""

    async def leave() -> None:
        await anyio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    async def main() -> None:
        model = ScriptedModel([model_response(tool_call("nh_eval", expression="leave()"))])
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            with nh.scope(implicit_references={"leave": leave}), pytest.raises(KeyboardInterrupt):
                await act()

    trio.run(main)


async def test_13_a_raise_outcome_is_caught_as_its_own_type_where_the_block_stands() -> None:
    @nh.natural_function
    async def careful() -> str:
        try:
            """natural
            Raise ValueError.
            """
        except ValueError as error:
            return f"caught {error}"
        return "not raised"

    async with nh.run(ScriptedExecutor([raise_response("it", "ValueError")])):
        assert await careful() == "caught it"


async def test_13_a_traceback_shows_the_users_file_and_the_blocks_line() -> None:
    async with nh.run(ScriptedExecutor([raise_response("it", "ValueError")])):
        with pytest.raises(ValueError, match="it") as caught:
            await act()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "act")
    assert last.lineno == act.__wrapped__.__code__.co_firstlineno + 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["many", None])
async def test_13_a_failed_step_leaves_the_python_variable_as_it_was(value: Any) -> None:
    @nh.natural_function
    async def keep() -> list[int]:
        numbers = [1]
        try:
            """natural
            Set <:numbers>.
            """
        except nh.ExecutionError:
            return numbers
        return []

    async with nh.run(ScriptedExecutor([pass_response(numbers=value)])):
        assert await keep() == [1]


async def test_13_the_cause_of_a_refused_value_is_chained() -> None:
    async with nh.run(ScriptedExecutor([pass_response(number="many")])):
        with pytest.raises(nh.ExecutionError, match="write binding 'number' must be int") as caught:
            await act()
    assert isinstance(caught.value.__cause__, nh.ToolValidationError)
