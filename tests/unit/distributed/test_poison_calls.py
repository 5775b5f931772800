"""Calls that end their workers: healthy ones go on beside them, and only losses alone count."""

from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import Processes, WorkerLostError, WorkerStartError, worker_starts
from nighthawk_async.distributed.messages import Begin
from nighthawk_async.distributed.processes import _ProcessLink
from tests.in_memory_workers import InMemoryLink, InMemoryWorkers
from tests.worker_functions import die_beside, double, pass_file

pytestmark = pytest.mark.anyio


async def lines_in(path: Path, number: int) -> Counter[str]:
    """The lines of a file, once there are so many."""
    with anyio.fail_after(60):
        while len(lines := read_lines(path)) < number:
            await anyio.lowlevel.checkpoint()
    return Counter(lines)


def read_lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_a_call_that_ends_its_worker_is_found_among_others(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(8)]
    async with Processes(2, calls_per_worker=4, max_placements=2) as workers:
        settled = await parallel.settle(die_beside, items, on=workers)
    outcomes = enumerate(settled.outcomes)
    assert [number for number, each in outcomes if isinstance(each, parallel.Failed)] == [3]
    (error,) = settled.errors()
    assert isinstance(error, WorkerLostError)
    assert error.lost_alone == 2
    assert "its worker was lost 2 times while it ran there alone" in str(error)
    begun = await lines_in(tmp_path / "begun.txt", 1)
    assert begun.pop("3") == error.placements <= 4
    assert max(begun.values()) <= 3


async def test_workers_that_are_killed_again_and_again_make_no_call_fail(tmp_path: Path) -> None:
    items = [(str(tmp_path), name) for name in "abcd"]
    async with InMemoryWorkers(1, max_placements=3) as workers, anyio.create_task_group() as group:
        results: list[str] = []

        async def run() -> None:
            results.extend(await parallel.map(pass_file, items, on=workers))

        group.start_soon(run)
        for begun in (4, 8, 9, 10, 11, 12):  # twice together, and then one after the other
            lines = await lines_in(tmp_path / "begun.txt", begun)
            assert sum(lines.values()) == begun
            workers.lose(workers.workers[0])
        (tmp_path / "open").touch()
    assert results == list("abcd")
    assert max((await lines_in(tmp_path / "begun.txt", 1)).values()) <= 4


async def test_with_one_placement_nothing_is_placed_again(tmp_path: Path) -> None:
    items = [(str(tmp_path), name) for name in "ab"]
    async with InMemoryWorkers(1, max_placements=1) as workers, anyio.create_task_group() as group:
        errors: list[Exception] = []

        async def run() -> None:
            errors.extend((await parallel.settle(pass_file, items, on=workers)).errors())

        group.start_soon(run)
        await lines_in(tmp_path / "begun.txt", 2)
        workers.lose(workers.workers[0])
    assert ["the call was placed once, and its worker was lost never" in str(each) for each in errors] == [
        True
    ] * 2


class KilledProcesses(Processes):
    """Processes of which the first ones are killed while they start."""

    killed = 0

    async def open_link(self, name: str, begin: Begin) -> _ProcessLink:
        link = await super().open_link(name, begin)
        if self.killed < 4:
            self.killed += 1
            link.kill()
        return link


async def test_a_process_that_is_killed_while_it_starts_is_no_broken_start() -> None:
    async with KilledProcesses(1) as workers:
        assert await parallel.map(double, [1, 2], on=workers) == [2, 4]
    assert workers.killed == 4


class BrokenStarts(InMemoryWorkers):
    """Workers of which only the first one starts."""

    attempts = 0
    was_killed = False

    async def open_link(self, name: str, begin: Begin) -> InMemoryLink:
        self.attempts += 1
        if self.attempts == 1:
            return await super().open_link(name, begin)
        error = WorkerStartError(f"worker {name} did not start: attempt {self.attempts}")
        error.was_killed = self.was_killed
        raise error


@pytest.mark.parametrize(("was_killed", "attempts"), [(False, 3), (True, 100)])
async def test_starts_end_in_the_end_and_say_what_each_ended_with(
    monkeypatch: pytest.MonkeyPatch, was_killed: bool, attempts: int
) -> None:
    monkeypatch.setattr(worker_starts, "_MOST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(worker_starts, "_FIRST_PAUSE_SECONDS", 0.001)
    async with BrokenStarts(1) as workers:
        workers.was_killed = was_killed
        workers.lose("worker-0")
        with pytest.raises(WorkerStartError, match=f"attempt {attempts + 1}") as raised:
            await parallel.map(double, [1], on=workers)
        notes = raised.value.__notes__
        assert [f"attempt {number}" in note for number, note in enumerate(notes, 2)] == [True] * (
            attempts - 1
        )
