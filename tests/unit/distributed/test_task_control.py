"""Handles of tasks whose calls run on workers."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.distributed import CrossingError
from nighthawk_async.parallel import (
    NothingToControlError,
    NotSuspendedError,
    TaskCancelledError,
    TaskEndedError,
    TaskHandle,
)
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_functions import double
from tests.worker_steps import current_ids, listen, listener, work_until_asked

pytestmark = pytest.mark.anyio


async def controllable(task: TaskHandle[object]) -> None:
    """Wait until something in a task can be controlled."""
    with anyio.fail_after(240):
        while True:
            try:
                await task.snapshot()
            except NothingToControlError:
                await anyio.sleep(0.001)
            else:
                return


async def test_a_step_on_a_worker_is_steered_from_the_handle_of_its_task() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(listen, "a")
        await controllable(task)
        task.steer("louder")
        assert "louder" in await task
        with pytest.raises(TaskEndedError):
            task.steer("louder")


async def test_a_step_on_a_worker_is_suspended_and_resumed() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(listen, "a")
        await controllable(task)
        with pytest.raises(NotSuspendedError):
            task.resume()
        task.suspend()
        await task.wait_suspended()
        assert task.status == "suspended"
        assert (await task.snapshot()).is_suspended
        task.resume("louder, please")
        assert "louder, please" in await task


async def test_a_snapshot_of_a_step_on_a_worker_shows_its_values() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(listen, "a")
        await controllable(task)
        assert (await task.snapshot()).locals["text"] == "a"
        task.cancel()


async def test_a_step_on_a_worker_is_stopped() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(listen, "a")
        await controllable(task)
        task.stop("it takes too long")
        with pytest.raises(nh.ExecutionError, match="it takes too long"):
            await task


async def test_what_cannot_cross_is_refused_where_it_is_said() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(listen, "a")
        await controllable(task)
        with pytest.raises(CrossingError, match="what a task on a worker is steered with"):
            task.steer(lambda: None)
        task.cancel()


async def test_a_task_on_a_worker_is_asked_to_end() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(work_until_asked)
        await anyio.sleep(0.01)
        assert await task.cancel_gracefully(30, "enough") == "completed"
        assert await task == "asked to end"
        step = tasks.start(listen, "a")
        await controllable(step)
        assert await step.cancel_gracefully(30, "enough") == "cancelled"
        with pytest.raises(TaskCancelledError, match="enough"):
            await step


async def test_a_call_on_a_worker_is_part_of_the_task_of_its_caller() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers:
        found: list[object] = []
        for placement in (workers, None):
            async with nh.open_tasks("tasks", on=placement) as tasks:
                found.append((await tasks.start(current_ids))[1:])
        assert found[0] == found[1]


async def test_nothing_can_be_steered_in_a_call_without_a_step() -> None:
    async with nh.run(listener()), InMemoryWorkers(1) as workers, nh.open_tasks(on=workers) as tasks:
        task = tasks.start(double, 1)
        with pytest.raises(NothingToControlError):
            task.steer("louder")
        assert await task == 2
