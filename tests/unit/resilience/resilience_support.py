"""Functions that fail as told, and the events on the current span."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

import anyio
from anyio.lowlevel import checkpoint
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from nighthawk_async.resilience import RateLimit

__all__ = ["Script", "recorded_events", "wait_for_waiting"]


class Script:
    """A function, sync and async, that gives or raises what it is told, in order; the last one for ever.

    Args:
        steps: Results, and exceptions to raise.
    """

    def __init__(self, *steps: object) -> None:
        self._steps = steps
        self._lock = threading.Lock()
        self.calls = 0

    def call(self, value: object = None) -> object:
        with self._lock:  # calls may come from several threads
            step = self._steps[min(self.calls, len(self._steps) - 1)]
            self.calls += 1
        if isinstance(step, BaseException):
            raise step
        return step

    async def call_async(self, value: object = None) -> object:
        await checkpoint()
        return self.call(value)


@contextmanager
def recorded_events() -> Generator[list[tuple[str, dict[str, object]]], None, None]:
    """The events that are added to the current span during the `with` statement, there afterwards."""
    events: list[tuple[str, dict[str, object]]] = []
    span = TracerProvider().get_tracer("test").start_span("test")
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield events
    finally:
        context.detach(token)
        span.end()
        assert isinstance(span, ReadableSpan)
        for event in span.events:
            events.append((event.name, dict(event.attributes or {})))


async def wait_for_waiting(limit: RateLimit, calls: int) -> None:
    """Wait until so many calls wait for their turn, in whichever threads.

    Args:
        limit: What they wait for.
        calls: How many.
    """
    while limit.statistics().waiting < calls:  # noqa: ASYNC110 - nothing tells of it
        await anyio.sleep(0.001)
