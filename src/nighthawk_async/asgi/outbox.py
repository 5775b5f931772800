"""Messages of an application: its progress, and the id of the request added.

Some frameworks answer an error with a page of their own and let it out afterwards. So a short response of
status 500 that is only text waits for a moment, or until the application has ended, and gives way to a better
one.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from .protocol import Message, Send

__all__ = ["LastingFunction", "Outbox"]

LastingFunction: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""What goes on beside the application."""

_TEXTS = (b"text/plain", b"text/html")

_PAGE_SECONDS = 0.1
"""For the error of a page to arrive. An application that does not raise it by then goes on with something."""
_TAKING_SECONDS = 5.0
"""For a server whose client has left, to take the last of a response."""


class Outbox:
    """The response to one request.

    Args:
        send: Takes the messages for the server.
        request_id: The id to send along.
        start_soon: Starts a function that ends with the request.
    """

    def __init__(
        self, send: Send, request_id: str, *, start_soon: Callable[[LastingFunction], object]
    ) -> None:
        self._server_send = send
        self._request_id = request_id.encode("latin-1")
        self._start_soon = start_soon
        self._held: list[Message] = []
        self._has_trailers = False
        self.status: int | None = None
        """The status of the response, when there is one."""
        self.is_started = False
        """Whether something of the response itself was sent."""
        self.is_complete = False
        """Whether the application has given the last of the response."""
        self.refusal: OSError | None = None
        """How the server has said that it takes nothing more, because the client has left."""
        self._taken = anyio.Event()
        self._is_closed = False

    def close(self) -> None:
        """Take nothing more of an application that has sent nothing so far."""
        self._is_closed = not self.is_started

    async def send(self, message: Message) -> None:
        """Take the next message of the application."""
        if message.get("more_body", False):
            await checkpoint()  # a server that takes all at once lets nobody notice that the client has left
        if self._is_closed:
            return
        if message["type"] == "http.response.start":
            message = self._begin(message)
            is_text = _content_type(message).startswith(_TEXTS)
            if message["status"] == 500 and is_text and not self._has_trailers:
                self._held = [message]
                return
        elif len(self._held) == 1 and _is_whole(message):
            self._held.append(message)
            self.is_complete = True
            self._start_soon(self._release_soon)
            return
        await self._release()
        await self._pass_on(message)

    async def _release(self) -> None:
        """Send what waits."""
        held, self._held = self._held, []
        for message in held if not self._is_closed else ():
            await self._pass_on(message)

    async def replace(self, *messages: Message) -> None:
        """Answer something else. Nothing was sent.

        Args:
            messages: The whole response.
        """
        self._held = []
        self.status = messages[0]["status"]
        for message in messages:
            await self._pass_on(message)

    async def wait_until_taken(self) -> None:
        """Let the server take the last of the response, when the application has given it.

        Servers say that a client has left as soon as it has everything, and some are not done then.
        """
        if not self.is_complete:
            return
        with anyio.move_on_after(_TAKING_SECONDS):
            await self._taken.wait()
            return
        self.is_complete = False

    async def end(self) -> None:
        """Send what waits, or let it be sent; the application has ended."""
        await self._release()
        if self.is_started and self.is_complete and not self._taken.is_set():
            await self._taken.wait()

    async def _release_soon(self) -> None:
        await anyio.sleep(_PAGE_SECONDS)
        try:
            await self._release()
        except OSError:  # the client has left: what servers raise from version 2.4 of ASGI on
            await checkpoint()
        finally:
            self._taken.set()

    async def _pass_on(self, message: Message) -> None:
        self.is_started = self.is_started or message["type"] == "http.response.start"
        is_last = self._is_last(message)
        self.is_complete = self.is_complete or is_last
        try:
            await self._server_send(message)
        except OSError as error:
            self.refusal = error
            raise
        finally:
            if is_last:
                self._taken.set()

    def _begin(self, message: Message) -> Message:
        self.status = message["status"]
        self._has_trailers = bool(message.get("trailers", False))
        headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        if not any(name.lower() == b"x-request-id" for name, _ in headers):
            headers.append((b"x-request-id", self._request_id))
        return {**message, "headers": headers}

    def _is_last(self, message: Message) -> bool:
        match message["type"]:
            case "http.response.body" | "http.response.zerocopysend":
                return not message.get("more_body", False) and not self._has_trailers
            case "http.response.pathsend":
                return not self._has_trailers
            case "http.response.trailers":
                return not message.get("more_trailers", False)
            case _:
                return False


def _is_whole(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


def _content_type(start: Message) -> bytes:
    return next((value for name, value in start["headers"] if name.lower() == b"content-type"), b"").lower()
