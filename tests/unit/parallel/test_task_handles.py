"""Handles of tasks: ids, cancelling with and without grace."""

import threading
from typing import Any

import anyio
import pytest

from nighthawk_async.parallel import (
    CallCancelledError,
    InvalidLimitError,
    TaskAwaitsItselfError,
    TaskCancelledError,
    TaskHandle,
    Tasks,
    cancel_requested,
    current_task,
    gather,
    map,
    open_tasks,
    raise_if_cancel_requested,
    stream,
)
from nighthawk_async.parallel.task_current import open_task_root

pytestmark = pytest.mark.anyio


async def nothing() -> None:
    pass


async def end_when_asked() -> str:
    for _ in range(1000):
        if cancel_requested():
            return "ended by itself"
        await anyio.sleep(1)
    return "nobody asked"


async def test_ids_follow_the_positions_of_submission() -> None:
    with open_task_root("run"):
        async with open_tasks() as tasks:
            handles = [tasks.start(nothing), tasks.start(nothing), tasks.start(nothing, name="other")]
            handles.append(tasks.start(nothing))
        async with open_tasks("later") as tasks:
            handles.append(tasks.start(nothing))
        async with open_tasks() as tasks:
            handles.append(tasks.start(nothing))
    assert [handle.id for handle in handles] == [
        "run/tasks[0]/nothing[0]",
        "run/tasks[0]/nothing[1]",
        "run/tasks[0]/other[0]",
        "run/tasks[0]/nothing[2]",
        "run/later[0]/nothing[0]",
        "run/tasks[1]/nothing[0]",
    ]
    assert {handle.parent_id for handle in handles} == {"run"}
    assert [handles[0].name, handles[2].name] == ["nothing", "other"]


async def test_ids_are_the_same_whichever_task_runs_first() -> None:
    """Trio runs tasks in random order; the ids of their own tasks do not depend on it."""
    ids: list[set[str]] = []

    async def start_two(common: Tasks, found: set[str]) -> None:
        await anyio.lowlevel.checkpoint()
        async with open_tasks(at_end="wait") as tasks:
            found.update(tasks.start(nothing).id for _ in range(2))
        found.add(common.start(nothing).id)

    for _ in range(10):
        found: set[str] = set()
        with open_task_root("run"):
            async with open_tasks(at_end="wait") as tasks:
                for _ in range(3):
                    tasks.start(start_two, tasks, found)
        ids.append(found)
    assert len(ids[0]) == 9
    assert all(each == ids[0] for each in ids)
    assert "run/tasks[0]/start_two[2]/tasks[0]/nothing[1]" in ids[0]
    assert "run/tasks[0]/start_two[2]/nothing[0]" in ids[0]


async def test_the_items_of_combinators_are_positions_whichever_begins_first() -> None:
    """Trio runs calls in random order; the ids of the tasks that they start do not depend on it."""

    async def start_three(index: int) -> tuple[str, str, str]:
        async with open_tasks() as own:
            nested = await map(start_one, [index])
            return own.start(nothing).id, common.start(nothing).id, nested[0]

    async def start_one(index: int) -> str:
        return common.start(nothing).id

    with open_task_root("run"):
        async with open_tasks("common") as common:
            for block in range(2):
                ids = await map(start_three, range(4))
                assert ids == [
                    (
                        f"run/map[{block}]/item[{index}]/tasks[0]/nothing[0]",
                        f"run/map[{block}]/item[{index}]/nothing[0]",
                        f"run/map[{block}]/item[{index}]/map[0]/item[0]/nothing[0]",
                    )
                    for index in range(4)
                ]
            assert common.start(nothing).id == "run/common[0]/nothing[0]"


async def test_a_stream_has_its_position_from_where_it_is_entered() -> None:
    async def start_one(common: Tasks) -> str:
        return common.start(nothing).id

    with open_task_root("run"):
        async with (
            open_tasks() as common,
            stream(start_one, [common]) as first,
            stream(start_one, [common]) as second,
        ):
            ids = [await anext(second), await anext(first)]
    assert ids == ["run/stream[1]/item[0]/nothing[0]", "run/stream[0]/item[0]/nothing[0]"]


async def test_an_item_is_a_task_below_the_task_around_and_tasks_started_in_it_are_below_it() -> None:
    async def identify(index: int) -> tuple[str, str]:
        async with open_tasks() as tasks:
            return current_task().id, await tasks.start(start_one)

    async def start_one() -> str:
        async with open_tasks() as tasks:
            return tasks.start(nothing).id

    with open_task_root("run"):
        assert await gather(identify(0)) == [
            (
                "run/gather[0]/item[0]",
                "run/gather[0]/item[0]/tasks[0]/start_one[0]/tasks[0]/nothing[0]",
            )
        ]


async def test_no_two_tasks_have_one_id_though_names_meet() -> None:
    async def start_both(common: Tasks) -> list[str]:
        async with open_tasks() as tasks:
            return [tasks.start(nothing).id, common.start(nothing, name="tasks").id]

    async with open_tasks() as tasks:
        own, common = await tasks.start(start_both, tasks)
    assert own.endswith("/start_both[0]/tasks[0]/nothing[0]")
    assert common.endswith("/start_both[0]/tasks[1]")


async def test_a_task_cancelled_before_it_began_never_begins() -> None:
    called: list[str] = []

    def call() -> Any:
        called.append("called")
        return nothing()

    async def run() -> None:
        called.append("run")

    async with open_tasks() as tasks:
        handles = [tasks.start(run), tasks.start(call)]
        assert [handle.cancel("not needed") for handle in handles] == [True, True]
        assert [handle.status for handle in handles] == ["cancelled", "cancelled"]
        with pytest.raises(TaskCancelledError, match="was cancelled: not needed"):
            await handles[0]
        assert not handles[0].cancel("again")
    assert called == []


async def test_a_task_whose_block_is_cancelled_before_it_began_never_begins() -> None:
    called: list[str] = []

    async def run() -> None:
        called.append("run")

    with anyio.CancelScope() as scope:
        async with open_tasks() as tasks:
            scope.cancel()
            handle = tasks.start(run)
    assert called == []
    assert handle.status == "cancelled"


async def test_a_cancelled_task_tells_its_awaiters_why_and_cancels_none_of_them() -> None:
    told: list[TaskCancelledError] = []

    async def wait_for(handle: TaskHandle[None]) -> None:
        try:
            await handle
        except TaskCancelledError as error:
            await anyio.lowlevel.checkpoint()
            told.append(error)

    async with open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(anyio.sleep_forever)
        task_group.start_soon(wait_for, handle)
        task_group.start_soon(wait_for, handle)
        await anyio.wait_all_tasks_blocked()
        assert handle.status == "running"
        assert handle.cancel("too slow")
        assert handle.cancel("another reason")
    assert handle.status == "cancelled"
    assert [(error.task_id, error.reason, error.forced) for error in told] == [
        (handle.id, "too slow", False)
    ] * 2
    assert told[0] is not told[1]


async def test_a_result_at_the_moment_of_cancelling_wins() -> None:
    async def answer_anyway() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        return "done"

    async with open_tasks() as tasks:
        handle = tasks.start(answer_anyway)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        handle.cancel()
        assert await handle == "done"
        assert handle.status == "completed"


async def test_an_error_while_a_cancelled_task_cleans_up_is_its_failure() -> None:
    async def fail_while_ending() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    handles: list[TaskHandle[None]] = []

    async def block() -> None:
        async with open_tasks() as tasks:
            handles.append(tasks.start(fail_while_ending))
            await anyio.wait_all_tasks_blocked()
            handles[0].cancel()

    with pytest.raises(ValueError, match="cleanup"):
        await block()
    assert handles[0].status == "failed"


async def test_who_is_cancelled_while_awaiting_does_not_cancel_the_task() -> None:
    go = anyio.Event()
    async with open_tasks() as tasks:
        handle = tasks.start(go.wait)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await handle
        assert scope.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        assert handle.status == "running"
        go.set()
    assert handle.status == "completed"


async def test_cancelling_all_tasks_of_a_block_leaves_it_open() -> None:
    async with open_tasks() as tasks:
        handles = [tasks.start(anyio.sleep_forever) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        tasks.cancel("new plan")
        for handle in handles:
            with pytest.raises(TaskCancelledError, match="new plan"):
                await handle
        assert await tasks.start(end_when_asked, name="next").cancel_gracefully(0) == "cancelled"


@pytest.mark.virtual_time
async def test_a_task_that_ends_within_its_grace_is_not_cancelled() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(end_when_asked)
        await anyio.wait_all_tasks_blocked()
        assert await handle.cancel_gracefully(2) == "completed"
        assert await handle == "ended by itself"
        assert await handle.cancel_gracefully(2) == "completed"


@pytest.mark.virtual_time
async def test_a_task_that_does_not_end_within_its_grace_is_cancelled_by_force() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        assert await handle.cancel_gracefully(30, "closing time") == "cancelled"
        assert anyio.current_time() - began == pytest.approx(30)
        with pytest.raises(TaskCancelledError, match="by force after its grace: closing time") as caught:
            await handle
        assert (caught.value.reason, caught.value.forced) == ("closing time", True)


async def test_a_task_cancelled_by_force_stays_so_whoever_cancels_it_again() -> None:
    go = anyio.Event()

    async def clean_up() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await go.wait()

    async with open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(clean_up)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, 0, "first")
        await anyio.wait_all_tasks_blocked()
        handle.cancel("second")
        go.set()
        with pytest.raises(TaskCancelledError) as caught:
            await handle
    assert (caught.value.reason, caught.value.forced) == ("first", True)


async def test_a_task_can_end_as_cancelled_within_its_grace() -> None:
    asked = anyio.Event()

    async def stop_at_a_good_moment() -> None:
        await asked.wait()
        raise_if_cancel_requested()
        raise AssertionError("it was asked")

    async with open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(stop_at_a_good_moment)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, float("inf"), "closing time")
        await anyio.wait_all_tasks_blocked()
        asked.set()
        with pytest.raises(TaskCancelledError) as caught:
            await handle
    assert (caught.value.reason, caught.value.forced) == ("closing time", False)
    assert handle.status == "cancelled"


async def test_nobody_is_asked_to_end_before_somebody_asks() -> None:
    async def look() -> bool:
        raise_if_cancel_requested()
        return cancel_requested()

    assert not cancel_requested()
    async with open_tasks() as tasks:
        assert not await tasks.start(look)
        assert not await tasks.start(cancel_requested)


def test_without_an_event_loop_nobody_is_asked_to_end() -> None:
    raise_if_cancel_requested()
    assert not cancel_requested()


async def test_the_tasks_of_a_task_are_asked_to_end_with_it() -> None:
    deep: list[TaskHandle[str]] = []
    ready = anyio.Event()

    async def own_tasks() -> str:
        async with open_tasks(at_end="wait") as tasks:
            deep.append(tasks.start(wait_until_asked))
            await ready.wait()
            deep.append(tasks.start(wait_until_asked))
        return "ended"

    async def wait_until_asked() -> str:
        await ready.wait()
        return "asked" if cancel_requested() else "not asked"

    async with open_tasks(at_end="wait") as tasks, anyio.create_task_group() as task_group:
        handle, stranger = tasks.start(own_tasks), tasks.start(wait_until_asked)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, float("inf"))
        await anyio.wait_all_tasks_blocked()
        ready.set()
        assert await handle == "ended"
        assert [await each for each in deep] == ["asked", "asked"]
        assert await stranger == "not asked"


async def test_an_error_of_another_cancelled_task_is_a_failure_of_who_was_not_asked_to_end() -> None:
    async def wait_for(handle: TaskHandle[None]) -> None:
        await handle

    async with open_tasks() as tasks:
        cancelled = tasks.start(anyio.sleep_forever)
        waiting = tasks.start(wait_for, cancelled)
        await anyio.wait_all_tasks_blocked()
        cancelled.cancel()
        with pytest.raises(TaskCancelledError):
            await waiting
        assert [cancelled.status, waiting.status] == ["cancelled", "failed"]


async def test_who_was_asked_to_end_and_raises_that_its_tasks_were_cancelled_has_ended_for_that() -> None:
    async def own_tasks() -> None:
        async with anyio.create_task_group() as task_group, open_tasks() as tasks:
            task = tasks.start(raise_later)
            task_group.start_soon(task.wait_ended)
            await task

    asked = anyio.Event()

    async def raise_later() -> None:
        await asked.wait()
        raise_if_cancel_requested()

    async with open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(own_tasks)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, float("inf"))
        await anyio.wait_all_tasks_blocked()
        asked.set()
    assert handle.status == "cancelled"


async def test_errors_beside_an_answer_to_the_request_to_end_are_the_failure_without_it() -> None:
    """In a plain task group, code that fails and code that ends because it was asked to come in one group."""

    async def fail_at_the_end() -> None:
        await asked.wait()
        raise ValueError("not cleaned up")

    async def end_when_asked() -> None:
        with anyio.CancelScope(shield=True):
            await asked.wait()
        raise_if_cancel_requested()

    async def both() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(end_when_asked)
            task_group.start_soon(fail_at_the_end)

    async def ask_to_end() -> None:
        async with open_tasks() as tasks, anyio.create_task_group() as task_group:
            handle = tasks.start(both)
            await anyio.wait_all_tasks_blocked()
            task_group.start_soon(handle.cancel_gracefully, float("inf"))
            await anyio.wait_all_tasks_blocked()
            asked.set()

    asked = anyio.Event()
    with pytest.raises(ExceptionGroup) as raised:
        await ask_to_end()
    assert raised.group_contains(ValueError, match="not cleaned up")
    assert not raised.group_contains(TaskCancelledError)


async def test_who_is_cancelled_while_giving_grace_leaves_the_task_asked_and_running() -> None:
    go = anyio.Event()

    async def answer() -> bool:
        await go.wait()
        return cancel_requested()

    async with open_tasks() as tasks:
        handle = tasks.start(answer)
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await handle.cancel_gracefully(1000)
        assert handle.status == "running"
        go.set()
        assert await handle


@pytest.mark.parametrize("grace", [-1, float("nan"), True, "2"])
async def test_a_grace_that_makes_no_sense_asks_nobody(grace: Any) -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(end_when_asked)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(InvalidLimitError, match="the grace is a number of seconds"):
            await handle.cancel_gracefully(grace)
        assert handle.status == "running"
        handle.cancel()


async def test_a_task_cannot_wait_for_its_own_end() -> None:
    handles: list[TaskHandle[None]] = []

    async def wait_for_itself() -> None:
        with pytest.raises(TaskAwaitsItselfError):
            await handles[0].wait_ended()
        with pytest.raises(TaskAwaitsItselfError):
            await handles[0].cancel_gracefully(0)
        assert not cancel_requested()  # it was refused, so nobody was asked to end

    async with open_tasks(at_end="wait") as tasks:
        handles.append(tasks.start(wait_for_itself))
    assert handles[0].status == "completed"


async def test_a_task_can_cancel_itself() -> None:
    handles: list[TaskHandle[None]] = []

    async def cancel_itself() -> None:
        handles[0].cancel("no more")
        await anyio.lowlevel.checkpoint()

    async with open_tasks(at_end="wait") as tasks:
        handles.append(tasks.start(cancel_itself))
    with pytest.raises(TaskCancelledError, match="no more"):
        await handles[0]


async def test_a_synchronous_function_on_its_way_to_a_thread_sees_the_cancellation_around_it() -> None:
    """A cancellation that no handle asked for is seen in threads as well."""
    has_begun = threading.Event()

    def work() -> None:
        has_begun.set()
        while not cancel_requested():
            has_begun.wait(0.001)

    with anyio.CancelScope() as scope:
        async with open_tasks() as tasks:
            tasks.start(work)
            await anyio.to_thread.run_sync(has_begun.wait)
            scope.cancel()
    assert scope.cancel_called


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # Trio knows no cancellation without a scope
async def test_a_cancellation_of_something_else_that_reaches_the_task_is_its_failure() -> None:
    async def await_what_was_cancelled() -> None:
        raise anyio.get_cancelled_exc_class()

    async with open_tasks() as tasks:
        handle = tasks.start(await_what_was_cancelled)
        with pytest.raises(CallCancelledError):
            await handle
    assert handle.status == "failed"


async def test_a_handle_shows_its_task_and_how_far_it_is() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(nothing, name="show")
        assert repr(handle) == f"<task {handle.id}, pending>"
        await handle
        assert repr(handle) == f"<task {handle.id}, completed>"


async def test_a_task_can_be_awaited_from_a_plain_task_it_started_elsewhere() -> None:
    """Such a task carries the identity of the task it was started in; it is not the task itself."""
    results: list[str] = []
    handles: list[TaskHandle[str]] = []

    async def wait_for_it() -> None:
        assert current_task().id == handles[0].id
        results.append(await handles[0])

    async with anyio.create_task_group() as outer:

        async def start_elsewhere() -> str:
            outer.start_soon(wait_for_it)
            await anyio.wait_all_tasks_blocked()
            return "done"

        async with open_tasks(at_end="wait") as tasks:
            handles.append(tasks.start(start_elsewhere))
    assert results == ["done"]
