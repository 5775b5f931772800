"""The context of a connection (a slot, the run, and its own scope), and the handling of WebSockets.

An application learns itself that the client of a WebSocket has left: from the next message that it asks for
or, where the server reports it, when it sends something. Most applications end by raising that error. Their
other errors go to the server.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..observation import NodeWriter, observed
from ..parallel.task_current import find_node
from ..scopes import scope
from ..tracing import find_trace_context, find_tracing, using_trace_context
from .admission import RefusedError
from .exchange import Inbox, LastingFunction
from .problems import is_cancellation
from .protocol import (
    Application,
    AsgiScope,
    Message,
    Receive,
    Send,
    choose_request_id,
    says_client_left,
)
from .service import Service
from .work import Work


class continued_trace:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make the traces of the `with` statement part of the trace that the client names.

    Nothing else that a client sends is activated, above all no baggage. Where a span is current already, that
    of the server's own instrumentation, nothing changes.

    Args:
        asgi_scope: The connection.
    """

    __slots__ = ("_asgi_scope", "_context")

    def __init__(self, asgi_scope: AsgiScope) -> None:
        self._asgi_scope = asgi_scope

    def __enter__(self) -> None:
        context = None
        if find_tracing() is not None and find_trace_context() is None:
            from .client_trace import find_client_trace  # here, because many services have no traces

            context = find_client_trace(self._asgi_scope)
        self._context = using_trace_context(context)
        self._context.__enter__()

    def __exit__(self, *exc_details: object) -> None:
        self._context.__exit__(None, None, None)


_MAX_PATH_CHARACTERS = 200


class Connection(ABC):
    """One connection: a request and its response, or a WebSocket.

    Args:
        service: The service of the application.
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        method: The first word of its name in the tree, before the path.
        request_id: The id of its scope.
        work: The work, which can be ended.
    """

    _time_limit_seconds: float | None = None

    def __init__(
        self,
        service: Service,
        asgi_scope: AsgiScope,
        receive: Receive,
        *,
        method: str,
        request_id: str,
        work: Work,
    ) -> None:
        self._service = service
        self._asgi_scope = asgi_scope
        self._method = method
        self._request_id = request_id
        self._work = work
        self._inbox = work.inbox = Inbox(asgi_scope, receive, on_disconnect=self._note_disconnect)
        self._helpers: TaskGroup | None = None

    async def carry_out(self, app: Application) -> None:
        """Run the application with the client.

        Args:
            app: The application.

        Raises:
            Exception: An error of the application, unless it was reported to the client.
        """
        name = f"{self._method} {str(self._asgi_scope.get('path', ''))[:_MAX_PATH_CHARACTERS]}"
        with (
            self._service.recording(),
            observed("request", name, attributes=self._attributes, control=self._work) as node,
            continued_trace(self._asgi_scope),
        ):
            async with BareTaskGroup() as helpers:
                self._helpers = helpers
                helpers.start_soon(self._inbox.read_ahead)
                if self._time_limit_seconds is not None:
                    helpers.start_soon(self._work.end_after, self._time_limit_seconds)
                try:
                    await self._answer(app, node)
                finally:
                    helpers.cancel_scope.cancel()

    @abstractmethod
    async def _answer(self, app: Application, node: NodeWriter | None) -> None:
        """Run the application with the client, and report the outcome.

        Args:
            app: The application.
            node: The node of the connection; None when nothing is recorded.
        """

    @abstractmethod
    async def _note_disconnect(self) -> None:
        """Handle that the client has left; the application is notified next."""

    def _start_soon(self, function: LastingFunction) -> None:
        """Start a helper that ends with the connection."""
        assert self._helpers is not None, "helpers start only while the connection is served"
        self._helpers.start_soon(function)

    def _attributes(self) -> Mapping[str, str]:
        """Return the attributes of the connection, under the names that traces use."""
        return {}

    async def _serve(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call the application when the connection is admitted, with the run, in its own scope.

        Args:
            call: Calls the application.

        Raises:
            RefusedError: The connection is refused. The application was not called.
            Exception: Any error of the application.
        """
        service, settings = self._service, self._service.settings
        with service.in_progress(self._work):
            async with self._place():
                budget = None if settings.request_budget is None else settings.request_budget.fresh()
                async with service.extent(), scope(scope_id=self._request_id, budget=budget):
                    self._work.task_node = find_node()
                    await call()

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None, None]:
        """Wait for a slot, and hold it. A resumed stream uses the slot of its first request."""
        service, settings = self._service, self._service.settings
        with service.streams.sharing_place(self._asgi_scope) as is_shared:
            if is_shared:
                yield
                return
            client = None if settings.client_of is None else settings.client_of(self._asgi_scope)
            turn = service.admission.ask(client)
            try:
                await turn.wait()
                yield
            finally:
                service.admission.leave(turn)


def find_path_template(asgi_scope: AsgiScope) -> str | None:
    """Return the path template that the application's framework has matched, with parameter names.

    Args:
        asgi_scope: The connection, after the application was called.
    """
    template = asgi_scope.get("path_template") or getattr(asgi_scope.get("route"), "path", None)
    return template if isinstance(template, str) else None


_TRY_AGAIN_LATER = 1013
_GOING_AWAY = 1001


class SocketConnection(Connection):
    """A WebSocket.

    Args:
        service: The service of the application.
        asgi_scope: The connection.
        receive: Receives the next message of the server.
        send: Sends messages to the server.
    """

    def __init__(self, service: Service, asgi_scope: AsgiScope, receive: Receive, send: Send) -> None:
        super().__init__(
            service,
            asgi_scope,
            receive,
            method="WEBSOCKET",
            request_id=choose_request_id(asgi_scope),
            work=Work({"type": "websocket.disconnect", "code": _GOING_AWAY}),
        )
        self._server_send = send
        self._is_called = False
        self._is_accepted = False
        self._is_closed = False
        self._has_left = False
        self._refusal: ConnectionError | None = None
        """The error that reported to the application that the client has left."""

    async def _answer(self, app: Application, node: NodeWriter | None) -> None:
        await self._carry_out(app)
        if node is not None and self._work.end_reason is not None:
            node.end("cancelled")

    async def _carry_out(self, app: Application) -> None:
        try:
            with self._work.scope:
                await self._serve(lambda: self._call(app))
        except RefusedError:
            await self._close(_TRY_AGAIN_LATER)
        except Exception as error:
            is_ended = await self._end()
            is_left = says_client_left(error) or error is self._refusal
            if not is_left and not (is_ended and is_cancellation(error)):
                raise
        else:
            await self._end()

    async def _end(self) -> bool:
        """Close the WebSocket when the application was ended; return whether it was."""
        is_ended = self._work.end_reason in ("shut_down", "cancelled")
        if is_ended:
            await self._close(_GOING_AWAY)
        return is_ended

    async def _call(self, app: Application) -> None:
        self._is_called = True
        await app(self._asgi_scope, self._inbox.receive, self._send)

    async def _note_disconnect(self) -> None:
        self._is_closed = self._has_left = True
        if not self._is_called:  # it is still in the queue
            self._work.ask_to_end("disconnected")

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "websocket.accept":
                self._is_accepted = True
            case "websocket.close" | "websocket.http.response.start":
                self._is_closed = True
            case _:
                pass
        try:
            await self._server_send(message)
        except Exception as error:
            if not self._has_left and not isinstance(error, OSError):
                raise
            self._refusal = ConnectionError("the client has left")
            raise self._refusal from error

    async def _close(self, code: int) -> None:
        """Close it with a code. It is accepted first: otherwise the client would only get a status."""
        if self._is_closed:
            return
        if not self._is_accepted:
            subprotocol = next(iter(self._asgi_scope.get("subprotocols") or ()), None)
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
        await self._send({"type": "websocket.close", "code": code, "reason": ""})
