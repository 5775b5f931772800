"""`python -m benchmarks.simulation`: what the program does for many workers, and where it ends.

    python -m benchmarks.simulation            1,000 workers, 10 million calls: about five minutes
    python -m benchmarks.simulation --quick    100,000 calls: some seconds

Nothing of it is random: the same seed gives the same events.
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence

from .. import resident_memory
from .cluster import Cluster
from .dispatching import Account, simulate_dispatcher
from .driving import drive

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and print what has happened; the status is 1 if something has happened that must not.

    Args:
        arguments: The arguments; None for the command line's.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation")
    parser.add_argument("--quick", action="store_true", help="100,000 calls instead of 10 million")
    parser.add_argument("--seed", type=int, default=0, help="the seed of everything that is random")
    chosen = parser.parse_args(arguments)
    calls = 100_000 if chosen.quick else 10_000_000
    cluster = Cluster(seed=chosen.seed)
    worse = Cluster(seed=chosen.seed, life_seconds=60.0, cancelled_share=0.05)
    problems = [
        *_dispatch("The dispatcher alone", cluster, calls),
        *_dispatch("Workers that live for a minute, 5 % of the calls cancelled", worse, calls // 10),
        *_dispatch("All calls submitted at once", cluster, calls // 10, at_once=calls // 10),
        *_drive("The whole program's side, through parallel.map", cluster, calls // 50),
    ]
    for problem in problems:
        print("WRONG:", problem, file=sys.stderr)
    return 1 if problems else 0


def _dispatch(title: str, cluster: Cluster, calls: int, *, at_once: int | None = None) -> list[str]:
    simulate_dispatcher(cluster, 1_000)  # imports and caches
    before, began = resident_memory.now(), time.process_time()
    account = simulate_dispatcher(cluster, calls, at_once=at_once)
    taken = time.process_time() - began
    _print(
        title,
        cluster,
        calls,
        f"{account.answered:,} answered, {account.cancelled:,} cancelled, "
        f"{account.given_up:,} given up after {cluster.max_placements} placements",
        f"{account.lost_workers:,} workers lost, {account.killed_workers:,} of them ended for a call; "
        f"{account.placed:,} placements",
        f"{account.virtual_seconds:,.0f} seconds of virtual time: "
        f"{calls / account.virtual_seconds:,.0f} calls per second",
        f"dispatcher: {account.dispatcher_seconds / calls * 1e6:.1f} µs per call; with the simulation "
        f"{taken / calls * 1e6:.1f} µs",
        f"at most {account.greatest_queue:,} calls waited; memory "
        f"+{(resident_memory.now() - before) / 1e6:.0f} MB, peak of the process {_peak_megabytes():.0f} MB",
    )
    return [*account.problems, *_missing(account, calls)]


def _missing(account: Account, calls: int) -> list[str]:
    return [] if account.ended == calls else [f"{calls - account.ended} calls have not ended"]


def _drive(title: str, cluster: Cluster, calls: int) -> list[str]:
    figures = drive(cluster, calls)
    _print(
        title,
        cluster,
        calls,
        f"{figures.right:,} results in their places; {figures.lost_workers:,} workers lost",
        f"{figures.virtual_seconds:,.0f} seconds of virtual time: "
        f"{calls / figures.virtual_seconds:,.0f} calls per second",
        f"{figures.cpu_seconds / calls * 1e6:.0f} µs of processor time per call, that of the model included: "
        f"one program gives out at most {calls / figures.cpu_seconds:,.0f} calls per second",
        f"memory +{figures.memory_growth / 1e6:.1f} MB, the list of results included",
    )
    return [] if figures.right == calls else [f"{calls - figures.right} results are missing or wrong"]


def _print(title: str, cluster: Cluster, calls: int, *lines: str) -> None:
    print(f"{title}: {calls:,} calls on {cluster.workers:,} workers of {cluster.max_concurrent_per_worker}")
    print(*(f"  {line}" for line in lines), sep="\n", flush=True)


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


if __name__ == "__main__":
    sys.exit(main())
