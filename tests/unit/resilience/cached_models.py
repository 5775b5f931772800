"""Steps that ask for a number, and models that give another one each time."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

__all__ = ["Counting", "Gated", "answer", "number"]


@nh.natural_function
async def number(text: str) -> int:
    value: int = nh.unset
    """natural
    Set <:value> to the number of <text>.
    """
    return value


def answer(value: object, **options: Any) -> ModelResponse:
    """A response that ends the step with a number."""
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"value": value}), **options)


class Counting(ScriptedModel):
    """Answers every request with its number, from 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(lambda request: answer(len(self.requests)), **options)

    @property
    def asked(self) -> int:
        """The number of requests so far."""
        return len(self.requests)


class Gated(Counting):
    """Waits, in the middle of each response, until a function of the request's number returns.

    Args:
        gate: The function; what it raises is raised.
    """

    def __init__(self, gate: Callable[[int], Awaitable[object]]) -> None:
        super().__init__()
        self._gate = gate

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        async with super().stream(request) as events:
            yield self._gated(events, len(self.requests))

    async def _gated(
        self, events: AsyncIterator[nh.models.ModelEvent], asked: int
    ) -> AsyncGenerator[nh.models.ModelEvent, None]:
        async for event in events:
            yield event
            if isinstance(event, nh.models.ToolCallStarted):
                await self._gate(asked)
