"""Whatever ends steps, groups, pools and actors: every node has ended by then, and none before its own."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.actors import Actor, Pool, open_actor
from nighthawk_async.observation import find_node_writer
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

from .told_nodes import ENDS, ToldNode, root

pytestmark = pytest.mark.anyio

RESPONSE = model_response(
    tool_call("nh_assign", target_path="result", expression="number * 2"),
    tool_call("nh_eval", expression="pause()"),
    tool_call("nh_outcome", kind="pass"),
)


async def pause() -> None:
    """Give others their turn."""
    await checkpoint()


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>; <pause>.
    """
    return result  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


class Doubler(Actor):
    """Doubles by a natural function."""

    async def double(self, number: int) -> int:
        """Double."""
        return await double(number)


async def alone() -> None:
    """One step."""
    await double(1)


async def mapped() -> None:
    """Three steps, two at once."""
    await nh.parallel.map(double, [1, 2, 3], max_concurrent=2)


async def streamed() -> None:
    """Two steps, whose results are taken as they come."""
    async with nh.parallel.stream(double, [1, 2]) as results:
        async for _ in results:
            pass


async def as_tasks() -> None:
    """Two steps in tasks."""
    async with nh.parallel.open_tasks() as tasks:
        first = tasks.start(double, 1)
        tasks.start(double, 2)
        await first


async def as_jobs() -> None:
    """Two steps in a pool of one worker."""
    async with Pool(max_concurrent=1) as pool:
        first = await pool.submit(double, 1)
        await pool.submit(double, 2)
        await first


async def in_an_actor() -> None:
    """A step that an actor carries out."""
    async with open_actor(Doubler) as actor:
        await actor.ask(Doubler.double, 1)


@pytest.mark.parametrize("work", [alone, mapped, streamed, as_tasks, as_jobs, in_an_actor])
async def test_a_cancellation_at_any_moment_leaves_no_node_open(work: Callable[[], Awaitable[None]]) -> None:
    for moment in range(25):
        watched = root()
        with watched.watching(), anyio.CancelScope() as scope:
            async with nh.run(executor()), anyio.create_task_group() as task_group:
                task_group.start_soon(cancel_at, scope, moment)
                await work()
                task_group.cancel_scope.cancel()
            assert find_node_writer() is watched
        assert watched.children
        assert open_nodes(watched) == []
        assert too_early(watched) == []


@pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")  # asyncio says so
@pytest.mark.parametrize("work", [alone, mapped, streamed, as_tasks, as_jobs, in_an_actor])
async def test_cancelling_all_tasks_of_asyncio_at_any_moment_leaves_no_node_open(
    work: Callable[[], Awaitable[None]], anyio_backend_name: str
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio cancels tasks before their first step")
    others = asyncio.all_tasks()
    gc.disable()  # it would have the warnings raised wherever it runs, also where nothing can be imported
    try:
        for moment in range(25):
            watched = root()
            task = asyncio.ensure_future(watch(watched, work))
            for _ in range(moment):
                await asyncio.sleep(0)
            for each in asyncio.all_tasks() - others:
                each.cancel()
            with anyio.fail_after(240):
                await asyncio.gather(task, return_exceptions=True)
            assert open_nodes(watched) == []
    finally:
        gc.enable()
    gc.collect()


async def watch(watched: ToldNode, work: Callable[[], Awaitable[None]]) -> None:
    """Carry out work in a run that is watched."""
    with watched.watching():
        async with nh.run(executor()):
            await work()


async def cancel_at(scope: anyio.CancelScope, moment: int) -> None:
    """Cancel after so many checkpoints."""
    for _ in range(moment):
        await checkpoint()
    scope.cancel()


def executor() -> nh.AgentStepExecutor:
    """Its model answers every request alike."""
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(lambda request: RESPONSE))


def open_nodes(watched: ToldNode) -> list[str]:
    """What has not ended."""
    return [f"{node.kind} {node.name}" for node in watched.walk() if node.state not in ENDS][1:]


def too_early(watched: ToldNode) -> list[str]:
    """What ended before something below it; jobs and actors belong to others than those who began them."""
    return [
        f"{node.kind} {node.name}"
        for node in watched.walk()
        for child in node.children
        if node is not watched and node.ended_at < child.ended_at
    ]
