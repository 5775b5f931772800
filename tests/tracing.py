"""Tracing what a test does: to a provider of its own, and not to that of the process."""

import pytest
from opentelemetry.trace import TracerProvider

from nighthawk_async.telemetry import spans

__all__ = ["trace_with"]


def trace_with(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> None:
    """Trace with a provider until the test ends."""
    monkeypatch.setattr(spans, "_TRACER", provider.get_tracer("nighthawk_async"))
