"""Carries out benchmarks in fresh processes, and tells how each ended. It shows and writes nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from .child import Answer
from .discovery import FoundBenchmark
from .machine import Load, LoadWatch
from .measure import Result

__all__ = ["Outcome", "State", "run_all"]

State: TypeAlias = Literal["measured", "not here", "failed"]

ROOT = Path(__file__).parents[1]
LAST_LINES = 40
"""How many lines of what a child wrote are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the measuring of one benchmark ended.

    Args:
        benchmark: The benchmark's name.
        state: Whether it was measured, cannot be measured on this machine, or failed.
        reason: Why it was not measured; the last lines that the process wrote, if it failed.
        seconds: How long it took.
        load: What other processes took meanwhile; None when several benchmarks ran at once.
        results: What was measured.
        said: The last lines that its process wrote, when it had one of its own and was measured.
    """

    benchmark: str
    state: State
    reason: str | None = None
    seconds: float
    load: Load | None = None
    results: tuple[Result, ...] = ()
    said: str | None = None

    def with_rounds_of(self, again: "Outcome") -> "Outcome":
        """This outcome with the rounds of a second measuring behind its own; the second one if it failed.

        Args:
            again: How the same benchmark ended when it was measured once more.
        """
        if again.state == "failed":
            return again
        more = {result.metric: result.rounds for result in again.results}
        return replace(
            self,
            seconds=self.seconds + again.seconds,
            results=tuple(
                replace(result, rounds=result.rounds + more.get(result.metric, ())) for result in self.results
            ),
        )


def run_all(found: Sequence[FoundBenchmark], *, is_quick: bool) -> Iterator[Outcome]:
    """Measure benchmarks; give each outcome as soon as it is known, in the order of measuring.

    Args:
        found: The benchmarks.
        is_quick: Whether to do few operations. Times do not count then: the benchmarks of a module share a
            process, and as many modules are at work at once as there are processors.
    """
    if not is_quick:
        yield from (_run_alone(each) for each in found)
        return
    modules = [list(group) for _, group in groupby(found, key=lambda each: each.module)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield from chain.from_iterable(pool.map(_run_quickly, modules))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _run_alone(found: FoundBenchmark) -> Outcome:
    """Measure a benchmark in a process of its own, and note what other processes take meanwhile."""
    watch = LoadWatch()
    (outcome,) = _run_process([found], is_quick=False)
    return replace(outcome, load=watch.load())


def _run_quickly(found: Sequence[FoundBenchmark]) -> list[Outcome]:
    """Measure the benchmarks of a module in one process, and in another one those after a failure."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(found):
        outcomes += _run_process(found[len(outcomes) :], is_quick=True)
    return outcomes


def _run_process(found: Sequence[FoundBenchmark], *, is_quick: bool) -> list[Outcome]:
    """Measure benchmarks of one module in a process of their own, until the first failure."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        file = folder / "answers.json"
        names = [each.benchmark.name for each in found]
        options = ["--quick"] if is_quick else []
        command = [
            sys.executable, "-m", "benchmarks.child", *options, found[0].module, str(file), *names
        ]  # fmt: skip
        limit = max(each.benchmark.timeout for each in found)
        trouble = _trouble_of(command, limit, folder / "log")
        answers = msgspec.json.decode(file.read_bytes(), type=list[Answer]) if file.exists() else []
        said = None if is_quick else _last_lines(folder / "log")
    outcomes = [
        Outcome(
            benchmark=answer.benchmark,
            state="measured" if answer.cannot is None else "not here",
            reason=answer.cannot,
            seconds=answer.seconds,
            results=answer.results,
            said=said,
        )
        for answer in answers
    ]
    if len(answers) < len(found):
        reason = trouble or "ended without a result"
        seconds = time.monotonic() - began
        failed = names[len(answers)]
        outcomes.append(Outcome(benchmark=failed, state="failed", reason=reason, seconds=seconds))
    return outcomes


def _trouble_of(command: Sequence[str], timeout: float, log: Path) -> str | None:
    """Run a process, then end whatever it left behind; say what went wrong, or None."""
    # What it writes goes to a file: a pipe would stay open for as long as a server that it left behind lives.
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        _end_group(process)
    if status == 0:
        return None
    how = f"given up after {timeout:g} seconds" if status is None else f"ended with status {status}"
    said = _last_lines(log)
    return how if said is None else f"{how}\n{said}"


def _environment() -> dict[str, str]:
    """The environment of a process, and of those that it starts."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    # A program is started from compiled files, as its users have them; else compiling would be measured.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _last_lines(log: Path) -> str | None:
    """The last lines of what a process wrote; None when it wrote nothing."""
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]) or None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process, if it still runs, and all that it started and left behind."""
    if hasattr(os, "killpg"):
        # The process was made the leader of a group; nobody is there any more when it left nothing behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
