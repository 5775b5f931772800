"""The peers: what others offer for the same steps, beside this project and the floors below it.

`python -m benchmarks.peers` makes the environments of all peers, so that measuring waits for no installation.
"""

import sys
from collections.abc import Iterator
from functools import partial

from .measure import Benchmark, CannotMeasureHereError
from .peer_environments import interpreter_of
from .rounds import Subject, Workload, carry_out
from .subjects.harness import KINDS
from .workloads import benchmarks_of

__all__ = ["PEERS", "PEER_BENCHMARKS", "SYNC_SCRIPT", "main"]

BURST_SIZES = (1, 10, 100, 1_000, 3_000)
"""Steps of the bursts of peers."""

THREADED_BURST_SIZES = BURST_SIZES[:-1]
"""The same for peers with a thread and a client for each step, of a megabyte: 3 GB for 3,000 steps."""

THREADED = ("netflux", "nightjarpy")


def _peer(name: str, *, kinds: tuple[str, ...] = KINDS) -> Subject:
    program = name.replace("-", "_")
    return Subject(
        name=name,
        program=program,
        kinds=kinds,
        interpreter=partial(interpreter_of, program),
        is_peer=True,
    )


PEERS = (
    _peer("nighthawk-python"),
    _peer("pydantic-ai"),
    _peer("openai-sdk"),
    _peer("netflux"),
    # It has the model call one tool at a time.
    _peer("nightjarpy", kinds=tuple(kind for kind in KINDS if kind != "eight-tools")),
)
"""What is installed for each is in `peer_pins`: the newest versions that fit together on 2026-11-21.

Nightjar imports `typing_inspect` without requiring it, and runs on Python 3.12 at least, though it says 3.10.
"""

PEERS_OF_DURABLE_CALLS = ("dbos",)
"""Peers that ask no model server; see `cases.durable_calls`."""

SYNC_SCRIPT = Workload(
    name="sync-script",
    what="one call of a plain natural function in a script, after the other, at no latency",
    kind="assign",
    warm_up=2,
    metrics=("wall", "cpu", "round_trips", "errors"),
)

SYNC_SUBJECTS = (
    Subject(name="nighthawk-async-sync", program="nighthawk_async_sync"),
    Subject(
        name="nighthawk-python-sync",
        program="nighthawk_python",
        options={"is_sync": True},
        interpreter=partial(interpreter_of, "nighthawk_python"),
        is_peer=True,
    ),
)


def _sync_benchmark(subject: Subject) -> Benchmark:
    return Benchmark(
        name=f"{SYNC_SCRIPT.name}-{subject.name}",
        what=SYNC_SCRIPT.what,
        run=partial(carry_out, SYNC_SCRIPT, subject),
        operations=100,
        quick_operations=4,
        smallest_suite="default",
        is_peer=subject.is_peer,
        is_warmed_up=False,
        workload=SYNC_SCRIPT.name,
        subject=subject.name,
        concurrency=1,
    )


def _benchmarks() -> Iterator[Benchmark]:
    for peer in PEERS:
        sizes = THREADED_BURST_SIZES if peer.name in THREADED else BURST_SIZES
        yield from benchmarks_of(peer, burst_sizes=sizes)
    yield from map(_sync_benchmark, SYNC_SUBJECTS)


PEER_BENCHMARKS = tuple(_benchmarks())


def main() -> int:
    """Make the environments of all peers; say of each what came of it.

    Returns:
        The exit status: 1 when one could not be made.
    """
    status = 0
    others = {name: partial(interpreter_of, name) for name in PEERS_OF_DURABLE_CALLS}
    interpreters = {peer.name: peer.interpreter for peer in PEERS} | others
    for name, find_interpreter in interpreters.items():
        try:
            find_interpreter()
            print(f"{name} is there")
        except CannotMeasureHereError as reason:
            print(f"{name} is not to be had: {reason}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
