"""A server of the protocol and its run, and `McpApplication`: the server as an ASGI application."""

import hmac
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..actors import BareTaskGroup
from ..asgi.protocol import AsgiScope, Receive, Send, header_values
from ..asgi.service import Service
from ..errors import ConfigurationError, NighthawkError
from ..kernel.run import Run
from ..observe.tree import TaskTree
from .package import load_modules
from .serving_calls import HttpRequest, ServedCalls
from .serving_questions import Rounds
from .serving_tools import ServedTool

_LOGGER = logging.getLogger("nighthawk")
_LIST_SECONDS = 60
"""The number of seconds for which clients may keep the list of tools."""


class Description(Struct, frozen=True, kw_only=True):
    """A server as clients see it.

    Args:
        name: Its name.
        version: Its version.
        instructions: A text for the models of clients; None for none.
    """

    name: str
    version: str
    instructions: str | None


async def load_package() -> None:
    """Import what servers need of the package `mcp`."""
    await load_modules(*(f"mcp.server.{name}" for name in ("lowlevel", "stdio", "streamable_http_manager")))


class ServedProtocol:
    """The tools of a server, its run, and the calls in progress.

    Args:
        tools: The tools by name.
        service: The run, and the calls in progress.
        description: The server as clients see it.
        max_argument_bytes: The maximum size of the arguments of a call.
    """

    def __init__(
        self,
        tools: Mapping[str, ServedTool],
        service: Service,
        description: Description,
        *,
        max_argument_bytes: int,
    ) -> None:
        self.service = service
        self._description = description
        self._calls = ServedCalls(tools, service, max_argument_bytes=max_argument_bytes)

    @asynccontextmanager
    async def active(self) -> AsyncGenerator[Any, None]:
        """Serve during the `async with` statement, with one run; yields the server of the package.

        Raises:
            NighthawkError: The function that makes the run has made something else.
        """
        async with self.service.lifespan(), BareTaskGroup() as tasks:
            self._calls.rounds = Rounds(tasks)
            try:
                yield self._made_server()
            finally:
                self._calls.rounds = None
                tasks.cancel_scope.cancel()

    def _made_server(self) -> Any:
        from mcp.server.caching import CacheHint
        from mcp.server.lowlevel import Server

        handlers: dict[str, Any] = {  # these return JSON, which the package takes as well as its own types
            "on_list_tools": self._calls.list_tools,
            "on_call_tool": self._calls.call_tool,
        }
        return Server[Any](
            self._description.name,
            version=self._description.version,
            instructions=self._description.instructions,
            cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_SECONDS * 1000, scope="private")},
            get_tool_input_schema=self._calls.find_schema,
            **handlers,
        )


def checked_run(made: object) -> Run:
    """Check the run that a factory has made, and return it.

    Args:
        made: The value that it has returned.

    Raises:
        NighthawkError: It is no run.
    """
    if not isinstance(made, Run):
        raise NighthawkError(
            f"run must be a function that returns a new run, such as lambda: nighthawk_async.run(executor); "
            f"it has returned {made!r}"
        )
    return made


if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
else:
    StreamableHTTPSessionManager = TransportSecuritySettings = object

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
