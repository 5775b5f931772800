"""Tasks that wait, and that tests look at and cancel."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from nighthawk_async.actors import ActorError


class Waiting:
    """A task that waits for one call, its result, and the scope that cancels it."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self.call = call
        self.result: object = "nothing"
        self.scope = anyio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            try:
                self.result = await self.call()
            except ActorError as error:
                self.result = error
        if self.scope.cancelled_caught:
            self.result = "cancelled"


async def start(task_group: TaskGroup, call: Callable[[], Awaitable[object]]) -> Waiting:
    """Start a call and wait until it waits."""
    waiting = Waiting(call)
    task_group.start_soon(waiting.run)
    await anyio.wait_all_tasks_blocked()
    return waiting
