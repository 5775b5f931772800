"""Blocks of tasks with handles: results, failures, ends."""

import functools
import gc
import threading

import anyio
import anyio.to_thread
import pytest
import trio

from nighthawk_async.parallel import (
    TaskAwaitsItselfError,
    TaskCancelledError,
    TaskHandle,
    Tasks,
    TasksClosedError,
    cancel_requested,
    current_task,
    open_tasks,
)

pytestmark = pytest.mark.anyio


async def double(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def fail(error: BaseException) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


async def test_awaiting_a_handle_gives_what_the_task_returned() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(double, 21)
        assert handle.status == "pending"
        assert await handle == 42
        assert handle.status == "completed"


async def test_every_awaiter_gets_the_result_during_and_after_the_block() -> None:
    results: list[int] = []
    go = anyio.Event()

    async def answer() -> int:
        await go.wait()
        return 7

    async def wait_for(handle: TaskHandle[int]) -> None:
        results.append(await handle)

    async with open_tasks() as tasks:
        handle = tasks.start(answer)
        async with anyio.create_task_group() as task_group:
            for _ in range(3):
                task_group.start_soon(wait_for, handle)
            await anyio.wait_all_tasks_blocked()
            go.set()
    assert results == [7, 7, 7]
    assert await handle == 7


async def test_a_synchronous_function_runs_in_a_worker_thread_as_the_task() -> None:
    def identify() -> str:
        return current_task().id

    async with open_tasks() as tasks:
        handle = tasks.start(identify)
        assert await handle == handle.id


async def test_a_partial_and_an_object_can_be_started_and_give_the_name() -> None:
    class Doubler:
        async def __call__(self, number: int) -> int:
            return await double(number)

    async with open_tasks() as tasks:
        handles = [tasks.start(functools.partial(double, 3)), tasks.start(Doubler(), 4)]
        assert [await handle for handle in handles] == [6, 8]
    assert [handle.name for handle in handles] == ["double", "Doubler"]


async def test_a_failure_goes_to_whoever_awaits_it_and_leaves_the_others_alone() -> None:
    error = ValueError("bad")
    async with open_tasks() as tasks:
        failing, other = tasks.start(fail, error), tasks.start(double, 1)
        for _ in range(2):
            with pytest.raises(ValueError, match="bad") as caught:
                await failing
            assert caught.value is error
        assert await other == 2
    assert failing.status == "failed"
    with pytest.raises(ValueError, match="bad"):
        await failing


async def test_awaiting_a_failure_many_times_does_not_lengthen_its_traceback() -> None:
    def depth(error: BaseException) -> int:
        traceback, frames = error.__traceback__, 0
        while traceback is not None:
            traceback, frames = traceback.tb_next, frames + 1
        return frames

    async with open_tasks() as tasks:
        handle = tasks.start(fail, ValueError("bad"))
        depths: list[int] = []
        for _ in range(3):
            with pytest.raises(ValueError, match="bad") as caught:
                await handle
            depths.append(depth(caught.value))
    assert depths[0] == depths[1] == depths[2]


async def test_a_failure_nobody_awaited_is_raised_bare_at_the_end_of_the_block() -> None:
    error = ValueError("bad")
    went_on: list[bool] = []

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.start(fail, error)
            await anyio.wait_all_tasks_blocked()
            went_on.append(True)

    with pytest.raises(ValueError, match="bad") as caught:
        await block()
    assert caught.value is error
    assert went_on == [True]


async def test_several_failures_nobody_awaited_are_raised_as_a_group() -> None:
    first, second = ValueError("first"), KeyError("second")

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.start(fail, first)
            await anyio.wait_all_tasks_blocked()
            tasks.start(fail, second)
            await anyio.wait_all_tasks_blocked()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.value.exceptions == (first, second)


async def test_an_error_of_the_body_cancels_the_tasks_and_goes_on_bare() -> None:
    handles: list[TaskHandle[None]] = []
    error = RuntimeError("body")

    async def block() -> None:
        async with open_tasks() as tasks:
            handles.extend(tasks.start(anyio.sleep_forever) for _ in range(2))
            await anyio.wait_all_tasks_blocked()
            handles.append(tasks.start(anyio.sleep_forever))
            raise error

    with pytest.raises(RuntimeError, match="body") as caught:
        await block()
    assert caught.value is error
    assert [handle.status for handle in handles] == ["cancelled"] * 3
    with pytest.raises(TaskCancelledError, match="its block was left by an error"):
        await handles[0]


async def test_an_error_of_the_body_and_a_failure_nobody_awaited_are_raised_together() -> None:
    failure, error = ValueError("task"), RuntimeError("body")

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.start(fail, failure)
            await anyio.wait_all_tasks_blocked()
            raise error

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.value.exceptions == (error, failure)


async def test_an_awaited_failure_that_leaves_the_body_stays_bare() -> None:
    error = ValueError("bad")

    handles: list[TaskHandle[None]] = []

    async def block() -> None:
        async with open_tasks() as tasks:
            handles.append(tasks.start(anyio.sleep_forever))
            await tasks.start(fail, error)

    with pytest.raises(ValueError, match="bad") as caught:
        await block()
    assert caught.value is error
    assert handles[0].status == "cancelled"


async def test_an_exception_group_of_the_body_stays_as_it_is() -> None:
    group = ExceptionGroup("mine", [ValueError("bad")])

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.start(anyio.sleep_forever)
            raise group

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.value is group


async def test_leaving_waits_for_the_tasks_and_for_those_they_start() -> None:
    handles: list[TaskHandle[int]] = []

    async def start_another(tasks: Tasks) -> None:
        await anyio.wait_all_tasks_blocked()
        handles.append(tasks.start(double, 4))

    async with open_tasks(at_end="wait") as tasks:
        tasks.start(start_another, tasks)
    assert handles[0].status == "completed"
    assert await handles[0] == 8


async def test_once_the_body_has_ended_a_failure_nobody_awaits_cancels_the_rest() -> None:
    error = ValueError("bad")
    go = anyio.Event()
    started: list[TaskHandle[None]] = []

    async def fail_later() -> None:
        await go.wait()
        raise error

    async def start_while_ending(tasks: Tasks) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            started.append(tasks.start(anyio.sleep_forever))

    handles: list[TaskHandle[None]] = []

    async def block() -> None:
        async with open_tasks(at_end="wait") as tasks:
            handles.append(tasks.start(anyio.sleep_forever))
            tasks.start(start_while_ending, tasks)
            tasks.start(fail_later)
            await anyio.wait_all_tasks_blocked()
            go.set()

    with pytest.raises(ValueError, match="bad") as caught:
        await block()
    assert caught.value is error
    assert [handles[0].status, started[0].status] == ["cancelled", "cancelled"]
    with pytest.raises(TaskCancelledError, match="another task of its block failed"):
        await handles[0]


async def test_a_failure_that_a_sibling_awaits_cancels_nobody() -> None:
    go = anyio.Event()

    async def fail_later() -> None:
        await go.wait()
        raise ValueError("bad")

    async def handle_failure(handle: TaskHandle[None]) -> str:
        with pytest.raises(ValueError, match="bad"):
            await handle
        await anyio.wait_all_tasks_blocked()
        return "handled"

    async with open_tasks(at_end="wait") as tasks:
        sibling = tasks.start(handle_failure, tasks.start(fail_later))
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert await sibling == "handled"


@pytest.mark.parametrize("_", range(20))  # Trio runs in random order what becomes ready together
async def test_a_failure_whose_awaiter_outside_the_block_is_woken_is_raised_there_only(_: int) -> None:
    caught: list[str] = []
    go = anyio.Event()

    async def fail_later() -> None:
        await go.wait()
        raise ValueError("bad")

    async with anyio.create_task_group() as outer, open_tasks() as tasks:
        outer.start_soon(catch_failure, tasks.start(fail_later), caught)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert caught == ["bad"]


@pytest.mark.parametrize("_", range(20))
async def test_a_failure_that_somebody_begins_to_await_as_the_body_ends_cancels_nobody(_: int) -> None:
    caught: list[str] = []
    ready, go = anyio.Event(), anyio.Event()

    async def wait_outside(handle: TaskHandle[None]) -> None:
        ready.set()
        await catch_failure(handle, caught)
        go.set()

    async with anyio.create_task_group() as outer:
        async with open_tasks(at_end="wait") as tasks:
            failing, other = tasks.start(fail, ValueError("bad")), tasks.start(go.wait)
            await failing.wait_ended()
            outer.start_soon(wait_outside, failing)
            await ready.wait()
        assert other.status == "completed"
    assert caught == ["bad"]


async def catch_failure(handle: TaskHandle[None], caught: list[str]) -> None:
    try:
        await handle
    except ValueError as error:
        caught.append(str(error))


async def test_a_failure_that_was_awaited_stays_awaited_when_another_gives_up() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(fail, ValueError("bad"))
        with pytest.raises(ValueError, match="bad"):
            await handle
        with anyio.CancelScope() as scope:
            scope.cancel()
            await handle
        assert scope.cancelled_caught


async def test_a_failure_whose_only_awaiter_is_cancelled_in_the_same_moment_is_raised() -> None:
    go = anyio.Event()
    scope = anyio.CancelScope()

    async def fail_later() -> None:
        await go.wait()
        scope.cancel()
        raise ValueError("bad")

    async def wait_until_cancelled(handle: TaskHandle[None]) -> None:
        with scope:
            await handle

    async with anyio.create_task_group() as outer:
        handles: list[TaskHandle[None]] = []

        async def block() -> None:
            async with open_tasks() as tasks:
                handles.append(tasks.start(anyio.sleep_forever))
                outer.start_soon(wait_until_cancelled, tasks.start(fail_later))
                await anyio.wait_all_tasks_blocked()
                go.set()

        with pytest.raises(ValueError, match="bad"):
            await block()
    assert handles[0].status == "cancelled"


async def test_waiting_for_the_end_does_not_count_as_awaiting_a_failure() -> None:
    handles: list[TaskHandle[None]] = []

    async def block() -> None:
        async with open_tasks() as tasks:
            handles.append(tasks.start(fail, ValueError("bad")))
            await handles[0].wait_ended()
            assert handles[0].status == "failed"

    with pytest.raises(ValueError, match="bad"):
        await block()


async def test_a_block_can_cancel_at_its_end_those_that_nobody_awaits() -> None:
    go = anyio.Event()
    results: list[int] = []

    async def answer() -> int:
        await go.wait()
        return 5

    async def wait_outside(handle: TaskHandle[int]) -> None:
        results.append(await handle)

    async def release() -> None:
        await anyio.wait_all_tasks_blocked()
        go.set()

    async with anyio.create_task_group() as outer, open_tasks(at_end="cancel") as tasks:
        helper = tasks.start(anyio.sleep_forever)
        outer.start_soon(wait_outside, tasks.start(answer))
        await anyio.wait_all_tasks_blocked()
        outer.start_soon(release)
    assert results == [5]
    with pytest.raises(TaskCancelledError, match="its block has ended"):
        await helper


async def test_what_only_a_cancelled_task_awaited_is_cancelled_with_it() -> None:
    async def wait_for(handle: TaskHandle[None]) -> None:
        await handle

    with anyio.fail_after(240):
        async with open_tasks(at_end="cancel") as tasks:
            first = tasks.start(anyio.sleep_forever)
            second = tasks.start(wait_for, first)
            third = tasks.start(wait_for, second)
            await anyio.wait_all_tasks_blocked()
    assert {first.status, second.status, third.status} == {"cancelled"}
    with pytest.raises(TaskCancelledError, match="its block has ended"):
        await first


async def test_what_somebody_stops_to_await_after_the_end_of_the_body_is_cancelled() -> None:
    async def wait_a_while(handle: TaskHandle[None]) -> None:
        with anyio.move_on_after(0.01):
            await handle

    with anyio.fail_after(240):
        async with anyio.create_task_group() as outer, open_tasks(at_end="cancel") as tasks:
            helper = tasks.start(anyio.sleep_forever)
            outer.start_soon(wait_a_while, helper)
            await anyio.wait_all_tasks_blocked()
    assert helper.status == "cancelled"


async def test_a_task_that_a_cancelled_one_starts_while_it_ends_is_cancelled_too() -> None:
    handles: list[TaskHandle[None]] = []

    with anyio.fail_after(240):
        async with open_tasks(at_end="cancel") as tasks:

            async def start_another() -> None:
                try:
                    await anyio.sleep_forever()
                finally:
                    handles.append(tasks.start(anyio.sleep_forever))

            tasks.start(start_another)
            await anyio.wait_all_tasks_blocked()
    assert [handle.status for handle in handles] == ["cancelled"]


async def test_an_awaited_task_may_start_others_after_the_end_of_the_body_and_await_them() -> None:
    go = anyio.Event()
    results: list[int] = []

    async def double(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * number

    async with anyio.create_task_group() as outer, open_tasks(at_end="cancel") as tasks:

        async def delegate() -> int:
            await go.wait()
            return await tasks.start(double, 2) + await tasks.start(double, 3)

        async def wait_outside() -> None:
            handle = tasks.start(delegate)
            results.append(await handle)

        async def release() -> None:
            await anyio.wait_all_tasks_blocked()
            go.set()

        outer.start_soon(wait_outside)
        await anyio.wait_all_tasks_blocked()
        outer.start_soon(release)
    assert results == [10]


async def test_a_cancellation_around_the_block_ends_every_task_and_goes_on() -> None:
    handles: list[TaskHandle[None]] = []
    with anyio.CancelScope() as scope:
        async with open_tasks() as tasks:
            handles.append(tasks.start(anyio.sleep_forever))
            await anyio.wait_all_tasks_blocked()
            handles.append(tasks.start(anyio.sleep_forever))
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert [handle.status for handle in handles] == ["cancelled", "cancelled"]
    with pytest.raises(TaskCancelledError, match="its block was cancelled"):
        await handles[0]


async def test_a_cancellation_while_the_block_waits_ends_every_task_and_goes_on() -> None:
    async with anyio.create_task_group() as outer:
        with anyio.CancelScope() as scope:
            async with open_tasks(at_end="wait") as tasks:
                handle = tasks.start(anyio.sleep_forever)
                outer.start_soon(_cancel_when_blocked, scope)
        assert scope.cancelled_caught
    assert handle.status == "cancelled"


async def _cancel_when_blocked(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def test_an_error_takes_the_place_of_a_cancellation() -> None:
    error = ValueError("cleanup")

    async def fail_while_ending() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    async def block() -> None:
        with anyio.CancelScope() as scope:
            async with open_tasks() as tasks:
                tasks.start(fail_while_ending)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.lowlevel.checkpoint()

    with pytest.raises(ValueError, match="cleanup") as caught:
        await block()
    assert caught.value is error


async def test_an_error_of_a_task_group_inside_a_cancelled_task_is_kept_whole() -> None:
    error = ValueError("cleanup")

    async def fail_while_ending() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    async def run_group() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(fail_while_ending)
            task_group.start_soon(anyio.sleep_forever)

    with anyio.CancelScope() as scope:
        handles: list[TaskHandle[None]] = []

        async def block() -> None:
            async with open_tasks() as tasks:
                handles.append(tasks.start(run_group))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        with pytest.raises(ExceptionGroup) as caught:
            await block()
    assert caught.value.exceptions == (error,)
    assert handles[0].status == "failed"


async def test_what_ends_the_program_ends_the_block_at_once() -> None:
    async with anyio.create_task_group():

        async def block() -> None:
            async with open_tasks() as tasks:
                tasks.start(anyio.sleep_forever)
                tasks.start(_exit)
                await anyio.sleep_forever()

        with pytest.raises(SystemExit):
            await block()


async def test_what_ends_the_program_does_so_though_somebody_catches_it() -> None:
    async def catch(handle: TaskHandle[None]) -> None:
        with pytest.raises(SystemExit):
            await handle

    async def block() -> None:
        async with open_tasks(at_end="wait") as tasks:
            tasks.start(catch, tasks.start(_exit))

    with pytest.raises(SystemExit):
        await block()


async def _exit() -> None:
    await anyio.wait_all_tasks_blocked()
    raise SystemExit(3)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_group_of_cancellations_alone_is_a_cancellation() -> None:
    async def run_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    with anyio.CancelScope() as scope:
        async with open_tasks() as tasks:
            handle = tasks.start(run_nursery)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert handle.status == "cancelled"


async def test_a_task_that_awaits_its_own_handle_fails() -> None:
    handles: list[TaskHandle[None]] = []

    async def wait_for_itself() -> None:
        await handles[0]

    async with open_tasks() as tasks:
        handles.append(tasks.start(wait_for_itself))
        with pytest.raises(TaskAwaitsItselfError, match=r"main/tasks\[0\]/wait_for_itself\[0\]"):
            await handles[0]


async def test_nothing_can_be_started_outside_the_block() -> None:
    tasks = open_tasks()
    with pytest.raises(TasksClosedError, match="not entered yet"):
        tasks.start(double, 1)
    async with tasks:
        pass
    with pytest.raises(TasksClosedError, match="is over"):
        tasks.start(double, 1)
    with pytest.raises(TasksClosedError, match="entered once"):
        await tasks.__aenter__()


async def test_nothing_can_be_started_once_the_last_task_of_an_ended_body_has_ended() -> None:
    async def start_late(tasks: Tasks, handle: TaskHandle[None]) -> None:
        await handle.wait_ended()
        with pytest.raises(TasksClosedError, match="is over"):
            tasks.start(double, 1)

    go = anyio.Event()
    async with anyio.create_task_group() as outer, open_tasks() as tasks:
        outer.start_soon(start_late, tasks, tasks.start(go.wait))
        await anyio.wait_all_tasks_blocked()
        go.set()


@pytest.mark.parametrize("name", ["", "a/b", "a[0]"])
async def test_a_name_that_would_make_ids_ambiguous_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a task"):
        open_tasks(name)
    async with open_tasks() as tasks:
        with pytest.raises(ValueError, match="the name of a task"):
            tasks.start(double, 1, name=name)


def test_what_happens_at_the_end_is_one_of_two_things() -> None:
    with pytest.raises(ValueError, match="at_end must be"):
        open_tasks(at_end="abandon")  # type: ignore[arg-type]


async def test_a_block_forgets_tasks_that_have_ended() -> None:
    class Result:
        pass

    async def give() -> Result:
        return Result()

    async with open_tasks() as tasks:
        for _ in range(50):
            await tasks.start(give)
        gc.collect()
        assert sum(type(each) is Result for each in gc.get_objects()) <= 1


async def test_a_thread_that_is_cancelled_can_ask_and_the_block_waits_for_it() -> None:
    has_begun = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        has_begun.set()
        while not cancel_requested():
            has_begun.wait(0.001)
        seen.append(True)

    async with open_tasks() as tasks:
        handle = tasks.start(work)
        await anyio.to_thread.run_sync(has_begun.wait)
        handle.cancel("enough")
    assert seen == [True]
