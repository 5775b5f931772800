"""Telemetry over several lives: a trace of its own for each, and no tokens counted twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.testing import ModelResponse, model_response, tool_call
from tests.tracing import trace_with

from .durable_runs import AnsweringModel, live, opened, places
from .jumping_time import shout
from .test_errors_in_lives import FailingModel

pytestmark = pytest.mark.anyio

PLACE = "nighthawk.journal.place"
SOURCE = "nighthawk.journal.source"


class CrashError(Exception):
    """The end of a life."""


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
