"""What it costs to record what goes on while somebody watches, and to carry out a step that is recorded."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import anyio
import anyio.lowlevel

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.observation import observed

from ..measure import Benchmark
from ..stopwatch import Stopwatch
from .steps import EXPECTED, assign, canned_model, executor_of

__all__ = ["CHILDREN_BENCHMARKS", "STEP_BENCHMARKS", "STREAMING_BENCHMARKS"]

SIBLINGS = (500, 8_000, 10_000)
"""The cost of a child must not grow from the first to the last."""


STREAMING = 10_000
"""So many nodes go on at once while they are watched."""


async def begin_children(siblings: int) -> Mapping[str, float]:
    """Children of one node, one after the other; the watcher gets to look after each."""
    views = 0

    async def watch() -> None:
        nonlocal views
        async with tree.watch(min_interval=0) as changes:
            async for view in changes:
                views += 1
                if view.children[0].is_ended:
                    assert len(view.children[0].children) == siblings
                    return

    with observe.recording(max_nodes=siblings + 1) as tree:
        async with anyio.create_task_group() as group:
            with observed("run", "run"):
                group.start_soon(watch)
                stopwatch = Stopwatch()
                for number in range(siblings):
                    with observed("step", "step", inputs=lambda number=number: {"number": number}) as node:
                        assert node is not None
                        node.write("text", "It is done.")
                    await anyio.lowlevel.checkpoint()
                figures = stopwatch.figures(siblings)
    assert views > siblings / 10
    return figures


async def stream(watchers: int, deltas: int) -> Mapping[str, float]:
    """Texts, each more of one of many nodes that go on; who watches must not slow that down much."""

    async def watch() -> None:
        async with tree.watch() as changes:
            async for _ in changes:
                pass

    with observe.recording() as tree, observed("run", "run") as run:
        assert run is not None
        nodes = [run.begin_child("step", "step") for _ in range(STREAMING)]
        async with anyio.create_task_group() as group:
            for _ in range(watchers):
                group.start_soon(watch)
            stopwatch = Stopwatch()
            for number in range(deltas):
                nodes[number * 7_919 % STREAMING].write("text", "more")
                if number % 100 == 0:
                    await anyio.lowlevel.checkpoint()
            figures = stopwatch.figures(deltas)
            group.cancel_scope.cancel()
    return figures


async def carry_out(is_recorded: bool, steps: int) -> Mapping[str, float]:
    """Steps one after the other on one event loop, as in the benchmarks of steps."""
    model = canned_model(1)
    with observe.recording() if is_recorded else nullcontext():
        async with nh.run(executor_of(model)):
            stopwatch = Stopwatch()
            for _ in range(steps):
                assert await assign("What is six times seven?") == EXPECTED
            figures = stopwatch.figures(steps)
    assert model.requests == steps
    return figures


CHILDREN_BENCHMARKS = tuple(
    Benchmark(
        name=f"observed-children-{siblings}-{backend}",
        what=f"one of {siblings:,} children of a node that is watched, on {backend}",
        run=partial(anyio.run, begin_children, backend=backend),
        operations=siblings,
        quick_operations=min(siblings, 500),
    )
    for backend in ("trio", "asyncio")
    for siblings in SIBLINGS
)

STREAMING_BENCHMARKS = tuple(
    Benchmark(
        name=f"observed-streaming-{watchers}-{backend}",
        what=f"a text of one of {STREAMING:,} nodes that stream, with {watchers} watchers, on {backend}",
        run=partial(anyio.run, partial(stream, watchers), backend=backend),
        operations=500_000,
        quick_operations=20_000,
    )
    for backend in ("trio", "asyncio")
    for watchers in (0, 1, 20)
)

STEP_BENCHMARKS = tuple(
    Benchmark(
        name=f"step-{'recorded' if is_recorded else 'unrecorded'}-{backend}",
        what=f"a step with one response that is {'' if is_recorded else 'not '}recorded, on {backend}",
        run=partial(anyio.run, partial(carry_out, is_recorded), backend=backend),
        operations=500,
        quick_operations=20,
    )
    for backend in ("trio", "asyncio")
    for is_recorded in (False, True)
)
