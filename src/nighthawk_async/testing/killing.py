"""Kill a program at chosen moments, to see that its durable runs continue.

    with ProgramKiller("shop.nightly:main", {"database": str(path)}) as killer:
        while (life := killer.live(kill_at=KillPoint(record=12, when="after"))).was_killed: ...
        assert life.result == expected

Each life of the program is a process of its own, forked from one that has loaded everything already. It needs
an operating system with `fork`.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast

from ..journal.records import Record
from ..journal.store_thread import commit_listeners

__all__ = ["KillPoint", "Life", "ProgramKiller"]

_KILLED = 137
_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """The moment at which a process is killed. Give one of `record` and `seconds`.

    Args:
        record: The number of a record of the run, counted from 1 over all of its lives.
        when: Whether the process is killed before that record is durable, or right after.
        seconds: Seconds after the beginning of the life.
    """

    record: int | None = None
    when: Literal["before", "after"] = "before"
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.record is None) is (self.seconds is None):
            raise ValueError("a KillPoint needs either a record or seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of a program.

    Args:
        was_killed: Whether it was killed.
        result: The result of its function, as JSON has it.
        error: The traceback of the exception that it raised; empty for none.
    """

    was_killed: bool = False
    result: Any = None
    error: str = ""


class ProgramKiller:
    """Runs the lives of a program, each in a process of its own.

    Args:
        program: The function, `module:function`. It is called without an event loop, and its result must be
            what JSON can hold.
        arguments: Its keyword arguments, of what JSON can hold.
        path: Folders for the module search path, before all others.
        timeout_seconds: Seconds after which a life counts as hanging, which raises `TimeoutError`.
    """

    def __init__(
        self,
        program: str,
        arguments: Mapping[str, Any],
        *,
        path: Sequence[str | Path] = (),
        timeout_seconds: float = 60.0,
    ) -> None:
        self._program = program
        self._arguments = dict(arguments)
        self._path = [str(each) for each in path]
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "ProgramKiller":
        command = [sys.executable, "-m", __name__, self._program]
        paths = os.pathsep.join([*self._path, *(each for each in sys.path if each)])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def live(self, *, kill_at: KillPoint | None = None, **arguments: Any) -> Life:
        """Run the program once.

        Args:
            kill_at: The moment at which it is killed; None to let it end.
            arguments: Keyword arguments of this life, beside those of all lives.

        Raises:
            TimeoutError: It does not end.
            RuntimeError: The program cannot be loaded, or the killer was not entered.
        """
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a ProgramKiller is a context manager: enter it first")
        job = {
            "arguments": {**self._arguments, **arguments},
            "kill_at": None if kill_at is None else [kill_at.record, kill_at.when, kill_at.seconds],
            "timeout_seconds": self._timeout_seconds,
        }
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and said why on standard error
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._program} cannot be run; see standard error")
        told = cast("dict[str, Any]", json.loads(answer))
        if told.get("hangs"):
            raise TimeoutError(f"{self._program} did not end within {self._timeout_seconds:g} seconds")
        return Life(**told)


def serve(program: str) -> None:
    """Fork a process for each job on standard input; the body of the killer's own process."""
    answers = os.fdopen(os.dup(1), "w")  # programs may print: that goes to standard error
    os.dup2(2, 1)
    module, _, name = program.partition(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    for line in sys.stdin:
        job = cast("dict[str, Any]", json.loads(line))
        print(json.dumps(_run_life(function, job)), file=answers, flush=True)


def _run_life(function: Callable[..., Any], job: Mapping[str, Any]) -> Mapping[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_life(function, job, writer)
    os.close(writer)
    killer = threading.Timer(job["timeout_seconds"], os.kill, (child, 9))
    killer.start()
    with os.fdopen(reader) as stream:
        answer = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hangs = not killer.is_alive() and status == -9
    killer.cancel()
    killer.join()
    if hangs:
        return {"hangs": True}
    if answer:
        return cast("Mapping[str, Any]", json.loads(answer))
    return {"was_killed": True}


def _be_life(function: Callable[..., Any], job: Mapping[str, Any], writer: int) -> None:
    """Run one life in the forked process, which never returns."""
    status = _FAILED
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the next jobs are not its input
    try:
        _arm(job["kill_at"])
        answer: dict[str, Any] = {"result": function(**job["arguments"])}
        text = json.dumps(answer)
        status = 0
    except BaseException:
        text = json.dumps({"error": traceback.format_exc()})
    with suppress(Exception):
        sys.stdout.flush()
    with os.fdopen(writer, "w") as stream:
        stream.write(text)
    os._exit(status)


def _arm(kill_at: tuple[int | None, str, float | None] | None) -> None:
    if kill_at is None:
        return
    number, when, seconds = kill_at
    if seconds is not None:
        timer = threading.Timer(seconds, os._exit, (_KILLED,))
        timer.daemon = True
        timer.start()
        return

    def kill(moment: Literal["before", "after"], records: Sequence[Record]) -> None:
        if moment == when and any(record.seq == number for record in records):
            os._exit(_KILLED)

    commit_listeners.append(kill)


if __name__ == "__main__":
    serve(sys.argv[1])
