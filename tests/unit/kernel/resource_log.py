"""Resources that log when they are opened and closed, for tests of their owners."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

EXECUTOR = CallbackExecutor(lambda call: pass_response())
OWNERS = ("step", "task", "parent", "run")


class Log(list[str]):
    """What was opened and closed, in order."""

    def opener(
        self, name: str = "thing", *, error: Exception | None = None, opening: Exception | None = None
    ) -> Callable[[], AbstractAsyncContextManager[str]]:
        """An opener whose resource holds a task group open, with a task in it."""

        @asynccontextmanager
        async def open_it() -> AsyncGenerator[str, None]:
            await checkpoint()
            if opening is not None:
                raise opening
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                self.append(f"+{name}")
                yield name
                await checkpoint()
                self.append(f"-{name}")
                group.cancel_scope.cancel()
            if error is not None:
                raise error

        return open_it


async def inside_a_step(work: Callable[[], Any]) -> None:
    """Do something inside a step."""

    async def execute(call: StepCall) -> StepResponse:
        await work()
        return pass_response()

    with nh.scope(step_executor=CallbackExecutor(execute)):
        await nh.step("Work.")
