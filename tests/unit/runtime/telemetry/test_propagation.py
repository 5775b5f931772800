"""Providers are told of the trace, unless somebody forbids it or nobody records it."""

import pytest
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import nighthawk_async as nh
from nighthawk_async.runtime import tracing
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest

from .agents import OUTCOME, act
from .test_span_attributes import endpoint_of
from .traces import Traces, telemetry

pytestmark = pytest.mark.anyio


async def requests_of_a_step(*replies: ModelReply) -> list[RecordedRequest]:
    async with ModelServer([*replies, ModelReply(tool_calls=(OUTCOME,))]) as server:
        async with nh.run(endpoint_of(server)):
            await act()
        return server.requests


async def test_every_attempt_carries_the_span_of_its_request(traces: Traces) -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"}, text="busy")
    requests = await requests_of_a_step(busy)
    context = traces.only("chat").context
    assert context is not None
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    assert [request.headers["traceparent"] for request in requests] == [expected] * 2


async def test_baggage_stays_here(traces: Traces) -> None:
    token = otel_context.attach(baggage.set_baggage("user", "Ada"))
    try:
        (request,) = await requests_of_a_step()
    finally:
        otel_context.detach(token)
    assert "traceparent" in request.headers
    assert "baggage" not in request.headers


async def test_a_setting_forbids_it(traces: Traces) -> None:
    with telemetry(propagate_context=False):
        (request,) = await requests_of_a_step()
    assert "traceparent" not in request.headers


async def test_what_nobody_records_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(tracing, "_TRACER", provider.get_tracer("nighthawk_async"))
    (request,) = await requests_of_a_step()
    provider.shutdown()
    assert "traceparent" not in request.headers


async def test_without_traces_nothing_is_told() -> None:
    (request,) = await requests_of_a_step()
    assert "traceparent" not in request.headers
