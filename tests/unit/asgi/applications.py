"""Small ASGI applications, and a natural function whose step can be watched."""

from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

__all__ = ["Steps", "answer", "stars"]


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def answer(send: Any, body: str = "", *, status: int = 200) -> None:
    """A whole response."""
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body.encode(), "more_body": False})


class Steps:
    """An executor whose steps wait until they are told to end, and the application that calls them."""

    def __init__(self) -> None:
        self.begun = 0
        self.finished = 0
        self.cancelled = 0
        self.release = anyio.Event()
        self._changed = anyio.Event()
        self.executor = CallbackExecutor(self._carry_out)

    async def wait_for_begun(self, number: int) -> None:
        """Wait until so many steps have begun."""
        while self.begun < number:
            await self._changed.wait()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Knows no lifespan and never asks for a message; answers when its step has ended."""
        assert scope["type"] == "http"
        await answer(send, str(await stars("***")))

    async def _carry_out(self, call: Any) -> Any:
        self.begun += 1
        self._changed.set()
        self._changed = anyio.Event()
        try:
            await self.release.wait()
        except BaseException:
            self.cancelled += 1
            raise
        self.finished += 1
        return pass_response(count=3)
