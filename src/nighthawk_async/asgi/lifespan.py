"""The lifespan of an application, from before it starts until after it has stopped.

The application takes part when it can. One that knows no lifespan (it raises, or returns, without having
asked for an event) is spoken for, so that the server tells of the end either way.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

from .protocol import Application, AsgiScope, Message, Receive, Send

__all__ = ["Lifespan"]

_LOGGER = logging.getLogger("nighthawk")


class Lifespan:
    """The conversation with the server, with the application in the middle.

    Args:
        receive: Gives the next event of the server.
        send: Takes the answers for the server.
        stop: Is called when the server ends the lifespan, before the application is told.
    """

    def __init__(self, receive: Receive, send: Send, *, stop: Callable[[], Awaitable[None]]) -> None:
        self._server_receive = receive
        self._server_send = send
        self._stop = stop
        self._app_scope = anyio.CancelScope()
        self._is_asked = False
        self._is_started = False
        self._has_failed = False
        self._is_ending = False
        self._last: Message | None = None

    async def carry_out(self, app: Application, asgi_scope: AsgiScope) -> None:
        """Go through the lifespan up to the last answer, which is kept.

        Args:
            app: The application.
            asgi_scope: What the server says of the lifespan.
        """
        try:
            with self._app_scope:
                await app(asgi_scope, self._receive, self._send)
        except Exception as error:
            if self._is_asked:
                raise
            _LOGGER.debug("the application takes no part in its lifespan", exc_info=error)
        if not self._has_failed and self._last is None:
            await self._go_on_alone()

    async def send_last(self) -> None:
        """Tell the server that everything has ended."""
        if self._last is not None:
            await self._server_send(self._last)

    async def _receive(self) -> Message:
        if self._last is not None:  # it waits for what never comes
            self._app_scope.cancel()
            await anyio.sleep_forever()
        self._is_asked = True
        return await self._next_event()

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.shutdown.complete" | "lifespan.shutdown.failed":
                self._last = message
                return
            case "lifespan.startup.complete":
                self._is_started = True
            case "lifespan.startup.failed":
                self._has_failed = True
            case _:
                pass
        await self._server_send(message)

    async def _next_event(self) -> Message:
        message = await self._server_receive()
        if message["type"] == "lifespan.shutdown":
            self._is_ending = True
            await self._stop()
        return message

    async def _go_on_alone(self) -> None:
        if not self._is_asked:
            await self._next_event()
        if not self._is_started:
            await self._server_send({"type": "lifespan.startup.complete"})
        while not self._is_ending:
            await self._next_event()
        self._last = {"type": "lifespan.shutdown.complete"}
