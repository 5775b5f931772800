"""Attempts at a request: when there is another, what becomes of their usage, and where each one is seen."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.errors import (
    ModelError,
    ModelProtocolError,
    ModelProviderError,
    ModelStatusError,
    RequestTimeoutError,
)
from nighthawk_async.models import exchange
from nighthawk_async.models.pacing import Demand, Pacer, PacingLimits
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing import ScriptedExecutor
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelEvent, ModelRequest, TextDelta, UsageReported
from nighthawk_async.types.usage import Usage

from .http_support import HELLO, SECRET, collect, model_at, retry_soon, text_of

pytestmark = pytest.mark.anyio

SOON = {"retry-after-ms": "1"}
BUSY = ModelReply(status=503, headers=SOON, text="busy")
GOOD = ModelReply(text="Hello")
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1}}\n\n'
OVERLOADED = b'data: {"error":{"message":"overloaded","type":"overloaded_error"}}\n\n'
FAILS_AFTER_USAGE = ModelReply(body=USAGE + OVERLOADED)
PRICE = {"price": {"input": "1", "output": "2"}}


def paced_model(server: ModelServer, pacer: Pacer, **settings: Any) -> Model:
    """A model whose requests share a pacer."""

    @asynccontextmanager
    async def give(key: object) -> AsyncGenerator[Pacer, None]:
        yield pacer

    return create_model(
        "openai-chat:tested",
        settings={"base_url": server.base_url, "api_key": SECRET, "max_retries": 0, **settings},
        environment={},
        pacer_source=give,
    )


async def read_until_error(model: Model) -> tuple[list[ModelEvent], ModelError]:
    """The events before the error, and the error."""
    seen: list[ModelEvent] = []
    with anyio.fail_after(240):
        try:
            async with model.stream(HELLO) as events:
                async for event in events:
                    seen.append(event)
        except ModelError as error:
            return seen, error
    raise AssertionError("there was no error")


def usages_of(events: list[ModelEvent]) -> list[Usage]:
    return [event.usage for event in events if isinstance(event, UsageReported)]


async def test_an_error_right_after_a_report_of_usage_is_met_with_another_attempt() -> None:
    async with ModelServer([FAILS_AFTER_USAGE, GOOD]) as server:
        events = await collect(model_at(server.base_url, max_retries=1, capabilities=PRICE))
    assert text_of(events) == "Hello"
    assert usages_of(events)[-1] == Usage(
        requests=1,
        input_tokens=20,
        output_tokens=6,
        retries=1,
        cost=Decimal("0.000032"),
        is_complete=False,
    )


async def test_a_request_that_was_sent_again_says_so_before_anything_else() -> None:
    async with ModelServer([BUSY, BUSY, ModelReply(text="Hello", usage=None)]) as server:
        events = await collect(model_at(server.base_url, max_retries=2, capabilities=PRICE))
    assert events[0] == UsageReported(usage=Usage(requests=1, retries=2, is_complete=False))
    assert isinstance(events[1], TextDelta)
    assert len(usages_of(events)) == 1


async def test_a_request_that_needed_no_retry_reports_none() -> None:
    async with ModelServer([GOOD]) as server:
        events = await collect(model_at(server.base_url, max_retries=2, capabilities=PRICE))
    assert usages_of(events) == [Usage(requests=1, input_tokens=10, output_tokens=5, cost=Decimal("0.00002"))]


async def test_a_request_that_fails_for_good_says_how_often_it_was_sent_again() -> None:
    async with ModelServer([BUSY] * 3) as server:
        seen, error = await read_until_error(model_at(server.base_url, max_retries=2))
    assert isinstance(error, ModelStatusError)
    assert error.retries == 2
    assert seen == []


async def test_what_a_failed_request_consumed_is_told_before_its_error() -> None:
    async with ModelServer([FAILS_AFTER_USAGE] * 2) as server:
        seen, error = await read_until_error(model_at(server.base_url, max_retries=1))
    assert isinstance(error, ModelProviderError)
    assert error.retries == 1
    (usage,) = usages_of(seen)
    assert (usage.requests, usage.input_tokens, usage.retries, usage.is_complete) == (1, 20, 1, False)


async def test_an_error_in_the_middle_says_how_often_the_request_was_sent_again() -> None:
    async with ModelServer([BUSY, ModelReply(text="Hello", ending="close", ending_after=2)]) as server:
        seen, error = await read_until_error(model_at(server.base_url, max_retries=2))
    assert isinstance(error, ModelProtocolError)
    assert error.retries == 1
    assert text_of(seen) == "Hello"


async def test_each_failed_attempt_is_an_event_of_the_current_span(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    broken = ModelReply(text="Hello", ending="close", ending_after=2)
    async with ModelServer([BUSY, broken]) as server:
        tracer = provider.get_tracer("test")
        with caplog.at_level(logging.INFO, "nighthawk"), tracer.start_as_current_span("step"):
            await read_until_error(model_at(server.base_url, max_retries=1))
    (finished,) = exporter.get_finished_spans()
    assert [(event.name, dict(event.attributes or {})) for event in finished.events] == [
        (
            "nighthawk.model.attempt_failed",
            {
                "nighthawk.model.id": "openai-chat:tested",
                "nighthawk.model.attempt": 1,
                "error.type": "ModelStatusError",
                "http.response.status_code": 503,
                "nighthawk.model.retry_delay_seconds": pytest.approx(0.001, rel=0.26),
            },
        ),
        (
            "nighthawk.model.attempt_failed",
            {
                "nighthawk.model.id": "openai-chat:tested",
                "nighthawk.model.attempt": 2,
                "error.type": "ModelProtocolError",
            },
        ),
    ]
    first, second = [record.getMessage() for record in caplog.records]
    assert (
        "attempt 1 at a model request failed, next one in 0.0 seconds: openai-chat:tested: HTTP 503" in first
    )
    assert "attempt 2 at a model request failed: openai-chat:tested" in second


async def test_all_attempts_at_a_request_carry_the_same_key_and_no_other_request_does() -> None:
    async with ModelServer([BUSY, GOOD, GOOD]) as server:
        model = model_at(server.base_url, max_retries=1, idempotency_header="Idempotency-Key")
        for _ in range(2):
            await collect(model)
        first, again, other = [request.headers["idempotency-key"] for request in server.requests]
    assert first == again
    assert first != other
    assert len(first) > 30


async def test_no_key_is_sent_unless_a_setting_names_the_header() -> None:
    async with ModelServer([GOOD]) as server:
        await collect(model_at(server.base_url))
        assert not [name for name in server.requests[0].headers if "idempotency" in name]


async def test_a_server_that_wants_a_pause_gets_it_from_everybody_with_that_key() -> None:
    replies = [ModelReply(status=429, headers={"retry-after-ms": "300"}), GOOD, GOOD]
    pacer = Pacer()
    async with ModelServer(replies) as server, anyio.create_task_group() as task_group:
        model = paced_model(server, pacer, max_retries=1)
        task_group.start_soon(collect, model)
        with anyio.fail_after(240):
            while not server.requests or pacer.statistics().in_flight:
                await checkpoint()
            task_group.start_soon(collect, model)
            while pacer.statistics().waiting < 2:
                await checkpoint()
        assert len(server.requests) == 1
    assert pacer.statistics().in_flight == 0


async def test_limits_that_a_response_told_hold_the_next_request() -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "100s"}
    pacer = Pacer()
    async with ModelServer([ModelReply(text="Hello", headers=headers), GOOD]) as server:
        await collect(paced_model(server, pacer))
        _, error = await read_until_error(paced_model(server, pacer, queue_timeout=0.1))
        assert isinstance(error, RequestTimeoutError)
        assert "still waiting for its turn after 0.1 seconds (queue_timeout)" in str(error)
        assert len(server.requests) == 1
    assert (pacer.statistics().in_flight, pacer.statistics().waiting) == (0, 0)


async def test_a_limit_for_requests_in_flight_holds() -> None:
    in_flight: list[int] = []

    async def reply(request: RecordedRequest) -> ModelReply:
        in_flight.append(pacer.statistics().in_flight)
        for _ in range(20):
            await checkpoint()
        return GOOD

    pacer = Pacer()
    async with ModelServer(reply) as server:
        model = paced_model(server, pacer, max_concurrent_requests=3)
        async with anyio.create_task_group() as task_group:
            for _ in range(20):
                task_group.start_soon(collect, model)
    assert len(in_flight) == 20
    assert max(in_flight) == 3


async def test_the_models_of_a_run_share_the_limits_of_a_key_and_not_those_of_another() -> None:
    in_flight: dict[str, int] = {}
    most: dict[str, int] = {}
    all_four = anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        key = request.headers["authorization"]
        in_flight[key] = in_flight.get(key, 0) + 1
        most[key] = max(most.get(key, 0), in_flight[key])
        if sum(in_flight.values()) == 4:
            all_four.set()
        with anyio.move_on_after(5):
            await all_four.wait()
        in_flight[key] -= 1
        return GOOD

    async with ModelServer(reply) as server, nh.run(ScriptedExecutor()):
        models = [
            create_model(
                f"openai-chat:{name}",
                settings={
                    "base_url": server.base_url,
                    "api_key": key,
                    "max_concurrent_requests": 2,
                    "max_retries": 0,
                },
            )
            for key in ("first-key", "second-key")
            for name in ("a", "b")
        ]
        async with anyio.create_task_group() as task_group:
            for _ in range(10):
                for model in models:
                    task_group.start_soon(collect, model)
        assert len(server.requests) == 40
    assert all_four.is_set()
    assert most == {"Bearer first-key": 2, "Bearer second-key": 2}


async def test_a_header_that_differs_from_request_to_request_switches_no_limit_off() -> None:
    in_flight = 0
    most = 0

    async def reply(request: RecordedRequest) -> ModelReply:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        for _ in range(20):
            await checkpoint()
        in_flight -= 1
        return GOOD

    async with ModelServer(reply) as server, nh.run(ScriptedExecutor()):
        settings = {"base_url": server.base_url, "api_key": SECRET, "max_concurrent_requests": 1}
        model = create_model("openai-chat:tested", settings=settings, environment={})
        async with anyio.create_task_group() as task_group:
            for number in range(10):
                headers = {"Idempotency-Key": f"request-{number}", "X-Session-Token": f"session-{number}"}
                request = ModelRequest(messages=HELLO.messages, settings={"extra_headers": headers})
                task_group.start_soon(collect, model, request)
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 10
    assert most == 1


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        ModelReply(status=400),
        ModelReply(body=b"<html>", headers={"content-type": "text/html"}),
        ModelReply(text="Hello", ending="close", ending_after=2),
        ModelReply(text="Hello", ending="hang", ending_after=2),
        ModelReply(text="Hello", ending="hang", ending_after=0),
    ],
)
async def test_however_a_request_ends_its_turn_is_over(reply: ModelReply) -> None:
    pacer = Pacer()
    limits = {"first_event_timeout": 0.1, "idle_timeout": 0.1}
    async with ModelServer([reply, GOOD]) as server:
        patient = paced_model(server, pacer, max_concurrent_requests=1)
        if reply is GOOD:
            await collect(patient)
        elif reply.ending == "hang":
            await read_until_error(paced_model(server, pacer, max_concurrent_requests=1, **limits))
        else:
            await read_until_error(patient)
        assert pacer.statistics().in_flight == 0
        with anyio.fail_after(240):
            assert text_of(await collect(patient)) == "Hello"


async def test_a_stream_that_is_left_early_gives_its_turn_back() -> None:
    pacer = Pacer()
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer([reply]) as server:
        async with paced_model(server, pacer).stream(HELLO) as events:
            await anext(events)
            assert pacer.statistics().in_flight == 1
        assert pacer.statistics().in_flight == 0


async def test_a_backoff_holds_no_turn() -> None:
    replies = [ModelReply(status=500, headers={"retry-after": "100"})]
    pacer = Pacer()
    async with ModelServer(replies) as server, anyio.create_task_group() as task_group:
        model = paced_model(server, pacer, max_retries=1, max_concurrent_requests=1)
        task_group.start_soon(collect, model)
        with anyio.fail_after(240):
            while not server.requests or pacer.statistics().in_flight:
                await checkpoint()
            (await pacer.admit(Demand(lane="x", limits=PacingLimits(max_concurrent_requests=1)))).release()
        task_group.cancel_scope.cancel()


async def test_a_request_that_is_sent_again_goes_before_those_that_came_later() -> None:
    asked: list[str] = []

    async def reply(request: RecordedRequest) -> ModelReply:
        asked.append(request.body["messages"][-1]["content"])
        if len(asked) == 1:
            return ModelReply(status=500, headers={"retry-after-ms": "50"})
        if len(asked) == 2:
            while pacer.statistics().waiting < 2:
                await checkpoint()
        return GOOD

    pacer = Pacer()
    async with ModelServer(reply) as server, anyio.create_task_group() as task_group:
        model = paced_model(server, pacer, max_retries=1, max_concurrent_requests=1)
        with anyio.fail_after(240):
            for number, name in enumerate(["first", "second", "third"], 1):
                request = ModelRequest(messages=(UserMessage(content=(name,)),))
                task_group.start_soon(collect, model, request)
                while len(asked) < min(number, 2) or (number == 1 and pacer.statistics().in_flight):
                    await checkpoint()
    assert asked == ["first", "second", "first", "third"]


async def test_the_real_usage_replaces_the_estimate() -> None:
    pacer = Pacer()
    async with ModelServer([GOOD, GOOD]) as server:
        model = paced_model(server, pacer, tokens_per_minute=1_000, max_tokens=800)
        request = ModelRequest(messages=(UserMessage(content=("x" * 300,)),))
        for _ in range(2):  # each is estimated at about nine hundred tokens, and takes fifteen
            with anyio.fail_after(240):
                await collect(model, request)


async def test_a_setting_that_is_changed_in_place_counts_from_the_next_request_on() -> None:
    settings: dict[str, Any] = {"temperature": 0, "extra_headers": {"x-trace": "1"}}
    request = ModelRequest(messages=HELLO.messages, settings=settings)
    async with ModelServer([GOOD] * 3) as server:
        model = model_at(server.base_url)
        await collect(model, request)
        settings["temperature"] = 1
        await collect(model, request)
        settings["extra_headers"]["x-trace"] = "2"
        await collect(model, request)
        assert [each.body["temperature"] for each in server.requests] == [0, 1, 1]
        assert [each.headers["x-trace"] for each in server.requests] == ["1", "1", "2"]


BEGINNINGS = {
    "anthropic:m": (
        b"event: message_start\n"
        b'data: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m",'
        b'"content":[],"usage":{"input_tokens":10,"output_tokens":1}}}\n\n'
        b'event: ping\ndata: {"type":"ping"}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
    ),
    "openai-responses:m": (
        b'data: {"type":"response.created","response":{"id":"1"},"sequence_number":0}\n\n'
        b'data: {"type":"error","code":"server_error","message":"x","param":null,"sequence_number":1}\n\n'
    ),
    "google:m": b'{\n "error": {\n  "code": 503,\n  "message": "x",\n  "status": "UNAVAILABLE"\n }\n}\n',
}


@pytest.mark.parametrize("model_id", BEGINNINGS)
async def test_each_protocols_error_before_any_output_is_met_with_another_attempt(
    model_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    async with ModelServer(lambda _: ModelReply(body=BEGINNINGS[model_id])) as server:
        settings = {"base_url": server.base_url, "api_key": SECRET, "max_retries": 2}
        seen, error = await read_until_error(create_model(model_id, settings=settings, environment={}))
        assert len(server.requests) == 3
    assert isinstance(error, ModelProviderError)
    assert error.is_transient
    assert error.retries == 2
    assert [usage.input_tokens for usage in usages_of(seen)] == ([30] if model_id == "anthropic:m" else [])
