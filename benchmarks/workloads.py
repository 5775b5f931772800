"""The workloads, and the subjects that are at hand without a network: this project, and the floors below it.

Each round is carried out by a fresh process against a server of its own; `benchmarks.peers` has the peers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from .measure import Benchmark, Suite
from .rounds import Subject, Workload, carry_out
from .subjects.harness import KINDS

__all__ = ["BURST_SIZES", "WORKLOAD_BENCHMARKS", "benchmarks_of", "burst_benchmarks"]

BURST_SIZES = (1, 10, 100, 1_000, 3_000, 10_000)

SMALL_BURSTS = (1, 10, 100, 1_000)
"""For what would take too long with more: the bookkeeping of a shared httpx pool is quadratic."""

SERVER_METRICS = ("server_cpu", "server_busy")

SEQUENTIAL = Workload(
    name="sequential",
    what="one step that sets a variable and ends, after the other, at no latency",
    kind="assign",
    warm_up=20,
    metrics=("wall", "cpu", "round_trips", "errors", "ready", *SERVER_METRICS),
)
BURST = Workload(
    name="burst",
    what="one of many such steps at once, with 200 ms to the first byte of each response",
    kind="assign",
    at_once=True,
    first_byte_seconds=0.2,
    metrics=(
        "burst_wall",
        "over_ideal",
        "cpu",
        "peak_memory",
        "memory_per_step",
        "round_trips",
        "errors",
        *SERVER_METRICS,
    ),
)
ONE_TOOL = Workload(
    name="one-tool",
    what="one step that calls a tool of 100 ms once",
    kind="one-tool",
    metrics=("wall", "cpu", "round_trips", "errors"),
)
EIGHT_TOOLS = Workload(
    name="eight-tools",
    what="one step that calls a tool of 100 ms eight times in one response",
    kind="eight-tools",
    metrics=ONE_TOOL.metrics,
)
TOOL_START = Workload(
    name="tool-start",
    what="one step whose response goes on for 2 s after the call of a tool",
    kind="tool-start",
    after_calls_seconds=2.0,
    metrics=("tool_start", "errors"),
)
SERVER_ALONE = Workload(
    name="server-alone",
    what="two hundred requests on one of 32 connections, as fast as the server answers",
    kind="assign",
    at_once=True,
    metrics=("rate", "errors", *SERVER_METRICS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How much of a workload is measured: see `Benchmark`."""

    operations: int
    quick_operations: int
    rounds: int


SIZES = (
    (SEQUENTIAL, _Size(operations=200, quick_operations=5, rounds=5)),
    (ONE_TOOL, _Size(operations=5, quick_operations=1, rounds=3)),
    (EIGHT_TOOLS, _Size(operations=5, quick_operations=1, rounds=3)),
    (TOOL_START, _Size(operations=1, quick_operations=1, rounds=3)),
)


def benchmarks_of(
    subject: Subject, *, burst_sizes: Iterable[int] = BURST_SIZES, suite: Suite | None = None
) -> Iterator[Benchmark]:
    """The benchmarks of every workload that a subject can carry out.

    Args:
        subject: The subject.
        burst_sizes: How many steps its bursts have.
        suite: The smallest suite that holds them; None for what suits each workload.
    """
    for workload, size in SIZES:
        if workload.kind in subject.kinds:
            yield _benchmark(workload, subject, size, suite=suite or "default")
    yield from burst_benchmarks(subject, burst_sizes, suite=suite)


def burst_benchmarks(
    subject: Subject, sizes: Iterable[int], *, suite: Suite | None = None
) -> Iterator[Benchmark]:
    """A benchmark for each size of a burst; without a suite, 1,000 at once are in the default one.

    Args:
        subject: The subject.
        sizes: How many steps the bursts have.
        suite: The smallest suite that holds them; None for what suits each size.
    """
    for steps in sizes:
        size = _Size(operations=steps, quick_operations=min(steps, 10), rounds=3)
        fitting: Suite = suite or ("default" if steps == 1_000 else "full")
        yield _benchmark(BURST, subject, size, suite=fitting, concurrency=steps)


def _benchmark(
    workload: Workload, subject: Subject, size: _Size, *, suite: Suite, concurrency: int | None = None
) -> Benchmark:
    of_burst = () if concurrency is None else (str(concurrency),)
    return Benchmark(
        name="-".join((workload.name, *of_burst, subject.name)),
        what=workload.what,
        run=partial(carry_out, workload, subject),
        operations=size.operations,
        quick_operations=size.quick_operations,
        rounds=size.rounds,
        smallest_suite=suite,
        is_peer=subject.is_peer,
        # Each round is a process of its own, which warms up itself.
        is_warmed_up=False,
        workload=workload.name,
        subject=subject.name,
        concurrency=concurrency or 1,
        timeout=size.rounds * 2 * (workload.limit_seconds + 30),
    )


OWN = tuple(
    Subject(
        name=f"nighthawk-async-{trips}-{backend}",
        program=f"nighthawk_async_{trips.replace('-', '_')}",
        kinds=KINDS if trips == "two-trips" else ("assign",),
        backend=backend,
    )
    for trips in ("one-trip", "two-trips")
    for backend in ("trio", "asyncio")
)
OVER_RESPONSES = Subject(
    name="nighthawk-async-two-trips-responses",
    program="nighthawk_async_two_trips",
    kinds=("assign", "tool-start"),
    backend="trio",
    options={"protocol": "openai-responses"},
)
FEW_COLLECTIONS = tuple(
    replace(subject, name=f"{subject.name}-few-collections", options={"collector_threshold": 50_000})
    for subject in OWN
)
"""With the garbage collector told to look less often: see the page on performance."""

HTTPX_LOOP = Subject(name="httpx-loop", program="httpx_loop")
SINGLE_CONNECTIONS = Subject(name="single-connections", program="single_connections")
STREAMED_FLOOR = replace(
    SINGLE_CONNECTIONS, name="single-connections-streamed", options={"is_streamed": True}
)
RAW_SOCKET = Subject(name="raw-socket", program="raw_socket")
OTHER_FLOORS = (
    RAW_SOCKET,
    replace(RAW_SOCKET, name="raw-socket-trio", backend="trio"),
    replace(HTTPX_LOOP, name="httpx-loop-streamed", options={"is_streamed": True}),
    replace(SINGLE_CONNECTIONS, name="single-connections-trio", backend="trio"),
    STREAMED_FLOOR,
)
LOAD = Subject(name="load-generator", program="load_generator", options={"is_streamed": True})
BUSY_LOAD = replace(LOAD, options={"is_streamed": True, "repeated": 100})

IN_QUICK_SUITE = (
    "sequential-nighthawk-async-one-trip-trio",
    "sequential-httpx-loop",
    "eight-tools-nighthawk-async-two-trips-trio",
    "burst-1000-nighthawk-async-two-trips-asyncio",
    "server-alone-load-generator",
)
"""One of each way through the machinery: the quick suite looks for crashes."""


def _own_benchmarks() -> Iterator[Benchmark]:
    alone = _Size(operations=32, quick_operations=2, rounds=5)
    yield _benchmark(SERVER_ALONE, BUSY_LOAD, alone, suite="default")
    yield from burst_benchmarks(LOAD, BURST_SIZES)
    for subject in OWN:
        yield from benchmarks_of(subject)
    for subject in FEW_COLLECTIONS:
        yield from burst_benchmarks(subject, (1_000, 10_000), suite="full")
    yield from benchmarks_of(OVER_RESPONSES, burst_sizes=(1_000,), suite="full")
    yield from benchmarks_of(HTTPX_LOOP, burst_sizes=())
    yield from burst_benchmarks(HTTPX_LOOP, SMALL_BURSTS, suite="full")
    yield from benchmarks_of(SINGLE_CONNECTIONS)
    for floor in OTHER_FLOORS:
        yield from benchmarks_of(floor, burst_sizes=(1_000,), suite="full")


WORKLOAD_BENCHMARKS = tuple(
    replace(benchmark, smallest_suite="quick") if benchmark.name in IN_QUICK_SUITE else benchmark
    for benchmark in _own_benchmarks()
)
