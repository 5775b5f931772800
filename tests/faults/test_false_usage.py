"""Endpoints and models that report a consumption that cannot be true."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from anyio.abc import SocketStream

import nighthawk_async as nh
from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.kernel.usage_meter import UsageMeter
from nighthawk_async.models.providers import create_codec
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.model import ModelEvent, UsageReported
from nighthawk_async.types.usage import MAX_COUNT, Usage
from tests.cases import every

from .http_support import model_at, raw_server, read_request

INCREDIBLE = [-1, -120_000_000, -(10**309), MAX_COUNT + 1, 10**18, 10**309]
NO_COUNTS = ["12", 1.5, 1e300, True, [], {}]

Document = Callable[[Any], dict[str, Any]]


def _chat(**usage: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "a"}}], "usage": usage}


def _responses(**usage: Any) -> dict[str, Any]:
    return {"status": "completed", "output": [], "usage": usage}


def _anthropic(**usage: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "usage": usage}


def _google(**usage: Any) -> dict[str, Any]:
    parts = [{"text": "a"}]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": usage}


COUNTS: dict[str, list[Document]] = {
    "openai-chat": [
        lambda count: _chat(prompt_tokens=count, completion_tokens=3),
        lambda count: _chat(prompt_tokens=3, completion_tokens=count),
        lambda count: _chat(prompt_tokens=3, prompt_tokens_details={"cached_tokens": count}),
        lambda count: _chat(prompt_tokens=3, prompt_tokens_details={"cache_write_tokens": count}),
        lambda count: _chat(completion_tokens=3, completion_tokens_details={"reasoning_tokens": count}),
    ],
    "openai-responses": [
        lambda count: _responses(input_tokens=count, output_tokens=3),
        lambda count: _responses(input_tokens=3, output_tokens=count),
        lambda count: _responses(input_tokens=3, input_tokens_details={"cached_tokens": count}),
        lambda count: _responses(output_tokens=3, output_tokens_details={"reasoning_tokens": count}),
    ],
    "anthropic": [
        lambda count: _anthropic(input_tokens=count, output_tokens=3),
        lambda count: _anthropic(input_tokens=3, output_tokens=count),
        lambda count: _anthropic(input_tokens=10**9, cache_read_input_tokens=count),
        lambda count: _anthropic(input_tokens=10**9, cache_creation_input_tokens=count),
        lambda count: _anthropic(output_tokens=3, output_tokens_details={"thinking_tokens": count}),
    ],
    "google": [
        lambda count: _google(promptTokenCount=count, candidatesTokenCount=3),
        lambda count: _google(promptTokenCount=3, candidatesTokenCount=count),
        lambda count: _google(promptTokenCount=10**9, toolUsePromptTokenCount=count),
        lambda count: _google(promptTokenCount=3, cachedContentTokenCount=count),
        lambda count: _google(promptTokenCount=3, candidatesTokenCount=10**9, thoughtsTokenCount=count),
    ],
}

_CASES = [(protocol, document) for protocol, documents in COUNTS.items() for document in documents]


def assert_credible(usage: Usage) -> None:
    counts = (
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        usage.retries,
        usage.unpriced_requests,
    )
    assert all(type(count) is int and 0 <= count <= MAX_COUNT for count in counts)
    assert usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert usage.cache_write_1h_tokens <= usage.cache_write_tokens
    assert usage.reasoning_tokens <= usage.output_tokens
    assert type(usage.cost) is Decimal
    assert usage.cost.is_finite()
    assert usage.cost >= 0


def reported(events: list[ModelEvent]) -> Usage:
    return [event.usage for event in events if isinstance(event, UsageReported)][-1]


@every("count", INCREDIBLE)
@every("protocol, document", _CASES)
def test_a_count_that_cannot_be_true_counts_as_not_told(
    protocol: str, document: Document, count: int
) -> None:
    usage = reported(create_codec(protocol).decode_response(json.dumps(document(count)).encode()))

    assert_credible(usage)
    assert not usage.is_complete
    assert usage.requests == 1


@pytest.mark.parametrize(("total", "output", "reasoning"), [(135, 103, 94), (41, 9, 9), (None, 9, 9)])
def test_reasoning_that_only_the_total_counts_is_added_to_the_output(
    total: int | None, output: int, reasoning: int
) -> None:
    details = {"reasoning_tokens": 94}
    document = _chat(
        prompt_tokens=32, completion_tokens=9, total_tokens=total, completion_tokens_details=details
    )

    usage = reported(create_codec("openai-chat").decode_response(json.dumps(document).encode()))

    assert usage == Usage(requests=1, input_tokens=32, output_tokens=output, reasoning_tokens=reasoning)


@every("count", NO_COUNTS)
@every("protocol, document", _CASES)
def test_what_is_no_count_is_a_protocol_error(protocol: str, document: Document, count: object) -> None:
    with pytest.raises(ModelProtocolError):
        create_codec(protocol).decode_response(json.dumps(document(count)).encode())


@every("literal", ["1e400", "-1e400", "NaN", "Infinity", "1" * 5_000])
@every("protocol, document", _CASES)
def test_what_is_no_number_that_a_machine_knows_is_a_protocol_error(
    protocol: str, document: Document, literal: str
) -> None:
    data = json.dumps(document("HOLE")).replace('"HOLE"', literal).encode()
    with pytest.raises(ModelProtocolError):
        create_codec(protocol).decode_response(data)


@pytest.mark.parametrize(
    ("told", "credible"),
    [
        (Usage(input_tokens=5, cache_read_tokens=9), Usage(input_tokens=5, cache_read_tokens=5)),
        (
            Usage(input_tokens=5, cache_read_tokens=3, cache_write_tokens=9),
            Usage(input_tokens=5, cache_read_tokens=3, cache_write_tokens=2),
        ),
        (
            Usage(input_tokens=5, cache_write_tokens=3, cache_write_1h_tokens=9),
            Usage(input_tokens=5, cache_write_tokens=3, cache_write_1h_tokens=3),
        ),
        (Usage(output_tokens=5, reasoning_tokens=9), Usage(output_tokens=5, reasoning_tokens=5)),
        (Usage(requests=1, cost=Decimal("NaN")), Usage(requests=1, unpriced_requests=1)),
        (Usage(requests=1, cost=Decimal("sNaN")), Usage(requests=1, unpriced_requests=1)),
        (Usage(requests=1, cost=Decimal("Infinity")), Usage(requests=1, unpriced_requests=1)),
        (Usage(requests=1, cost=Decimal(-1)), Usage(requests=1, unpriced_requests=1)),
        (Usage(requests=1, cost=10**5_000), Usage(requests=1, unpriced_requests=1)),  # type: ignore[arg-type]
        (Usage(requests=1, cost="much"), Usage(requests=1, unpriced_requests=1)),  # type: ignore[arg-type]
        (Usage(requests=-1, retries=-1, unpriced_requests=-1), Usage()),
        (Usage(input_tokens=float("nan"), output_tokens=2.5), Usage()),  # type: ignore[arg-type]
        (Usage(input_tokens="5", output_tokens=None), Usage()),  # type: ignore[arg-type]
    ],
)
def test_what_a_model_of_ones_own_reports_is_made_credible(told: Usage, credible: Usage) -> None:
    usage = UsageReported(usage=told).usage

    assert_credible(usage)
    assert usage == Usage(**{**{name: getattr(credible, name) for name in NAMES}, "is_complete": False})


NAMES = tuple(Usage.__slots__)


@pytest.mark.parametrize("cost", [0, 0.25, 2])
def test_a_cost_may_be_any_number(cost: float) -> None:
    usage = UsageReported(usage=Usage(requests=1, cost=cost)).usage  # type: ignore[arg-type]

    assert usage == Usage(requests=1, cost=Decimal(str(cost)))


def test_a_credible_usage_stays_the_same_object() -> None:
    usage = Usage(requests=1, input_tokens=MAX_COUNT, output_tokens=2, cost=Decimal("0.1"))

    assert usage.credible() is usage
    assert UsageReported(usage=usage).usage is usage


def test_a_meter_never_goes_back() -> None:
    meter = UsageMeter(parent=UsageMeter())
    meter.add("a:b", Usage(requests=1, input_tokens=7, cost=Decimal(1)))
    meter.add("a:b", Usage(requests=-5, input_tokens=-5, cost=Decimal("NaN")))

    assert meter.usage == Usage(requests=1, input_tokens=7, cost=Decimal(1), is_complete=False)


FALSE_USAGE = [
    Usage(requests=1, input_tokens=-120_000_000, output_tokens=-5),
    Usage(requests=1, input_tokens=10**309, output_tokens=10**309),
    Usage(requests=-3, input_tokens=10, output_tokens=5, cost=Decimal("NaN")),
    Usage(requests=1, input_tokens=float("nan"), output_tokens=1e308),  # type: ignore[arg-type]
    Usage(requests=1, input_tokens="10", output_tokens=None, cost=1.5),  # type: ignore[arg-type]
]


@nh.natural_function
async def answer() -> int:
    result = 0
    """natural
    Set <:result> to 1.
    """
    return result


def scripted(usage: Usage) -> ScriptedModel:
    """A model that carries the function out in every request, and reports that."""
    assign = tool_call("nh_assign", target_path="result", expression="1")
    response = model_response(assign, tool_call("nh_outcome", kind="pass"), usage=usage)
    price = nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))
    return ScriptedModel(
        lambda request: response, capabilities=nh.models.ModelCapabilities(max_output_tokens=50, price=price)
    )


@pytest.mark.anyio
@pytest.mark.parametrize("usage", FALSE_USAGE)
async def test_a_function_and_its_budget_go_on_whatever_a_model_reports(usage: Usage) -> None:
    budget = nh.budget(tokens=1_000_000, cost=100)
    async with nh.run(nh.AgentStepExecutor.from_model(model=scripted(usage)), budget=budget) as run:
        assert await answer() == 1
        first = budget.remaining
        assert await answer() == 1

        second = budget.remaining
        assert first.tokens is not None
        assert second.tokens is not None
        assert 0 <= second.tokens < first.tokens < 1_000_000
        assert second.cost is not None
        assert 0 <= second.cost <= 100
        assert_credible(run.usage_meter.usage)
        assert not run.usage_meter.usage.is_complete


@pytest.mark.anyio
@pytest.mark.parametrize("usage", FALSE_USAGE)
async def test_a_function_without_a_budget_goes_on_whatever_a_model_reports(usage: Usage) -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(model=scripted(usage))) as run:
        assert await answer() == 1
        assert_credible(run.usage_meter.usage)
        assert not run.usage_meter.usage.is_complete


@pytest.mark.anyio
@pytest.mark.parametrize("count", INCREDIBLE)
async def test_a_function_goes_on_whatever_an_endpoint_reports(count: int) -> None:
    call = {"id": "c", "function": {"name": "nh_outcome", "arguments": '{"kind": "pass"}'}}
    usage = {"prompt_tokens": count, "completion_tokens": count}
    body = json.dumps({"choices": [{"message": {"tool_calls": [call]}}], "usage": usage}).encode()

    async def serve(stream: SocketStream) -> None:
        await read_request(stream)
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        await stream.send(head.format(len(body)).encode() + body)

    async with raw_server(serve) as url:
        settings = {"tokens_per_minute": 1_000_000, "capabilities": {"max_output_tokens": 50}}
        executor = nh.AgentStepExecutor.from_model(model=model_at(url, **settings))
        budget = nh.budget(tokens=50_000)
        async with nh.run(executor, budget=budget) as run:
            assert await answer() == 0
            assert_credible(run.usage_meter.usage)
            assert not run.usage_meter.usage.is_complete
        assert budget.remaining.tokens is not None
        assert 0 <= budget.remaining.tokens < 50_000
