"""The live tree of a program whose calls run on workers, and the control of their nodes."""

from collections.abc import Callable, Iterator
from functools import partial

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import observe, parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.observe.mirrored import MirroredNodes
from nighthawk_async.parallel import TaskCancelledError
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_functions import double
from tests.worker_steps import agent, fail, listen, listener, rate, show, speak

pytestmark = pytest.mark.anyio


def shapes(view: NodeView) -> Iterator[tuple[object, ...]]:
    """What every node below shows, without ids and times."""
    for each in view.walk():
        transcript = tuple((part.kind, part.text, part.key) for part in each.transcript)
        error = None if each.error is None else (each.error.type, each.error.message)
        yield (each.kind, each.name, each.state, dict(each.inputs), dict(each.outputs), each.source, error)
        yield (transcript, each.usage, each.subtree_usage, each.retries)


def find(view: NodeView, kind: str, name: str | None = None) -> NodeView:
    return next(each for each in view.walk() if each.kind == kind and name in (None, each.name))


async def seen(tree: TaskTree, condition: Callable[[NodeView], object]) -> NodeView:
    """Wait until the tree fulfils a condition."""
    with anyio.fail_after(240):
        async with tree.watch(min_interval=0) as views:
            async for view in views:
                if condition(view):
                    return view
    raise AssertionError("unreachable")


async def test_the_nodes_of_a_worker_are_those_of_a_local_call() -> None:
    trees: list[list[tuple[object, ...]]] = []
    async with nh.run(agent()), InMemoryWorkers(2) as workers:
        for placement in (workers, None):
            with observe.recording() as tree:
                assert await parallel.map(rate, ["a", "b"], on=placement) == [4, 4]
            trees.append(list(shapes(tree.snapshot())))
    assert trees[0] == trees[1]


async def test_the_node_of_a_call_shows_its_worker() -> None:
    async with InMemoryWorkers(1) as workers:
        with observe.recording() as tree:
            await parallel.map(double, [1], on=workers)
            async with nh.open_tasks(on=workers) as tasks:
                await tasks.start(double, 2)
    shown = [each for each in tree.snapshot().walk() if each.kind == "task"]
    assert [each.attributes["nighthawk.worker"] for each in shown] == ["worker-0", "worker-0"]
    assert "task map[0] on worker-0(item=1)" in observe.view_as_text(tree.snapshot())


async def test_a_failure_below_the_call_is_shown() -> None:
    async with InMemoryWorkers(1) as workers:
        with observe.recording() as tree, pytest.raises(ValueError, match="too long"):
            await parallel.map(fail, ["too long"], on=workers)
    failed = find(tree.snapshot(), "task", "raise_error")
    assert failed.state == "failed"
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ValueError", "too long")


async def test_values_are_shown_under_the_limits_and_without_secrets() -> None:
    async with InMemoryWorkers(1) as workers:
        with observe.recording(max_preview_characters=60) as tree:
            await parallel.map(partial(show, "hunter2"), ["x" * 10_000], on=workers)
    shown = find(tree.snapshot(), "task", "length").inputs["arguments"]
    assert len(shown) == 60
    assert "hunter2" not in shown


async def test_nothing_is_sent_when_nobody_observes() -> None:
    async with nh.run(agent()), InMemoryWorkers(1) as workers:
        await parallel.map(rate, ["a"], on=workers)
        told = workers.told
    assert not [each for each in told if each.topic == "tree"]


async def test_streamed_text_is_sent_in_few_messages() -> None:
    async with InMemoryWorkers(1) as workers:
        with observe.recording() as tree:
            await parallel.map(speak, [1_000], on=workers)
        told = workers.told
    assert len([each for each in told if each.topic == "tree"]) < 500
    (part,) = find(tree.snapshot(), "task").transcript
    assert part.text == "word " * 1_000


async def test_the_nodes_of_a_lost_worker_fail_and_the_call_is_shown_as_retried() -> None:
    with observe.recording() as tree:
        async with nh.run(listener()), InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(partial(parallel.map, listen, ["a"], on=workers))
            await seen(tree, lambda view: any(each.kind == "tool_call" for each in view.walk()))
            workers.lose("worker-0")
            view = await seen(tree, lambda view: any(each.retries for each in view.walk()))
            call = find(view, "task", "map[0]")
            await seen(tree, lambda view: len(find(view, "task", "map[0]").children) == 2)
            group.cancel_scope.cancel()
    call = find(tree.snapshot(), "task", "map[0]")
    assert (call.retries, call.attributes["nighthawk.worker"]) == (1, "worker-0.1")
    lost, again = call.children
    assert lost.state == "failed"
    assert lost.error is not None
    assert (lost.error.type, lost.error.message) == (
        "WorkerLostError",
        "worker worker-0 was lost (it was lost)",
    )
    assert again.state == "cancelled", again.error
    assert "worker worker-0 was lost" in call.transcript[0].text


async def test_a_step_on_a_worker_is_cancelled_from_the_tree() -> None:
    with observe.recording() as tree:
        async with nh.run(listener()), InMemoryWorkers(1) as workers, anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(TaskCancelledError, match="not wanted"):
                    await parallel.map(listen, ["a"], on=workers)

            group.start_soon(call)
            view = await seen(tree, lambda view: any(each.kind == "step" for each in view.walk()))
            tree.cancel(find(view, "step").id, "not wanted")
    assert find(tree.snapshot(), "step").state == "cancelled"


async def test_a_step_on_a_worker_is_steered_and_suspended_from_the_tree() -> None:
    with observe.recording() as tree:
        async with nh.run(listener()), InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            results: list[str] = []

            async def call() -> None:
                results.extend(await parallel.map(listen, ["a"], on=workers))

            group.start_soon(call)
            step = find(
                await seen(tree, lambda view: any(each.kind == "tool_call" for each in view.walk())), "step"
            )
            assert step.controls == {"cancel", "steer", "suspend"}
            tree.suspend(step.id)
            await seen(tree, lambda view: find(view, "step").state == "suspended")
            tree.steer(step.id, "louder")
            tree.resume(step.id)
    assert len(results) == 1
    assert "louder" in results[0]


async def test_the_tree_shows_the_work_of_a_process() -> None:
    async with nh.run(agent()), Processes(1, backend="asyncio") as workers:
        with observe.recording() as tree:
            assert await parallel.map(rate, ["a"], on=workers) == [4]
    view = tree.snapshot()
    assert [each.kind for each in view.walk()][1:] == [
        *("group", "task", "function", "step", "model_request", "tool_call", "model_request")
    ]
    assert view.subtree_usage.input_tokens == 200
    step = find(view, "step")
    assert find(view, "task").began_at <= step.began_at
    assert step.ended_at is not None
    assert step.began_at < step.ended_at


async def test_a_call_on_a_worker_may_use_workers_itself() -> None:
    async with nh.run(agent()), InMemoryWorkers(1) as workers:
        with observe.recording() as tree:
            assert await parallel.map(rate_on_workers, ["a"], on=workers) == [4]
    step = find(tree.snapshot(), "step")
    assert dict(step.outputs) == {"stars": "4"}
    assert find(tree.snapshot(), "step").usage == nh.Usage()
    assert find(tree.snapshot(), "task", "map[0]").subtree_usage.requests == 2


async def rate_on_workers(text: str) -> int:
    """Rate on a worker of the worker."""
    async with InMemoryWorkers(1) as workers:
        (stars,) = await parallel.map(rate, [text], on=workers)
    return stars


async def test_an_observer_that_fails_ends_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: MirroredNodes, body: bytes) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(MirroredNodes, "take", fail)
    async with nh.run(agent()), InMemoryWorkers(1) as workers:
        with observe.recording():
            assert await parallel.map(rate, ["a"], on=workers) == [4]
    assert "a report of worker worker-0 about tree was lost" in caplog.text
