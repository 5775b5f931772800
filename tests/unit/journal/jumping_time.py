"""Time that passes only when a test says so, on both event loops, and a model that takes long."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from trio.testing import MockClock

import nighthawk_async as nh

from .durable_runs import Answer, AnsweringModel, ResponseEvents, assigning

BACKENDS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(
        ("trio", {"clock": MockClock(), "restrict_keyboard_interrupt_to_checkpoints": True}), id="trio"
    ),
]


def jump(seconds: float) -> None:
    """Let time pass at once on the running event loop."""
    if _is_trio():
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(seconds)
        return
    loop: Any = asyncio.get_running_loop()
    loop.jumped = getattr(loop, "jumped", 0.0) + seconds
    # Of the class: while a store is slow, time jumps thousands of times, and none may call the one before.
    loop.time = lambda: type(loop).time(loop) + loop.jumped


@asynccontextmanager
async def passing_time() -> AsyncGenerator[None, None]:
    """Let minutes pass whenever all tasks wait."""

    async def pass_time() -> None:
        while True:
            await anyio.wait_all_tasks_blocked()
            jump(50)

    async with anyio.create_task_group() as group:
        group.start_soon(pass_time)
        yield
        group.cancel_scope.cancel()


def _is_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


class SlowModel(AnsweringModel):
    """Shouts a word, or takes so long for it that every deadline passes.

    Attributes:
        slow: The words that take long.
        first: The events that happen before that time passes.
    """

    def __init__(self, *slow: str, answer: Answer | None = None) -> None:
        super().__init__(answer or (lambda prompt, turn: assigning("loud", "word.upper()")))
        self.slow = set(slow)
        self.first: list[anyio.Event] = []

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response to a request."""
        prompt = str(request.messages[0])
        self.prompts.append(prompt)
        if any(f'"{word}"' in prompt for word in self.slow):
            for event in self.first:
                await event.wait()
            jump(1_000_000)
            await anyio.sleep_forever()
        turn = sum(1 for message in request.messages if isinstance(message, nh.models.AssistantMessage))
        yield ResponseEvents(self._answer(prompt, turn))
