"""`McpApplication`: an MCP server as an ASGI application, over streamable HTTP."""

import hmac
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..asgi.protocol import AsgiScope, Receive, Send, header_values
from ..errors import ConfigurationError, NighthawkError
from ..kernel.run import Run
from ..observe.tree import TaskTree
from .serving_protocol import ServedProtocol, load_package
from .serving_requests import HttpRequest

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
else:
    StreamableHTTPSessionManager = TransportSecuritySettings = object

_LOGGER = logging.getLogger("nighthawk")

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ANY = "*"


class HttpSettings(Struct, frozen=True, kw_only=True):
    """Arguments of `serve` about HTTP.

    Args:
        path: The path of the endpoint, without a slash at its end.
        token: The token that clients must send; None for none.
        allowed_hosts: The allowed values of `Host`, each with any port unless it names one; `*` for any.
        allowed_origins: The allowed values of `Origin`, in the same way.
        max_body_bytes: The maximum size of the body of a request.
        max_sessions: The maximum number of sessions of clients before version 2026-07-28.
        session_idle_seconds: The number of seconds after which an idle session ends.
    """

    path: str
    token: str | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    max_body_bytes: int
    max_sessions: int
    session_idle_seconds: float


class McpApplication:
    """An MCP server as an ASGI application. Made by `nighthawk_async.mcp.serve`.

    There is one run for the lifespan of the application. A server of ASGI runs the lifespan by itself; an
    application that mounts this one enters `lifespan()` in its own. It works on Trio and on asyncio.

    Args:
        protocol: The tools, and the calls in progress.
        settings: The arguments about HTTP.
    """

    def __init__(self, protocol: ServedProtocol, settings: HttpSettings) -> None:
        self._protocol = protocol
        self._service = protocol.service
        self._settings = settings
        self._manager: StreamableHTTPSessionManager | None = None
        self._requests: set[HttpRequest] = set()

    @property
    def run(self) -> Run | None:
        """The active run, with its id and its usage; None outside the lifespan."""
        return self._service.run

    @property
    def tree(self) -> TaskTree | None:
        """The task tree that was given to record the calls; None when none was."""
        return self._service.settings.tree

    @property
    def path(self) -> str:
        """The path of the endpoint, below that of the application that mounts it."""
        return self._settings.path or "/"

    @property
    def calls_in_progress(self) -> int:
        """The number of calls in progress."""
        return self._service.admission.in_progress

    @property
    def calls_waiting(self) -> int:
        """The number of calls that wait for admission."""
        return self._service.admission.queued

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Serve during the `async with` statement, with one run; for applications that mount this one.

        On exit, no more calls are admitted; those in progress have a grace period, and are then cancelled.

        Raises:
            NighthawkError: It is active already.
            ConfigurationError: The run cannot be made.
        """
        if self._manager is not None:
            raise NighthawkError("The lifespan of this MCP server is active already.")
        await load_package()
        async with self._protocol.active() as server:
            manager = self._manager = _manager_of(server, self._settings)
            try:
                async with manager.run():
                    try:
                        yield
                    finally:
                        await self.drain()
            finally:
                self._manager = None

    async def drain(self) -> None:
        """Admit no more calls; wait for those in progress, and cancel them after the grace period.

        Then the streams end on which clients wait for messages. Servers wait for these when they stop, so
        call it before, or give the server a time limit of its own.
        """
        await self._service.drain()
        for request in tuple(self._requests):
            if request.is_listening:
                request.end()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve a request, or run the lifespan.

        Args:
            scope: The scope of ASGI: the connection, or the lifespan.
            receive: Receives the next event of the server.
            send: Sends events to the server.

        Raises:
            ConfigurationError: The lifespan is not active.
        """
        match scope["type"]:
            case "lifespan":
                await self._serve_lifespan(receive, send)
            case "http":
                await self._serve_request(scope, receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000, "reason": ""})
            case other:
                raise NighthawkError(f"An MCP server does not serve connections of type {other!r}.")

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        is_started = False
        try:
            async with self.lifespan():
                is_started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            _LOGGER.error("the MCP server has failed in its lifespan", exc_info=error)
            event = "lifespan.shutdown.failed" if is_started else "lifespan.startup.failed"
            await send({"type": event, "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve_request(self, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        root: str = asgi_scope.get("root_path") or ""
        path = str(asgi_scope["path"]).removeprefix(root).rstrip("/")
        if path != self._settings.path:
            await _refuse(send, 404, f"There is no such path; the MCP endpoint is {root}{self.path}.")
        elif not self._is_authorized(asgi_scope):
            challenge = 'Bearer realm="mcp"'
            if header_values(asgi_scope, b"authorization"):
                challenge += ', error="invalid_token"'
            text = "The server requires its token: Authorization: Bearer <token>."
            await _refuse(send, 401, text, {"www-authenticate": challenge})
        elif self._manager is None:
            raise ConfigurationError(
                "The lifespan of this MCP server is not active. A server runs it by itself; an application "
                "that mounts it enters `async with application.lifespan():` in its own lifespan."
            )
        else:
            request = HttpRequest(asgi_scope, receive, send)
            self._requests.add(request)
            try:
                await request.carry_out(self._manager.handle_request)
            finally:
                self._requests.discard(request)

    def _is_authorized(self, asgi_scope: AsgiScope) -> bool:
        token = self._settings.token
        if token is None:
            return True
        given = header_values(asgi_scope, b"authorization")
        scheme, _, credentials = (given[0] if len(given) == 1 else "").partition(" ")
        is_same = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), token.encode())
        return is_same and scheme.lower() == "bearer"


def _manager_of(server: Any, settings: HttpSettings) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager as Manager

    return Manager(
        server,
        security_settings=_security_of(settings),
        max_request_body_size=settings.max_body_bytes,
        max_sessions=settings.max_sessions,
        session_idle_timeout=settings.session_idle_seconds,
    )


def _security_of(settings: HttpSettings) -> TransportSecuritySettings:
    from mcp.server.transport_security import TransportSecuritySettings as Security

    return Security(
        enable_dns_rebinding_protection=ANY not in settings.allowed_hosts,
        allowed_hosts=_with_any_port(settings.allowed_hosts),
        allowed_origins=_with_any_port(settings.allowed_origins),
    )


def _with_any_port(names: Sequence[str]) -> list[str]:
    return [*names, *(f"{name}:*" for name in names)]


async def _refuse(send: Send, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": text}}).encode()
    whole = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **(headers or {}),
    }
    encoded = [(name.encode(), value.encode()) for name, value in whole.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})
