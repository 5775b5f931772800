"""Asking a dashboard, and reading its events."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from nighthawk_async.observation import NodeWriter, find_node_writer
from nighthawk_async.observe import TaskTree
from nighthawk_async.wire.sse import ServerSentEventDecoder
from tests.unit.asgi.asgi_client import Connection, http_scope, open_connection

__all__ = ["TOKEN", "Control", "Reader", "act", "data_of", "fetch", "reading", "top_of"]

TOKEN = "a-token-of-enough-characters"


class Control:
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def request_cancel(self, reason: str | None) -> None:
        self.asked.append(("cancel", reason))

    def steer(self, text: str) -> None:
        self.asked.append(("steer", text))

    def suspend(self) -> None:
        self.asked.append(("suspend",))

    def resume(self) -> None:
        self.asked.append(("resume",))


def top_of(tree: TaskTree) -> NodeWriter:
    """The node above everything."""
    with tree.recording():
        writer = find_node_writer()
        assert writer is not None
        return writer


async def fetch(
    app: Any, path: str = "/", *, method: str = "GET", headers: Mapping[str, str] | None = None, **more: Any
) -> Connection:
    """A whole exchange without a body."""
    scope = http_scope(path, method=method, headers={"host": "service.example", **(headers or {})}, **more)
    async with open_connection(app, scope) as connection:
        pass
    assert connection.error is None
    return connection


async def act(
    app: Any,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    token: str | None = TOKEN,
    headers: Mapping[str, str] | None = None,
    raw: bytes | None = None,
) -> Connection:
    """A whole exchange with a body, which also names the tree that is there, unless it is raw."""
    if raw is None:
        stream = data_of(await fetch(app, "/api/tree"))["stream"]
        raw = json.dumps({"stream": stream, **(body or {})}).encode()
    given = {"host": "service.example", "content-type": "application/json"}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    scope = http_scope(path, method="POST", headers={**given, **(headers or {})})
    message = {"type": "http.request", "body": raw, "more_body": False}
    async with open_connection(app, scope, message) as connection:
        pass
    assert connection.error is None
    return connection


def data_of(connection: Connection) -> Any:
    """What a whole response says in JSON."""
    return json.loads(connection.body)


class Reader:
    """Reads the events of a connection, one after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parser = ServerSentEventDecoder()
        self._taken = 1
        self._events: list[Any] = []

    async def next_event(self) -> tuple[str, Any, str]:
        """The name, the data and the id of the next event."""
        while not self._events:
            await self._connection.wait_for_sent(self._taken + 1)
            body = self._connection.sent[self._taken].get("body", b"")
            self._taken += 1
            self._events += self._parser.feed(body)
        event = self._events.pop(0)
        return event.event, json.loads(event.data), event.id

    async def ended(self) -> None:
        """Wait until the service has ended the stream."""
        await self._connection.ended.wait()


@asynccontextmanager
async def reading(app: Any, path: str, **headers: str) -> AsyncIterator[Reader]:
    """Events of a path; leaving ends the connection."""
    scope = http_scope(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    async with open_connection(app, scope) as connection:
        await connection.wait_for_sent(1)
        assert connection.status == 200
        yield Reader(connection)
        connection.disconnect()
        await connection.ended.wait()
        assert connection.error is None
