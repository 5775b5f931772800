"""Functions to serve, a server of them on the loopback, and clients of both eras."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import anyio
import pytest
import sniffio
from mcp import Client
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult, TextContent

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

__all__ = [
    "CLIENT_WARNINGS",
    "ERAS",
    "Era",
    "Steps",
    "answers",
    "connected",
    "count_run",
    "serving",
    "stars",
    "text_of",
]

Era = Literal["auto", "legacy"]
CLIENT_WARNINGS = pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning")
"""The client of the package leaves generators to the collector when it closes."""

ERAS: tuple[Era, ...] = ("auto", "legacy")
"""The modes of a client: version 2026-07-28, and the handshake of the versions before it."""


@nh.natural_function
async def stars(review: str) -> int:
    """Count the stars of a review."""
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


def count_asterisks(call: StepCall) -> StepResponse:
    return pass_response(count=str(call.step_locals["review"]).count("*"))


def count_run() -> Any:
    """A run that counts asterisks in place of a model."""
    return nh.run(CallbackExecutor(count_asterisks))


class Steps:
    """A function that waits until it is told to end, and counts what becomes of it."""

    def __init__(self) -> None:
        self.begun = self.finished = self.cancelled = 0
        self.release = anyio.Event()
        self._changed = anyio.Event()

    async def wait(self) -> str:
        """Wait until the test goes on."""
        self._count("begun")
        try:
            await self.release.wait()
        except BaseException:
            self._count("cancelled")
            raise
        self._count("finished")
        return "waited"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the numbers holds."""
        while not condition():
            await self._changed.wait()

    def _count(self, name: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an application with Hypercorn on the event loop of the test; yields the address of `/mcp`."""
    from hypercorn.config import Config

    if sniffio.current_async_library() == "trio":
        from hypercorn.trio import serve
    else:
        from hypercorn.asyncio import serve
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listener.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = 1
    config.loglevel = "ERROR"
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve, app, config, shutdown_trigger=ended.wait))
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            ended.set()


@asynccontextmanager
async def connected(app: Any, era: Era = "auto", **options: Any) -> AsyncIterator[Client]:
    """A client of an application that is served meanwhile."""
    async with serving(app) as url, Client(url, mode=era, **options) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """The text of a result that is one text."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


class answers:  # noqa: N801  (an option of a client)
    """Answers the questions of a server, one after the other, and keeps them.

    Args:
        given: The answers: the content of a form, or None to decline.
    """

    def __init__(self, *given: Mapping[str, Any] | None) -> None:
        self._given = list(given)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, context: Any, params: ElicitRequestFormParams) -> ElicitResult:
        self.asked.append((params.message, params.requested_schema))
        content = self._given.pop(0)
        if content is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=dict(content))
