"""Who watches sees the newest, is told in time, never holds anybody up, and is told the end."""

import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from nighthawk_async import observe
from nighthawk_async.observation import NodeWriter, observed
from nighthawk_async.observe import NodeView, ObserveError, TaskTree
from tests.unit.observe.recorded import begin, only

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watching(tree: TaskTree, watchers: int = 1) -> AsyncGenerator[list[list[NodeView]], None]:
    """What each of some tasks sees that watch the first node until its end; leaving waits for that."""
    node_id = tree.snapshot().children[0].id
    seen: list[list[NodeView]] = [[] for _ in range(watchers)]

    async def watch(views: list[NodeView]) -> None:
        async with tree.watch(node_id, min_interval=0) as changes:
            async for view in changes:
                views.append(view)

    async with anyio.create_task_group() as tasks:
        for views in seen:
            tasks.start_soon(watch, views)
        await wait_all_tasks_blocked()
        yield seen


async def test_the_first_view_comes_at_once_and_the_next_with_a_change() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with tree.watch(min_interval=0) as changes:
        first = await anext(changes)
        assert first is tree.snapshot()
        run.begin_child("step", "s")
        second = await anext(changes)
        assert second is tree.snapshot()
        assert second.version == first.version + 1


async def test_who_waits_is_woken_by_a_change_and_told_the_end() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with watching(tree) as (views,):
        run.begin_child("step", "s").write("text", "hello")
        await wait_all_tasks_blocked()
        assert views[-1].children[0].transcript[0].text == "hello"
        run.end("completed")
    assert [view.state for view in views] == ["running", "running", "completed"]


async def test_changes_in_between_are_passed_over() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with tree.watch(min_interval=0) as changes:
        await anext(changes)
        for number in range(1_000):
            run.begin_child("step", str(number))
        view = await anext(changes)
        assert len(view.children[0].children) == 1_000
        run.end("completed")
        assert (await anext(changes)).version == view.version + 1


async def test_a_watched_node_is_not_bothered_by_what_happens_beside_it() -> None:
    tree = TaskTree()
    first, second = begin(tree, name="a"), begin(tree, name="b")
    async with watching(tree) as (views,):
        second.begin_child("step", "beside")
        second.end("completed")
        await wait_all_tasks_blocked()
        assert len(views) == 1
        first.end("failed")
    assert [view.state for view in views] == ["running", "failed"]


@pytest.mark.may_block_event_loop("it looks at all objects of the process, twice")
async def test_a_slow_watcher_costs_no_memory_and_holds_nobody_up() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with tree.watch(min_interval=0) as changes:
        await anext(changes)
        before = sum(type(each) is NodeView for each in gc.get_objects())
        for number in range(1_000):
            run.write("text", f"{number} ")
        assert sum(type(each) is NodeView for each in gc.get_objects()) <= before
        assert (await anext(changes)).children[0].transcript[0].text.endswith("999 ")


async def test_changes_told_in_a_worker_thread_wake_the_watcher() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with watching(tree) as (views,):
        await anyio.to_thread.run_sync(partial(run.end, "completed"))
    assert views[-1].state == "completed"


async def test_changes_told_in_a_thread_without_an_event_loop_wake_the_watcher() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with watching(tree) as (views,):
        thread = threading.Thread(target=run.end, args=("completed",))
        thread.start()
        thread.join()
    assert views[-1].state == "completed"


async def test_two_event_loops_watch_the_same_node(anyio_backend_name: str) -> None:
    tree = TaskTree()
    run = begin(tree)
    elsewhere: list[NodeView] = []
    is_watching = threading.Event()

    async def watch_elsewhere() -> None:
        async with tree.watch(only(tree).id, min_interval=0) as changes:
            async for view in changes:
                elsewhere.append(view)
                is_watching.set()

    async with watching(tree) as (views,), anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, partial(anyio.run, watch_elsewhere, backend="trio"))
        await anyio.to_thread.run_sync(is_watching.wait)
        run.end("completed")
    assert views[-1] is elsewhere[-1]
    assert views[-1].is_ended


@pytest.mark.virtual_time
async def test_views_come_no_faster_than_the_interval_allows() -> None:
    tree = TaskTree()
    run = begin(tree)

    async def change() -> None:
        for _ in range(100):
            await anyio.sleep(0.1)
            run.write("text", ".")
        run.end("completed")

    times: list[float] = []
    views: list[NodeView] = []
    async with anyio.create_task_group() as tasks, tree.watch(only(tree).id, min_interval=1) as changes:
        began = anyio.current_time()
        tasks.start_soon(change)
        async for view in changes:
            times.append(anyio.current_time() - began)
            views.append(view)
    assert views[-1].state == "completed"
    assert len(views[-1].transcript[0].text) == 100
    assert times == pytest.approx([0, *range(1, 11)], abs=0.01)


@pytest.mark.virtual_time
async def test_after_a_quiet_time_a_change_is_told_at_once() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with tree.watch(min_interval=5) as changes:
        await anext(changes)
        await anyio.sleep(60)
        run.write("text", "x")
        began = anyio.current_time()
        await anext(changes)
        assert anyio.current_time() == began


async def test_who_has_seen_a_version_gets_newer_ones_only() -> None:
    tree = TaskTree()
    run = begin(tree)
    seen = tree.snapshot().version
    async with tree.watch(since=seen, min_interval=0) as changes:
        with anyio.move_on_after(0):
            await anext(changes)
            pytest.fail("there is nothing newer")
        run.write("text", "x")
        assert (await anext(changes)).version == seen + 1
    async with tree.watch(since=seen, min_interval=0) as changes:
        assert (await anext(changes)).version == seen + 1


async def test_who_has_seen_the_end_is_not_kept_waiting() -> None:
    tree = TaskTree()
    run = begin(tree)
    run.end("completed")
    view = only(tree)
    async with tree.watch(view.id, since=view.version) as changes:
        assert [each async for each in changes] == []
    async with tree.watch(view.id, since=view.version - 1) as changes:
        assert [each async for each in changes] == [view]


async def test_a_version_of_another_tree_counts_as_none() -> None:
    """As a page asks after the service was started anew."""
    tree = TaskTree()
    begin(tree)
    async with tree.watch(since=1_000_000) as changes:
        assert (await anext(changes)).version == 1


async def test_a_node_that_was_dropped_before_its_end_was_seen_is_still_seen_to_end() -> None:
    tree = TaskTree(max_finished_trees=0)
    run = begin(tree)
    step = run.begin_child("step", "s")
    async with (
        tree.watch(only(tree).id, min_interval=0) as changes,
        tree.watch(only(tree).children[0].id, min_interval=0) as changes_below,
    ):
        await anext(changes)
        await anext(changes_below)
        step.end("raised")
        run.end("completed", outputs={"result": 1})
        assert not tree.snapshot().children
        run.write("text", "too late")
        (view,) = [each async for each in changes]
        assert (view.state, view.outputs, view.transcript) == ("completed", {"result": "1"}, ())
        assert view.children[0].state == "raised"
        assert [each.state async for each in changes_below] == ["raised"]


async def test_nothing_is_left_of_a_watch_that_was_cancelled() -> None:
    tree = TaskTree()
    run = begin(tree)
    watches: list[weakref.ref[observe.Watch]] = []

    async def watch() -> None:
        async with tree.watch(min_interval=0) as changes:
            watches.append(weakref.ref(changes))
            async for _ in changes:
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    gc.collect()
    assert watches[0]() is None
    run.end("completed")
    assert only(tree).is_ended


async def test_a_cancelled_wait_loses_nothing() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with tree.watch(min_interval=0) as changes:
        await anext(changes)
        with anyio.move_on_after(0):
            await anext(changes)
        run.write("text", "x")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(changes)
        assert scope.cancelled_caught
        assert (await anext(changes)).version == 2


async def test_leaving_the_block_ends_the_iteration_in_another_task() -> None:
    tree = TaskTree()
    ended: list[str] = []

    async def iterate(changes: observe.Watch) -> None:
        async for _ in changes:
            pass
        ended.append("iterated")

    async with anyio.create_task_group() as tasks, tree.watch(min_interval=0) as changes:
        tasks.start_soon(iterate, changes)
        await wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await anext(changes)
    assert ended == ["iterated"]
    assert [view async for view in changes] == []


async def test_a_watch_that_was_not_entered_is_refused() -> None:
    with pytest.raises(ObserveError, match="async with"):
        await anext(TaskTree().watch())
    with pytest.raises(ValueError, match="min_interval"):
        TaskTree().watch(min_interval=-1)


async def test_the_tree_in_force_is_watched_from_inside() -> None:
    with observe.recording():
        with observed("run", "r"):
            watch = observe.watch(observe.find_node_id(), min_interval=0)
        async with watch as changes:
            assert [view.state async for view in changes] == ["completed"]


async def test_many_watchers_see_the_same_views() -> None:
    tree = TaskTree()
    run = begin(tree)
    async with watching(tree, watchers=20) as seen:
        run.end("completed")
    assert all(views[-1] is seen[0][-1] for views in seen)


async def test_watching_while_threads_publish_ends_with_everything_seen() -> None:
    tree = TaskTree()
    run = begin(tree)

    def publish(parent: NodeWriter) -> None:
        for number in range(300):
            parent.begin_child("step", str(number)).end("completed")

    versions: list[int] = []

    async def watch() -> None:
        async with tree.watch(only(tree).id, min_interval=0) as changes:
            async for view in changes:
                versions.append(view.version)
        assert len(view.children) == 900

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await checkpoint()
        async with anyio.create_task_group() as publishers:
            for _ in range(3):
                publishers.start_soon(anyio.to_thread.run_sync, publish, run)
        run.end("completed")
    assert versions == sorted(set(versions))
    assert versions[-1] == tree.version


class TakingLong:
    """A clock by which every view takes so many seconds of work, and that is the clock of the event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._worked = 0.0

    def thread_time(self) -> float:
        self._worked += self._seconds
        return self._worked

    def monotonic(self) -> float:
        return anyio.current_time()


async def times_of_views(tree: TaskTree, run: NodeWriter, watchers: int) -> list[list[tuple[float, int]]]:
    """When each of several watchers is given which version, while something changes all the time."""
    began = anyio.current_time()
    seen: list[list[tuple[float, int]]] = [[] for _ in range(watchers)]

    async def watch(times: list[tuple[float, int]]) -> None:
        async with tree.watch(only(tree).id) as changes:
            async for view in changes:
                times.append((anyio.current_time() - began, view.version))

    async with anyio.create_task_group() as tasks:
        for times in seen:
            tasks.start_soon(watch, times)
        for _ in range(999):
            await anyio.sleep(0.01)
            run.write("text", ".")
        run.end("completed")
    return seen


@pytest.mark.virtual_time
@pytest.mark.parametrize("watchers", [1, 20])
async def test_views_that_take_long_take_a_tenth_of_the_time(
    watchers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.observe.watched.time", TakingLong(0.1))
    tree = TaskTree()
    for times in await times_of_views(tree, begin(tree), watchers):
        assert [time for time, _ in times] == pytest.approx([0.9 * number for number in range(13)], abs=0.02)
        assert times[-1][1] == tree.version


@pytest.mark.virtual_time
async def test_views_that_take_little_come_as_often_as_the_interval_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nighthawk_async.observe.watched.time", TakingLong(0.004))
    tree = TaskTree()
    (times,) = await times_of_views(tree, begin(tree), 1)
    assert 150 < len(times) < 202


async def test_a_watch_of_what_was_dropped_before_it_was_entered_is_refused() -> None:
    tree = TaskTree(max_finished_trees=0)
    run = begin(tree)
    watch = tree.watch(only(tree).id)
    run.end("completed")
    with pytest.raises(observe.NodeNotFoundError):
        async with watch:
            pytest.fail("it is not there")


class TestThreadsWithoutAnEventLoop:
    async def test_a_thread_gets_the_newest_views_until_the_node_has_ended(self) -> None:
        tree = TaskTree()
        run = begin(tree)
        node_id = tree.snapshot().children[0].id
        seen: list[NodeView] = []
        first = threading.Event()

        def watch() -> None:
            with tree.watch(node_id, min_interval=0) as views:
                for view in views:
                    seen.append(view)
                    first.set()

        thread = threading.Thread(target=watch)
        thread.start()
        await anyio.to_thread.run_sync(first.wait, 240)
        step = run.begin_child("step", "s")
        step.end("completed")
        run.end("completed")
        await anyio.to_thread.run_sync(thread.join, 240)
        assert not thread.is_alive()
        assert not seen[0].children
        assert seen[-1].is_ended
        assert seen[-1] is tree.snapshot(node_id)

    async def test_another_thread_ends_it(self) -> None:
        tree = TaskTree()
        begin(tree)
        changes = tree.watch(min_interval=60)
        seen: list[NodeView] = []

        def watch() -> None:
            with changes as views:
                seen.extend(views)

        thread = threading.Thread(target=watch)
        thread.start()
        while not seen:
            await checkpoint()
        changes.close()
        await anyio.to_thread.run_sync(thread.join, 240)
        assert len(seen) == 1
        assert tree._shared.state.root.watched is None  # pyright: ignore[reportPrivateUsage]

    def test_one_that_was_never_entered_is_closed_without_an_effect_on_others(self) -> None:
        tree = TaskTree()
        run = begin(tree)
        with tree.watch(min_interval=0) as views:
            next(views)
            tree.watch().close()
            watched = tree._shared.state.root.watched  # pyright: ignore[reportPrivateUsage]
            assert watched is not None
            assert views in watched.watchers
            run.begin_child("step", "s")
            assert next(views) is tree.snapshot()

    async def test_the_thread_of_an_event_loop_is_not_blocked(self) -> None:
        with pytest.raises(ObserveError, match="async with"), TaskTree().watch():
            raise AssertionError

    def test_it_has_to_be_entered(self) -> None:
        with pytest.raises(ObserveError, match="enter the watch with `with`"):
            next(TaskTree().watch())

    def test_one_thread_iterates_at_a_time(self) -> None:
        tree = TaskTree()
        with tree.watch(min_interval=0) as changes:
            next(changes)
            thread = threading.Thread(target=lambda: next(changes, None))
            thread.start()
            while not changes._armed:  # pyright: ignore[reportPrivateUsage]
                pass
            with pytest.raises(anyio.BusyResourceError):
                next(changes)
        thread.join(240)
        assert not thread.is_alive()
