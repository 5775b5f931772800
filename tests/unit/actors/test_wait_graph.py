"""Circles of waits that lead through actors and pools."""

import gc
import weakref
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.actors import (
    Actor,
    ActorDeadlockError,
    ActorHandle,
    JobHandle,
    Pool,
    PoolDeadlockError,
    open_actor,
)

pytestmark = pytest.mark.anyio


class Desk(Actor):
    """Awaits jobs; being told of a deadlock does not end it."""

    answers = (ActorDeadlockError, PoolDeadlockError)

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def reply(self) -> str:
        return "reply"

    async def submit(self, desk: "ActorHandle[Desk]") -> str:
        return await (await self.pool.submit(ask, desk))

    async def collect(self, handle: JobHandle[str]) -> str:
        return await handle


async def ask(desk: ActorHandle[Desk]) -> str:
    return await desk.ask(Desk.reply)


async def test_a_job_may_not_ask_the_actor_that_awaits_it() -> None:
    with anyio.fail_after(240):
        async with (
            Pool(max_concurrent=2, name="pool") as pool,
            open_actor(partial(Desk, pool), name="desk") as desk,
        ):
            with pytest.raises(
                ActorDeadlockError, match=r"actors and jobs .* pool\[0\] -> desk -> pool\[0\]"
            ):
                await desk.ask(Desk.submit, desk)
            assert await desk.ask(Desk.reply) == "reply"


async def test_an_actor_may_not_await_the_job_that_asks_it() -> None:
    async def ask_to_collect(desk: ActorHandle[Desk]) -> str:
        return await desk.ask(Desk.collect, handles[0])

    handles: list[JobHandle[str]] = []
    with anyio.fail_after(240):
        async with (
            Pool(max_concurrent=2, name="pool") as pool,
            open_actor(partial(Desk, pool), name="desk") as desk,
        ):
            handles.append(pool.submit_nowait(ask_to_collect, desk))
            with pytest.raises(PoolDeadlockError, match=r"actors and jobs .* desk -> pool\[0\] -> desk"):
                await handles[0]


async def test_jobs_of_two_pools_may_not_wait_for_each_other() -> None:
    async def wait_for(number: int) -> None:
        await handles[number]

    handles: list[JobHandle[None]] = []
    with anyio.fail_after(240):
        async with Pool(max_concurrent=2, name="one") as one, Pool(max_concurrent=2, name="two") as two:
            handles.append(one.submit_nowait(wait_for, 1))
            handles.append(two.submit_nowait(wait_for, 0))
            with pytest.raises(PoolDeadlockError, match="jobs would wait for each other"):
                await handles[0]


async def test_an_actor_and_a_job_that_go_on_are_no_circle() -> None:
    with anyio.fail_after(240):
        async with (
            Pool(max_concurrent=2) as pool,
            open_actor(partial(Desk, pool), name="one") as one,
            open_actor(partial(Desk, pool), name="two") as two,
        ):
            assert await one.ask(Desk.submit, two) == "reply"


async def test_a_deadline_inside_the_job_ends_its_wait() -> None:
    async def ask_for_a_while(desk: ActorHandle[Desk]) -> str:
        with anyio.move_on_after(0.01):
            return await desk.ask(Desk.reply)
        return "went on"

    class Patient(Desk):
        async def submit(self, desk: "ActorHandle[Desk]") -> str:
            return await (await self.pool.submit(ask_for_a_while, desk))

    with anyio.fail_after(240):
        async with Pool(max_concurrent=2) as pool, open_actor(partial(Patient, pool), name="desk") as desk:
            assert await desk.ask(Patient.submit, desk) == "went on"


async def test_jobs_that_submit_the_next_one_are_not_kept() -> None:
    class Result:
        """Something that can be referred to weakly."""

    results: list[weakref.ref[Result]] = []

    async def submit_next(left: int) -> Result:
        if left:
            pool.submit_nowait(submit_next, left - 1)
        result = Result()
        results.append(weakref.ref(result))
        return result

    async def count_kept() -> None:
        with anyio.fail_after(240):
            while len(results) < 50:
                await checkpoint()
        gc.collect()
        kept.append(sum(result() is not None for result in results))

    kept: list[int] = []
    async with Pool(max_concurrent=2) as pool, anyio.create_task_group() as task_group:
        pool.submit_nowait(submit_next, 49)
        task_group.start_soon(count_kept)
    assert kept[0] <= 4
