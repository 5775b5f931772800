"""Hundreds of requests at once over one pool; `test_thousand_steps` has a thousand."""

import anyio
import pytest

from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ResponseFinished

from .http_support import STOPPED_CLOCKS, collect, model_at, stop_clock, wait_until_closed

pytestmark = pytest.mark.anyio

REQUESTS = 300


async def test_concurrent_requests_complete_and_share_connections_with_the_next_ones() -> None:
    finished: list[object] = []
    reply = ModelReply(text="Hello", pacing=ReplyPacing(first_byte_seconds=0.2))
    async with ModelServer(lambda _: reply) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, connect_timeout=60)

        async def ask() -> None:
            finished.append((await collect(model))[-1])

        for _ in range(2):
            with anyio.fail_after(240):
                async with anyio.create_task_group() as task_group:
                    for _ in range(REQUESTS):
                        task_group.start_soon(ask)
            assert pool.statistics().in_flight == 0
        assert finished == [ResponseFinished(reason="stop")] * (2 * REQUESTS)
        assert server.connections.total < 1.5 * REQUESTS
        await wait_until_closed(server, pool)


async def test_requests_cancelled_in_the_middle_leave_no_connection() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer(lambda _: reply) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, connect_timeout=60)
        with anyio.fail_after(240):
            async with anyio.create_task_group() as task_group:
                for _ in range(REQUESTS):
                    task_group.start_soon(collect, model)
                while len(server.requests) < REQUESTS:
                    await anyio.lowlevel.checkpoint()
                task_group.cancel_scope.cancel()
        assert pool.statistics().open == 0
        with anyio.fail_after(240):
            await server.wait_until_open(at_most=0)


@pytest.mark.parametrize("anyio_backend", STOPPED_CLOCKS)
async def test_an_event_loop_that_is_busy_starting_others_takes_no_connection_for_late(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_seconds = stop_clock(anyio_backend_name, monkeypatch)
    async with ModelServer(lambda _: ModelReply(text="Hello")) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool, connect_timeout=0.5)

        async def ask() -> None:
            pass_seconds(0.01)  # what a program does before it asks
            await collect(model)

        async with anyio.create_task_group() as task_group:
            for _ in range(100):
                task_group.start_soon(ask)
        assert len(server.requests) == 100
