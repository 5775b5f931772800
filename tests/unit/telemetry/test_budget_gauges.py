"""The gauge of what is left of the budgets of a store."""

import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

DONE = model_response(tool_call("nh_outcome", kind="pass"), usage=nh.Usage(requests=1, input_tokens=300))


@nh.natural_function
async def act() -> None:
    """natural
    Do nothing.
    """


def left(reader: InMemoryMetricReader) -> dict[tuple[object, ...], float]:
    data: Any = reader.get_metrics_data()
    found: dict[tuple[object, ...], float] = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points if metric.name == "nighthawk.budget.left" else ():
                    key = [
                        point.attributes[f"nighthawk.budget.{each}"]
                        for each in ("name", "resource", "window")
                    ]
                    assert tuple(key) not in found
                    found[tuple(key)] = point.value
    return found


async def test_what_is_left_of_budgets_is_a_gauge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        assert not store.is_closed
        store.observe_budgets()
        store.observe_budgets()
        assert left(reader) == {}
        day = nh.budget(tokens=10_000, tool_calls=5, per="day", store=store, name="support")
        model = ScriptedModel([DONE], capabilities=nh.models.ModelCapabilities(max_output_tokens=50))
        async with nh.run(model, budget=day):
            await act()
        assert left(reader) == {
            ("support", "tokens", "the day"): 9_700,
            ("support", "tool_calls", "the day"): 5,
        }
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(type(store), "budgets", _unreadable)
            assert left(reader) == {}
        assert "cannot be read for nighthawk.budget.left: no disk" in caplog.text
        caplog.clear()
    assert store.is_closed
    assert left(reader) == {}
    assert caplog.text == ""
    provider.shutdown()


def _unreadable(store: object) -> Any:
    raise nh.journal.JournalStoreError("no disk")
