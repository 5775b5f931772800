"""One round of a workload: a server and a subject's program, each in a process. It knows no subject.

Several subjects can also be kept running side by side, to measure them alternately: see `RunningSubject`.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .measure import Figures
from .server.running import ROOT, running_server

__all__ = ["RunningSubject", "Subject", "SubjectFailedError", "Workload", "carry_out"]

GRACE_SECONDS = 60.0
"""How long a subject's program may take besides the steps that count, before it is killed."""


class SubjectFailedError(Exception):
    """A subject's program crashed, hung or measured nothing; what it said is on standard error."""


def own_interpreter() -> Path:
    """The interpreter that runs this."""
    return Path(sys.executable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What carries out a workload.

    Args:
        name: Its name in the report.
        program: The module's name in `benchmarks.subjects`.
        kinds: The kinds of steps that it can do; see `benchmarks.subjects.harness.KINDS`.
        backend: The event loop.
        options: Keyword arguments for its `open_steps`.
        interpreter: Gives the interpreter that has what the program imports. It may make an environment
            first, or raise `CannotMeasureHereError`.
        is_peer: Whether it is something else than this project and the floors.
    """

    name: str
    program: str
    kinds: tuple[str, ...] = ("assign",)
    backend: str = "asyncio"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    interpreter: Callable[[], Path] = own_interpreter
    is_peer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What subjects are to do.

    Args:
        name: Its name in the report.
        what: What one operation is.
        kind: The kind of its steps.
        metrics: What is measured of it, of all that the harness tells.
        at_once: Whether all steps of a round are in flight at once.
        warm_up: Steps before those that count.
        first_byte_seconds: The server's delay before the first byte of each response.
        after_calls_seconds: How long a response goes on once its calls are complete.
        limit_seconds: After this many seconds, steps that are not over count as errors.
    """

    name: str
    what: str
    kind: str
    metrics: tuple[str, ...]
    at_once: bool = False
    warm_up: int = 1
    first_byte_seconds: float = 0.0
    after_calls_seconds: float = 0.0
    limit_seconds: float = 120.0


def carry_out(workload: Workload, subject: Subject, steps: int) -> Figures:
    """Carry out one round, with a server of its own. Messages of steps that failed go to standard error.

    Args:
        workload: The workload.
        subject: What carries it out.
        steps: How many steps.

    Returns:
        Those of the workload's metrics that could be measured.

    Raises:
        CannotMeasureHereError: The subject is not to be had on this machine.
        SubjectFailedError: Its program crashed or hung.
    """
    interpreter = subject.interpreter()
    with running_server() as server:
        told = _run_program(interpreter, subject, _job_of(workload, subject, server, steps=steps))
    _say_messages(workload, subject, told)
    return {name: told["figures"][name] for name in workload.metrics if name in told["figures"]}


class RunningSubject:
    """A subject's program that is warm and waits; it carries out steps in windows, when they are asked for.

    Args:
        workload: The workload.
        subject: What carries it out.
        server: The server's URL.

    Raises:
        CannotMeasureHereError: The subject is not to be had on this machine.
    """

    def __init__(self, workload: Workload, subject: Subject, server: str) -> None:
        self._workload = workload
        self._subject = subject
        job = {**_job_of(workload, subject, server, steps=0), "in_windows": True}
        self._process = subprocess.Popen(
            _command_of(subject.interpreter(), subject, job),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def wait_until_warm(self) -> None:
        """Wait until the program has carried out the steps that do not count.

        Raises:
            SubjectFailedError: It crashed.
        """
        self._read()

    def window(self, steps: int) -> Figures:
        """Carry out steps, while the programs of other subjects wait.

        Args:
            steps: How many.

        Returns:
            All that the harness tells of them.

        Raises:
            SubjectFailedError: The program crashed, or a step failed.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        told = json.loads(self._read())
        _say_messages(self._workload, self._subject, told)
        if failed := told["figures"]["errors"]:
            raise SubjectFailedError(f"{failed:g} of {steps} steps of {self._subject.name} failed")
        return told["figures"]

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise SubjectFailedError(f"{self._subject.name} ended with status {status}")
        return line


def _job_of(workload: Workload, subject: Subject, server: str, *, steps: int) -> dict[str, Any]:
    """The job of a subject's program; see `benchmarks.subjects.harness.Job`."""
    return {
        "server": server,
        "script": subject.name,
        "kind": workload.kind,
        "steps": steps,
        "at_once": workload.at_once,
        "warm_up": workload.warm_up,
        "backend": subject.backend,
        "first_byte_seconds": workload.first_byte_seconds,
        "after_calls_seconds": workload.after_calls_seconds,
        "limit_seconds": workload.limit_seconds,
        "options": dict(subject.options),
    }


def _command_of(interpreter: Path, subject: Subject, job: Mapping[str, Any]) -> list[str]:
    """The command line of a subject's program that is started now."""
    told = json.dumps({**job, "started_at": time.monotonic()})
    return [str(interpreter), "-m", f"benchmarks.subjects.{subject.program}", told]


def _say_messages(workload: Workload, subject: Subject, told: Mapping[str, Any]) -> None:
    """Say on standard error why steps failed."""
    for message in told["messages"]:
        print(f"{workload.name}, {subject.name}: {message}", file=sys.stderr)


def _run_program(interpreter: Path, subject: Subject, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a subject's program, and read the line that it prints."""
    # Warming up, the steps that count and what is around them.
    seconds = 2 * job["limit_seconds"] + GRACE_SECONDS
    try:
        process = subprocess.run(
            _command_of(interpreter, subject, job),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise SubjectFailedError(f"{subject.name} was not over after {seconds:g} s") from None
    lines = process.stdout.splitlines()
    if process.returncode or not lines:
        raise SubjectFailedError(f"{subject.name} ended with status {process.returncode}")
    return json.loads(lines[-1])
