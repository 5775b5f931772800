"""Traces of every test here, and the default settings, whatever the environment of the tests says."""

from collections.abc import Iterator

import pytest

from .traces import Traces, telemetry, traced


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """The spans of the test, when they have ended."""
    monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    with traced(monkeypatch) as traces, telemetry():
        yield traces
