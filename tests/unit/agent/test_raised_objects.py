"""Raising an exception object by an expression, and raises after failed calls."""

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class OwnError(Exception):
    """Takes two arguments."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code


@nh.natural_function
async def charge(amount: int) -> int:
    """natural
    Charge <amount>. Raise OwnError with code and detail when it is too much, or ExceptionGroup.
    """
    return amount


@nh.natural_function
async def handle(error: Exception) -> str:
    """natural
    Decide what to do about <error>.
    """
    return "ignored"


def raising(expression: str) -> Any:
    return tool_call("nh_outcome", kind="raise", raise_expression=expression)


def scripted(*answers: Any, **configuration: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(answers)
    settings = nh.StepExecutorConfiguration(**configuration)
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=settings)


async def test_an_exception_with_arguments_of_its_own_is_raised() -> None:
    _, executor = scripted(model_response(raising("OwnError(amount, detail='too much')")))
    async with nh.run(executor):
        with pytest.raises(OwnError) as caught:
            await charge(7)
    assert (caught.value.code, caught.value.args) == (7, (7, "too much"))


async def test_the_identical_object_of_a_name_is_raised_whatever_its_type() -> None:
    error = KeyError("lost")
    model, executor = scripted(model_response(raising("error")))
    async with nh.run(executor):
        with pytest.raises(KeyError) as caught:
            await handle(error)
    assert caught.value is error
    assert "raise_expression" in model.requests[0].tools[-1].parameters["properties"]


async def test_a_class_made_in_the_block_is_raised_when_it_derives_from_what_is_allowed() -> None:
    made = tool_call(
        "nh_exec", statements="class TooMuch(OwnError):\n    def __init__(self): super().__init__(1, 'd')"
    )
    _, executor = scripted(model_response(made, raising("TooMuch")))
    async with nh.run(executor):
        with pytest.raises(OwnError) as caught:
            await charge(7)
    assert type(caught.value).__name__ == "TooMuch"


async def test_a_group_is_raised_where_the_program_names_it() -> None:
    _, executor = scripted(model_response(raising("ExceptionGroup('both', [ValueError(1), KeyError(2)])")))
    async with nh.run(executor):
        with pytest.raises(ExceptionGroup) as caught:
            await charge(7)
    assert len(caught.value.exceptions) == 2


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("'text'", "it gives an object of type str"),
        (
            "ValueError('no')",
            "allowed types: ExceptionGroup, OwnError; it gives an object of type ValueError",
        ),
        ("SystemExit(1)", "object of type SystemExit"),
        ("KeyboardInterrupt", "object of type type"),
        ("BaseExceptionGroup('g', [SystemExit()])", "object of type BaseExceptionGroup"),
        ("OwnError", "gives a class that needs arguments: TypeError"),
        ("OwnError(1)", "missing 1 required positional argument"),
        ("missing", "NameError: name"),
        ("OwnError(", "not a Python expression"),
    ],
)
async def test_what_is_no_allowed_exception_is_refused_and_told(expression: str, why: str) -> None:
    model, executor = scripted(
        model_response(raising(expression)), model_response(tool_call("nh_outcome", kind="pass"))
    )
    async with nh.run(executor):
        assert await charge(3) == 3
    assert why in str(model.requests[1].messages[-1])


async def test_what_a_refused_expression_called_is_told_to_be_done() -> None:
    model, executor = scripted(
        model_response(raising("str(amount)")), model_response(tool_call("nh_outcome", kind="pass"))
    )
    async with nh.run(executor):
        await charge(3)
    assert "raise_expression was evaluated: what it called is done" in str(model.requests[1].messages[-1])


async def test_an_expression_is_inspected_before_it_is_evaluated() -> None:
    seen: list[str] = []

    class Watching:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            return nh.oversight.Accept()

        def inspect_step_commit(
            self, commit: nh.oversight.StepCommit
        ) -> nh.oversight.Accept | nh.oversight.Reject:
            assert isinstance(commit.outcome, nh.executors.RaiseStepOutcome)
            seen.append(commit.outcome.raise_expression)
            return nh.oversight.Reject(reason="no") if "1/0" in seen[-1] else nh.oversight.Accept()

    _, executor = scripted(
        model_response(raising("OwnError(1/0, '')")), model_response(raising("OwnError(1, '')"))
    )
    async with nh.run(executor), nh.scope(oversight=Watching()):
        with pytest.raises(OwnError):
            await charge(7)
    assert seen == ["OwnError(1/0, '')", "OwnError(1, '')"]


async def test_a_raise_expression_is_not_offered_where_the_program_names_no_exception() -> None:
    @nh.natural_function
    async def act() -> None:
        """natural
        Do it.
        """

    model, executor = scripted(model_response(tool_call("nh_outcome", kind="pass")))
    async with nh.run(executor):
        await act()
    assert "raise_message" in model.requests[0].tools[-1].parameters["properties"]
    assert "raise_expression" not in model.requests[0].tools[-1].parameters["properties"]
    assert "raise_expression" not in model.requests[0].system_prompt


FAILING = tool_call("nh_eval", expression="1 / 0")


@pytest.mark.parametrize(
    "end",
    [
        tool_call("nh_outcome", kind="raise", raise_message="no such customer"),
        raising("OwnError(1, 'no such customer')"),
    ],
    ids=["message", "expression"],
)
async def test_a_raise_with_a_reason_of_its_own_ends_the_step_although_a_call_before_it_failed(
    end: nh.models.ToolCall,
) -> None:
    model, executor = scripted(model_response(FAILING, end))
    async with nh.run(executor):
        with pytest.raises((nh.ExecutionError, OwnError), match="no such customer"):
            await charge(7)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "end",
    [
        tool_call("nh_outcome", kind="pass"),
        tool_call("nh_outcome", kind="return", return_value=1),
        tool_call("nh_outcome", kind="raise", raise_message=""),
    ],
    ids=["pass", "return", "raise without a reason"],
)
async def test_no_other_outcome_after_a_failed_call_is_honoured(end: nh.models.ToolCall) -> None:
    model, executor = scripted(
        model_response(FAILING, end), model_response(tool_call("nh_outcome", kind="pass"))
    )
    async with nh.run(executor):
        assert await charge(3) == 3
    assert "calls before it failed: nh_eval" in str(model.requests[1].messages[-1])
