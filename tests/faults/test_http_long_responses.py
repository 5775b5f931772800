"""Responses that are long, or take long to decode: the event loop goes on, and limits hold."""

import gzip
import itertools
import json
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint

from nighthawk_async.errors import (
    ConfigurationError,
    ModelProtocolError,
    ModelStatusError,
    RequestTimeoutError,
)
from nighthawk_async.models import exchange
from nighthawk_async.models.response_body import LoopTurns
from nighthawk_async.models.time_limits import TransportSettings
from nighthawk_async.types.model import ModelEvent, ResponseFinished, TextDelta, ToolCallCompleted
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_chat.response import ChatResponseDecoder
from nighthawk_async.wire.sse import ServerSentEvent

from .http_support import (
    HELLO,
    STOPPED_CLOCKS,
    collect,
    model_at,
    raw_server,
    read_request,
    stop_clock,
    text_of,
)

pytestmark = pytest.mark.anyio

END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def delta(text: str) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"delta": {"content": text}}]}).encode()


def head(*headers: str, status: str = "200 OK", media_type: str = "text/event-stream") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {media_type}", "Connection: close", *headers)
    return "\r\n".join([*lines, "", ""]).encode()


def answering(*pieces: bytes) -> Callable[[SocketStream], Any]:
    """Answers with these bytes and closes."""

    async def serve(stream: SocketStream) -> None:
        await read_request(stream)
        try:
            for piece in pieces:
                await stream.send(piece)
        except anyio.BrokenResourceError:
            pass  # the client had enough

    return serve


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every look takes a millisecond, for the turns of the event loop."""
    ticks = itertools.count()
    monkeypatch.setattr(exchange, "LoopTurns", partial(LoopTurns, now=lambda: next(ticks) / 1_000))


@pytest.mark.usefixtures("slow_clock")
async def test_other_tasks_have_turns_while_a_burst_of_events_is_decoded_and_handed_on() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    burst = delta("x") * 1_000 + END
    async with raw_server(answering(head() + burst)) as url, anyio.create_task_group() as task_group:
        task_group.start_soon(count_turns)
        async with model_at(url).stream(HELLO) as events:
            before = turns
            received = [event async for event in events]
        task_group.cancel_scope.cancel()

    assert text_of(received) == "x" * 1_000
    assert turns - before >= 2 * 1_000 // 10  # both take time: decoding an event and handing it on


@pytest.mark.usefixtures("slow_clock")
async def test_pings_leave_turns_to_other_tasks_although_they_are_no_events() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    pings = b'data: {"choices":[]}\n\n' * 1_000
    stream = head() + delta("x") + pings + END
    async with raw_server(answering(stream)) as url, anyio.create_task_group() as task_group:
        task_group.start_soon(count_turns)
        async with model_at(url).stream(HELLO) as events:
            before = turns
            received = [event async for event in events]
        task_group.cancel_scope.cancel()

    assert text_of(received) == "x"
    assert turns - before >= 1_000 // 10


@pytest.mark.usefixtures("slow_clock")
async def test_a_cancellation_ends_a_response_amid_a_burst() -> None:
    received: list[ModelEvent] = []
    async with raw_server(answering(head() + delta("x") * 1_000 + END)) as url:
        with anyio.CancelScope() as scope:
            async with model_at(url).stream(HELLO) as events:
                async for event in events:
                    received.append(event)
                    scope.cancel()

    assert scope.cancelled_caught
    assert 0 < len(received) < 20


@pytest.fixture
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of the event loop by the clock that time limits go by."""
    monkeypatch.setattr(exchange, "LoopTurns", partial(LoopTurns, now=anyio.current_time))


@pytest.mark.usefixtures("one_clock")
@pytest.mark.parametrize("anyio_backend", STOPPED_CLOCKS)
async def test_the_time_limit_holds_while_events_that_came_at_once_are_decoded(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_seconds = stop_clock(anyio_backend_name, monkeypatch)
    feed = ChatResponseDecoder.feed

    def feed_slowly(self: ChatResponseDecoder, event: ServerSentEvent) -> list[ModelEvent]:
        pass_seconds(0.002)
        return feed(self, event)

    monkeypatch.setattr(ChatResponseDecoder, "feed", feed_slowly)
    async with raw_server(answering(head() + delta("x") * 1_000 + END)) as url:
        with pytest.raises(RequestTimeoutError, match=r"0\.3 seconds"):
            await collect(model_at(url, timeout=0.3))


@pytest.mark.usefixtures("one_clock")
@pytest.mark.parametrize("anyio_backend", STOPPED_CLOCKS)
async def test_a_complete_response_is_handed_on_although_its_reader_takes_longer_than_the_time_limit(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_seconds = stop_clock(anyio_backend_name, monkeypatch)
    async with raw_server(answering(head() + delta("x") * 3 + END)) as url:
        received: list[ModelEvent] = []
        async with model_at(url, timeout=5).stream(HELLO) as events:
            async for event in events:
                received.append(event)
                pass_seconds(2)

    assert text_of(received) == "xxx"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each event that is decoded, whether a thread does it."""
    in_threads: list[bool] = []
    loop_thread = threading.get_ident()

    def watched(method: str) -> Callable[..., Iterable[ModelEvent]]:
        original = getattr(ChatResponseDecoder, method)

        def decode(self: ChatResponseDecoder, *arguments: Any) -> Any:
            in_threads.append(threading.get_ident() != loop_thread)
            return original(self, *arguments)

        return decode

    for method in ("feed", "finish", "feed_whole"):
        monkeypatch.setattr(ChatResponseDecoder, method, watched(method))
    return in_threads


async def test_a_large_event_is_decoded_in_a_thread(threads: list[bool]) -> None:
    async with raw_server(answering(head() + delta("x") + delta("y" * 50_000) + END)) as url:
        received = await collect(model_at(url))

    assert text_of(received) == "x" + "y" * 50_000
    assert threads[:4] == [False, True, False, False]


async def test_the_end_of_a_long_response_is_decoded_in_a_thread(threads: list[bool]) -> None:
    async with raw_server(answering(head() + delta("y" * 5_000) * 60 + END)) as url:
        received = await collect(model_at(url))

    assert isinstance(received[-1], ResponseFinished)
    assert threads == [False] * 61 + [True]


async def test_the_end_of_a_long_response_without_a_last_word_is_decoded_in_a_thread(
    threads: list[bool],
) -> None:
    stream = delta("y" * 5_000) * 60 + END.partition(b"data: [DONE]")[0]
    async with raw_server(answering(head() + stream)) as url:
        received = await collect(model_at(url))

    assert isinstance(received[-1], ResponseFinished)
    assert threads == [False] * 61 + [True]


async def test_a_large_whole_answer_is_decoded_in_a_thread(threads: list[bool]) -> None:
    body = json.dumps({"choices": [{"message": {"content": "y" * 50_000}}]}).encode()
    async with raw_server(answering(head(media_type="application/json") + body)) as url:
        received = await collect(model_at(url))

    assert text_of(received) == "y" * 50_000
    assert threads[0] is True


async def test_a_cancellation_does_not_wait_for_a_large_event(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChatResponseDecoder.feed
    is_decoding, may_go_on = anyio.Event(), threading.Event()

    def feed_slowly(self: ChatResponseDecoder, event: ServerSentEvent) -> list[ModelEvent]:
        if len(event.data) > 1_000:
            anyio.from_thread.run_sync(is_decoding.set)
            may_go_on.wait(240)
        return feed(self, event)

    monkeypatch.setattr(ChatResponseDecoder, "feed", feed_slowly)
    try:
        async with raw_server(answering(head() + delta("x") + delta("y" * 50_000) + END)) as url:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as task_group, model_at(url).stream(HELLO) as events:

                    async def cancel() -> None:
                        await is_decoding.wait()
                        scope.cancel()

                    task_group.start_soon(cancel)
                    received = [event async for event in events]
                    raise AssertionError(received)
    finally:
        may_go_on.set()

    assert scope.cancelled_caught


async def test_a_stream_may_have_64_mebibytes_by_default() -> None:
    assert TransportSettings().max_response_bytes == 64 * 1024 * 1024


@pytest.mark.parametrize(
    "endless",
    [delta("word "), b": comment\n\n", b"\n", b'data: {"choices":[]}\n\n', b"data: {", b"x"],
    ids=["text", "comments", "empty lines", "pings", "an event", "a line"],
)
async def test_a_stream_without_end_is_a_protocol_error(endless: bytes) -> None:
    async with raw_server(answering(head() + delta("x"), *[endless * 1_000] * 500)) as url:
        model, received = model_at(url, max_response_bytes=200_000, max_retries=2), list[ModelEvent]()

        async def receive() -> None:
            async with model.stream(HELLO) as events:
                async for event in events:
                    received.append(event)

        with pytest.raises(ModelProtocolError, match="over 200,000 bytes") as raised:
            await receive()

    assert raised.value.is_transient is False
    assert TextDelta(text="x") in received


async def test_a_whole_answer_that_is_too_long_is_a_protocol_error() -> None:
    body = json.dumps({"choices": [{"message": {"content": "y" * 60_000}}]}).encode()
    async with raw_server(answering(head(media_type="application/json") + body)) as url:
        with pytest.raises(ModelProtocolError, match=r"over 50,000 bytes long \(max_response_bytes\)"):
            await collect(model_at(url, max_response_bytes=50_000, max_retries=2))
        assert text_of(await collect(model_at(url, max_response_bytes=None))) == "y" * 60_000


async def test_every_response_has_its_own_bound() -> None:
    async with raw_server(answering(head() + delta("x" * 30_000) + END)) as url:
        model = model_at(url, max_response_bytes=50_000)
        for _ in range(3):
            assert text_of(await collect(model)) == "x" * 30_000


async def test_of_an_error_that_is_too_long_the_beginning_is_quoted() -> None:
    body = b'{"error": {"message": "' + b"no " * 1_000_000
    async with raw_server(
        answering(head(status="400 Bad Request", media_type="application/json") + body)
    ) as url:
        with pytest.raises(ModelStatusError, match="no no no") as raised:
            await collect(model_at(url))

    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_a_compressed_response_is_never_inflated(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = gzip.compress(delta("x" * 10_000_000))
    async with raw_server(answering(head("Content-Encoding: gzip", status=status) + body)) as url:
        with pytest.raises(ModelProtocolError if status == "200 OK" else ModelStatusError) as raised:
            await collect(model_at(url))

    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("bytes_allowed", [0, -1, 1.5, "many"])
async def test_a_bound_that_is_none_is_refused(bytes_allowed: object) -> None:
    with pytest.raises(ConfigurationError, match="max_response_bytes"):
        await collect(model_at("http://127.0.0.1:9", max_response_bytes=bytes_allowed))


async def test_the_bound_does_not_reach_the_body_of_the_request() -> None:
    codec = OpenAIChatCodec()
    request = type(HELLO)(messages=HELLO.messages, settings={"max_response_bytes": 5})

    assert b"max_response_bytes" not in codec.encode(request, model_name="m").body


async def test_calls_that_wait_for_an_earlier_one_are_let_go_in_a_thread(threads: list[bool]) -> None:
    def call(index: int, **fields: Any) -> bytes:
        function = {"arguments": '{"a": 1}', **fields}
        fragment = {"index": index, "id": f"c{index}", "function": function}
        return b"data: %s\n\n" % json.dumps({"choices": [{"delta": {"tool_calls": [fragment]}}]}).encode()

    calls = b"".join(call(each, name="look") for each in range(1, 3_000))
    stream = delta("x") + call(0) + calls + call(0, name="look", arguments="") + END
    async with raw_server(answering(head() + stream)) as url:
        received = await collect(model_at(url))

    completed = [event for event in received if isinstance(event, ToolCallCompleted)]
    assert [event.index for event in completed] == list(range(3_000))
    assert threads[:500] == [False] * 500
    assert threads[3_001] is True  # the name that all were waiting for
