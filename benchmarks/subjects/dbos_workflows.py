"""DBOS: a workflow whose steps are calls of a canned model, in a SQLite file.

Started as `python -m benchmarks.subjects.dbos_workflows WORK STEPS FILE`, it prints its figures as one line
of JSON. The work is one of

- `sequential`: steps one after the other;
- `burst`: all steps at once;
- `record`: the same as `sequential`, after which the process ends before the workflow does;
- `resume`: the workflow that such a process left behind, from the launch to its end.
"""

import asyncio
import json
import os
import sqlite3
import sys
import time
from pathlib import Path

if sqlite3.sqlite_version_info < (3, 42):  # which its statements need
    import pysqlite3  # type: ignore[import-not-found]

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2

from dbos import DBOS, SetWorkflowID

QUESTION = "What is six times seven?"
EXPECTED = 42
LIMIT_SECONDS = 120.0


def main(work: str, steps: int, file: Path) -> None:
    """Do the work, and print its figures."""
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{file}",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    figures: dict[str, float] = {}

    @DBOS.step()
    async def ask(question: str) -> int:
        return EXPECTED

    def end(began: tuple[float, float], size: int) -> None:
        wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
        grown = size_of(file) - size
        figures.update(wall=wall / steps, cpu=cpu / steps, resume_wall=wall, file_bytes=grown / steps)
        ended.set()

    @DBOS.workflow()
    async def sequential() -> None:
        began, size = now(), size_of(file)
        for _ in range(steps):
            assert await ask(QUESTION) == EXPECTED
        if work == "record":
            os._exit(0)
        end(launched if work == "resume" else began, size)

    @DBOS.workflow()
    async def burst() -> None:
        began, size = now(), size_of(file)
        assert await asyncio.gather(*(ask(QUESTION) for _ in range(steps))) == [EXPECTED] * steps
        end(began, size)

    async def run() -> None:
        DBOS.launch()  # and takes up what an earlier process left
        if work != "resume":
            with SetWorkflowID("workflow"):
                await DBOS.start_workflow_async(burst if work == "burst" else sequential)
        await asyncio.wait_for(ended.wait(), LIMIT_SECONDS)

    ended = asyncio.Event()
    launched = now()
    asyncio.run(run())
    print(json.dumps(figures), flush=True)
    os._exit(0)  # its threads would wait for their next look


def size_of(file: Path) -> int:
    """The bytes of a file."""
    return file.stat().st_size


def now() -> tuple[float, float]:
    """The time by the clock and by the processor."""
    return time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
