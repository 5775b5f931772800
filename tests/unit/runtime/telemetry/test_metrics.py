"""What metrics tell of requests, agents and tools, with and without traces."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import nighthawk_async as nh
from nighthawk_async.runtime.telemetry.watching import is_measured, is_traced
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel, model_response

from .agents import OUTCOME, act, agent, assign, evaluate
from .test_span_attributes import USAGE, endpoint_of
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio

Points = dict[str, list[Any]]
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "some-model",
}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """The metrics of the test."""
    monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    with telemetry():
        yield reader
    provider.shutdown()


def points_of(reader: InMemoryMetricReader) -> Points:
    """The points of every metric, by its name."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    found = [
        metric for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics
    ]
    return {metric.name: list(metric.data.data_points) for metric in found}


def told(points: list[Any]) -> list[tuple[dict[str, Any], int]]:
    return [(dict(point.attributes), point.count) for point in points]


async def test_requests_tell_their_duration_and_their_tokens(reader: InMemoryMetricReader) -> None:
    async with nh.run(agent(assign())):
        await act()
    points = points_of(reader)
    assert told(points["gen_ai.client.operation.duration"]) == [(CHAT, 2)]
    tokens = {point.attributes["gen_ai.token.type"]: point for point in points["gen_ai.client.token.usage"]}
    assert {kind: (point.count, point.sum) for kind, point in tokens.items()} == {
        "input": (2, 20),
        "output": (2, 10),
    }
    assert {name: value for name, value in tokens["input"].attributes.items() if "token" not in name} == CHAT


async def test_the_bounds_of_the_buckets_are_those_of_the_conventions(reader: InMemoryMetricReader) -> None:
    async with nh.run(agent()):
        await act()
    points = points_of(reader)
    (seconds,) = points["gen_ai.client.operation.duration"]
    assert (seconds.explicit_bounds[0], seconds.explicit_bounds[-1]) == (0.01, 81.92)
    bounds = points["gen_ai.client.token.usage"][0].explicit_bounds
    assert (bounds[:3], bounds[-1]) == ((1, 4, 16), 67_108_864)


async def test_streamed_responses_tell_when_their_pieces_came(reader: InMemoryMetricReader) -> None:
    async with (
        ModelServer([ModelReply(text="one two", tool_calls=(OUTCOME,))]) as server,
        nh.run(endpoint_of(server)),
    ):
        await act()
    points = points_of(reader)
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    (others,) = points["gen_ai.client.operation.time_per_output_chunk"]
    assert first.count == 1
    assert others.count >= 1
    assert first.attributes["server.address"] == "127.0.0.1"


async def test_whole_responses_have_no_pieces(reader: InMemoryMetricReader) -> None:
    async with (
        ModelServer([ModelReply(tool_calls=(OUTCOME,))]) as server,
        nh.run(endpoint_of(server, stream=False)),
    ):
        await act()
    assert not any("chunk" in name for name in points_of(reader))


async def test_a_failed_request_tells_the_class_of_its_error_and_no_tokens(
    reader: InMemoryMetricReader,
) -> None:
    async with ModelServer([ModelReply(status=400, text="no")]) as server, nh.run(endpoint_of(server)):
        with pytest.raises(nh.ModelStatusError):
            await act()
    points = points_of(reader)
    (duration,) = points["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "ModelStatusError"
    assert "gen_ai.client.token.usage" not in points


async def test_the_latest_conventions_count_tokens_and_time_agents_and_tools(
    reader: InMemoryMetricReader,
) -> None:
    model = ScriptedModel(
        [model_response(evaluate("1 / 0"), usage=USAGE), model_response(OUTCOME, usage=USAGE)]
    )
    with telemetry(semantic_conventions="latest"):
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            await act()
    points = points_of(reader)
    used = "gen_ai.client.inference.usage."
    counted = {name.removeprefix(used): each[0].value for name, each in points.items() if used in name}
    assert counted == {
        "input_tokens": 200,
        "output_tokens": 40,
        "cache_read.input_tokens": 120,
        "cache_write.input_tokens": 60,
        "reasoning.output_tokens": 10,
    }
    assert points["gen_ai.client.inference.duration"][0].count == 2
    assert points["gen_ai.invoke_agent.duration"][0].attributes["gen_ai.agent.name"] == "act"
    assert points["gen_ai.execute_tool.duration"][0].attributes["error.type"] == "execution"
    assert not any(name.startswith("gen_ai.client.operation") for name in points)


async def test_traces_and_metrics_tell_the_same_tokens(reader: InMemoryMetricReader, traces: Traces) -> None:
    async with nh.run(agent()):
        await act()
    (input_tokens, output_tokens) = points_of(reader)["gen_ai.client.token.usage"]
    attributes = traces.attributes("chat")
    assert attributes["gen_ai.usage.input_tokens"] == input_tokens.sum
    assert attributes["gen_ai.usage.output_tokens"] == output_tokens.sum


async def test_nobody_measures_without_a_provider() -> None:
    assert not is_measured()
    assert not is_traced()
    assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    async with nh.run(agent()):
        await act()
        assert not is_traced()


async def test_a_trace_that_a_client_has_named_is_no_reason_to_make_spans_that_nobody_keeps() -> None:
    context = trace.SpanContext(trace_id=1, span_id=2, is_remote=True, trace_flags=trace.TraceFlags(1))
    token = otel_context.attach(trace.set_span_in_context(trace.NonRecordingSpan(context)))
    try:
        async with nh.run(agent()):
            await act()
            assert not is_traced()
    finally:
        otel_context.detach(token)
