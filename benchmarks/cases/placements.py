"""What it costs to make calls on a placement: a plain loop, this event loop, worker processes, Ray.

Workers are started before the clock is, and have made some calls by then.
"""

import importlib.util
import itertools
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio

import nighthawk_async as nh
from nighthawk_async import distributed, parallel
from nighthawk_async.placements import call_placed

from .. import resident_memory
from ..measure import Benchmark, CannotMeasureHereError
from ..placed_functions import computing_executor, double, process_id, rate
from ..stopwatch import Stopwatch

__all__ = ["BENCHMARKS"]

Opened: TypeAlias = AbstractAsyncContextManager[Any]
WORKERS = 2


def _ray_workers() -> Opened:
    if importlib.util.find_spec("ray") is None:
        raise CannotMeasureHereError("Ray is not installed")
    make: Callable[..., Opened] | None = getattr(distributed, "RayWorkers", None)
    if make is None:
        raise CannotMeasureHereError("this version has no workers on Ray")
    return make(WORKERS, num_cpus=0)


PLACEMENTS: Mapping[str, Callable[[], Opened]] = {
    "here": lambda: parallel.Here(max_concurrent=16),
    "processes": lambda: distributed.Processes(WORKERS),
    "ray": _ray_workers,
}


async def loop(calls: int) -> Mapping[str, float]:
    """Calls without any placement, one after the other."""
    stopwatch = Stopwatch()
    for number in range(calls):
        assert await double(number) == 2 * number
    return stopwatch.figures(calls)


async def burst(placement: str, calls: int) -> Mapping[str, float]:
    """Calls on a placement, as many at once as it has room for."""
    async with PLACEMENTS[placement]() as workers:
        await parallel.map(double, range(100), on=workers)
        stopwatch = Stopwatch()
        results = await parallel.map(double, range(calls), on=workers)
        figures = stopwatch.figures(calls)
    assert results == list(range(0, 2 * calls, 2))
    return figures


async def sequence(placement: str, calls: int) -> Mapping[str, float]:
    """Calls on a placement, one after the other."""
    async with PLACEMENTS[placement]() as workers:
        await parallel.map(double, range(20), on=workers)
        stopwatch = Stopwatch()
        for number in range(calls):
            assert await call_placed(workers, double, number) == 2 * number
        return stopwatch.figures(calls)


def plain_ray(calls: int) -> Mapping[str, float]:
    """The same function as tasks of Ray, without this library; all of them at once."""
    if importlib.util.find_spec("ray") is None:
        raise CannotMeasureHereError("Ray is not installed")
    ray: Any = importlib.import_module("ray")
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(_double_in_ray)
        assert ray.get([task.remote(number) for number in range(100)])
        stopwatch = Stopwatch()
        results = ray.get([task.remote(number) for number in range(calls)])
        figures = stopwatch.figures(calls)
    finally:
        ray.shutdown()
    assert results == list(range(0, 2 * calls, 2))
    return figures


def _double_in_ray(number: int) -> int:
    return 2 * number


async def computing_on_two(steps: int) -> Mapping[str, float]:
    """The same steps on one process and on two, alternately; the best window of each counts."""
    best: dict[int, float] = {}
    async with nh.run(computing_executor()), _computing(1) as one, _computing(2) as two:
        for _ in range(2):
            for count, workers in ((1, one), (2, two)):
                stopwatch = Stopwatch()
                await parallel.map(rate, ["a text"] * steps, on=workers)
                wall = stopwatch.figures(steps)["wall"]
                best[count] = min(wall, best.get(count, wall))
    return {"wall": best[2], "speedup": best[1] / best[2]}


@asynccontextmanager
async def _computing(processes: int) -> AsyncGenerator[distributed.Processes, None]:
    async with distributed.Processes(processes, max_concurrent_per_worker=2) as workers:
        await parallel.map(rate, ["a text"] * 4, on=workers)
        yield workers


async def many_items(items: int) -> Mapping[str, float]:
    """Results of many items, taken from a generator one by one, and thrown away."""
    async with distributed.Processes(WORKERS) as workers:
        await _sum_of(workers, itertools.count(), items // 10)
        before = resident_memory.now()
        stopwatch = Stopwatch()
        await _sum_of(workers, itertools.count(), items)
        figures = stopwatch.figures(items)
        return {**figures, "memory_growth": resident_memory.now() - before}


async def _sum_of(workers: distributed.Processes, numbers: Iterator[int], items: int) -> None:
    total = 0
    async with parallel.stream(double, itertools.islice(numbers, items), on=workers) as results:
        async for each in results:
            total += each
    assert total == items * (items - 1)


async def recovery(kills: int) -> Mapping[str, float]:
    """The time from the kill of the only worker until the next call has its result."""
    async with distributed.Processes(1) as workers:
        (pid,) = await parallel.map(process_id, [0], on=workers)
        stopwatch = Stopwatch()
        for _ in range(kills):
            os.kill(pid, signal.SIGKILL)
            before = pid
            while pid == before:
                (pid,) = await parallel.map(process_id, [0], on=workers)
        return {"recovery": stopwatch.figures(kills)["wall"]}


def _of_backend(backend: str) -> tuple[Benchmark, ...]:
    def run(function: Callable[..., Any], *args: Any) -> Callable[[int], Mapping[str, float]]:
        return partial(anyio.run, partial(function, *args), backend=backend)

    return (
        Benchmark(
            name=f"placed-loop-{backend}",
            what=f"a call in a plain loop, without a placement, on {backend}",
            run=run(loop),
            operations=10_000,
            quick_operations=100,
            rounds=3,
            smallest_suite="default",
        ),
        *(
            Benchmark(
                name=f"placed-{kind}-{placement}-{backend}",
                what=f"{words} on the placement {placement}, from {backend}",
                run=run(function, placement),
                operations=1_000,
                quick_operations=100,
                rounds=3,
                smallest_suite="quick" if (kind, placement) == ("burst", "here") else "default",
                is_peer=placement == "ray",
            )
            for placement in PLACEMENTS
            for kind, words, function in (
                ("burst", "a call of a burst of 1,000", burst),
                ("sequence", "a call, one after the other,", sequence),
            )
        ),
        Benchmark(
            name=f"placed-burst-10000-processes-{backend}",
            what=f"a call of a burst of 10,000 on {WORKERS} processes, from {backend}",
            run=run(burst, "processes"),
            operations=10_000,
            quick_operations=100,
            rounds=3,
            smallest_suite="full",
        ),
    )


BENCHMARKS = (
    *_of_backend("trio"),
    *_of_backend("asyncio"),
    Benchmark(
        name="placed-burst-ray-remote",
        what="a call of a burst of 1,000 with plain ray.remote",
        run=plain_ray,
        operations=1_000,
        quick_operations=100,
        rounds=3,
        is_peer=True,
        is_warmed_up=False,
    ),
    Benchmark(
        name="placed-computing-two",
        what="a step of some 10 ms of processor time on two processes, beside the same on one",
        run=partial(anyio.run, computing_on_two, backend="trio"),
        operations=100,
        quick_operations=10,
        rounds=3,
        smallest_suite="default",
    ),
    Benchmark(
        name="placed-recovery",
        what="the only worker process is killed, replaced, and has made a call",
        run=partial(anyio.run, recovery, backend="trio"),
        operations=5,
        quick_operations=1,
        rounds=3,
        smallest_suite="default",
    ),
    Benchmark(
        name="placed-many-items",
        what="one of a million items of parallel.stream on two processes; all of a round for memory",
        run=partial(anyio.run, many_items, backend="trio"),
        operations=1_000_000,
        quick_operations=1_000,
        rounds=1,
        smallest_suite="full",
        collects_garbage=True,
        timeout=3_600.0,
    ),
)
