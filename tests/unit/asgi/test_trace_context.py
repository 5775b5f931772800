"""The trace of a client, for the extent of its request."""

from contextvars import copy_context

import pytest
from opentelemetry import baggage, context as otel_context, trace

from nighthawk_async.asgi.serving import continued_trace
from tests.unit.asgi.asgi_client import http_scope

TRACE = "0af7651916cd43dd8448eb211c80319c"
ASGI_SCOPE = http_scope(headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})


def current_trace() -> str:
    return format(trace.get_current_span().get_span_context().trace_id, "032x")


def test_the_trace_of_the_client_is_the_current_one_until_the_request_is_over() -> None:
    before = current_trace()
    with continued_trace(ASGI_SCOPE):
        assert current_trace() == TRACE
    assert current_trace() == before


def test_a_request_that_is_given_up_in_another_context_changes_nothing_there_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As when an event loop is closed, and its coroutines are collected."""
    before, request = current_trace(), continued_trace(ASGI_SCOPE)
    copy_context().run(request.__enter__)
    request.__exit__(None, None, None)
    assert current_trace() == before
    assert caplog.text == ""


def test_of_two_traces_that_a_client_names_none_counts() -> None:
    before = current_trace()
    asgi_scope = http_scope(headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    asgi_scope["headers"] = [*asgi_scope["headers"], *asgi_scope["headers"]]
    with continued_trace(asgi_scope):
        assert current_trace() == before


@pytest.mark.parametrize("given", ["user=Ada", "no baggage" * 1000])
def test_baggage_of_a_client_is_not_put_in_force_nor_logged(
    caplog: pytest.LogCaptureFixture, given: str
) -> None:
    traced = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    token = otel_context.attach(baggage.set_baggage("tenant", "own"))
    try:
        with continued_trace(http_scope(headers={**traced, "baggage": given})):
            assert current_trace() == TRACE
            assert baggage.get_all() == {"tenant": "own"}
    finally:
        otel_context.detach(token)
    assert caplog.text == ""
