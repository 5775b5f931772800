"""How far the guard looks, and what it says when it cannot put an object back."""

from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.runtime.concurrent_mutation import ConcurrentMutationError
from nighthawk_async.runtime.mutation_watch import (
    MAX_WATCHED_DEPTH,
    MAX_WATCHED_ITEMS,
    MAX_WATCHED_OBJECTS,
)
from tests.unit.runtime.gathered_steps import (
    execute,
    holding,
    refusal_of,
    refused,
    step,
    strict_run,
)

pytestmark = pytest.mark.anyio


async def test_an_object_too_large_to_be_remembered_is_compared_by_its_size_and_stays_changed() -> None:
    thing = [0] * (MAX_WATCHED_ITEMS + 1)
    async with strict_run(), holding(thing):
        assert await refusal_of("thing.__setitem__(0, 1)", thing) is None
        error = await refusal_of("thing.append(1)", thing)
    assert error is not None
    assert not error.is_restored
    assert thing[-1] == 1


async def test_changes_are_looked_for_four_objects_deep() -> None:
    depths = range(MAX_WATCHED_DEPTH + 2)
    thing: list[Any] = []
    for _ in depths:
        thing = [thing]
    told: list[bool] = []
    async with strict_run(), holding(thing):
        for depth in depths:
            error = await refusal_of(f"thing{'[0]' * depth}.append(1)", thing)
            told.append(error is not None)
    assert told == [depth <= MAX_WATCHED_DEPTH for depth in depths]


async def test_of_many_objects_the_first_are_looked_at() -> None:
    thing: list[list[int]] = [[] for _ in range(2 * MAX_WATCHED_OBJECTS)]
    async with strict_run(), holding(thing):
        assert await refusal_of("thing[0].append(1)", thing) is not None
        assert await refusal_of("thing[-1].append(1)", thing) is None


async def test_objects_that_hold_each_other_are_looked_at_once() -> None:
    thing: list[Any] = [1]
    thing.append({"self": thing})
    async with strict_run(), holding(thing):
        assert await refusal_of("repr(thing)", thing) is None
        error = await refusal_of("thing[1].clear()", thing)
    assert error is not None
    assert thing[1]["self"] is thing


class Stubborn:
    """Keys of a dictionary that cannot be put in again."""

    is_broken = False

    def __hash__(self) -> int:
        if self.is_broken:
            raise ValueError("no hash today")
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


async def test_what_cannot_be_put_back_is_said_not_to_be() -> None:
    key = Stubborn()
    thing = {key: 1}

    async def play(actor: nh.StepActor) -> None:
        error = await refused(execute(actor, "next(iter(thing)).is_broken = True; thing.clear()"))
        assert error is not None
        assert not error.is_restored

    async with strict_run(), holding(thing):
        await step(thing, play)


async def test_a_step_that_has_ended_is_nobody_s_caller() -> None:
    thing, may_go_on = [1], anyio.Event()
    told: list[object] = []

    async def later() -> None:
        await may_go_on.wait()
        async with holding(thing):
            told.append(await refusal_of("thing.append(2)", thing))

    async with strict_run() as run:

        async def play(_: nh.StepActor) -> None:
            run.task_group.start_soon(later)

        await step(thing, play)
        may_go_on.set()
    assert isinstance(told[0], ConcurrentMutationError)
