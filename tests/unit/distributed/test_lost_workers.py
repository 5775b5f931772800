"""Workers that are lost, and what cannot cross to them."""

from pathlib import Path

import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import ArgumentChangedError, CrossingError, Processes, WorkerLostError
from tests.worker_functions import append_one, die, die_once, double, worker_of

pytestmark = pytest.mark.anyio


async def test_the_call_of_a_lost_worker_is_placed_again(tmp_path: Path) -> None:
    async with Processes(2) as workers:
        await parallel.map(die_once, [str(tmp_path)], on=workers)
        assert (tmp_path / "died").exists()


async def test_a_call_is_placed_as_often_as_told() -> None:
    async with Processes(1, max_placements=2) as workers:
        with pytest.raises(WorkerLostError, match=r"was lost \(exit code 7\); the call was placed 2 times"):
            await parallel.map(die, [0], on=workers)
        assert await parallel.map(double, [1], on=workers) == [2]


async def test_a_call_knows_its_worker() -> None:
    async with Processes(2, max_concurrent_per_worker=1) as workers:
        names = await parallel.map(worker_of, range(20), on=workers)
    assert set(names) <= {"worker-0", "worker-1"}


async def test_a_change_in_place_is_refused() -> None:
    async with Processes(1) as workers:
        with pytest.raises(ArgumentChangedError, match="'numbers' in place"):
            await parallel.map(append_one, [[1]], on=workers)


async def test_what_cannot_cross_is_named() -> None:
    async with Processes(1) as workers:
        with pytest.raises(CrossingError, match=r"the argument 'number' of .*functions:double"):
            await parallel.map(double, [object()], on=workers)  # type: ignore[list-item]
        with pytest.raises(CrossingError, match="cannot run on a worker"):
            await parallel.map(lambda each: each, [1], on=workers)
