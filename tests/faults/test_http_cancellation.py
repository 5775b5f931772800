"""Requests cancelled at every stage leave nothing behind, and cost nobody a connection."""

import gc
import warnings

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.models.http_pool import HttpPool, open_http_pool
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ResponseFinished

from .http_support import HELLO, collect, model_at, text_of, wait_until_closed

pytestmark = pytest.mark.anyio

STAGES = 200


def reply_by_number(request: RecordedRequest) -> ModelReply:
    """Different replies, so that cancellations meet requests in every state."""
    kind = request.body["kind"] % 5
    if kind == 0:
        return ModelReply(ending="hang", ending_after=0)
    if kind == 1:
        return ModelReply(text="Hello", ending="hang", ending_after=2)
    if kind == 2:
        return ModelReply(
            text="x" * 500, pacing=ReplyPacing(between_writes_seconds=0.001, fragment_characters=1)
        )
    if kind == 3:
        return ModelReply(status=503, headers={"retry-after": "60"})
    return ModelReply(text="Hello")


async def test_hundreds_cancelled_at_every_step_of_the_loop_cost_nothing() -> None:
    async with ModelServer(reply_by_number) as server, open_http_pool() as pool:
        for steps in range(STAGES):
            await run_and_cancel_after(server, pool, steps)
        assert pool.statistics().in_flight == 0
        await wait_until_closed(server, pool)
        with anyio.fail_after(240):
            assert text_of(await collect(model_at(server.base_url, pool, kind=4))) == "Hello"


async def run_and_cancel_after(server: ModelServer, pool: HttpPool, steps: int) -> None:
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(collect, model_at(server.base_url, pool, kind=steps, max_retries=1))
        for _ in range(steps):
            await checkpoint()
        task_group.cancel_scope.cancel()


async def test_hundreds_in_flight_cancelled_together_cost_nothing() -> None:
    async with ModelServer(reply_by_number) as server, open_http_pool() as pool:
        async with anyio.create_task_group() as task_group:
            for number in range(STAGES):
                task_group.start_soon(collect, model_at(server.base_url, pool, kind=number, max_retries=1))
            with anyio.fail_after(240):
                while len(server.requests) < STAGES:
                    await checkpoint()
            task_group.cancel_scope.cancel()
        assert pool.statistics().in_flight == 0
        await wait_until_closed(server, pool)
        with anyio.fail_after(240):
            assert text_of(await collect(model_at(server.base_url, pool, kind=4))) == "Hello"


@pytest.mark.parametrize("events_before", [0, 1, 5])
async def test_the_server_sees_at_once_that_its_client_was_cancelled(events_before: int) -> None:
    reply = ModelReply(
        text="x" * 200, pacing=ReplyPacing(between_writes_seconds=0.001, fragment_characters=10)
    )
    hanging = ModelReply(text="x" * 50, pacing=reply.pacing, ending="hang", ending_after=1 + events_before)
    async with ModelServer([hanging]) as server, open_http_pool() as pool:
        seen = anyio.Event()

        async def read() -> None:
            async with model_at(server.base_url, pool).stream(HELLO) as events:
                for _ in range(events_before):
                    await anext(events)
                seen.set()
                await anext(events)

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(read)
            if events_before:
                await seen.wait()
            else:
                while not server.requests:
                    await checkpoint()
            task_group.cancel_scope.cancel()
        with anyio.fail_after(240):
            await server.wait_until_open(at_most=0)


async def test_an_error_of_the_program_closes_the_stream_and_stays_itself() -> None:
    async def fail(model: Model) -> None:
        async with model.stream(HELLO) as events:
            await anext(events)
            raise ZeroDivisionError

    replies = [ModelReply(text="Hello", ending="hang", ending_after=2)]
    async with ModelServer(replies) as server, open_http_pool() as pool:
        with pytest.raises(ZeroDivisionError):
            await fail(model_at(server.base_url, pool))
        assert pool.statistics().open == 0


async def test_abandoned_streams_leave_nothing_to_the_garbage_collector() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with ModelServer(lambda _: reply) as server, open_http_pool() as pool:
            for _ in range(5):
                async with model_at(server.base_url, pool).stream(HELLO) as events:
                    await anext(events)
            gc.collect()
            await checkpoint()


async def test_a_wait_for_an_event_that_was_cancelled_ends_the_stream_with_an_error() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        async with model_at(server.base_url, pool).stream(HELLO) as events:
            assert text_of([await anext(events)]) == "Hello"
            with anyio.move_on_after(0.05) as scope:
                await anext(events)
            assert scope.cancelled_caught
            with pytest.raises(ModelProtocolError, match="ended before the response was finished"):
                await anext(events)
        assert pool.statistics().open == 0


async def test_cancelling_while_leaving_still_closes_the_connection() -> None:
    async with ModelServer([ModelReply(text="Hello", ending="hang")]) as server, open_http_pool() as pool:
        with anyio.CancelScope() as scope:
            async with model_at(server.base_url, pool).stream(HELLO) as events:
                assert [event async for event in events][-1] == ResponseFinished(reason="stop")
                scope.cancel()
        assert pool.statistics().open == 0
        with anyio.fail_after(240):
            await server.wait_until_open(at_most=0)
