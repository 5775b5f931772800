"""What the HTTP fault tests share: a model at a loopback server, and a server that speaks raw bytes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from anyio.abc import SocketAttribute, SocketStream
from trio.testing import MockClock

from nighthawk_async.catalog.providers import RetryRules
from nighthawk_async.errors import ModelError
from nighthawk_async.models.exchange import PoolSource
from nighthawk_async.models.http_pool import HttpPool, open_http_pool
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelEvent, ModelRequest, TextDelta

HELLO = ModelRequest(messages=(UserMessage(content=("hello",)),))
SECRET = "sk-very-secret-key"
STOPPED_CLOCKS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(("trio", {"clock": MockClock()}), id="trio"),
]


def stop_clock(backend: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stop the event loop's clock, so that a slow machine is late for nothing; what is returned moves it."""
    if backend == "trio":
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        return clock.jump
    loop = asyncio.get_running_loop()
    now = loop.time()

    def jump(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(loop, "time", lambda: now)
    return jump


def from_pool(pool: HttpPool) -> PoolSource:
    """Gives a pool that somebody else closes."""

    @asynccontextmanager
    async def give() -> AsyncGenerator[HttpPool, None]:
        yield pool

    return give


def model_at(base_url: str, pool: HttpPool | None = None, **settings: Any) -> Model:
    """A model whose requests go there, without retries unless told."""
    return create_model(
        "openai-chat:tested",
        settings={"base_url": base_url, "api_key": SECRET, "max_retries": 0, **settings},
        environment={},
        pool_source=open_http_pool if pool is None else from_pool(pool),
    )


async def collect(model: Model, request: ModelRequest = HELLO) -> list[ModelEvent]:
    """All events of one response."""
    async with model.stream(request) as events:
        return [event async for event in events]


def text_of(events: list[ModelEvent]) -> str:
    """The visible text."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def retry_soon(
    error: ModelError, *, retries: int, max_retries: int, rules: RetryRules, draw: Callable[[], float]
) -> float | None:
    """Stands for `retry_delay` in tests that need a retry where the server can name no delay."""
    return 0.001 if error.is_transient and retries < max_retries else None


async def wait_until_closed(server: ModelServer, pool: HttpPool) -> None:
    """Wait until the server holds no connection beyond the idle ones of the pool."""
    with anyio.fail_after(240):
        await server.wait_until_open(at_most=pool.statistics().idle)


@asynccontextmanager
async def raw_server(serve: Callable[[SocketStream], Awaitable[None]]) -> AsyncGenerator[str, None]:
    """A server that does with each connection what a function says; gives its base URL."""

    async def handle(stream: SocketStream) -> None:
        async with stream:
            await serve(stream)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as task_group:
        task_group.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        task_group.cancel_scope.cancel()


async def read_request(stream: SocketStream) -> bytes:
    """One request with a Content-Length; empty when the client left."""
    content = b""
    while True:
        head, separator, body = content.partition(b"\r\n\r\n")
        if separator:
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            )
            if len(body) >= length:
                return content
        try:
            content += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return b""
