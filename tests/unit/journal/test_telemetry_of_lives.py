"""Telemetry over several lives: a trace of its own for each, and no tokens counted twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from tests.tracing import trace_with

from .durable_runs import live, opened, places, shout
from .test_errors_in_lives import FailingModel

pytestmark = pytest.mark.anyio

PLACE = "nighthawk.journal.place"
SOURCE = "nighthawk.journal.source"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Every span of the test, when it has ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name.split()[0] == name]


async def test_each_life_is_a_trace_with_a_link_to_the_first(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    with opened(tmp_path) as store:
        for _ in range(3):
            await live(store, FailingModel(), lambda: shout("cup"))
    first, *later = spans(exporter, "nighthawk.run")
    assert not first.links
    assert len({span.context.trace_id for span in (first, *later)}) == 3
    for span in later:
        assert [link.context.span_id for link in span.links] == [first.context.span_id]
        assert [link.context.trace_id for link in span.links] == [first.context.trace_id]
    lives = [dict(span.attributes or {})["nighthawk.journal.life"] for span in (first, *later)]
    assert lives == [1, 2, 3]


async def test_a_run_that_was_not_traced_before_has_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with opened(tmp_path) as store:
        await live(store, FailingModel(), lambda: shout("cup"))
        trace_with(monkeypatch, provider)
        await live(store, FailingModel(), lambda: shout("cup"))
    assert [len(span.links) for span in spans(exporter, "nighthawk.run")] == [0]


async def test_spans_name_the_place_and_the_source_of_a_response(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    async def program(*words: str) -> None:
        for word in words:
            await shout(word)

    with opened(tmp_path) as store:
        await live(store, FailingModel(), lambda: program("cup"))
        await live(store, FailingModel(), lambda: program("cup", "lamp"))
        recorded = places(store, "response")
    told = [dict(span.attributes or {}) for span in spans(exporter, "chat")]
    assert [(each[PLACE], each[SOURCE]) for each in told] == [
        (recorded[0], "live"),
        (recorded[0], "recorded"),
        (recorded[1], "live"),
    ]
    assert ["gen_ai.usage.input_tokens" in each for each in told] == [True, False, True]
    agents = [dict(span.attributes or {}) for span in spans(exporter, "invoke_agent")]
    assert [each.get("gen_ai.usage.input_tokens") for each in agents] == [10, None, 10]


async def test_without_a_journal_spans_name_no_place(exporter: InMemorySpanExporter) -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(FailingModel())):
        await shout("cup")
    assert [SOURCE in (span.attributes or {}) for span in spans(exporter, "chat")] == [False]


async def test_metrics_count_no_recorded_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    model = FailingModel()
    model.failures["vase"] = ModelStatusError("too long", status=400)

    async def program() -> None:
        await shout("cup")
        with pytest.raises(ModelStatusError):
            await shout("vase")
        await shout("lamp")

    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, model, program)
    counts = {name: sum(point.count for point in points) for name, points in points_of(reader).items()}
    provider.shutdown()
    assert counts["gen_ai.client.operation.duration"] == 3
    assert counts["gen_ai.client.token.usage"] == 4  # input and output of two


def points_of(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """The points of every metric, by its name."""
    data = reader.get_metrics_data()
    assert data is not None
    scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
    return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}
