"""What a run opens once and closes when its last user on the loop has left."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from nighthawk_async import NighthawkError
from nighthawk_async.kernel.run_state import RunResources, RunState

pytestmark = pytest.mark.anyio


class Opener:
    """Opens numbered resources, slowly, and fails when told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.log: list[str] = []
        self.may_open = anyio.Event()

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[int, None]:
        await self.may_open.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("cannot open")
        number = len(self.log)
        self.log.append("opened")
        yield number
        self.log.append("closed")


async def test_users_who_ask_at_once_share_one_resource() -> None:
    resources, opener = RunResources(), Opener()
    got: list[int] = []

    async def use() -> None:
        got.append(await resources.use("key", opener))

    async with anyio.create_task_group() as task_group:
        for _ in range(3):
            task_group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        opener.may_open.set()
    assert got == [0, 0, 0]
    await resources.aclose()
    assert opener.log == ["opened", "closed"]


async def test_after_a_failed_or_cancelled_opening_the_next_user_opens_anew() -> None:
    resources, opener = RunResources(), Opener(failures=1)
    with anyio.move_on_after(0):
        await resources.use("key", opener)
    opener.may_open.set()
    with pytest.raises(OSError, match="cannot open"):
        await resources.use("key", opener)
    assert await resources.use("key", opener) == 0
    await resources.aclose()


async def test_resources_are_closed_when_the_last_user_leaves_and_the_next_one_gets_new_ones() -> None:
    state, opener = RunState(sync_backend="trio"), Opener()
    opener.may_open.set()
    assert state.current_resources() is None
    async with state.using_resources():
        async with state.using_resources():
            resources = state.current_resources()
            assert resources is not None
            await resources.use("key", opener)
        assert opener.log == ["opened"]
    assert opener.log == ["opened", "closed"]
    assert state.current_resources() is None
    state.end()
    with pytest.raises(NighthawkError, match="has ended"):
        async with state.using_resources():
            pass


@pytest.mark.virtual_time
async def test_closing_takes_ten_seconds_at_most_even_when_cancelled() -> None:
    resources = RunResources()

    @asynccontextmanager
    async def stubborn() -> AsyncGenerator[None, None]:
        yield
        await anyio.sleep(3600)

    await resources.use("key", stubborn)
    started = anyio.current_time()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await resources.aclose()
    assert anyio.current_time() - started == pytest.approx(10)
