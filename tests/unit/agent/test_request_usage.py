"""What a request counts, however it ends."""

from decimal import Decimal

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from nighthawk_async.types.messages import AssistantMessage, ProviderContent
from nighthawk_async.types.model import ResponseFinished, TextDelta, UsageReported
from nighthawk_async.types.usage import Usage

pytestmark = pytest.mark.anyio

TRANSPORTS: list[nh.executors.OutcomeTransport] = ["tool", "native", "direct"]


@nh.natural_function
async def answer() -> int:
    number: int
    """natural
    Set <:number> to the answer.
    """
    return number


def executor_of(model: ScriptedModel, transport: nh.executors.OutcomeTransport) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    return nh.AgentStepExecutor.from_model(model=model, configuration=configuration)


def failed(error: nh.ModelError, retries: int) -> nh.ModelError:
    error.retries = retries
    return error


async def usage_of_failure(model: ScriptedModel, transport: nh.executors.OutcomeTransport) -> Usage:
    async with nh.run(executor_of(model, transport)) as run:
        with pytest.raises(nh.ModelError):
            await answer()
    return run.usage_meter.usage


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_request_that_failed_counts_its_retries(transport: nh.executors.OutcomeTransport) -> None:
    model = ScriptedModel([failed(nh.errors.ModelConnectionError("gone"), 2)])
    assert await usage_of_failure(model, transport) == Usage(requests=1, retries=2, is_complete=False)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_request_that_failed_late_counts_what_was_reported(
    transport: nh.executors.OutcomeTransport,
) -> None:
    usage = Usage(requests=1, input_tokens=7, retries=1, cost=Decimal("0.5"), is_complete=False)
    model = ScriptedModel([ModelResponse(events=(TextDelta(text="a"), UsageReported(usage=usage)))])
    assert await usage_of_failure(model, transport) == usage


async def test_every_request_of_a_step_counts_for_itself() -> None:
    model = ScriptedModel([model_response(tool_call("nh_eval", expression="1"))])
    async with nh.run(executor_of(model, "tool")) as run:
        with pytest.raises(nh.ModelError):
            await answer()
    assert run.usage_meter.usage == Usage(requests=2, input_tokens=10, output_tokens=5, is_complete=False)


async def test_a_refused_answer_goes_back_in_the_providers_own_form() -> None:
    content = ProviderContent(protocol="anthropic", items=({"type": "thinking", "signature": "s"},))
    refused = ModelResponse(
        events=(TextDelta(text="no JSON"), ResponseFinished(reason="stop", provider_content=content))
    )
    accepted = model_response(text='{"result": {"kind": "pass", "bindings": {"number": 4}}}')
    model = ScriptedModel([refused, accepted])
    async with nh.run(executor_of(model, "direct")):
        assert await answer() == 4
    assert model.requests[1].messages[1] == AssistantMessage(text="no JSON", provider_content=content)
