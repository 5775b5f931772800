"""Usage of calls on workers, counted in the program as it happens."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import WorkerLostError
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer
from tests.budget_functions import act, act_and_wait, act_twice
from tests.in_memory_workers import InMemoryWorkers

from .budget_support import DONE, USED, executor_of, until

pytestmark = pytest.mark.anyio


async def test_requests_and_steps_count_in_the_run_and_the_scope_of_the_caller() -> None:
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers() as workers,
        nh.run(executor_of(server.base_url)) as run,
    ):
        with nh.scope():
            await parallel.map(act_twice, range(3), on=workers)
            inside = nh.get_usage_meter()
        await act(0)
    assert (run.usage_meter.steps, run.usage_meter.usage.requests) == (7, 7)
    assert (inside.steps, inside.usage.input_tokens) == (6, 6 * USED.input_tokens)
    assert inside.usage_by_model.keys() == {"openai-chat:m"}


async def test_corrections_count() -> None:
    replies = [ModelReply(text="nonsense"), DONE]
    async with (
        ModelServer(replies) as server,
        InMemoryWorkers() as workers,
        nh.run(executor_of(server.base_url)) as run,
    ):
        await parallel.map(act, [0], on=workers)
    assert sum(run.usage_meter.corrections.values()) == 1
    assert run.usage_meter.usage.requests == 2


async def test_what_was_consumed_counts_while_the_call_goes_on_and_when_it_is_cancelled() -> None:
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers() as workers,
        nh.run(executor_of(server.base_url)) as run,
        anyio.create_task_group() as group,
    ):
        group.start_soon(parallel.call_placed, workers, act_and_wait, 0)
        await until(lambda: run.usage_meter.usage.requests == 1)
        group.cancel_scope.cancel()
    assert (run.usage_meter.steps, run.usage_meter.usage.requests) == (1, 1)


async def test_what_a_lost_worker_has_consumed_counts_and_what_the_next_one_consumes_too() -> None:
    async with (
        ModelServer(lambda _: DONE) as server,
        InMemoryWorkers(1, max_placements=2) as workers,
        nh.run(executor_of(server.base_url)) as run,
        anyio.create_task_group() as group,
    ):

        async def call() -> None:
            with pytest.raises(WorkerLostError):
                await parallel.call_placed(workers, act_and_wait, 0)

        group.start_soon(call)
        for requests in (1, 2):
            await until(lambda requests=requests: run.usage_meter.usage.requests == requests)
            workers.lose(*workers.workers)
    assert (run.usage_meter.steps, run.usage_meter.usage.requests) == (2, 2)
