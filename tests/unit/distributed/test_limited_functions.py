"""Functions with `rate_limit` on workers: their calls count in the program."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from tests.in_memory_workers import InMemoryWorkers
from tests.rate_functions import Answering, act_within, calm, calm_too, search_or_fail

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_calls_begin_in_the_numbers_of_one_process_also_outside_of_runs() -> None:
    async with InMemoryWorkers(3) as workers:
        begin = await calm(0)
        times = await parallel.map(calm, range(7), on=workers)
    assert sorted(int(time - begin) for time in times) == [0, 0, 60, 60, 60, 120, 120]


async def test_functions_in_threads_wait_in_the_program_too() -> None:
    begin = anyio.current_time()
    async with InMemoryWorkers(2) as workers:
        assert await parallel.map(search_or_fail, range(3), on=workers) == [0, 1, 2]
        assert anyio.current_time() < begin + 60


async def test_a_cancelled_wait_uses_nothing() -> None:
    async with InMemoryWorkers(2) as workers:
        begin = anyio.current_time()
        await parallel.map(calm_too, range(3), on=workers)
        with anyio.move_on_after(30):
            await parallel.map(calm_too, range(3), on=workers)
        times = await parallel.map(calm_too, range(3), on=workers)
    assert {int(time - begin) for time in times} == {60}


async def test_the_tokens_of_a_call_count_in_place_of_what_it_has_reserved() -> None:
    used = nh.Usage(requests=1, input_tokens=90, output_tokens=10)
    begin = anyio.current_time()
    async with InMemoryWorkers(1) as workers, nh.run(nh.AgentStepExecutor.from_model(model=Answering(used))):
        times = await parallel.map(act_within, range(12), on=workers, max_concurrent=1)
    # After nine calls 900 tokens count, and 400 more would be too many from the seventh on.
    assert [int(time - begin) for time in times] == [0] * 7 + [60] * 5
