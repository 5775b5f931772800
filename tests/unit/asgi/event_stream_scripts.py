"""Calls whose progress a test decides, and clients that wait for events."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from nighthawk_async.asgi import NighthawkMiddleware, stream_response
from nighthawk_async.observation import NodeWriter, find_node_writer
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.unit.asgi.asgi_client import Connection
from tests.unit.asgi.event_stream_reader import StreamReader

__all__ = ["Work", "bare_app", "comments", "read", "served", "wait_for_text", "wait_until"]


class Work:
    """A call with one node below it, which waits until it is told how to end."""

    def __init__(self) -> None:
        self.calls = 0
        self.cancelled = 0
        self.value: Any = "done"
        self.error: Exception | None = None
        self.node: NodeWriter | None = None
        self._has_begun = anyio.Event()
        self._is_over = anyio.Event()

    async def __call__(self) -> Any:
        self.calls += 1
        around = find_node_writer()
        assert around is not None
        self.node = around.begin_child("step", "work", inputs={"value": 1})
        self._has_begun.set()
        try:
            await self._is_over.wait()
        except BaseException as error:
            self.cancelled += 1
            self.node.end("cancelled", error=error)
            raise
        if self.error is not None:
            raise self.error
        self.node.end("completed")
        return self.value

    async def begun(self) -> NodeWriter:
        """Its node, once it has one."""
        await self._has_begun.wait()
        assert self.node is not None
        return self.node

    async def say(self, text: str) -> None:
        """Go on with its transcript."""
        (await self.begun()).write("text", text)

    def finish(self, value: Any = "done") -> None:
        """Let it return."""
        self.value = value
        self._is_over.set()

    def fail(self, error: Exception) -> None:
        """Let it raise."""
        self.error = error
        self._is_over.set()


def bare_app(call: Callable[[], Awaitable[object]], **options: Any) -> Any:
    """An application that answers every request with a stream of its own."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await stream_response(call, **{"profile": "full", "min_interval_seconds": 0.0, **options})(
            scope, receive, send
        )

    return app


def served(call: Callable[[], Awaitable[object]], *, middleware: Any = None, **options: Any) -> Any:
    """The same, with a middleware around it."""
    app = bare_app(call, **options)
    executor = CallbackExecutor(lambda call: pass_response(count=3))
    return NighthawkMiddleware(app, model=executor, **(middleware or {}))


def read(connection: Connection, after: StreamReader | None = None) -> StreamReader:
    """What was sent so far, to a client that may know something from an earlier connection."""
    return StreamReader(after).feed(connection.body)


def comments(connection: Connection) -> int:
    """How many heartbeats were sent."""
    return sum(message.get("body") == b":\n\n" for message in connection.sent)


async def wait_until(
    connection: Connection, is_there: Callable[[StreamReader], bool], after: StreamReader | None = None
) -> StreamReader:
    """Wait until what was sent holds something."""
    while not is_there(reader := read(connection, after)):
        await connection.wait_for_sent(len(connection.sent) + 1)
    return reader


async def wait_for_text(connection: Connection, text: str, after: StreamReader | None = None) -> StreamReader:
    """Wait until so much text has come."""
    return await wait_until(connection, lambda reader: reader.text() == text, after)
