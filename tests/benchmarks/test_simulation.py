"""The simulation of many workers: what must hold, whatever happens to them."""

import pytest

from benchmarks.simulation.cluster import Cluster
from benchmarks.simulation.dispatching import simulate_dispatcher
from benchmarks.simulation.driving import drive

CALLS = 100_000


@pytest.mark.parametrize(
    ("cluster", "at_once"),
    [
        (Cluster(), None),
        (Cluster(workers=100, life_seconds=20, cancelled_share=0.1, stubborn_share=0.5), None),
        (Cluster(workers=10, max_concurrent_per_worker=1, call_seconds=0.01, life_seconds=5), 5_000),
    ],
    ids=["many", "failing", "queued"],
)
def test_every_call_ends_once(cluster: Cluster, at_once: int | None) -> None:
    calls = CALLS if at_once is None else CALLS // 10
    account = simulate_dispatcher(cluster, calls, at_once=at_once)
    assert account.problems == []
    assert account.answered + account.cancelled + account.given_up == calls
    assert account.greatest_queue <= (at_once or cluster.capacity)
    assert account.lost_workers > 0


def test_the_same_seed_gives_the_same_events() -> None:
    first, second = (simulate_dispatcher(Cluster(workers=20, life_seconds=20), 5_000) for _ in range(2))
    first.dispatcher_seconds = second.dispatcher_seconds = 0.0
    assert first == second


def test_results_arrive_in_their_places_from_workers_that_are_lost() -> None:
    figures = drive(Cluster(workers=20, life_seconds=30, max_placements=20), 2_000)
    assert figures.right == 2_000
    assert figures.lost_workers > 3
