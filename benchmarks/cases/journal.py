"""The cost of a journal: steps, bursts and effects with and without one, and runs that are resumed.

The journals are in memory where the machine has a file system for that (`/dev/shm`), so that processor time
is not mixed with the speed of a disk; one row is on the disk.
"""

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio

import nighthawk_async as nh

from ..measure import Benchmark
from ..stopwatch import Stopwatch
from .steps import EXPECTED, assign, canned_model, executor_of

__all__ = ["BENCHMARKS"]

QUESTION = "What is six times seven?"
STEPS_OF_WINDOW = 50
MEMORY = Path("/dev/shm")
RESULTS = Path(__file__).parents[1] / "results"
"""A folder on the disk of the project, which git does not see."""


@contextmanager
def journal_file(*, is_on_disk: bool = False) -> Generator[Path, None, None]:
    """A file for a journal, which is removed at the end."""
    if is_on_disk:
        RESULTS.mkdir(exist_ok=True)
    parent = RESULTS if is_on_disk else MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="journal-", dir=parent) as folder:
        yield Path(folder) / "runs.db"


def open_journal(file: Path) -> nh.journal.JournalStore:
    """The store in a file."""
    return nh.journal.open(f"sqlite:///{file}")


async def take_steps(steps: int) -> None:
    """Steps one after the other; each must bring the value."""
    for _ in range(steps):
        assert await assign(QUESTION) == EXPECTED


async def take_steps_both_ways(trips: int, is_on_disk: bool, steps: int) -> Mapping[str, float]:
    """Steps without and with a journal, in alternating windows."""
    executor = executor_of(canned_model(trips))
    windows = max(1, steps // STEPS_OF_WINDOW)
    in_window = steps // windows
    taken = {"wall": 0.0, "cpu": 0.0, "unrecorded": 0.0}
    with journal_file(is_on_disk=is_on_disk) as file:
        with open_journal(file) as store:
            for number in range(windows):
                async with nh.run(executor):
                    stopwatch = Stopwatch()
                    await take_steps(in_window)
                    taken["unrecorded"] += stopwatch.figures(windows * in_window)["cpu"]
                async with nh.run(executor, journal=store, run_id=f"window-{number}"):
                    stopwatch = Stopwatch()
                    await take_steps(in_window)
                    for name, value in stopwatch.figures(windows * in_window).items():
                        taken[name] += value
            records = sum(
                record.kind != "life"
                for number in range(windows)
                for record in store.records(f"window-{number}")
            )
        size = file.stat().st_size
    return {
        "wall": taken["wall"],
        "cpu": taken["cpu"],
        "journal_cpu": max(0.0, taken["cpu"] - taken["unrecorded"]),
        "records": records / (windows * in_window),
        "file_bytes": size / (windows * in_window),
    }


async def burst_both_ways(steps: int) -> Mapping[str, float]:
    """A burst without a journal, and the same with one."""
    executor = executor_of(canned_model(1))
    with journal_file() as file, open_journal(file) as store:
        async with nh.run(executor):
            stopwatch = Stopwatch()
            assert await nh.parallel.map(assign, [QUESTION] * steps) == [EXPECTED] * steps
            without = stopwatch.figures(steps)
        async with nh.run(executor, journal=store, run_id="burst"):
            stopwatch = Stopwatch()
            assert await nh.parallel.map(assign, [QUESTION] * steps) == [EXPECTED] * steps
            recorded = stopwatch.figures(steps)
    return {**recorded, **{f"{name}_ratio": recorded[name] / without[name] for name in without}}


async def resume(steps: int) -> Mapping[str, float]:
    """The second life of a run whose steps are all recorded: from its claim to its end."""
    model = canned_model(1)
    executor = executor_of(model)
    with journal_file() as file:
        with open_journal(file) as store:
            async with nh.run(executor, journal=store, run_id="resumed"):
                await take_steps(steps)
        with open_journal(file) as store:
            stopwatch = Stopwatch()
            async with nh.run(executor, journal=store, run_id="resumed"):
                await take_steps(steps)
            figures = stopwatch.figures(steps)
    assert model.requests == steps  # the second life asked nothing
    return {**figures, "resume_wall": figures["wall"] * steps, "resume_cpu": figures["cpu"] * steps}


@nh.once
async def pay(order: int) -> int:
    """An effect that takes no time."""
    return order


@nh.once(durable=False)
async def pay_soon(order: int) -> int:
    """An effect that takes no time, and returns before its result is durable."""
    return order


async def call_effects(is_durable: bool, is_on_disk: bool, calls: int) -> Mapping[str, float]:
    """Calls of an effect, one after the other."""
    effect = pay if is_durable else pay_soon
    with journal_file(is_on_disk=is_on_disk) as file, open_journal(file) as store:
        async with nh.run(executor_of(canned_model(1)), journal=store, run_id="effects"):
            stopwatch = Stopwatch()
            for order in range(calls):
                assert await effect(order) == order
            return stopwatch.figures(calls)


def _effect_benchmarks(backend: str, *, is_on_disk: bool = False) -> tuple[Benchmark, ...]:
    """Calls of an effect that waits for its result to be durable, and of one that does not."""
    where = "in a file on the disk, " if is_on_disk else ""
    return tuple(
        Benchmark(
            name=f"journal-once{'' if is_durable else '-soon'}{'-disk' if is_on_disk else ''}-{backend}",
            what=f"a recorded call of an effect that takes no time, {where}on {backend}"
            + ("" if is_durable else "; it does not wait until its result is durable"),
            run=partial(anyio.run, partial(call_effects, is_durable, is_on_disk), backend=backend),
            operations=200 if is_on_disk else 500,
            quick_operations=20,
            smallest_suite="quick" if is_durable and not is_on_disk else "default",
        )
        for is_durable in (True, False)
    )


def _benchmarks_of(backend: str) -> tuple[Benchmark, ...]:
    """The benchmarks of one event loop."""
    steps = tuple(
        Benchmark(
            name=f"journal-step-{'one' if trips == 1 else 'two'}-{backend}",
            what=f"a recorded step with {trips} response(s) of a canned model, on {backend}",
            run=partial(anyio.run, partial(take_steps_both_ways, trips, False), backend=backend),
            operations=500,
            quick_operations=20,
            smallest_suite="quick" if trips == 2 else "default",
        )
        for trips in (1, 2)
    )
    return (
        *steps,
        Benchmark(
            name=f"journal-burst-1000-{backend}",
            what=f"a recorded step of a burst on {backend}, beside the burst without a journal",
            run=partial(anyio.run, burst_both_ways, backend=backend),
            operations=1_000,
            quick_operations=100,
            smallest_suite="default",
        ),
        *_effect_benchmarks(backend),
    )


BENCHMARKS = (
    *_benchmarks_of("trio"),
    *_benchmarks_of("asyncio"),
    *_effect_benchmarks("trio", is_on_disk=True),
    Benchmark(
        name="journal-step-disk-trio",
        what="a recorded step with two responses of a canned model, in a file on the disk",
        run=partial(anyio.run, partial(take_steps_both_ways, 2, True), backend="trio"),
        operations=200,
        quick_operations=10,
        rounds=3,
        smallest_suite="default",
    ),
    Benchmark(
        name="journal-resume-1000",
        what="a step of a run of 1,000 recorded steps that is resumed, on trio",
        run=partial(anyio.run, resume, backend="trio"),
        operations=1_000,
        quick_operations=50,
        rounds=3,
    ),
    Benchmark(
        name="journal-resume-10000",
        what="a step of a run of 10,000 recorded steps that is resumed, on trio; "
        "`resume_cpu` is that of all of them; 10 s is the goal",
        run=partial(anyio.run, resume, backend="trio"),
        operations=10_000,
        quick_operations=50,
        rounds=3,
        smallest_suite="full",
        timeout=600.0,
    ),
)
