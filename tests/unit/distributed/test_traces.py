"""Traces of calls on workers."""

import pytest
from opentelemetry.sdk.trace import TracerProvider

from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_traces import current_trace, parent_of_new_span

pytestmark = pytest.mark.anyio

TRACER = TracerProvider().get_tracer("tests")


async def test_the_span_of_the_caller_is_current_on_the_worker() -> None:
    async with InMemoryWorkers(1) as workers:
        with TRACER.start_as_current_span("the caller") as span:
            (found,) = await parallel.map(current_trace, [0], on=workers)
        context = span.get_span_context()
        assert (found or "").startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
        assert await parallel.map(current_trace, [0], on=workers) == [None]


async def test_spans_of_a_process_are_below_the_span_of_the_caller() -> None:
    async with Processes(1) as workers:
        with TRACER.start_as_current_span("the caller") as span:
            (found,) = await parallel.map(parent_of_new_span, [0], on=workers)
    context = span.get_span_context()
    assert found == (context.trace_id, context.span_id, True)
