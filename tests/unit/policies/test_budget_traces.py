"""What traces are told of budgets."""

from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from tests.tracing import trace_with

from .budget_models import act, executor_of, known_model

pytestmark = pytest.mark.anyio


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    return exporter


def events_of(exporter: InMemorySpanExporter, name: str) -> list[Mapping[str, object]]:
    spans = exporter.get_finished_spans()
    return [dict(event.attributes or {}) for span in spans for event in span.events if event.name == name]


async def test_a_threshold_and_a_refusal_are_events_of_the_span_in_which_they_happen(
    exporter: InMemorySpanExporter,
) -> None:
    async with nh.run(executor_of(known_model()), budget=nh.budget(steps=2, name="two", thresholds=(0.5,))):
        await act()
        await act()
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert events_of(exporter, "nighthawk.budget.threshold") == [
        {
            "nighthawk.budget.name": "two",
            "nighthawk.budget.resource": "steps",
            "nighthawk.budget.limit": 2,
            "nighthawk.budget.spent": 1,
            "nighthawk.budget.fraction": 0.5,
        }
    ]
    assert events_of(exporter, "nighthawk.budget.exceeded") == [
        {
            "nighthawk.budget.name": "two",
            "nighthawk.budget.resource": "steps",
            "nighthawk.budget.limit": 2,
            "nighthawk.budget.spent": 2,
            "nighthawk.budget.reserved": 0,
            "nighthawk.budget.asked": 1,
        }
    ]


async def test_a_request_that_finds_no_room_is_an_event(exporter: InMemorySpanExporter) -> None:
    async with nh.run(executor_of(known_model()), budget=nh.budget(cost=0.0001)):
        with pytest.raises(nh.BudgetExceededError):
            await act()
    [event] = events_of(exporter, "nighthawk.budget.exceeded")
    assert event["nighthawk.budget.resource"] == "cost"
