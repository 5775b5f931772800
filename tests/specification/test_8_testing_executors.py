"""What users test with: scripted and callback executors, and the scripted model."""

import gc
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    break_response,
    continue_response,
    model_response,
    pass_response,
    raise_response,
    return_response,
    tool_call,
)
from tests.specification.scripted_steps import PASS

pytestmark = pytest.mark.anyio

FACTOR = 2


class Refused(Exception):  # noqa: N818
    """A refusal."""


@nh.natural_function
async def classify(text: str) -> object:
    label = ""
    """natural
    Set <:label> for <text> times <FACTOR>, or raise Refused.
    """
    return label


async def test_8_responses_are_used_in_order_and_calls_are_recorded() -> None:
    executor = ScriptedExecutor([pass_response(label="a"), return_response("text * 2")])
    assert executor.remaining_responses == 2
    async with nh.run(executor):
        assert await classify("x") == "a"
        assert executor.remaining_responses == 1
        assert await classify("y") == "yy"
    assert executor.remaining_responses == 0
    call = executor.calls[0]
    assert call.step_id.startswith(f"{__name__}:")
    assert call.natural_program == "Set <:label> for <text> times <FACTOR>, or raise Refused.\n"
    assert call.binding_names == ("label",)
    assert call.binding_types == {"label": str}
    assert call.allowed_step_kinds == ("pass", "return", "raise")
    assert call.raise_error_types == ("Refused",)
    assert call.step_locals == {"text": "x", "label": ""}
    assert call.referenced_globals == {"FACTOR": 2}


async def test_8_a_recorded_call_is_not_changed_by_the_step() -> None:
    executor = ScriptedExecutor([pass_response(label="changed")])
    async with nh.run(executor):
        await classify("x")
    assert executor.calls[0].step_locals["label"] == ""


async def test_8_a_return_expression_sees_the_bindings_of_its_response() -> None:
    async with nh.run(ScriptedExecutor([return_response("(label, len(label))", label="new")])):
        assert await classify("x") == ("new", 3)


async def test_8_a_script_is_held_to_the_rules_of_a_model() -> None:
    responses = [
        pass_response(label=5),
        pass_response(lable="x"),
        break_response(),
        continue_response(),
        return_response("nowhere"),
        raise_response("no", "KeyError"),
    ]
    messages = [
        "'label' must be str",
        "'lable' cannot be committed",
        "'break' is not allowed",
        "'continue' is not allowed",
        "'nowhere'",
        "'KeyError' is not allowed",
    ]
    async with nh.run(ScriptedExecutor(responses)):
        for message in messages:
            with pytest.raises(nh.ExecutionError, match=message):
                await classify("x")


async def test_8_raise_responses_raise_the_named_type_or_execution_error() -> None:
    async with nh.run(
        ScriptedExecutor([raise_response("no", "Refused"), raise_response("failed", label="l")])
    ):
        with pytest.raises(Refused, match="no"):
            await classify("x")
        with pytest.raises(nh.ExecutionError, match="failed"):
            await classify("x")


async def test_8_a_step_beyond_the_script_is_an_error_that_shows_the_program() -> None:
    async with nh.run(ScriptedExecutor()):
        with pytest.raises(nh.ExecutionError, match=r"0 responses and none for call 1.*Set <:label>"):
            await classify("x")


async def test_8_a_default_response_answers_the_rest() -> None:
    executor = ScriptedExecutor([pass_response(label="1")], default_response=pass_response(label="rest"))
    async with nh.run(executor):
        assert [await classify("x") for _ in range(3)] == ["1", "rest", "rest"]
    assert executor.remaining_responses == 0


async def test_8_a_callback_may_be_async() -> None:
    async def answer(call: StepCall) -> StepResponse:
        await anyio.lowlevel.checkpoint()
        return pass_response(label=str(call.step_locals["text"]).upper())

    async with nh.run(CallbackExecutor(answer)):
        assert await classify("x") == "X"


async def test_8_what_a_callback_raises_arrives_bare() -> None:
    def answer(call: StepCall) -> StepResponse:
        raise LookupError("in the callback")

    async with nh.run(CallbackExecutor(answer)):
        with pytest.raises(LookupError, match="in the callback"):
            await classify("x")


# ---- the scripted model


def run_with(model: ScriptedModel, **configuration: Any) -> Any:
    executor = nh.AgentStepExecutor.from_model(
        model=model, configuration=nh.StepExecutorConfiguration(**configuration)
    )
    return nh.run(executor)


async def test_8_a_scripted_model_answers_requests_in_order_and_records_them() -> None:
    model = ScriptedModel(
        [
            model_response(tool_call("nh_eval", expression="text"), text="Let me see."),
            model_response(tool_call("nh_assign", target_path="label", expression="'l'"), PASS),
        ],
        name="scripted:own",
    )
    async with run_with(model) as run:
        assert await classify("x") == "l"
        usage = run.usage_meter.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 20, 10)
    assert [len(request.messages) for request in model.requests] == [1, 3]
    assistant = model.requests[1].messages[1]
    assert isinstance(assistant, nh.models.AssistantMessage)
    assert assistant.text == "Let me see."
    assert [call.id for call in assistant.tool_calls] == ["call_0"]


async def test_8_a_scripted_model_may_answer_with_a_function_or_raise() -> None:
    def answer(request: nh.models.ModelRequest) -> Any:
        if "fail" in str(request.messages[0]):
            return nh.errors.ModelTimeoutError("too slow", is_transient=True)
        return model_response(PASS)

    async with run_with(ScriptedModel(answer)):
        assert await classify("fine") == ""
        with pytest.raises(nh.errors.ModelTimeoutError, match="too slow"):
            await classify("fail")


async def test_8_a_script_that_is_too_short_says_so() -> None:
    async with run_with(ScriptedModel([])):
        with pytest.raises(nh.errors.ModelProtocolError, match="0 answers and none for request 1"):
            await classify("x")


async def test_8_a_response_without_its_end_breaks_off() -> None:
    broken = model_response(PASS).events[:-1]
    async with run_with(ScriptedModel([type(model_response())(events=broken)])):
        with pytest.raises(nh.errors.ModelProtocolError, match="without its terminal event"):
            await classify("x")
    async with run_with(ScriptedModel([type(model_response())(events=())])):
        with pytest.raises(nh.errors.ModelProtocolError, match="without its terminal event"):
            await classify("x")


async def test_8_leaving_a_scripted_stream_early_leaves_no_generator_behind() -> None:
    calls = [tool_call("nh_eval", expression="1")] * 5
    async with run_with(ScriptedModel([model_response(*calls)]), max_tool_calls=1):
        with pytest.raises(nh.errors.StepLimitError):
            await classify("x")
    gc.collect()
    await anyio.lowlevel.checkpoint()


async def test_8_a_call_keeps_an_identifier_of_its_own() -> None:
    call = nh.models.ToolCall(id="mine", name="nh_eval", arguments='{"expression": "1"}')
    model = ScriptedModel([model_response(call), model_response(PASS)])
    async with run_with(model):
        await classify("x")
    message = model.requests[1].messages[2]
    assert isinstance(message, nh.models.ToolResultsMessage)
    assert message.results[0].call_id == "mine"
