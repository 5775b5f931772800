"""What the programs of all subjects share: carry out one workload, and print its figures as one line of JSON.

It needs the standard library and AnyIO, and knows no subject. A subject is a module beside this one, started
as `python -m benchmarks.subjects.NAME JOB` in the folder that holds `benchmarks`, so that a module may be
named as the package it imports. It ends with

    if __name__ == "__main__":
        harness.main(open_steps, SCRIPTS)

`SCRIPTS` maps each kind of step that the subject can do to the model's script for it; the kinds are those of
`KINDS`, the scripts those of `benchmarks.server.script`. The delays of a script are the job's business.

`open_steps(base_url, kind, **options)` opens what many steps share (a client, a run) and gives a step: a
callable without arguments that raises when its result is wrong. An asynchronous context manager gives an
async function; a plain context manager gives a plain function, which is then called in threads when many
steps are to be in flight at once. `base_url` ends in `/v1`. `options` come from the subject's row in the
table of subjects, as they are.

The tool of a subject calls `tool_body` (`tool_body_in_thread`) for the kinds "one-tool" and "eight-tools",
and `tool_started(sent_at)` for "tool-start".

A job is a JSON object: see `Job`. The line that is printed is
`{"figures": {metric: value}, "messages": [...]}`; the messages are those of the most frequent errors.
A job in windows prints an empty line once it is warm; then each line on standard input asks for a window of
so many steps, and is answered with a line of figures, until standard input ends.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from benchmarks.server.limits import raise_file_limit

from . import server_client
from .bursts import Failures, run_in_threads, run_plain_steps, run_steps
from .processes import PeakMemory

__all__ = [
    "EXPECTED",
    "KINDS",
    "TOOL_RESULT",
    "TOOL_SECONDS",
    "Job",
    "main",
    "tool_body",
    "tool_body_in_thread",
    "tool_started",
]

KINDS = ("assign", "one-tool", "eight-tools", "tool-start")
"""The kinds of steps.

- assign: the model sets one variable to `EXPECTED` and ends.
- one-tool: one call of an async tool that takes `TOOL_SECONDS`, then the model ends.
- eight-tools: eight calls of it in one response, then the model ends.
- tool-start: one call whose argument `sent_at` is a string that holds the server's `time.monotonic()` when it
  sent the end of the arguments (the script says "{sent_at}"), after which the response goes on for a while.
"""

EXPECTED = 42
"""What the variable of a step of kind "assign" is set to; a step checks that it got it."""

TOOL_SECONDS = 0.1
TOOL_RESULT = "done"

Step: TypeAlias = Callable[[], Awaitable[None]]
PlainStep: TypeAlias = Callable[[], None]
Opening: TypeAlias = AbstractAsyncContextManager[Step] | AbstractContextManager[PlainStep]

_tool_starts: list[float] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a subject's program is to do.

    Args:
        server: The server's URL, `http://127.0.0.1:PORT`.
        script: The name to put the subject's script under.
        kind: The kind of the steps.
        steps: How many steps; of no account for a job in windows.
        in_windows: Whether steps are carried out in windows, as they are asked for.
        at_once: Whether they are all in flight at once, or one after the other.
        warm_up: Steps before those that count, one after the other.
        backend: The event loop: "asyncio" or "trio".
        first_byte_seconds: The server's delay before the first byte of each response.
        after_calls_seconds: How long a response goes on once its calls are complete.
        limit_seconds: After this many seconds, steps that are not over count as errors.
        started_at: `time.monotonic()` when the process was started.
        options: Keyword arguments for the subject's `open_steps`.
    """

    server: str
    script: str
    kind: str
    steps: int
    in_windows: bool = False
    at_once: bool = False
    warm_up: int = 0
    backend: str = "asyncio"
    first_byte_seconds: float = 0.0
    after_calls_seconds: float = 0.0
    limit_seconds: float = 120.0
    started_at: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


async def tool_body() -> str:
    """What the tool of the kinds "one-tool" and "eight-tools" does, for an async tool."""
    await anyio.sleep(TOOL_SECONDS)
    return TOOL_RESULT


def tool_body_in_thread() -> str:
    """The same for a subject that has only plain functions as tools."""
    time.sleep(TOOL_SECONDS)
    return TOOL_RESULT


def tool_started(sent_at: str) -> str:
    """What the tool of the kind "tool-start" calls first: notes how long after `sent_at` it was started."""
    _tool_starts.append(time.monotonic() - float(sent_at))
    return TOOL_RESULT


def main(open_steps: Callable[..., Opening], scripts: Mapping[str, Mapping[str, Any]]) -> None:
    """Carry out the job in the first argument of the command line and print its figures.

    Args:
        open_steps: Opens what steps share: `open_steps(base_url, kind, **options)`.
        scripts: The model's script for each kind of step.
    """
    job = Job(**json.loads(sys.argv[1]))
    raise_file_limit()
    began = time.monotonic()
    server_client.reset(job.server)
    delays = {
        "first_byte_seconds": job.first_byte_seconds,
        "after_calls_seconds": job.after_calls_seconds,
    }
    base_url = server_client.put_script(job.server, job.script, {**scripts[job.kind], **delays})
    round_ = _Round(job, own_seconds=time.monotonic() - began)
    opening = open_steps(base_url, job.kind, **job.options)
    if isinstance(opening, AbstractAsyncContextManager):
        anyio.run(_carry_out, round_, opening, backend=job.backend)
        return
    _carry_out_plainly(round_, opening)
    # A step that hangs in its thread must not keep the process.
    os._exit(0)


async def _carry_out(round_: "_Round", opening: AbstractAsyncContextManager[Step]) -> None:
    job = round_.job
    async with opening as step:
        await run_steps(step, job.warm_up, Failures(), at_once=False, limit_seconds=job.limit_seconds)
        for steps in round_.windows():
            await run_steps(
                step, steps, round_.failures, at_once=job.at_once, limit_seconds=job.limit_seconds
            )


def _carry_out_plainly(round_: "_Round", opening: AbstractContextManager[PlainStep]) -> None:
    job = round_.job
    with opening as step:
        run_plain_steps(step, job.warm_up, Failures(), limit_seconds=job.limit_seconds)
        run = run_in_threads if job.at_once else run_plain_steps
        for steps in round_.windows():
            run(step, steps, round_.failures, limit_seconds=job.limit_seconds)


class _Round:
    """Takes the figures around the steps that count."""

    def __init__(self, job: Job, *, own_seconds: float) -> None:
        self.job = job
        self.failures = Failures()
        self.figures: dict[str, float] = {}
        self._own_seconds = own_seconds

    def windows(self) -> Iterator[int]:
        """The number of steps of each window, whose figures are printed once it is over."""
        if not self.job.in_windows:
            yield from self._window(self.job.steps)
            return
        print(flush=True)
        # Nothing is in flight between windows, so waiting here holds up no event loop that has work.
        for line in sys.stdin:
            yield from self._window(int(line))

    def _window(self, steps: int) -> Iterator[int]:
        self.failures = Failures()
        self.begin()
        yield steps
        self.end(steps)
        self.tell()

    def begin(self) -> None:
        """The steps that count come next."""
        first_request_at = server_client.counts(self.job.server)["first_request_at"]
        if first_request_at:
            # What the harness itself did before is no part of the subject's start.
            self.figures["ready"] = first_request_at - self.job.started_at - self._own_seconds
        server_client.reset(self.job.server)
        _tool_starts.clear()
        self._memory = PeakMemory()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def end(self, steps: int) -> None:
        """The steps that count are over."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        memory = self._memory.taken()
        counted = server_client.counts(self.job.server)
        requests = counted["requests"]
        self.figures |= {
            "wall": wall / steps,
            "burst_wall": wall,
            "cpu": cpu / steps,
            "rate": requests / wall,
            "errors": float(self.failures.count),
            "round_trips": requests / steps,
            "server_cpu": counted["cpu_seconds"] / max(1, requests),
            "server_busy": counted["cpu_seconds"] / wall,
        }
        if (ideal := self.job.first_byte_seconds * requests / steps) > 0:
            self.figures["over_ideal"] = wall / ideal
        if memory is not None:
            self.figures |= {"peak_memory": float(memory), "memory_per_step": memory / steps}
        if _tool_starts:
            self.figures["tool_start"] = statistics.median(_tool_starts)

    def tell(self) -> None:
        """Print the figures."""
        print(json.dumps({"figures": self.figures, "messages": self.failures.messages()}), flush=True)
