"""Kill a program at chosen moments, to see that its durable runs continue.

    with ProgramKiller("shop.nightly:main", {"database": str(path)}) as killer:
        assert killer.live(kill_at=KillPoint(record=12, when="after")).was_killed
        assert killer.live().result == expected

Each life of the program is a process of its own, forked from one that has loaded everything already. It needs
an operating system with `fork`. The code of a test, such as a fake of an outside service, names more moments
with `mark`.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ..errors import ConfigurationError
from ..journal.records import Record
from ..journal.store_thread import commit_listeners

__all__ = ["KillPoint", "Life", "ProgramKiller", "mark"]

_KILLED = 137
_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """The moment at which a process is killed. Give one of `record`, `mark` and `seconds`.

    Args:
        record: The number of a record of the run, counted from 1 over all of its lives.
        when: Whether the process is killed before that record is durable, or right after.
        mark: The name of a mark that the life passes; see the function `mark`.
        nth: The number of the pass of that mark, from 1.
        seconds: Seconds after the beginning of the life.
    """

    record: int | None = None
    when: Literal["before", "after"] = "before"
    mark: str | None = None
    nth: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.record, self.mark, self.seconds)) != 1:
            raise ValueError("a KillPoint needs one of: a record, a mark, seconds")


class _Marks:
    """The marks that this process passes.

    Args:
        fatal: The name and the number of the pass at which it is killed.
    """

    def __init__(self, fatal: tuple[str, int] | None = None) -> None:
        self._fatal = fatal
        self._lock = threading.Lock()
        self._passes: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Count a pass, and end the process at the fatal one."""
        with self._lock:
            self._passes[name] += 1
            if (name, self._passes[name]) == self._fatal:
                os._exit(_KILLED)


_marks = _Marks()


def mark(name: str) -> None:
    """Name a moment at which a `ProgramKiller` may kill the process. Otherwise nothing happens.

        async def charge(order: Order, *, idempotency_key: str) -> Receipt:
            receipt = await fake_bank.charge(order, idempotency_key)
            killing.mark("charged")  # between the effect and the record of its result
            return receipt

    Args:
        name: Its name. It may be passed several times, in any thread.
    """
    _marks.reach(name)


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
        timeout: Seconds after which a life counts as hanging, which raises `TimeoutError`.

    Raises:
        ConfigurationError: The system is Windows, which cannot fork.
    """

    def __init__(
        self,
        program: str,
        arguments: Mapping[str, Any],
        *,
        path: Sequence[str | Path] = (),
        timeout: float = 60.0,
    ) -> None:
        if sys.platform == "win32":
            raise ConfigurationError("lives of a program are forked, which Windows cannot do")
        self._program = program
        self._arguments = dict(arguments)
        self._path = [str(each) for each in path]
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "ProgramKiller":
        # Not `-m`, which would load this module twice, with marks of its own each time.
        start = f"import sys; from {__name__} import serve; serve(sys.argv[1])"
        command = [sys.executable, "-c", start, self._program]
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
            "kill_at": None if kill_at is None else asdict(kill_at),
            "timeout": self._timeout,
        }
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and said why on standard error
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._program} cannot be run; see standard error")
        told: dict[str, Any] = json.loads(answer)
        if told.get("hangs"):
            raise TimeoutError(f"{self._program} did not end within {self._timeout:g} seconds")
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
        job: dict[str, Any] = json.loads(line)
        print(json.dumps(_run_life(function, job)), file=answers, flush=True)


def _run_life(function: Callable[..., Any], job: Mapping[str, Any]) -> Mapping[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_life(function, job, writer)
    os.close(writer)
    seconds = None if job["kill_at"] is None else job["kill_at"]["seconds"]
    timers = [threading.Timer(job["timeout"], os.kill, (child, signal.SIGKILL))]
    if seconds is not None:
        timers.append(threading.Timer(seconds, os.kill, (child, signal.SIGKILL)))
    for timer in timers:
        timer.start()
    with os.fdopen(reader) as stream:
        answer = stream.read()
    # The process has ended. Its number is its own until it is waited for, so no timer kills another one.
    has_timed_out = not timers[0].is_alive()
    for timer in timers:
        timer.cancel()
        timer.join()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if answer.endswith("\n"):  # killed while it wrote its answer, otherwise
        return json.loads(answer)
    if has_timed_out and status == -signal.SIGKILL:
        return {"hangs": True}
    if job["kill_at"] is not None and status == (_KILLED if seconds is None else -signal.SIGKILL):
        return {"was_killed": True}
    return {"error": f"the process ended with the status {status}, and was not killed at the point given"}


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
        stream.write(text + "\n")
    os._exit(status)


def _arm(kill_at: Mapping[str, Any] | None) -> None:
    """Have this process end at a point; the parent process sees to seconds."""
    global _marks
    if kill_at is None:
        return
    if kill_at["mark"] is not None:
        _marks = _Marks((kill_at["mark"], kill_at["nth"]))

    def kill(moment: Literal["before", "after"], records: Sequence[Record]) -> None:
        if moment == kill_at["when"] and any(record.seq == kill_at["record"] for record in records):
            os._exit(_KILLED)

    if kill_at["record"] is not None:
        commit_listeners.append(kill)
