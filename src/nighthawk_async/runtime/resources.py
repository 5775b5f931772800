"""Resources of a run, opened once and closed at its end: connection pools, embedded model servers.

Resources belong to one event loop, and are closed when nobody on that loop uses them any more: neither the
run that was entered there with `async with`, nor the portal thread, nor a step in progress.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar, cast

import anyio

__all__ = ["RunResources"]

Resource = TypeVar("Resource")

_CLOSE_SECONDS = 10


class RunResources:
    """Opens resources on first use and closes them all, last opened first.

    A resource must not hold a task group or cancel scope open while it is in use: it is opened in the task
    of the step that needs it first, and closed in the task of its last user.

    Attributes:
        users: How many use the resources at present.
    """

    def __init__(self) -> None:
        self.users = 0
        self._opened: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, anyio.Lock] = {}
        self._stack = AsyncExitStack()

    async def use(
        self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
    ) -> Resource:
        """The resource of that key, opened by whoever asks first.

        When opening fails or is cancelled, the next one who asks opens it anew.

        Args:
            key: What identifies the resource within a run.
            opener: Gives the context manager to enter.
        """
        if key in self._opened:
            return cast("Resource", self._opened[key])
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._opened:
                self._opened[key] = await self._stack.enter_async_context(opener())
            return cast("Resource", self._opened[key])

    async def aclose(self) -> None:
        """Close every resource; shielded from cancellation, for 10 seconds at most."""
        self._opened.clear()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._stack.aclose()
