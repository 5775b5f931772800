"""What is known of a request's usage when it is cancelled, or was sent more than once."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.models import exchange
from nighthawk_async.models.exchange import Exchange
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing import cassette
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import UsageReported
from nighthawk_async.types.usage import Usage

from .http_support import HELLO, SECRET, collect, model_at, raw_server, read_request, retry_soon

pytestmark = pytest.mark.anyio

START = (
    b"event: message_start\n"
    b'data: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m",'
    b'"content":[],"usage":{"input_tokens":5000,"output_tokens":1}}}\n\n'
)
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
STARTS_AND_HANGS = ModelReply(body=START, ending="hang")
GOOD = ModelReply(text="Hello")


@nh.natural_function
async def answer() -> int:
    number: int
    """natural
    Set <:number> to the answer.
    """
    return number


def anthropic_at(server: ModelServer, **settings: Any) -> Model:
    given = {"base_url": server.base_url, "api_key": SECRET, "max_retries": 0, **settings}
    return create_model("anthropic:tested", settings=given, environment={})


async def cancel_when(is_reached: Callable[[], bool], run: Callable[[], Awaitable[object]]) -> None:
    """Run something, and cancel it at that point."""

    async def run_alone() -> None:
        await run()

    with anyio.fail_after(240):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(run_alone)
            while not is_reached():
                await checkpoint()
            task_group.cancel_scope.cancel()


async def enter(stream: Exchange) -> None:
    async with stream:
        pass


def stream_of(model: Model) -> Exchange:
    stream = model.stream(HELLO)
    assert isinstance(stream, Exchange)
    return stream


def knows_tokens(stream: Exchange) -> bool:
    return stream.usage is not None and stream.usage.input_tokens > 0


async def test_a_request_that_was_never_sent_has_no_usage() -> None:
    async with ModelServer([GOOD]) as server:
        assert stream_of(model_at(server.base_url)).usage is None


async def test_a_request_cancelled_before_its_first_output_keeps_its_usage() -> None:
    async with ModelServer([STARTS_AND_HANGS]) as server:
        stream = stream_of(anthropic_at(server))
        await cancel_when(lambda: knows_tokens(stream), lambda: enter(stream))
    assert stream.usage == Usage(
        requests=1, input_tokens=5_000, output_tokens=1, unpriced_requests=1, is_complete=False
    )


async def test_a_request_cancelled_before_its_next_attempt_keeps_its_usage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delays: list[float] = []

    def wait_long(*_: object, **__: object) -> float:
        delays.append(100.0)
        return 100.0

    monkeypatch.setattr(exchange, "retry_delay", wait_long)
    async with ModelServer([ModelReply(body=START + OVERLOADED)]) as server:
        stream = stream_of(anthropic_at(server))
        await cancel_when(lambda: bool(delays), lambda: enter(stream))
    usage = stream.usage
    assert usage is not None
    assert (usage.requests, usage.input_tokens, usage.is_complete) == (1, 5_000, False)


async def test_the_usage_of_a_whole_response_is_the_one_that_was_reported() -> None:
    async with ModelServer([GOOD]) as server:
        stream = stream_of(model_at(server.base_url))
        async with stream as events:
            reported = [event.usage async for event in events if isinstance(event, UsageReported)]
    assert stream.usage == reported[-1]
    assert reported[-1].is_complete


@pytest.mark.parametrize("is_recorded", [False, True], ids=["", "recorded"])
@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
async def test_a_step_cancelled_before_the_first_output_counts_what_it_cost(
    transport: nh.executors.OutcomeTransport, is_recorded: bool, tmp_path: Path
) -> None:
    recorder = cassette(tmp_path / "steps.yaml", mode="all") if is_recorded else nullcontext()
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    streams: list[Exchange] = []

    async with ModelServer([STARTS_AND_HANGS]) as server:
        model = anthropic_at(server, capabilities={"structured_output": True})
        open_stream = model.stream

        def watched(request: Any) -> Any:
            stream = open_stream(request)
            assert isinstance(stream, Exchange)
            streams.append(stream)
            return stream

        model.stream = watched  # type: ignore[method-assign]
        executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
        with recorder:
            run = nh.run(executor)
            async with run:
                await cancel_when(lambda: bool(streams) and knows_tokens(streams[0]), answer)
        usage = run.usage_meter.usage
    assert (usage.requests, usage.input_tokens, usage.is_complete) == (1, 5_000, False)


@pytest.mark.parametrize(
    ("first", "is_complete", "limits"),
    [
        (ModelReply(status=503, text="busy"), True, {}),
        (ModelReply(ending="close", ending_after="request"), False, {}),
        (ModelReply(text="lost", ending="close", ending_after=1), False, {}),
        (ModelReply(error={"message": "overloaded", "type": "overloaded_error"}), False, {}),
        # Long enough for the second attempt on a busy machine.
        (ModelReply(text="late", ending="hang", ending_after=0), False, {"first_event_timeout": 5}),
    ],
)
async def test_an_attempt_that_may_have_cost_something_leaves_the_usage_incomplete(
    first: ModelReply, is_complete: bool, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    async with ModelServer([first, GOOD]) as server:
        events = await collect(model_at(server.base_url, max_retries=1, **limits))
    usage = [event.usage for event in events if isinstance(event, UsageReported)][-1]
    assert (usage.input_tokens, usage.retries, usage.is_complete) == (10, 1, is_complete)


async def test_a_connection_that_broke_after_the_request_leaves_the_usage_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)

    async def serve(stream: SocketStream) -> None:
        await read_request(stream)

    async with raw_server(serve) as base_url:
        stream = stream_of(model_at(base_url, max_retries=1))
        with pytest.raises(nh.errors.ModelConnectionError):
            await enter(stream)
    assert stream.usage == Usage(requests=1, retries=1, unpriced_requests=1, is_complete=False)
