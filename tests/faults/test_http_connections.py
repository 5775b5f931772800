"""Connections that are refused, break, grow stale or stay silent, and requests that are sent again."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint

from nighthawk_async.errors import (
    ConnectTimeoutError,
    FirstEventTimeoutError,
    IdleTimeoutError,
    ModelConnectionError,
    ModelError,
    ModelProtocolError,
    ModelProviderError,
    ModelStatusError,
    RequestTimeoutError,
)
from nighthawk_async.models import exchange, http_pool, response_body
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ResponseFinished, UsageReported
from nighthawk_async.types.usage import Usage

from .http_support import (
    HELLO,
    SECRET,
    collect,
    from_pool,
    model_at,
    raw_server,
    read_request,
    retry_soon,
    text_of,
    wait_until_closed,
)

pytestmark = pytest.mark.anyio

STREAM = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
SOON = {"retry-after-ms": "1"}
BUSY = ModelReply(status=503, headers=SOON, text="busy")
GOOD = ModelReply(text="Hello")


def http_response(body: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n"
    return head.format(len(body)).encode() + body


async def error_of(model: Model, error_type: type[ModelError]) -> Any:
    with anyio.fail_after(240), pytest.raises(error_type) as raised:
        await collect(model)
    return raised.value


@contextmanager
def unused_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def test_a_refused_connection_names_host_and_port_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    with unused_port() as port:  # a local server that is being started anew refuses connections as well
        error = await error_of(model_at(f"http://127.0.0.1:{port}/v1", max_retries=2), ModelConnectionError)
    assert f"cannot connect to 127.0.0.1:{port}: connection refused" in str(error)
    assert error.is_transient
    assert error.retries == 2


async def test_a_connection_that_breaks_during_its_handshake_is_transient() -> None:
    async def serve(stream: SocketStream) -> None:
        await stream.receive()

    async with raw_server(serve) as base_url:
        error = await error_of(model_at(base_url.replace("http:", "https:")), ModelConnectionError)
    assert error.is_transient


async def test_a_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = await error_of(model_at("http://nothing.invalid/v1"), ModelConnectionError)
    assert "cannot connect to nothing.invalid: the host name cannot be resolved" in str(error)
    assert not error.is_transient


async def test_a_server_without_tls_is_a_connection_error_at_once() -> None:
    accepted: list[SocketStream] = []

    async def serve(stream: SocketStream) -> None:
        accepted.append(stream)
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with raw_server(serve) as base_url:
        model = model_at(base_url.replace("http://", "https://"), max_retries=3)
        error = await error_of(model, ModelConnectionError)
    assert "no secure connection" in str(error)
    assert not error.is_transient
    assert len(accepted) == 1


async def test_a_connection_that_does_not_come_about_is_a_timeout_that_names_its_setting() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # fill the queue, so that the next connection gets no answer
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", connect_timeout=0.05)
        error = await error_of(model, ConnectTimeoutError)
    assert "within 0.05 seconds (connect_timeout)" in str(error)
    assert error.is_transient


@pytest.mark.parametrize("ending_after", [0, 1])
async def test_a_response_that_does_not_begin_is_a_timeout_that_names_its_setting(ending_after: int) -> None:
    """The head of a response, and a chunk that holds only a role, are no beginning."""
    reply = ModelReply(text="Hello", ending="hang", ending_after=ending_after)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, first_event_timeout=0.2, idle_timeout=0.05)
        error = await error_of(model, FirstEventTimeoutError)
        assert "no response from 127.0.0.1:" in str(error)
        assert "within 0.2 seconds (first_event_timeout)" in str(error)
        assert error.is_transient
        await wait_until_closed(server, pool)


async def test_comments_do_not_stand_for_the_first_event() -> None:
    pings = b": processing\n\n"
    pacing = ReplyPacing(between_writes_seconds=0.02, write_bytes=len(pings))
    async with ModelServer([ModelReply(body=pings * 200 + STREAM, pacing=pacing)]) as server:
        model = model_at(server.base_url, first_event_timeout=0.2)
        await error_of(model, FirstEventTimeoutError)


async def test_a_response_that_begins_too_late_is_asked_for_again() -> None:
    late = ModelReply(text="Late", ending="hang", ending_after=0)
    async with ModelServer([late, GOOD]) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, first_event_timeout=5, max_retries=1)
        assert text_of(await collect(model)) == "Hello"
        assert len(server.requests) == 2
        await wait_until_closed(server, pool)


async def test_a_silent_server_is_a_timeout_that_names_its_setting() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        error = await error_of(model_at(server.base_url, pool, idle_timeout=0.2), IdleTimeoutError)
        assert "no sign of life from 127.0.0.1:" in str(error)
        assert "for 0.2 seconds (idle_timeout)" in str(error)
        assert error.is_transient
        await wait_until_closed(server, pool)


async def test_a_slow_trickle_ends_at_the_limit_of_the_whole_request() -> None:
    reply = ModelReply(
        text="x" * 10_000, pacing=ReplyPacing(between_writes_seconds=0.02, fragment_characters=1)
    )
    async with ModelServer([reply] * 3) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, timeout=1, idle_timeout=5, max_retries=2)
        error = await error_of(model, RequestTimeoutError)
        assert "no complete response" in str(error)
        assert "within 1 seconds (timeout)" in str(error)
        assert not error.is_transient
        assert len(server.requests) == 1
        await wait_until_closed(server, pool)


async def test_signs_of_life_keep_a_slow_response_going() -> None:
    pacing = ReplyPacing(between_writes_seconds=0.05, fragment_characters=1)
    async with ModelServer([ModelReply(text="x" * 12, pacing=pacing)]) as server:
        events = await collect(model_at(server.base_url, idle_timeout=5))
    assert text_of(events) == "x" * 12


async def test_comments_are_signs_of_life() -> None:
    pings = b": processing\n\n"
    pacing = ReplyPacing(between_writes_seconds=0.05, write_bytes=len(pings))
    begun = b'data: {"choices":[{"delta":{"content":"Oh "},"finish_reason":null}]}\n\n'
    async with ModelServer([ModelReply(body=begun + pings * 120 + STREAM, pacing=pacing)]) as server:
        began = time.monotonic()
        assert text_of(await collect(model_at(server.base_url, idle_timeout=5))) == "Oh Hi"
        assert time.monotonic() - began > 5


async def test_without_limits_a_response_takes_its_time() -> None:
    async with ModelServer([ModelReply(text="Hi", pacing=ReplyPacing(first_byte_seconds=0.05))]) as server:
        model = model_at(server.base_url, idle_timeout=None, timeout=None, first_event_timeout=None)
        assert text_of(await collect(model)) == "Hi"


async def test_a_retry_does_not_begin_when_the_limit_would_pass_meanwhile() -> None:
    reply = ModelReply(status=503, headers={"retry-after": "30"})
    async with ModelServer([reply, GOOD]) as server:
        error = await error_of(model_at(server.base_url, timeout=5, max_retries=2), ModelStatusError)
        assert error.status == 503
        assert len(server.requests) == 1


async def test_a_request_is_sent_again_until_it_succeeds() -> None:
    broken = ModelReply(text="lost", ending="close", ending_after=1)
    overloaded = ModelReply(error={"message": "overloaded", "type": "overloaded_error"})
    async with ModelServer([BUSY, BUSY, GOOD]) as server, open_http_pool() as pool:
        assert text_of(await collect(model_at(server.base_url, pool, max_retries=2))) == "Hello"
        assert len(server.requests) == 3
        assert len({request.content for request in server.requests}) == 1
    for reply in (broken, overloaded):
        async with ModelServer([reply, GOOD]) as server:
            assert text_of(await collect(model_at(server.base_url, max_retries=1))) == "Hello"


async def test_two_retries_are_the_default() -> None:
    async with ModelServer([BUSY] * 5) as server:
        settings = {"base_url": server.base_url, "api_key": SECRET}
        model = create_model("openai-chat:tested", settings=settings, environment={})
        error = await error_of(model, ModelStatusError)
        assert "busy" in str(error)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(status=400, headers=SOON),
        ModelReply(status=500, headers={**SOON, "x-should-retry": "false"}),
        ModelReply(status=429, headers={"retry-after": "121"}),
        ModelReply(body=b"<html>", headers={"content-type": "text/html"}),
    ],
)
async def test_what_would_fail_again_or_takes_too_long_is_not_sent_again(reply: ModelReply) -> None:
    async with ModelServer([reply, GOOD]) as server:
        await error_of(model_at(server.base_url, max_retries=3), ModelError)
        assert len(server.requests) == 1


async def test_nothing_is_sent_again_once_an_event_was_handed_on() -> None:
    overloaded = {"message": "overloaded", "type": "overloaded_error"}
    replies = [
        ModelReply(text="Hello", error=overloaded),
        ModelReply(text="Hello", ending="close", ending_after=2),
    ]
    for reply, error_type in zip(replies, (ModelProviderError, ModelProtocolError), strict=True):
        async with ModelServer([reply, GOOD]) as server:
            error = await error_of(model_at(server.base_url, max_retries=3), error_type)
            assert error.is_transient
            assert len(server.requests) == 1


async def test_a_wait_for_a_retry_can_be_cancelled() -> None:
    replies = [ModelReply(status=503, headers={"retry-after": "100"})]
    async with ModelServer(replies) as server, open_http_pool() as pool:
        with anyio.move_on_after(0.2) as scope:
            await collect(model_at(server.base_url, pool, max_retries=2))
        assert scope.cancelled_caught
        assert pool.statistics().in_flight == 0


async def test_a_connection_is_used_again_after_a_whole_response() -> None:
    async with ModelServer([GOOD] * 5) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool)
        for _ in range(5):
            assert (await collect(model))[-1] == ResponseFinished(reason="stop")
        assert server.connections.total == 1
        assert (pool.statistics().idle, pool.statistics().in_flight) == (1, 0)
    assert pool.statistics().open == 0


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"connection": "close"}, id="it says so"),
        pytest.param({"Connection": "Close"}, id="it says so in capitals"),
        pytest.param({"Server": "llama.cpp", "Keep-Alive": "timeout=5, max=100"}, id="llama.cpp's"),
    ],
)
async def test_a_connection_that_the_server_closes_is_not_kept(headers: dict[str, str]) -> None:
    async with ModelServer([ModelReply(text="Hello", headers=headers)]) as server, open_http_pool() as pool:
        await collect(model_at(server.base_url, pool))
        assert pool.statistics().open == 0


async def test_an_error_status_read_to_its_end_keeps_the_connection() -> None:
    async with ModelServer([ModelReply(status=400), GOOD]) as server, open_http_pool() as pool:
        await error_of(model_at(server.base_url, pool), ModelStatusError)
        assert text_of(await collect(model_at(server.base_url, pool))) == "Hello"
        assert pool.statistics().open == 1


async def test_leaving_a_stream_early_closes_its_connection() -> None:
    reply = ModelReply(text="x" * 1000, pacing=ReplyPacing(between_writes_seconds=0.01))
    async with ModelServer([reply, GOOD]) as server, open_http_pool() as pool:
        async with model_at(server.base_url, pool).stream(HELLO) as events:
            await anext(events)
            assert pool.statistics().in_flight == 1
        assert pool.statistics().open == 0
        await wait_until_closed(server, pool)
        assert text_of(await collect(model_at(server.base_url, pool))) == "Hello"


async def test_a_server_that_keeps_the_stream_open_after_its_last_event_holds_nobody_up() -> None:
    async with ModelServer([ModelReply(text="Hello", ending="hang")]) as server, open_http_pool() as pool:
        with anyio.fail_after(240):
            assert text_of(await collect(model_at(server.base_url, pool))) == "Hello"
        assert pool.statistics().open == 0


async def test_a_connection_that_the_server_closed_while_it_was_idle_costs_no_error() -> None:
    requests: list[bytes] = []
    closed: list[anyio.Event] = []

    async def serve(stream: SocketStream) -> None:
        """Answer one request and close the connection, without a word about that."""
        closed.append(anyio.Event())
        requests.append(await read_request(stream))
        await stream.send(http_response(STREAM))
        await stream.aclose()
        closed[-1].set()

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        for number in range(3):
            assert text_of(await collect(model_at(base_url, pool))) == "Hi"
            await closed[number].wait()
    assert len(requests) == 3
    assert all(requests)


async def test_an_answer_to_no_request_is_never_taken_for_that_of_the_next() -> None:
    told: list[anyio.Event] = []

    async def serve(stream: SocketStream) -> None:
        """Answer each request, and after the first say something that nobody has asked for."""
        told.append(anyio.Event())
        while await read_request(stream):
            await stream.send(http_response(STREAM))
            if len(told) == 1:
                await checkpoint()
                await stream.send(http_response(STREAM.replace(b"Hi", b"Ha")))
                told[0].set()

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        model = model_at(base_url, pool)
        assert text_of(await collect(model)) == "Hi"
        await told[0].wait()
        await anyio.wait_all_tasks_blocked()  # whatever reads ahead has read it
        assert text_of(await collect(model)) == "Hi"
    assert len(told) == 2


async def test_a_request_that_fills_every_buffer_arrives_whole() -> None:
    async with ModelServer([GOOD]) as server, open_http_pool() as pool:
        request = replace(HELLO, system_prompt="x" * 10_000_000)
        async with model_at(server.base_url, pool).stream(request) as events:
            assert text_of([event async for event in events]) == "Hello"
        assert server.requests[0].content.count(b"x") >= 10_000_000


@pytest.mark.parametrize("answer", [b"", b"no HTTP at all\r\n\r\n"])
async def test_a_request_on_a_kept_connection_that_breaks_is_not_sent_again_in_silence(answer: bytes) -> None:
    requests: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        """Answer once; the second request on a connection is received, and perhaps worked on."""
        requests.append(await read_request(stream))
        await stream.send(http_response(STREAM))
        requests.append(await read_request(stream))
        if answer:
            await stream.send(answer)

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        await collect(model_at(base_url, pool))
        error = await error_of(model_at(base_url, pool), ModelConnectionError)
        assert error.is_transient
        assert len(requests) == 2
        assert pool.statistics().open == 0


async def test_a_kept_connection_that_breaks_is_a_retry_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    requests: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        requests.append(await read_request(stream))
        await stream.send(http_response(STREAM))
        requests.append(await read_request(stream))

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        await collect(model_at(base_url, pool))
        events = await collect(model_at(base_url, pool, max_retries=1))
        assert events[0] == UsageReported(
            usage=Usage(requests=1, retries=1, unpriced_requests=1, is_complete=False)
        )
        assert [bool(each) for each in requests] == [True, True, True]


async def test_a_fresh_connection_that_dies_without_an_answer_is_an_error() -> None:
    async def serve(stream: SocketStream) -> None:
        await read_request(stream)

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        error = await error_of(model_at(base_url, pool), ModelConnectionError)
        assert "the connection to 127.0.0.1:" in str(error)
        assert error.is_transient
        assert pool.statistics().open == 0


def send_and_reset(listener: socket.socket, response: bytes) -> None:
    """Answer one request with those bytes and reset the connection."""
    connection, _ = listener.accept()
    with connection:
        while not connection.recv(65_536).endswith(b"}"):  # the end of the request's body
            pass
        connection.sendall(response)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_a_reset_in_the_middle_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with open_http_pool() as pool, anyio.create_task_group() as task_group:
            task_group.start_soon(
                anyio.to_thread.run_sync, send_and_reset, listener, http_response(STREAM)[:-20]
            )
            model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", pool)
            error = await error_of(model, ModelConnectionError)
            assert "the connection to 127.0.0.1:" in str(error)
            assert error.is_transient
            assert pool.statistics().open == 0


async def test_a_reset_within_the_body_of_an_error_does_not_hide_the_error() -> None:
    response = b"HTTP/1.1 401 No\r\nContent-Length: 100\r\n\r\nno such key"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with open_http_pool() as pool, anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.to_thread.run_sync, send_and_reset, listener, response)
            model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", pool, max_retries=1)
            error = await error_of(model, ModelStatusError)
            assert error.status == 401
            assert pool.statistics().open == 0


async def test_the_body_of_an_error_that_never_ends_does_not_hide_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_body, "_ERROR_BODY_SECONDS", 0.1)
    reply = ModelReply(status=401, text="no such key", ending="hang", ending_after=0.5)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        error = await error_of(model_at(server.base_url, pool), ModelStatusError)
        assert error.status == 401
        assert pool.statistics().open == 0
        await wait_until_closed(server, pool)


async def test_a_whole_answer_that_was_cut_is_asked_for_again() -> None:
    cut = ModelReply(text="Hello", ending="close", ending_after=0.5)
    async with ModelServer([cut, GOOD]) as server:
        model = model_at(server.base_url, stream=False, max_retries=1)
        with anyio.fail_after(240):
            assert text_of(await collect(model)) == "Hello"
        assert len(server.requests) == 2


async def test_a_reset_after_the_last_event_is_no_error() -> None:
    response = http_response(STREAM + b": bye")[:-5]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with open_http_pool() as pool, anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.to_thread.run_sync, send_and_reset, listener, response)
            model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", pool)
            assert text_of(await collect(model)) == "Hi"
            assert pool.statistics().open == 0


async def test_what_follows_the_last_event_is_read_so_that_the_connection_is_kept() -> None:
    pacing = ReplyPacing(between_writes_seconds=0.01, write_bytes=len(STREAM))
    reply = ModelReply(body=STREAM + b": bye\n\n" * 20, pacing=pacing)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        assert text_of(await collect(model_at(server.base_url, pool))) == "Hi"
        assert pool.statistics().idle == 1


async def test_connections_idle_for_long_are_closed_whatever_their_origin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies = [ModelReply(text="Hello", pacing=ReplyPacing(first_byte_seconds=0.05))] * 3
    async with ModelServer(replies) as server, ModelServer([GOOD] * 2) as other, open_http_pool() as pool:
        async with anyio.create_task_group() as task_group:
            for _ in replies:
                task_group.start_soon(collect, model_at(server.base_url, pool))
        assert pool.statistics().idle == 3
        monkeypatch.setattr(http_pool, "_IDLE_SECONDS", 0.0)
        async with model_at(other.base_url, pool).stream(HELLO):
            assert pool.statistics().idle == 0
        await server.wait_until_open(at_most=0)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("scheme", "is_kept"), [("http", False), ("https", True)])
async def test_a_connection_without_tls_is_given_up_before_servers_of_ones_own_close_it(
    scheme: str, is_kept: bool
) -> None:
    url = urlsplit(f"{scheme}://127.0.0.1:9/v1")
    async with open_http_pool() as pool:
        connection, _ = pool.take_nowait(url)
        connection.is_reusable = True  # as after a whole response
        pool.give_back_nowait(url, connection)
        await anyio.sleep(5)
        again, expired = pool.take_nowait(url)
        assert (again is connection, expired) == (is_kept, [] if is_kept else [connection])
        await connection.aclose()
        await again.aclose()


async def test_a_connection_given_back_closes_those_that_were_idle_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ModelServer([GOOD]) as server, ModelServer([GOOD]) as other, open_http_pool() as pool:
        async with model_at(other.base_url, pool).stream(HELLO) as events:
            await collect(model_at(server.base_url, pool))
            assert pool.statistics().idle == 1
            monkeypatch.setattr(http_pool, "_IDLE_SECONDS", 0.0)
            async for _ in events:
                pass
        assert pool.statistics().open == 1
        await server.wait_until_open(at_most=0)


async def test_a_pool_that_is_cancelled_while_it_closes_closes_every_connection() -> None:
    class SlowConnection:
        is_reusable = True
        is_closed = False

        async def aclose(self) -> None:
            await checkpoint()
            self.is_closed = True

    connections: list[Any] = [SlowConnection() for _ in range(3)]
    pool = open_http_pool()
    for connection in connections:
        pool.give_back_nowait(urlsplit("http://host"), connection)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pool.aclose()
    assert all(connection.is_closed for connection in connections)


async def test_an_event_cut_at_the_end_of_the_stream_is_a_stream_cut_short() -> None:
    async def serve(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(http_response(STREAM)[:-40])

    async with raw_server(serve) as base_url:
        error = await error_of(model_at(base_url), ModelProtocolError)
    assert "ended before the response was finished" in str(error)
    assert error.is_transient


async def test_what_speaks_no_http_is_a_connection_error() -> None:
    async def serve(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    async with raw_server(serve) as base_url:
        error = await error_of(model_at(base_url), ModelConnectionError)
    assert "illegal status line" in str(error)


async def test_without_a_pool_every_request_has_a_connection_of_its_own() -> None:
    async with ModelServer([GOOD] * 3) as server:
        model = model_at(server.base_url)
        for _ in range(3):
            await collect(model)
        assert server.connections.total == 3
        with anyio.fail_after(240):
            await server.wait_until_open(at_most=0)


async def test_a_pool_keeps_no_more_idle_connections_than_told() -> None:
    replies = [ModelReply(text="Hello", pacing=ReplyPacing(first_byte_seconds=0.05))] * 6
    async with ModelServer(replies) as server, open_http_pool(max_idle=2) as pool:
        model = model_at(server.base_url, pool)
        async with anyio.create_task_group() as task_group:
            for _ in range(6):
                task_group.start_soon(collect, model)
        assert server.connections.total == 6
        assert pool.statistics().idle == 2
        await wait_until_closed(server, pool)


async def test_a_closed_pool_refuses_requests() -> None:
    async with open_http_pool() as pool:
        pass
    async with ModelServer([GOOD]) as server:
        with pytest.raises(RuntimeError, match="the HTTP pool is closed"):
            await collect(model_at(server.base_url, pool))


async def test_a_pool_closed_under_a_request_keeps_nothing() -> None:
    async with ModelServer([ModelReply(text="Hello")]) as server:
        async with open_http_pool() as pool:
            stream = model_at(server.base_url, pool).stream(HELLO)
            events = await stream.__aenter__()
        assert [event async for event in events][-1] == ResponseFinished(reason="stop")
        await stream.__aexit__(None, None, None)
        assert pool.statistics().open == 0


async def test_the_pool_source_is_left_when_the_request_is_over() -> None:
    async with ModelServer([ModelReply(status=400), GOOD]) as server, open_http_pool() as pool:
        given = from_pool(pool)
        uses: list[str] = []

        class Watched:
            async def __aenter__(self) -> Any:
                uses.append("entered")
                self.context = given()
                return await self.context.__aenter__()

            async def __aexit__(self, *arguments: Any) -> None:
                uses.append("left")
                await self.context.__aexit__(*arguments)

        model = model_at(server.base_url)
        vars(model)["pool_source"] = Watched
        await error_of(model, ModelStatusError)
        await collect(model)
        assert uses == ["entered", "left", "entered", "left"]
