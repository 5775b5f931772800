"""Providers are told of the trace, unless there is none or somebody forbids it."""

from typing import Any

import pytest
from opentelemetry import baggage, context as otel_context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from tests.tracing import trace_with

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


class Lavish:
    """Sends every entry of the baggage in a header of its own, as some propagators do."""

    def inject(self, carrier: Any, context: Any = None, **options: Any) -> None:
        carrier["X-Trace"] = "here"
        carrier.update({f"uberctx-{name}": str(value) for name, value in baggage.get_all(context).items()})


async def test_baggage_stays_here_whatever_header_it_would_have(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagate, "get_global_textmap", Lavish)
    token = otel_context.attach(baggage.set_baggage("user", "Ada"))
    try:
        (request,) = await requests_of_a_step()
    finally:
        otel_context.detach(token)
    assert request.headers["x-trace"] == "here"
    assert "Ada" not in str(dict(request.headers))


async def test_that_nobody_records_a_trace_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    trace_with(monkeypatch, provider)
    (request,) = await requests_of_a_step()
    provider.shutdown()
    _, _, _, flags = request.headers["traceparent"].split("-")
    assert not int(flags, 16) & trace.TraceFlags.SAMPLED


@pytest.mark.parametrize("flags", [0, 1])
async def test_without_an_sdk_the_trace_of_a_client_is_passed_on(flags: int) -> None:
    context = trace.SpanContext(trace_id=1, span_id=2, is_remote=True, trace_flags=trace.TraceFlags(flags))
    token = otel_context.attach(trace.set_span_in_context(trace.NonRecordingSpan(context)))
    try:
        (request,) = await requests_of_a_step()
    finally:
        otel_context.detach(token)
    assert request.headers["traceparent"] == f"00-{1:032x}-{2:016x}-{flags:02x}"


async def test_without_traces_nothing_is_told() -> None:
    (request,) = await requests_of_a_step()
    assert "traceparent" not in request.headers
