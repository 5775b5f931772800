"""Changes in what tool calls await, and in steps that they call."""

import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.policies.shared_objects.bound_objects import ConcurrentMutationError
from tests.unit.policies.gathered_steps import (
    assign,
    evaluate,
    execute,
    holding,
    refusal_of,
    refused,
    step,
    strict_run,
    sync_step,
)

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def helped_run() -> AsyncGenerator[None]:
    """A strict run whose steps can call the functions below."""
    functions = (
        change_between_pauses,
        fail_after_change,
        read_slowly,
        change_in_step,
        change_in_run,
        change_by_executor,
        change_in_sync_step,
        change_in_thread,
    )
    names = {function.__name__: function for function in functions}
    async with strict_run():
        with nh.scope(implicit_references=names):
            yield


async def change_between_pauses(thing: list[int]) -> int:
    await anyio.lowlevel.checkpoint()
    thing.append(2)
    await anyio.lowlevel.checkpoint()
    return len(thing)


async def fail_after_change(thing: list[int]) -> None:
    await anyio.lowlevel.checkpoint()
    thing.append(2)
    raise ValueError("afterwards")


async def read_slowly(thing: list[int]) -> int:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    return len(thing)


@pytest.mark.parametrize(
    "expression",
    ["change_between_pauses(thing)", "await change_between_pauses(thing)", "fail_after_change(thing)"],
)
async def test_a_change_in_what_is_awaited_is_refused_and_undone(expression: str) -> None:
    thing = [1]
    async with helped_run(), holding(thing):
        error = await refusal_of(expression, thing)
    assert error is not None
    assert error.is_restored
    assert thing == [1]


async def test_what_a_refused_call_would_have_awaited_is_closed() -> None:
    thing = [1]
    async with helped_run(), holding(thing):
        assert await refusal_of("[thing.append(2), read_slowly(thing)][1]", thing) is not None
    assert thing == [1]


async def test_statements_that_await_are_watched() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        statements = "await read_slowly(thing)\nthing.append(2)"
        assert await refused(execute(actor, statements)) is not None

    async with helped_run(), holding(thing):
        await step(thing, play)
    assert thing == [1]


async def test_an_assignment_whose_value_is_awaited_is_refused_before_it_is_stored() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        assert await refused(assign(actor, "other", "change_between_pauses(thing)")) is not None
        assert await evaluate(actor, "other") is None

    async with helped_run(), holding(thing):
        await step(thing, play)


async def test_a_call_that_reads_while_another_step_changes_is_not_blamed() -> None:
    thing = [1]
    begun, changed = anyio.Event(), anyio.Event()
    errors: dict[str, object] = {}

    async def read(_: nh.runtime.StepActor) -> None:
        actor = nh.get_current_step_actor()

        async def look() -> None:
            begun.set()
            await changed.wait()

        pending = actor.post_call("look", look)
        errors["reader"] = await refused(actor.settle(pending))

    async def change(actor: nh.runtime.StepActor) -> None:
        await begun.wait()
        errors["changer"] = await refused(evaluate(actor, "change_between_pauses(thing)"))
        changed.set()

    async with helped_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, read)
        task_group.start_soon(step, thing, change)
    assert errors["reader"] is None
    assert isinstance(errors["changer"], ConcurrentMutationError)


async def test_the_program_around_the_steps_may_change_what_they_bind() -> None:
    thing = [1]
    begun, changed = anyio.Event(), anyio.Event()
    errors: list[object] = []

    async def read(actor: nh.runtime.StepActor) -> None:
        async def look() -> None:
            begun.set()
            await changed.wait()

        errors.append(await refused(actor.settle(actor.post_call("look", look))))

    async with helped_run(), holding(thing), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, read)
        await begun.wait()
        thing.append(2)
        changed.set()
    assert errors == [None]
    assert thing == [1, 2]


async def test_what_is_awaited_can_be_cancelled() -> None:
    thing, begun = [1], anyio.Event()
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            ended.append("call")

    async def play(actor: nh.runtime.StepActor) -> None:
        await actor.settle(actor.post_call("wait", wait_for_ever))

    async with helped_run(), holding(thing), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, play)
        await begun.wait()
        task_group.cancel_scope.cancel()
    assert ended == ["call"]


async def change_in_step(
    thing: list[int], told: list[ConcurrentMutationError | None] | None = None
) -> ConcurrentMutationError | None:
    error = await refusal_of("thing.append(2)", thing)
    if told is not None:
        told.append(error)
    return error


async def test_an_inner_step_may_change_what_the_step_that_called_it_has_bound() -> None:
    thing = [1]
    async with helped_run():
        outer: list[object] = []

        async def play(actor: nh.runtime.StepActor) -> None:
            outer.append(await evaluate(actor, "change_in_step(thing)"))

        await step(thing, play)
    assert outer == [None]
    assert thing == [1, 2]


async def change_in_run(thing: list[int]) -> ConcurrentMutationError | None:
    async with strict_run():
        return await change_in_step(thing)


async def test_a_run_inside_a_step_does_not_hide_that_the_step_waits() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        assert await evaluate(actor, "change_in_run(thing)") is None

    async with helped_run():
        await step(thing, play)
    assert thing == [1, 2]


async def change_by_executor(thing: list[int]) -> None:
    async def play(_: nh.runtime.StepActor) -> None:
        await anyio.lowlevel.checkpoint()
        thing.append(2)

    await step(thing, play)


async def test_what_the_executor_of_an_inner_step_does_is_not_blamed_on_the_outer_one() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        assert await refused(evaluate(actor, "change_by_executor(thing)")) is None

    async with helped_run():
        await step(thing, play)
    assert thing == [1, 2]


async def test_two_steps_that_one_step_called_together_are_beside_each_other() -> None:
    thing = [1]
    errors: list[object] = []

    async def play(actor: nh.runtime.StepActor) -> None:
        async with holding(thing):
            errors.append(await evaluate(actor, "change_in_step(thing)"))

    async with helped_run():
        await step(thing, play)
    assert isinstance(errors[0], ConcurrentMutationError)
    assert thing == [1]


async def test_a_step_that_changes_what_a_step_it_called_works_with_is_told() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        async with holding(thing):
            assert await refused(evaluate(actor, "thing.append(2)")) is not None

    async with helped_run():
        await step(thing, play)
    assert thing == [1]


def change_in_sync_step(thing: list[int], told: list[ConcurrentMutationError | None]) -> None:
    async def play(actor: nh.runtime.StepActor) -> None:
        told.append(await refused(evaluate(actor, "thing.append(2)")))

    sync_step(thing, play)


async def change_in_thread(thing: list[int], told: list[ConcurrentMutationError | None]) -> None:
    await nh.blocking(change_in_sync_step)(thing, told)


INNER_STEPS = {
    "async step": "change_in_step(thing, other)",
    "sync step that blocks the loop": "change_in_sync_step(thing, other)",
    "sync step in a worker thread": "change_in_thread(thing, other)",
}


@pytest.mark.filterwarnings("ignore:A synchronous function:RuntimeWarning")
@pytest.mark.parametrize("expression", INNER_STEPS.values(), ids=INNER_STEPS.keys())
@pytest.mark.parametrize("is_held", [False, True])
async def test_of_a_step_and_its_caller_only_the_one_whose_tool_it_was_is_told(
    expression: str, is_held: bool
) -> None:
    thing: list[int] = [1]
    told: list[Any] = []
    outer: list[object] = []

    async def play(actor: nh.runtime.StepActor) -> None:
        outer.append(await refused(evaluate(actor, expression)))

    async with helped_run():
        if is_held:
            async with holding(thing):
                await step(thing, play, told)
        else:
            await step(thing, play, told)
    assert outer == [None]
    assert [error is not None for error in told] == [is_held]
    assert thing == ([1] if is_held else [1, 2])


class Held:
    """Something a call holds while it waits."""


@pytest.mark.virtual_time  # on Trio alone: asyncio leaves cancelled tasks to the collector
async def test_what_a_cancelled_call_held_is_free_at_once() -> None:
    held: list[weakref.ref[Held]] = []

    async def wait_for_ever() -> None:
        thing = Held()
        held.append(weakref.ref(thing))
        await anyio.sleep_forever()

    async def give_up() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(evaluate_other)
            await anyio.wait_all_tasks_blocked()
            task_group.cancel_scope.cancel()

    async def evaluate_other() -> None:
        await step(None, lambda actor: evaluate(actor, "other()"), wait_for_ever)

    async with strict_run():
        gc.collect()
        gc.disable()
        try:
            await give_up()
            assert held[0]() is None
        finally:
            gc.enable()
