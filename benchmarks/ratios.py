"""Speed ratios: this project beside a floor or a peer, alternately and within one run.

A slow or busy machine changes both sides of a ratio, so each has a bound that makes the run fail: see
`benchmarks.report.goal_table`. The quick suite only sees that they can be taken. This comes last of all
modules, when the environments of the peers are there.
"""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from .cases.importing import program_of, seconds_to_first_request
from .measure import Benchmark, Figures
from .peer_environments import prepared_interpreter_of
from .rounds import RunningSubject, Subject, Workload
from .server.limits import raise_file_limit
from .server.running import running_server
from .workloads import BURST, OWN, SEQUENTIAL, STREAMED_FLOOR

__all__ = ["RATIO_BENCHMARKS", "burst_ratios", "large_burst_ratio", "ready_ratio", "sequential_ratios"]

STEPS_OF_WINDOW = 20
LARGE_BURST = 10_000
TIMES = ("wall", "cpu")
PATIENT_BURST = replace(BURST, limit_seconds=600.0)
"""On a busy machine, 10,000 steps at once take minutes."""

SDK_PROGRAM = """
import asyncio
import openai

async def main():
    async with openai.AsyncOpenAI(base_url="http://127.0.0.1:{port}/v1", api_key="none") as client:
        messages = [{{"role": "user", "content": "What is six times seven?"}}]
        await client.chat.completions.create(model="any", messages=messages)

asyncio.run(main())
"""


def sequential_ratios(backend: str, windows: int) -> Figures:
    """The processor time of sequential steps, in two round trips and in one, by that of the floor.

    The subjects take turns in short windows, and the best window of each counts: what else the machine does
    can only add to a window.

    Args:
        backend: The event loop.
        windows: How many windows each subject gets.
    """
    with _running(SEQUENTIAL, STREAMED_FLOOR, *_own(backend)) as subjects:
        rows = [[each.window(STEPS_OF_WINDOW)["cpu"] for each in subjects] for _ in range(windows)]
    floor, two_trips, one_trip = map(min, zip(*rows, strict=True))
    return {"two_trips_cpu_ratio": two_trips / floor, "one_trip_cpu_ratio": one_trip / floor}


def burst_ratios(backend: str, steps: int) -> Figures:
    """The time of a burst, in two round trips and in one, by that of the floor's burst.

    Args:
        backend: The event loop.
        steps: How many steps a burst has.
    """
    with _running(BURST, STREAMED_FLOOR, *_own(backend)) as subjects:
        floor, two_trips, one_trip = (each.window(steps) for each in subjects)
    return {
        "two_trips_wall_ratio": two_trips["wall"] / floor["wall"],
        "one_trip_wall_ratio": one_trip["wall"] / floor["wall"],
        "two_trips_cpu_ratio": two_trips["cpu"] / floor["cpu"],
        "one_trip_cpu_ratio": one_trip["cpu"] / floor["cpu"],
    }


def large_burst_ratio(backend: str, bursts: int) -> Figures:
    """The time of 10,000 steps in flight by that of bursts of a tenth, each by a program of its own.

    Args:
        backend: The event loop.
        bursts: How many bursts make up the 10,000 steps.
    """
    two_trips, _ = _own(backend)
    small: list[Figures] = []
    for _ in range(bursts):
        with _running(PATIENT_BURST, two_trips) as (subject,):
            small.append(subject.window(LARGE_BURST // bursts))
    with _running(PATIENT_BURST, two_trips) as (subject,):
        large = subject.window(LARGE_BURST)
    return {f"{name}_ratio": large[name] / statistics.mean(each[name] for each in small) for name in TIMES}


def ready_ratio(backend: str, starts: int) -> Figures:
    """The time from the start of a program to its first request by that of a program with the openai SDK.

    Args:
        backend: The event loop.
        starts: How many programs each gets; the middle one counts.
    """
    interpreter = prepared_interpreter_of("openai_sdk")
    own = partial(program_of, "http", backend)
    pairs = [
        (seconds_to_first_request(_sdk_program, interpreter), seconds_to_first_request(own))
        for _ in range(starts)
    ]
    sdk, ours = map(statistics.median, zip(*pairs, strict=True))
    return {"wall_ratio": ours / sdk}


def _sdk_program(port: int) -> str:
    return SDK_PROGRAM.format(port=port)


def _own(backend: str) -> tuple[Subject, Subject]:
    """This project in two round trips, and in one."""
    named = {subject.name: subject for subject in OWN}
    return named[f"nighthawk-async-two-trips-{backend}"], named[f"nighthawk-async-one-trip-{backend}"]


@contextmanager
def _running(workload: Workload, *subjects: Subject) -> Iterator[list[RunningSubject]]:
    """The programs of subjects, warm, at one server."""
    raise_file_limit()
    with running_server() as server, ExitStack() as programs:
        running = [programs.enter_context(RunningSubject(workload, subject, server)) for subject in subjects]
        for each in running:
            each.wait_until_warm()
        yield running


def _benchmarks_of(backend: str) -> Iterator[Benchmark]:
    suite = "quick" if backend == "trio" else "default"
    yield Benchmark(
        name=f"ratio-sequential-{backend}",
        what=f"{STEPS_OF_WINDOW} steps on {backend} beside as many of the floor {STREAMED_FLOOR.name}",
        run=partial(sequential_ratios, backend),
        operations=16,
        quick_operations=1,
        rounds=4,
        most_rounds=7,
        smallest_suite=suite,
        is_warmed_up=False,
    )
    yield Benchmark(
        name=f"ratio-burst-1000-{backend}",
        what=f"one step of a burst on {backend} beside a burst of the floor {STREAMED_FLOOR.name}",
        run=partial(burst_ratios, backend),
        operations=1_000,
        quick_operations=10,
        rounds=3,
        most_rounds=5,
        smallest_suite=suite,
        is_warmed_up=False,
    )
    yield Benchmark(
        name=f"ratio-ready-{backend}",
        what=f"a start until the first request is sent, on {backend}, beside one with the openai SDK",
        run=partial(ready_ratio, backend),
        operations=2,
        quick_operations=1,
        rounds=3,
        most_rounds=5,
        smallest_suite=suite,
    )
    yield Benchmark(
        name=f"ratio-burst-10000-{backend}",
        what=f"one of ten bursts of 1,000 steps on {backend}, beside 10,000 steps in flight",
        run=partial(large_burst_ratio, backend),
        operations=10,
        quick_operations=10,
        rounds=3,
        smallest_suite="full",
        is_warmed_up=False,
        timeout=3_600.0,
    )


RATIO_BENCHMARKS = tuple(
    benchmark for backend in ("trio", "asyncio") for benchmark in _benchmarks_of(backend)
)
