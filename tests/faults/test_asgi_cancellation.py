"""A server that cancels a request or a lifespan at any point at which it waits: nothing is left."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.faults.cancellation_points import cancel_at
from tests.unit.asgi.applications import answer, stars
from tests.unit.asgi.asgi_client import Connection, Lifespan, get, http_scope

pytestmark = pytest.mark.anyio


async def carry_out(call: Any) -> Any:
    await checkpoint()
    return pass_response(count=3)


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await receive()
        await answer(send, str(await stars("***")))
        return
    await receive()
    await stars("***")
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await stars("***")
    await send({"type": "lifespan.shutdown.complete"})


def make(**arguments: Any) -> NighthawkMiddleware:
    return NighthawkMiddleware(
        app,
        model=CallbackExecutor(carry_out),
        max_concurrent_requests=1,
        request_timeout=60,
        tree=nh.observe.TaskTree(),
        **arguments,
    )


async def every_point(check: Callable[[int], Awaitable[bool]]) -> int:
    """Cancel at each point in turn, until there is none left; how many there were."""
    wait = 1
    while await check(wait):
        wait += 1
    return wait


async def test_a_request_can_be_cancelled_wherever_it_waits() -> None:
    middleware = make()

    async def exchange() -> None:
        messages = [{"type": "http.request", "body": b"***", "more_body": False}]

        async def receive() -> dict[str, Any]:
            await checkpoint()
            if not messages:
                await anyio.sleep_forever()
            return messages.pop()

        async def send(message: dict[str, Any]) -> None:
            await checkpoint()

        await middleware(http_scope(), receive, send)

    async def check(wait: int) -> bool:
        was_cancelled = await cancel_at(wait, exchange)
        assert (middleware.requests_in_progress, middleware.requests_waiting) == (0, 0)
        assert middleware.run is None
        assert (await get(middleware)).body == b"3"
        return was_cancelled

    assert await every_point(check) > 4


async def test_a_durable_request_continues_wherever_it_was_cancelled(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        middleware = make(journal=store)
        headers = {"idempotency-key": ""}

        async def exchange() -> None:
            connection = Connection()
            connection.feed({"type": "http.request", "body": b"", "more_body": False})
            await middleware(http_scope(headers=headers), connection.receive, connection.send)

        async def check(wait: int) -> bool:
            headers["idempotency-key"] = f"request {wait}"
            was_cancelled = await cancel_at(wait, exchange)
            assert (middleware.requests_in_progress, middleware.requests_waiting) == (0, 0)
            assert middleware.run is None
            assert (await get(middleware, headers=headers)).body == b"3"
            return was_cancelled

        assert await every_point(check) > 4


async def test_a_lifespan_can_be_cancelled_wherever_it_waits() -> None:
    middleware = make()

    async def live() -> None:
        lifespan = Lifespan()
        lifespan.feed({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})

        async def receive() -> dict[str, Any]:
            await checkpoint()
            return await lifespan.receive()

        await middleware({"type": "lifespan"}, receive, lifespan.send)

    async def check(wait: int) -> bool:
        was_cancelled = await cancel_at(wait, live)
        assert middleware.run is None
        return was_cancelled

    assert await every_point(check) > 4
    async with anyio.create_task_group() as tasks:
        lifespan = Lifespan()
        tasks.start_soon(middleware, {"type": "lifespan"}, lifespan.receive, lifespan.send)
        await lifespan.start()
        assert (await get(middleware)).body == b"3"
        lifespan.feed({"type": "lifespan.shutdown"})
