"""The context of a connection: a slot, the run, and a scope of its own."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..observation import NodeWriter, observed
from ..parallel.task_current import find_node
from ..scopes import scope
from .inbox import Inbox
from .outbox import LastingFunction
from .protocol import Application, AsgiScope, Receive
from .service import Service
from .trace_context import continued_trace
from .work import Work

__all__ = ["Connection", "find_path_template"]

_MAX_PATH_CHARACTERS = 200


class Connection(ABC):
    """One connection: a request and its response, or a WebSocket.

    Args:
        service: What the application serves with.
        asgi_scope: The connection.
        receive: Gives the next message of the server.
        method: What it is shown with, before its path.
        request_id: The id of its scope.
        work: How it is made to end.
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
        """Let the application talk with the client.

        Args:
            app: The application.

        Raises:
            Exception: What the application raises, unless the client could be told of it.
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
        """Let the application talk with the client, and tell of it.

        Args:
            app: The application.
            node: The node of the connection; None when nobody watches.
        """

    @abstractmethod
    async def _note_disconnect(self) -> None:
        """The client has left; the application is told next."""

    def _start_soon(self, function: LastingFunction) -> None:
        """Start what ends with the connection."""
        assert self._helpers is not None, "it is carried out"
        self._helpers.start_soon(function)

    def _attributes(self) -> Mapping[str, str]:
        """Return the attributes of the connection, under the names that traces use."""
        return {}

    async def _serve(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call the application when it is the connection's turn, with the run, in a scope of its own.

        Args:
            call: Calls the application.

        Raises:
            RefusedError: The connection is not let in. The application was not called.
            Exception: Whatever the application raises.
        """
        service, settings = self._service, self._service.settings
        with service.in_progress(self._work):
            async with self._place():
                budget = None if settings.budget is None else settings.budget.fresh()
                async with service.extent(), scope(scope_id=self._request_id, budget=budget):
                    self._work.task_node = find_node()
                    await call()

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None, None]:
        """Wait for a place, and have it. Who comes back to a stream shares that of its first request."""
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
    """The path that the application's framework has found to match, with its parameters as names.

    Args:
        asgi_scope: The connection, after the application was called.
    """
    template = asgi_scope.get("path_template") or getattr(asgi_scope.get("route"), "path", None)
    return template if isinstance(template, str) else None
