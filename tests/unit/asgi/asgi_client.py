"""A scripted ASGI server: one connection or lifespan, message by message."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Connection", "Lifespan", "get", "http_scope", "open_connection", "open_lifespan", "post"]


def http_scope(
    path: str = "/", *, method: str = "GET", headers: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """What a server says of a request."""
    encoded = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": encoded,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        **more,
    }


class Connection:
    """What a server holds of one connection."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.asked_for = 0
        """How many messages the application has taken, or waits for."""
        self.error: BaseException | None = None
        self.ended = anyio.Event()
        self._incoming: list[dict[str, Any]] = []
        self._changed = anyio.Event()

    def feed(self, *messages: dict[str, Any]) -> None:
        """Let the application have messages when it asks."""
        self._incoming += messages
        self._change()

    def disconnect(self) -> None:
        """The client leaves."""
        self.feed({"type": "http.disconnect"})

    async def receive(self) -> dict[str, Any]:
        self.asked_for += 1
        self._change()
        while not self._incoming:
            if self._is_over:
                return {"type": "http.disconnect"}  # as servers say to whoever asks after the response
            await self._changed.wait()
        return self._incoming.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        await checkpoint()
        self.sent.append(dict(message))
        self._change()

    async def wait_for_sent(self, number: int) -> None:
        """Wait until the application has sent so many messages."""
        while len(self.sent) < number:
            await self._changed.wait()

    async def wait_until_asked(self, number: int) -> None:
        """Wait until the application has asked for so many messages."""
        while self.asked_for < number:
            await self._changed.wait()

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def is_complete(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    @property
    def _is_over(self) -> bool:
        last = self.sent[-1] if self.sent else {"type": ""}
        return last["type"] == "http.response.body" and not last.get("more_body", False)

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def open_connection(
    app: Any, asgi_scope: dict[str, Any], *messages: dict[str, Any]
) -> AsyncIterator[Connection]:
    """A connection that the application serves in a task of its own; leaving waits until it has."""
    connection = Connection()
    if not messages and asgi_scope["type"] == "http":
        messages = ({"type": "http.request", "body": b"", "more_body": False},)
    connection.feed(*messages)

    async def serve() -> None:
        try:
            await app(asgi_scope, connection.receive, connection.send)
        except Exception as error:
            connection.error = error
        finally:
            connection.ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield connection


async def get(app: Any, path: str = "/", **more: Any) -> Connection:
    """A whole exchange with a patient client."""
    async with open_connection(app, http_scope(path, **more)) as connection:
        pass
    return connection


async def post(app: Any, path: str, body: bytes) -> Connection:
    """A whole exchange with a body."""
    message = {"type": "http.request", "body": body, "more_body": False}
    asgi_scope = http_scope(path, method="POST", headers={"content-length": str(len(body))})
    async with open_connection(app, asgi_scope, message) as connection:
        pass
    return connection


class Lifespan(Connection):
    """What a server holds of the lifespan of an application."""

    async def start(self) -> None:
        self.feed({"type": "lifespan.startup"})
        await self.wait_for_sent(1)

    async def stop(self) -> None:
        self.feed({"type": "lifespan.shutdown"})
        await self.ended.wait()

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.sent]


@asynccontextmanager
async def open_lifespan(app: Any) -> AsyncIterator[Lifespan]:
    """A lifespan that has begun; leaving ends it."""
    lifespan = Lifespan()

    async def serve() -> None:
        try:
            await app({"type": "lifespan", "state": {}}, lifespan.receive, lifespan.send)
        except Exception as error:
            lifespan.error = error
        finally:
            lifespan.ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await lifespan.start()
        yield lifespan
        if not lifespan.ended.is_set():
            await lifespan.stop()
