"""Rate limits over all workers of a placement together: on a virtual clock, all but the sockets is real."""

from collections import Counter
from functools import partial
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from tests.faults.crowded_server import CrowdedServer
from tests.in_memory_workers import InMemoryWorkers
from tests.rate_functions import MODELS, Answering, ask

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

EXECUTOR = nh.AgentStepExecutor.from_model(model=Answering(nh.Usage()))


async def ask_all(server: CrowdedServer, number: int, *, workers: int = 0, **settings: Any) -> None:
    """Ask so many things at once, on workers or here."""
    MODELS.append(server.model(None, **settings))
    if not workers:
        async with nh.run(EXECUTOR):
            answers = await parallel.map(ask, range(number), max_concurrent=None)
    else:
        calls = -(-number // workers)
        async with InMemoryWorkers(workers, max_concurrent_per_worker=calls) as placement, nh.run(EXECUTOR):
            answers = await parallel.map(ask, range(number), max_concurrent=None, on=placement)
    assert Counter(answers) == {"answered": number}
    MODELS.pop()


async def test_a_crowd_on_workers_is_refused_as_seldom_as_one_of_one_process() -> None:
    server = CrowdedServer(most=20, window_seconds=0.5)
    await ask_all(server, 300, workers=5)
    assert len(server.taken) == 300
    assert server.refused < 310, "the first crowd is refused, and hardly anybody later"


async def test_the_refusal_of_one_worker_holds_up_the_requests_of_all() -> None:
    server = CrowdedServer(most=1, window_seconds=20, retry_after="30")
    await ask_all(server, 4, workers=4, max_retries=10)
    times = sorted(time for time, _ in server.asked)
    assert len([time for time in times if time < times[0] + 30]) == 4


@pytest.mark.parametrize("workers", [0, 4])
async def test_limits_of_the_configuration_count_the_requests_of_all_workers(workers: int) -> None:
    server = CrowdedServer(most=1_000, window_seconds=0.5, answer_seconds=1.0)
    await ask_all(server, 50, workers=workers, requests_per_minute=20, max_concurrent_requests=3)
    times = [time for time, _ in server.asked]
    for begin in times:
        assert len([time for time in times if begin <= time < begin + 60]) <= 20
        assert len([time for time in times if begin <= time < begin + 1.0]) <= 3


async def test_requests_of_the_program_and_of_its_workers_share_the_limits() -> None:
    server = CrowdedServer(most=1_000, window_seconds=0.5)
    MODELS.append(server.model(None, requests_per_minute=5))
    async with InMemoryWorkers(2) as workers, nh.run(EXECUTOR):
        begin = anyio.current_time()
        await parallel.map(ask, range(5), on=workers)
        assert anyio.current_time() < begin + 60
        await ask(6)
        assert anyio.current_time() >= begin + 60
    MODELS.pop()


async def test_a_cancelled_wait_for_a_turn_takes_no_turn() -> None:
    server = CrowdedServer(most=1_000, window_seconds=0.5)
    MODELS.append(server.model(None, requests_per_minute=1))
    async with InMemoryWorkers(2) as workers, nh.run(EXECUTOR):
        begin = anyio.current_time()
        await parallel.map(ask, [0], on=workers)
        with anyio.move_on_after(30):
            await parallel.map(ask, [1, 2], on=workers)
        await parallel.map(ask, [3], on=workers)
        assert begin + 60 <= anyio.current_time() < begin + 61
    MODELS.pop()


async def test_a_lost_worker_leaves_its_place_to_others() -> None:
    server = CrowdedServer(most=1_000, window_seconds=0.5, answer_seconds=100)
    MODELS.append(server.model(None, max_concurrent_requests=1))
    async with InMemoryWorkers(2) as workers, nh.run(EXECUTOR):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(parallel.map, ask, [0], on=workers))
            await anyio.sleep(1)
            for name in workers.workers:
                workers.lose(name)
        assert [round(time - server.asked[0][0]) for time, _ in server.asked] == [0, 1]
    MODELS.pop()
