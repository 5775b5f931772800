"""What actors, pools and jobs tell whoever watches."""

import asyncio

import anyio
import pytest

from nighthawk_async.actors import (
    Actor,
    JobCancelledError,
    JobRejectedError,
    Pool,
    Restart,
    Supervisor,
    open_actor,
)
from nighthawk_async.observation import find_node_writer
from tests.unit.observe.told_nodes import root

pytestmark = pytest.mark.anyio


def tell(name: str) -> None:
    """Begin something below what is in force."""
    around = find_node_writer()
    assert around is not None
    around.begin_child("step", name).end("completed")


class Counter(Actor):
    """Counts, and fails at zero."""

    async def add(self, number: int) -> int:
        """Tell, and fail at zero."""
        tell("inner")
        if number == 0:
            raise ValueError("zero")
        return number

    async def hang(self) -> None:
        """Never return."""
        await anyio.sleep_forever()


async def test_what_an_actor_does_is_below_it_and_not_below_its_asker() -> None:
    watched, asker = root(), root()
    with watched.watching():
        async with open_actor(Counter, name="counter") as counter:
            with asker.watching():
                assert await counter.ask(Counter.add, 1) == 1
            assert watched.find("actor").state == "running"
    assert watched.draw() == ["actor counter: completed", "  step: completed"]
    assert asker.draw() == []


async def test_an_actor_that_crashes_has_failed() -> None:
    watched = root()
    with watched.watching():
        async with open_actor(Counter) as counter:
            with pytest.raises(ValueError, match="zero"):
                await counter.ask(Counter.add, 0)
    actor = watched.find("actor")
    assert (actor.name, actor.state, str(actor.error)) == ("Counter", "failed", "zero")


async def test_an_actor_can_be_ended_by_who_watches() -> None:
    watched = root()
    with watched.watching():
        async with open_actor(Counter) as counter:
            await counter.tell(Counter.hang)
            await anyio.wait_all_tasks_blocked()
            watched.find("actor").control.request_cancel("enough")
            await counter.wait_ended()
    assert watched.find("actor").state == "cancelled"


async def test_the_lives_of_an_actor_are_one_node_with_retries() -> None:
    at_once = Restart(backoff_seconds=0, jitter_seconds=0)
    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            counter = supervisor.start_actor("counter", Counter, restart=at_once)
            with pytest.raises(ValueError, match="zero"):
                await counter.ask(Counter.add, 0)
            assert await counter.ask(Counter.add, 1) == 1
            await counter.stop()
    actor = watched.find("actor")
    assert [child.kind for child in watched.children] == ["actor"]
    assert (actor.name, actor.state, actor.retries) == ("counter", "completed", 1)
    assert actor.states == ["running", "waiting", "running", "waiting", "completed"]


async def test_a_function_that_a_supervisor_runs_is_one_node_over_its_lives() -> None:
    lives: list[str] = []

    async def work() -> None:
        tell("inner")
        lives.append("life")
        if len(lives) == 1:
            raise ValueError("first")

    at_once = Restart(backoff_seconds=0, jitter_seconds=0)
    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            supervisor.start("worker", work, restart=at_once)
            await anyio.wait_all_tasks_blocked()
            assert watched.draw() == ["task worker: completed", "  step: completed", "  step: completed"]
    task = watched.find("task")
    assert task.states == ["running", "waiting", "running", "waiting", "completed"]
    assert (task.retries, task.error) == (1, None)


async def test_a_supervised_function_that_fails_for_good_has_failed() -> None:
    async def work() -> None:
        raise ValueError("again")

    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            supervisor.start("worker", work, restart=Restart(mode="never"))
            await anyio.wait_all_tasks_blocked()
    task = watched.find("task")
    assert (task.state, str(task.error)) == ("failed", "again")


async def test_a_supervised_function_can_be_ended_by_who_watches() -> None:
    lives: list[str] = []

    async def work() -> None:
        lives.append("life")
        await anyio.sleep_forever()

    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            supervisor.start("worker", work, restart=Restart(mode="always", backoff_seconds=0))
            await anyio.wait_all_tasks_blocked()
            watched.find("task").control.request_cancel("enough")
            await anyio.wait_all_tasks_blocked()
            assert lives == ["life"]
            watched.find("task").control.request_cancel("again")  # too late, and no harm
    assert watched.find("task").state == "cancelled"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_supervised_function_that_awaits_what_others_cancel_has_failed(anyio_backend: str) -> None:
    async def work() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            supervisor.start("worker", work, restart=Restart(mode="never"))
            await anyio.wait_all_tasks_blocked()
    assert watched.find("task").state == "failed"


async def test_jobs_wait_in_the_queue_of_their_pool_and_run() -> None:
    gate = anyio.Event()

    async def work(name: str) -> str:
        tell(name)
        await gate.wait()
        return name

    watched = root()
    with watched.watching():
        async with Pool(max_concurrent=1, name="crawl") as pool:
            first = await pool.submit(work, "a")
            second = await pool.submit(work, "b")
            third = await pool.submit(work, "c")
            await anyio.wait_all_tasks_blocked()
            jobs = watched.find("pool").children
            assert [job.state for job in jobs] == ["running", "waiting", "waiting"]
            jobs[2].control.request_cancel("enough")
            gate.set()
            assert (await first, await second) == ("a", "b")
            with pytest.raises(JobCancelledError, match="enough"):
                await third
    assert watched.draw() == [
        "pool crawl: completed",
        "  job work: completed",
        "    step: completed",
        "  job work: completed",
        "    step: completed",
        "  job work: cancelled",
    ]
    assert jobs[0].states == ["waiting", "running", "completed"]
    assert (jobs[0].inputs, jobs[0].outputs) == ({"arguments": ("a",)}, {"return": "a"})
    assert [job.attributes["nighthawk.job.id"] for job in jobs] == ["crawl[0]", "crawl[1]", "crawl[2]"]


async def test_jobs_that_fail_or_are_rejected_have_failed() -> None:
    gate = anyio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ValueError("no")

    watched = root()
    with watched.watching():
        async with Pool(max_concurrent=1, max_queued=0, backpressure="drop_newest") as pool:
            failing = await pool.submit(fail)
            rejected = await pool.submit(fail)
            gate.set()
            with pytest.raises(ValueError, match="no"):
                await failing
            with pytest.raises(JobRejectedError):
                await rejected
    assert watched.draw() == ["pool pool: completed", "  job fail: failed", "  job fail: failed"]
    first, second = watched.find("pool").children
    assert isinstance(first.error, ValueError)
    assert isinstance(second.error, JobRejectedError)


async def test_a_pool_that_is_cancelled_ends_cancelled_with_its_jobs() -> None:
    watched = root()
    with watched.watching(), anyio.CancelScope() as scope:
        async with Pool(max_concurrent=1) as pool:
            for _ in range(2):
                await pool.submit(anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.sleep_forever()
    assert watched.draw() == [
        "pool pool: cancelled",
        "  job sleep_forever: cancelled",
        "  job sleep_forever: cancelled",
    ]


async def test_an_actor_that_waits_for_its_next_life_says_why_and_can_be_cancelled() -> None:
    much_later = Restart(backoff_seconds=1_000, jitter_seconds=0)
    watched = root()
    with watched.watching():
        async with Supervisor() as supervisor:
            counter = supervisor.start_actor("counter", Counter, restart=much_later)
            with pytest.raises(ValueError, match="zero"):
                await counter.ask(Counter.add, 0)
            await anyio.wait_all_tasks_blocked()
            actor = watched.find("actor")
            assert actor.state == "waiting"
            assert actor.written == [("note", None, "a life has ended with ValueError\n")]
            actor.control.request_cancel("enough")
            await counter.wait_ended()
    assert (actor.state, actor.error) == ("cancelled", None)
