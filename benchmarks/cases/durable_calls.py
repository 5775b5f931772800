"""Durable calls: what a journal takes for one call of a canned model, beside a step of DBOS.

A call is recorded so that a later process gets its result, and is made again if it was in progress: that is
`repeatable` here and a step there. Both write to a SQLite file, in memory where the machine has a file system
for that, so that a disk that is slow to confirm slows neither. The figures of DBOS are those of its process.
"""

import json
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel

import nighthawk_async as nh

from ..measure import Benchmark, CannotMeasureHereError
from ..peer_environments import interpreter_of
from ..stopwatch import Stopwatch
from .journal import QUESTION, journal_file, open_journal
from .steps import EXPECTED, canned_model, executor_of

__all__ = ["BENCHMARKS"]

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 240.0


@nh.repeatable
async def ask(question: str) -> int:
    """Ask a model that answers at once."""
    await anyio.lowlevel.checkpoint()
    return EXPECTED


async def work(file: Path, steps: int, *, at_once: bool) -> Mapping[str, float]:
    """One life of a run with calls."""
    with open_journal(file) as store:
        async with nh.run(executor_of(canned_model(1)), journal=store, run_id="calls"):
            stopwatch = Stopwatch()
            if at_once:
                assert await nh.parallel.map(ask, [QUESTION] * steps) == [EXPECTED] * steps
            else:
                for _ in range(steps):
                    assert await ask(QUESTION) == EXPECTED
            return stopwatch.figures(steps)


async def call(at_once: bool, steps: int) -> Mapping[str, float]:
    """Calls that are made and recorded."""
    with journal_file() as file:
        with open_journal(file) as store:
            assert store.runs() == []  # creates the tables
        empty = file.stat().st_size
        figures = await work(file, steps, at_once=at_once)
        with open_journal(file) as store:
            assert len(store.records("calls")) == 2 * steps + 2
        return {**figures, "file_bytes": (file.stat().st_size - empty) / steps}


async def resume(steps: int) -> Mapping[str, float]:
    """Calls that an earlier life has recorded, from the opening of the store to the end of the run."""
    with journal_file() as file:
        await work(file, steps, at_once=False)
        stopwatch = Stopwatch()
        await work(file, steps, at_once=False)
        figures = stopwatch.figures(steps)
        return {**figures, "resume_wall": figures["wall"] * steps}


def _run_dbos(what: str, steps: int, file: Path) -> Mapping[str, float]:
    command = [str(interpreter_of("dbos")), "-m", "benchmarks.subjects.dbos_workflows"]
    told = subprocess.run(
        [*command, what, str(steps), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if told.returncode or (what != "record" and not told.stdout):
        raise CannotMeasureHereError(f"the program of DBOS has failed: {told.stderr.strip()[-500:]}")
    return json.loads(told.stdout) if told.stdout else {}


def run_dbos(what: str, steps: int) -> Mapping[str, float]:
    """The same by DBOS."""
    with journal_file() as file:
        if what == "resume":
            _run_dbos("record", steps, file)
        figures = _run_dbos(what, steps, file)
    left_out = "file_bytes" if what == "resume" else "resume_wall"
    return {name: value for name, value in figures.items() if name != left_out}


def _benchmarks() -> tuple[Benchmark, ...]:
    """The benchmarks of this project and of DBOS, side by side."""
    own = {
        "sequential": partial(anyio.run, call, False, backend="asyncio"),
        "burst": partial(anyio.run, call, True, backend="asyncio"),
        "resume": partial(anyio.run, resume, backend="asyncio"),
    }
    said = {
        "sequential": "a recorded call of a canned model, one after the other",
        "burst": "a recorded call of a canned model, all at once",
        "resume": "a call whose result was recorded, in the next process",
    }
    return tuple(
        Benchmark(
            name=f"durable-{what}-{subject}",
            what=f"{said[what]}, by {subject}",
            run=run if subject == "nighthawk-async" else partial(run_dbos, what),
            operations=1_000,
            quick_operations=20,
            rounds=3,
            smallest_suite="default",
            is_peer=subject == "dbos",
            is_warmed_up=subject != "dbos",
        )
        for what, run in own.items()
        for subject in ("nighthawk-async", "dbos")
    )


BENCHMARKS = _benchmarks()
