"""A request on a WebSocket is cancelled everywhere: its response ends, and the others on the socket go on."""

from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from nighthawk_async.testing.model_reply import ReplyPacing
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest

from .cancellation_points import cancel_at
from .http_support import collect, text_of
from .websocket_support import LANES, RawSocket, executor_at, hello, raw_sockets, socket_model

pytestmark = pytest.mark.anyio

LETTERS = ModelReply(
    text="Hello!", pacing=ReplyPacing(between_writes_seconds=0.0005, fragment_characters=2), reasoning="hm"
)


def asked(words: str) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(content=(words,)),))


@pytest.mark.parametrize("settings", [{}, LANES], ids=["one lane", "lanes"])
async def test_a_request_is_cancelled_at_every_point_and_leaves_nothing(settings: dict[str, Any]) -> None:
    """The next request succeeds, and at the end of the run no socket is open."""

    def reply(request: RecordedRequest) -> ModelReply:
        return LETTERS

    async with ModelServer(reply) as server:
        model = socket_model(server.base_url, **settings)
        for is_used in (False, True):
            for point in range(1, 200):
                async with nh.run(executor_at(server.base_url)):
                    if is_used:
                        assert text_of(await collect(model)) == "Hello!"
                    is_reached = await cancel_at(point, lambda: collect(model))
                    if not is_reached or point % 4 == 0:
                        assert text_of(await collect(model)) == "Hello!"
                if not is_reached:
                    break
            assert point > 8
        with anyio.fail_after(240):
            await server.wait_until_open(0)


async def test_a_cancelled_response_leaves_the_others_of_its_socket_alone() -> None:
    everyone, left = anyio.Event(), anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        if len(server.requests) == 4:
            everyone.set()
        await everyone.wait()
        if "leave" in str(request.body["input"]):
            return ModelReply(text="Hello", ending="hang", ending_after=5)
        await left.wait()
        return ModelReply(text="Hello")

    texts: list[str] = []

    async def stay(number: int) -> None:
        texts.append(text_of(await collect(model, asked(f"stay {number}"))))

    async with ModelServer(reply) as server:
        model = socket_model(server.base_url, **LANES)
        async with nh.run(executor_at(server.base_url)), anyio.create_task_group() as task_group:
            for number in range(3):
                task_group.start_soon(stay, number)
            with anyio.CancelScope() as scope:
                async with model.stream(asked("leave")) as events:
                    async for _ in events:
                        scope.cancel()
            assert scope.cancelled_caught
            left.set()
        assert texts == ["Hello"] * 3
        assert server.connections.total == 1


async def test_the_last_one_to_go_closes_the_socket_of_a_cancelled_response() -> None:
    """The provider learns so that nobody wants it, and the next request gets another socket."""
    both = anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        if len(server.requests) == 2:
            both.set()
        await both.wait()
        is_left = "leave" in str(request.body["input"])
        return ModelReply(
            text="Hello", ending="hang" if is_left else "complete", ending_after=5 if is_left else None
        )

    async with ModelServer(reply) as server:
        model = socket_model(server.base_url, **LANES)
        async with nh.run(executor_at(server.base_url)):
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(collect, model, asked("stay"))
                async with model.stream(asked("leave")) as events:
                    async for _ in events:
                        break
            with anyio.fail_after(240):
                await server.wait_until_open(0)
            assert text_of(await collect(model)) == "Hello"
        assert server.connections.total == 2


async def test_a_request_that_waits_for_the_socket_of_a_cancelled_one_opens_its_own() -> None:
    async with ModelServer(lambda request: ModelReply(text="Hello")) as server:
        model = socket_model(server.base_url, **LANES)
        for point in range(1, 4):
            async with nh.run(executor_at(server.base_url)), anyio.create_task_group() as task_group:
                texts: list[str] = []

                async def second(texts: list[str] = texts) -> None:
                    await anyio.lowlevel.checkpoint()
                    texts.append(text_of(await collect(model)))

                task_group.start_soon(second)
                await cancel_at(point, lambda: collect(model))
            assert texts == ["Hello"]


async def test_a_reader_that_is_slow_delays_nobody_and_one_that_leaves_hands_on() -> None:
    """Whoever waits receives for all, so each of them may stop at any event."""
    async with ModelServer(lambda request: LETTERS) as server:
        model = socket_model(server.base_url, **LANES)
        counts: list[int] = []

        async def read(most: int) -> None:
            seen = 0
            async with model.stream(asked(f"read {most}")) as events:
                async for _ in events:
                    seen += 1
                    for _ in range(most % 3):
                        await anyio.lowlevel.checkpoint()
                    if seen == most:
                        break
            counts.append(seen)

        async with nh.run(executor_at(server.base_url)), anyio.create_task_group() as task_group:
            for most in range(1, 17):
                task_group.start_soon(read, most)
        assert sorted(counts)[:3] == [1, 2, 3]
        assert len(counts) == 16


async def test_a_socket_that_dies_ends_all_its_responses_and_each_is_tried_again() -> None:
    arrived = anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        if len(server.requests) > 5:
            return ModelReply(text="Hello")
        if len(server.requests) == 5:
            arrived.set()
        await arrived.wait()
        return ModelReply(text="Hello", ending="reset", ending_after=0)

    texts: list[str] = []

    async def ask(number: int) -> None:
        texts.append(text_of(await collect(model, asked(str(number)))))

    async with ModelServer(reply) as server:
        model = socket_model(server.base_url, max_retries=2, **LANES)
        async with nh.run(executor_at(server.base_url)), anyio.create_task_group() as task_group:
            for number in range(5):
                task_group.start_soon(ask, number)
        assert texts == ["Hello"] * 5


async def test_a_socket_that_ends_while_nobody_waits_is_replaced_without_a_failed_attempt() -> None:
    async def serve(socket: RawSocket) -> None:
        await socket.read()
        await socket.write(*hello())

    async with raw_sockets(serve) as base_url:
        model = socket_model(base_url)
        async with nh.run(executor_at(base_url)):
            for _ in range(3):
                assert text_of(await collect(model)) == "Hello"
                await anyio.wait_all_tasks_blocked()


async def test_a_response_that_nobody_asked_for_ends_an_idle_socket_with_a_typed_error() -> None:
    async def serve(socket: RawSocket) -> None:
        await socket.read()
        await socket.write(*hello(), *hello(name="resp_2", text="never asked"))
        await socket.read()

    async with raw_sockets(serve) as base_url:
        model = socket_model(base_url)
        async with nh.run(executor_at(base_url)):
            assert text_of(await collect(model)) == "Hello"
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ModelProtocolError, match="out of turn"):
                await collect(model)
            assert text_of(await collect(model)) == "Hello"
