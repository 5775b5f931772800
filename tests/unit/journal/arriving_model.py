"""A model whose answers come in an order that a test chooses, however the tasks are scheduled."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

import nighthawk_async as nh

from .durable_runs import ResponseEvents, assigning

Result = TypeVar("Result")


class ArrivingModel:
    """Answers each request, for the word in its prompt, when its turn has come; without an order at once.

    Args:
        words: All words, none of which is part of another one.
    """

    name = "arriving:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)
        self._asked: dict[str, anyio.Event] = {}
        self._turns: dict[str, anyio.Event] = {}
        self._has_order = False
        self.asked: list[str] = []

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response to a request."""
        word = next(each for each in self._words if each in str(request.messages[0]))
        self.asked.append(word)
        if self._has_order:
            self._asked[word].set()
            await self._turns[word].wait()
        yield ResponseEvents(assigning("loud", "word.upper()"))

    async def in_order(self, order: Iterable[str], program: Callable[[], Awaitable[Result]]) -> Result:
        """Run a program whose requests are answered in an order; those of other words never."""
        self._asked, self._turns = defaultdict(anyio.Event), defaultdict(anyio.Event)
        self._has_order = True

        async def answer() -> None:
            for word in order:
                await self._asked[word].wait()
                await anyio.wait_all_tasks_blocked()
                self._turns[word].set()
            await anyio.wait_all_tasks_blocked()

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            try:
                return await program()
            finally:
                self._has_order = False
                group.cancel_scope.cancel()
        raise AssertionError
