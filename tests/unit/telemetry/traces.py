"""Looking at what a test has traced: names nested in each other; every span has ended, within its parent."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from nighthawk_async.telemetry_settings import configure_telemetry
from tests.tracing import trace_with

__all__ = ["Traces", "telemetry", "traced"]

Nested = list[tuple[str, Any]]


class Traces(SpanProcessor):
    """Keeps the spans of a test."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.spans: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.began.append(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    def named(self, prefix: str) -> list[ReadableSpan]:
        """The spans with such a name, in the order of their beginning."""
        found = [span for span in self.spans if span.name.startswith(prefix)]
        return sorted(found, key=lambda span: self.began.index(id_of(span)))

    def only(self, prefix: str) -> ReadableSpan:
        """The one span with such a name."""
        (span,) = self.named(prefix)
        return span

    def attributes(self, prefix: str) -> dict[str, Any]:
        """The attributes of the one span with such a name, without the id of the execution."""
        told = self.only(prefix).attributes or {}
        return {name: value for name, value in told.items() if name != "execution.id"}

    def tree(self) -> Nested:
        """The names of the spans, nested, siblings in the order of their beginning."""
        self.check()
        return self._below(None)

    def below_step(self) -> Nested:
        """What is below the executor of the only step."""
        ((run, ((step, ((executor, below),)),)),) = self.tree()
        assert (run, step, executor) == ("nighthawk.run", "nighthawk.step", "nighthawk.step_executor")
        return below

    def check(self) -> None:
        """Every span that began has ended, once, and none after its parent."""
        ids = [id_of(span) for span in self.spans]
        assert sorted(ids) == sorted(self.began)
        ends = {id_of(span): span.end_time or 0 for span in self.spans}
        for span in self.spans:
            assert span.parent is None or ends[id_of(span)] <= ends[span.parent.span_id], span.name

    def _below(self, parent: int | None) -> Nested:
        return [
            (span.name, self._below(id_of(span)))
            for span in self.named("")
            if (None if span.parent is None else span.parent.span_id) == parent
        ]


def id_of(span: ReadableSpan) -> int:
    """The id of a span."""
    assert span.context is not None
    return span.context.span_id


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """Trace what happens in the `with` statement."""
    traces, provider = Traces(), TracerProvider()
    provider.add_span_processor(traces)
    with monkeypatch.context() as patch:
        trace_with(patch, provider)
        yield traces
    provider.shutdown()


@contextmanager
def telemetry(**settings: Any) -> Iterator[None]:
    """Choose settings for the `with` statement."""
    configure_telemetry(**settings)
    try:
        yield
    finally:
        configure_telemetry()
