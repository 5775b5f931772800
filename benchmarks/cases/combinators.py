"""What it costs to call a function for many items at once."""

from functools import partial

import anyio
import anyio.lowlevel

from nighthawk_async import parallel

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]


async def map_items(max_concurrent: int | None, items: int) -> None:
    """Map a function of one switch of tasks over items; every result must be in its place."""

    async def double(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * number

    results = await parallel.map(double, range(items), max_concurrent=max_concurrent)
    assert results == list(range(0, 2 * items, 2))


BENCHMARKS = tuple(
    Benchmark(
        name=f"parallel-map-{bound}-{backend}",
        what=f"one item of parallel.map, {bound}, on {backend}",
        run=lambda items, backend=backend, limit=limit: anyio.run(
            partial(map_items, limit, items), backend=backend
        ),
        operations=10_000,
        quick_operations=1_000,
    )
    for backend in ("trio", "asyncio")
    for bound, limit in (("100-at-once", 100), ("unbounded", None))
)
