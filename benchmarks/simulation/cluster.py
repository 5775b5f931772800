"""The model: how long calls take, how messages travel, how workers fail, and who cancels."""

import random
from dataclasses import dataclass

__all__ = ["Cluster", "Fate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What is simulated. Times are in seconds of virtual time.

    Args:
        seed: The seed of everything that is random.
        workers: The number of workers.
        max_concurrent_per_worker: The greatest number of calls on one worker at once.
        max_placements: The greatest number of times that a call is placed.
        call_seconds: The mean time of a call; exponentially distributed, as waiting for a model is.
        latency_seconds: The mean time of a message on its way; exponentially distributed, in order.
        life_seconds: The mean life of a worker; exponentially distributed.
        start_seconds: The time until a worker in place of a lost one is ready.
        cancelled_share: The share of calls that are cancelled, at a random moment.
        stubborn_share: The share of the cancelled calls that go on until their worker is ended.
        grace_seconds: The time that a cancelled call has to end.
    """

    seed: int = 0
    workers: int = 1_000
    max_concurrent_per_worker: int = 8
    max_placements: int = 3
    call_seconds: float = 2.0
    latency_seconds: float = 0.001
    life_seconds: float = 3_600.0
    start_seconds: float = 10.0
    cancelled_share: float = 0.001
    stubborn_share: float = 0.1
    grace_seconds: float = 5.0

    @property
    def capacity(self) -> int:
        """The number of calls that all workers make at once."""
        return self.workers * self.max_concurrent_per_worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What happens to one call.

    Args:
        seconds: How long it takes on a worker.
        cancelled_after: The time after its submission at which it is cancelled; None for never.
        is_stubborn: Whether it goes on then.
    """

    seconds: float
    cancelled_after: float | None
    is_stubborn: bool

    @classmethod
    def draw(cls, cluster: Cluster, chance: random.Random) -> "Fate":
        """Draw the fate of the next call."""
        seconds = chance.expovariate(1 / cluster.call_seconds)
        if chance.random() >= cluster.cancelled_share:
            return cls(seconds=seconds, cancelled_after=None, is_stubborn=False)
        after = chance.uniform(0, 2 * cluster.call_seconds)
        return cls(
            seconds=seconds, cancelled_after=after, is_stubborn=chance.random() < cluster.stubborn_share
        )
