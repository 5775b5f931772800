"""What metrics tell of requests, agents and tools, with and without traces."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.ports import ResponseStream
from nighthawk_async.telemetry.spans import is_measured, is_traced
from nighthawk_async.testing import (
    ModelReply,
    ModelServer,
    ScriptedModel,
    cassette,
    model_response,
    tool_call,
)
from tests.unit.journal import queue_jobs

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


@dataclass
class UnhashableProvider(metrics.MeterProvider):
    """A provider that passes everything on, a dataclass like that of Logfire: it has no hash."""

    provider: MeterProvider

    def get_meter(self, name: str, *args: Any, **settings: Any) -> metrics.Meter:
        return self.provider.get_meter(name, *args, **settings)


async def test_a_provider_needs_no_hash(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = metrics.get_meter_provider(), InMemoryMetricReader()
    assert isinstance(first, MeterProvider)
    for provider in (first, MeterProvider(metric_readers=[second])):
        unhashable = UnhashableProvider(provider)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda unhashable=unhashable: unhashable)
        async with nh.run(agent(evaluate("1 +"))):
            await act()
    for each in (reader, second):
        points = points_of(each)
        assert told(points["gen_ai.client.operation.duration"]) == [(CHAT, 2)]
        assert points["nighthawk.corrections"][0].value == 1


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
    assert first.count == 1
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
        with pytest.raises(nh.errors.ModelStatusError):
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
    assert points[f"{used}input_tokens"][0].attributes["gen_ai.token.modality"] == "unknown"
    for name, total in (("input_tokens", 200), ("output_tokens", 40)):
        (histogram,) = points[f"gen_ai.client.inference.operation.{name}"]
        assert (histogram.count, histogram.sum) == (2, total)
        assert histogram.explicit_bounds[-1] == 67_108_864
        assert "gen_ai.token.modality" not in histogram.attributes
    assert points["gen_ai.client.inference.duration"][0].count == 2
    (agents,) = points["gen_ai.invoke_agent.duration"]
    assert agents.attributes["gen_ai.agent.name"] == "act"
    assert (agents.explicit_bounds[0], agents.explicit_bounds[-1]) == (0.1, 409.6)
    for name, count in (("inference_calls", 2), ("tool_calls", 1)):
        (calls,) = points[f"gen_ai.invoke_agent.{name}"]
        assert (calls.count, calls.sum, calls.attributes) == (1, count, agents.attributes)
        assert calls.explicit_bounds == (1, 2, 4, 8, 16, 32, 64, 128)
    (tools,) = points["gen_ai.execute_tool.duration"]
    assert (tools.attributes["error.type"], tools.attributes["gen_ai.agent.name"]) == ("execution", "act")
    assert not any(name.startswith("gen_ai.client.operation") for name in points)


async def test_the_latest_conventions_count_no_tokens_for_a_failed_request(
    reader: InMemoryMetricReader,
) -> None:
    with telemetry(semantic_conventions="latest"):
        async with ModelServer([ModelReply(status=400, text="no")]) as server, nh.run(endpoint_of(server)):
            with pytest.raises(nh.errors.ModelStatusError):
                await act()
    points = points_of(reader)
    assert points["gen_ai.invoke_agent.inference_calls"][0].sum == 1
    assert points["gen_ai.invoke_agent.tool_calls"][0].sum == 0
    for name in ("input_tokens", "output_tokens"):
        (counter,) = points[f"gen_ai.client.inference.usage.{name}"]
        assert (counter.value, counter.attributes["gen_ai.token.modality"]) == (0, "unknown")
        (histogram,) = points[f"gen_ai.client.inference.operation.{name}"]
        assert (histogram.sum, histogram.attributes["error.type"]) == (0, "ModelStatusError")


async def test_a_replayed_response_has_taken_no_tokens_and_no_time(
    reader: InMemoryMetricReader, tmp_path: Path
) -> None:
    for _ in range(2):
        with cassette(tmp_path / "tape.json"):
            async with nh.run(agent()):
                await act()
    points = points_of(reader)
    assert [point.sum for point in points["gen_ai.client.token.usage"]] == [10, 5]
    assert points["gen_ai.client.operation.duration"][0].count == 1


class Pieces(ResponseStream):
    """Two pieces of several events each; the first one has lain here for a long time."""

    def __init__(self) -> None:
        events = (nh.models.TextDelta(text="o"), *model_response(OUTCOME, text="ne").events)
        now = time.perf_counter()
        self._pieces = iter([(now - 1000.0, events[:2]), (now + 1000.0, events[2:])])
        self._events: list[nh.models.ModelEvent] = []
        self._arrived_at = 0.0

    @property
    def arrived_at(self) -> float:
        return self._arrived_at

    async def __aexit__(self, *exc_details: object) -> None: ...

    async def __anext__(self) -> nh.models.ModelEvent:
        if not self._events:
            self._arrived_at, events = next(self._pieces, (0.0, ()))
            self._events = list(events)
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)


class InPieces:
    """Answers in pieces."""

    name = "in:pieces"
    capabilities = nh.models.ModelCapabilities()

    def stream(self, request: nh.models.ModelRequest) -> Pieces:
        return Pieces()


async def test_a_piece_counts_once_and_from_the_moment_when_somebody_waited_for_it(
    reader: InMemoryMetricReader,
) -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(model=InPieces())):
        await act()
    points = points_of(reader)
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    assert (first.count, first.sum) == (1, 0.0)
    (others,) = points["gen_ai.client.operation.time_per_output_chunk"]
    assert others.count == 1
    assert 900.0 < others.sum <= 1000.0


async def test_metrics_say_from_which_version_of_the_library_they_are(reader: InMemoryMetricReader) -> None:
    async with nh.run(agent()):
        await act()
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = {metrics.scope for each in data.resource_metrics for metrics in each.scope_metrics}
    assert (scope.name, scope.version) == ("nighthawk_async", nh.__version__)


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


async def test_corrections_are_counted_by_their_causes_in_metrics_meters_spans_and_nodes(
    reader: InMemoryMetricReader, traces: Traces
) -> None:
    wrong = model_response(tool_call("nh_outcome", kind="break"))
    failing = model_response(tool_call("nh_eval", expression="missing"))
    with observe.recording() as tree:
        model = ScriptedModel([wrong, failing, wrong, model_response(OUTCOME)])
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
            await act()
    expected = {"outcome_kind": 2, "resolution": 1}
    assert run.usage_meter.corrections == expected
    points = points_of(reader)["nighthawk.corrections"]
    assert {point.attributes["nighthawk.correction.cause"]: point.value for point in points} == expected
    named = {f"nighthawk.step.corrections.{cause}": count for cause, count in expected.items()}
    (span,) = [each for each in traces.spans if each.name == "nighthawk.step"]
    nodes = [tree.snapshot()]
    while nodes[-1].kind != "step":
        nodes.extend(nodes[-1].children)
    node = nodes[-1]
    assert named.items() <= dict(span.attributes or {}).items()
    assert named.items() <= node.attributes.items()


async def test_the_lives_of_runs_of_queues_are_counted(reader: InMemoryMetricReader, tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for number in range(2):
            await store.enqueue(queue_jobs.note, number, queue="numbers")
        failing = await store.enqueue(queue_jobs.fail, 3, queue="numbers", priority=-1)
        worker = queue_jobs.worker_of(store, queue_jobs.note, queue_jobs.fail, queue="numbers")
        async with queue_jobs.serving(worker):
            with pytest.raises(LookupError):
                await store.result(failing)
    points = points_of(reader)["nighthawk.queue.lives"]
    assert {
        (
            point.attributes["nighthawk.queue.function"].rpartition(":")[2],
            point.attributes["nighthawk.queue.end"],
        ): (point.value)
        for point in points
    } == {("note", "ended"): 2, ("fail", "failed"): 1}
    assert {point.attributes["nighthawk.queue.name"] for point in points} == {"numbers"}
