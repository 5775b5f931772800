"""Values of steps on workers while their models' answers stream."""

from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.hooks import PartialValues
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_steps import listen, piecemeal_agent

pytestmark = pytest.mark.anyio


async def test_partial_values_of_workers_reach_their_reader() -> None:
    seen: list[PartialValues] = []

    async def read(partials: Any) -> None:
        seen.extend([each async for each in partials])

    async with (
        nh.run(piecemeal_agent()),
        InMemoryWorkers(1) as workers,
        anyio.create_task_group() as group,
        nh.partial_values() as partials,
    ):
        group.start_soon(read, partials)
        assert await parallel.map(listen, ["a"], on=workers) == ["one two three"]
    assert seen[-1].is_final
    assert seen[-1].values == {"said": "one two three"}
    assert seen[-1].execution_ref.step_id is not None


async def test_hooks_of_the_program_see_partial_values_of_workers() -> None:
    seen: list[str] = []
    hooks = nh.Hooks()

    @hooks.on(PartialValues)
    async def note(event: PartialValues) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(event.values.get("said", ""))

    async with nh.run(piecemeal_agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        await parallel.map(listen, ["a"], on=workers)
    assert seen[-1] == "one two three"
    assert all("one two three".startswith(each) for each in seen)
