"""A thousand requests at once over one pool."""

import anyio
import pytest

from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ResponseFinished

from .http_support import collect, model_at, wait_until_closed

pytestmark = pytest.mark.anyio

REQUESTS = 1_000


async def test_a_thousand_concurrent_requests_complete_and_share_connections_with_the_next_thousand() -> None:
    finished: list[object] = []
    reply = ModelReply(text="Hello", pacing=ReplyPacing(first_byte_seconds=0.2))
    async with ModelServer(lambda _: reply) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool)

        async def ask() -> None:
            finished.append((await collect(model))[-1])

        for _ in range(2):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as task_group:
                    for _ in range(REQUESTS):
                        task_group.start_soon(ask)
            assert pool.statistics().in_flight == 0
        assert finished == [ResponseFinished(reason="stop")] * (2 * REQUESTS)
        assert server.connections.total < 1.5 * REQUESTS
        await wait_until_closed(server, pool)


async def test_a_thousand_requests_cancelled_in_the_middle_leave_no_connection() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer(lambda _: reply) as server, open_http_pool() as pool:
        model = model_at(server.base_url, pool)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as task_group:
                for _ in range(REQUESTS):
                    task_group.start_soon(collect, model)
                while len(server.requests) < REQUESTS:
                    await anyio.lowlevel.checkpoint()
                task_group.cancel_scope.cancel()
        assert pool.statistics().open == 0
        with anyio.fail_after(20):
            await server.wait_until_open(at_most=0)
