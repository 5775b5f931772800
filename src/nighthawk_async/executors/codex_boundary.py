"""The boundary between two turns of a step whose agent does not stop there by itself."""

from collections.abc import Awaitable, Callable

import anyio

from ..types.messages import UserContent


class Boundary:
    """The boundary before the next turn of a step, which may be crossed before the turn begins.

    Args:
        cross: Crosses it; see `AgentTask.turn_boundary`.
    """

    def __init__(self, cross: Callable[[], Awaitable[tuple[UserContent, ...]]]) -> None:
        self._cross = cross
        self._lock = anyio.Lock()
        self._crossed: tuple[UserContent, ...] | None = None

    async def cross_early(self) -> tuple[UserContent, ...]:
        """Cross it now, and return the messages that arrived; nothing when it has been crossed."""
        async with self._lock:
            if self._crossed is not None:
                return ()
            self._crossed = await self._cross()
            return self._crossed

    async def cross(self) -> tuple[UserContent, ...]:
        """Cross it for a turn that begins, and return the messages since the last turn."""
        async with self._lock:
            if (crossed := self._crossed) is None:
                return await self._cross()
            self._crossed = None
            return crossed
