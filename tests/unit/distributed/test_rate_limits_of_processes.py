"""Limits of requests over worker processes, with a real server that counts."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from tests.budget_functions import act

from .budget_support import DONE, executor_of

pytestmark = pytest.mark.anyio


class InFlight:
    """Counts the requests that are in flight at once, and refuses those that are too many.

    Args:
        most: The number of requests that it answers at once.
    """

    def __init__(self, most: int) -> None:
        self.refused = self.answered = self.most = 0
        self._limit = most
        self._now = 0

    async def __call__(self, request: object) -> ModelReply:
        if self._now >= self._limit:
            self.refused += 1
            return ModelReply(status=429, headers={"retry-after": "0.05"})
        self._now += 1
        self.most = max(self.most, self._now)
        await anyio.sleep(0.01)
        self._now -= 1
        self.answered += 1
        return DONE


async def test_processes_together_keep_the_limits_and_come_back_when_they_are_refused() -> None:
    crowded, calm = InFlight(5), InFlight(1_000)
    async with (
        Processes(2, max_concurrent_per_worker=10) as workers,
        ModelServer(crowded) as crowded_server,
        ModelServer(calm) as calm_server,
    ):
        async with nh.run(executor_of(calm_server.base_url, max_concurrent_requests=3)):
            await parallel.map(act, range(30), on=workers)
        async with nh.run(executor_of(crowded_server.base_url, max_retries=10)):
            await parallel.map(act, range(60), on=workers)
    assert calm.most <= 3
    assert (crowded.answered, crowded.most) == (60, 5)
