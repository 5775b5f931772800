"""One connection for one request after the other: nothing is taken for an answer that is none."""

import anyio
import pytest
from anyio.abc import SocketStream

from nighthawk_async.errors import ModelConnectionError
from nighthawk_async.models import http_pool
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest

from .http_support import HELLO, collect, model_at, raw_server, read_request, text_of

pytestmark = pytest.mark.anyio


def answer(text: str) -> bytes:
    chunk = f'{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}'
    body = f"data: {chunk}\n\ndata: [DONE]\n\n".encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("between", [b"", b"\r\n" * 40_000], ids=["at once", "after much else"])
async def test_what_comes_after_a_response_is_no_answer_to_the_next_request(between: bytes) -> None:
    asked: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        while request := await read_request(stream):
            asked.append(request)
            first = len(asked) == 1
            await stream.send(answer("first") + between + answer("stale") if first else answer("second"))

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        model = model_at(base_url, pool)
        assert text_of(await collect(model)) == "first"
        assert text_of(await collect(model)) == "second"


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_handshake_that_is_broken_off_is_worth_another_attempt(is_reset: bool) -> None:
    async def serve(stream: SocketStream) -> None:
        if not is_reset:
            await stream.receive()  # what is left unread makes a close a reset

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        model = model_at(base_url.replace("http:", "https:"), pool)
        with pytest.raises(ModelConnectionError) as caught:
            await collect(model)
    assert caught.value.is_transient
    assert "did not complete" not in str(caught.value)


async def test_a_request_closes_a_few_expired_connections_and_uses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ModelServer(lambda _: ModelReply(text="Hello")) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool)
        async with anyio.create_task_group() as task_group:
            for _ in range(20):
                task_group.start_soon(collect, model)
        idle, opened = pool.statistics().idle, server.connections.total
        assert idle > 10
        monkeypatch.setattr(http_pool, "_IDLE_SECONDS", -1.0)
        async with model.stream(HELLO) as events:
            assert idle - 5 < pool.statistics().idle < idle
            assert [event async for event in events]
        assert server.connections.total == opened + 1


async def test_a_long_request_arrives_whole() -> None:
    prompt = "Hello, world! " * 400_000
    async with ModelServer(lambda _: ModelReply(text="Hello")) as server, open_http_pool() as pool:
        request = ModelRequest(messages=(UserMessage(content=(prompt,)),))
        await collect(model_at(server.base_url, pool), request)
        assert prompt in str(server.requests[0])


def odd_answers() -> dict[str, tuple[list[bytes], bool]]:
    """Answers in forms that only h11 reads, in pieces, and whether the connection is used again."""
    head, body = answer("Hello").split(b"\r\n\r\n", 1)
    chunked = head.rpartition(b"\r\n")[0] + b"\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%b\r\n%x" % (9, body[:9], len(body) - 9)
    last = b"\r\n" + body[9:] + b"\r\n0\r\n"
    return {
        "a head in two pieces": ([head[:20], head[20:] + b"\r\n\r\n" + body], True),
        "an interim response": ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", answer("Hello")], True),
        "a folded line": ([head + b"\r\nx: a\r\n b\r\n\r\n" + body], True),
        "a chunk with an extension": ([chunked, chunks + b";a=b" + last + b"\r\n"], True),
        "a trailer": ([chunked + chunks, last + b"x: y\r\n\r\n"], True),
        "a trailer after plain chunks": ([chunked + chunks + last, b"x: y\r\n", b"\r\n"], True),
        "no length": ([head.rpartition(b"\r\n")[0] + b"\r\n\r\n" + body], False),
        "an old version": ([answer("Hello").replace(b"1.1", b"1.0")], False),
    }


async def test_what_is_not_plain_is_read_nevertheless() -> None:
    answers = odd_answers()
    waiting = list(answers.values())
    opened: list[int] = []

    async def serve(stream: SocketStream) -> None:
        opened.append(1)
        while await read_request(stream):
            pieces, is_kept = waiting.pop(0)
            for piece in pieces:
                await stream.send(piece)
                await anyio.wait_all_tasks_blocked()
            if not is_kept:
                return

    async with raw_server(serve) as base_url, open_http_pool() as pool:
        model = model_at(base_url, pool)
        for name in answers:
            assert text_of(await collect(model)) == "Hello", name
    assert len(opened) == 2


async def test_a_request_that_is_not_plain_is_written_by_h11() -> None:
    """A connection that the user does not want to be kept is not."""
    async with ModelServer([ModelReply(text="Hello")] * 2) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, extra_headers={"connection": "close"})
        for _ in range(2):
            assert text_of(await collect(model)) == "Hello"
        assert server.connections.total == 2
        await server.wait_until_open(at_most=0)
