"""Which step is told of a change: awaited calls, calls inside calls, siblings, threads, rebound names."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.runtime.concurrent_mutation import ConcurrentMutationError
from nighthawk_async.runtime.scoping import Run
from tests.unit.runtime.gathered_steps import Play, PlayingExecutor, assign, evaluate, execute, refused

pytestmark = pytest.mark.anyio


@nh.natural_function
async def step(thing: Any, play: Play, other: Any = None) -> None:
    """natural
    Work with <thing>.
    """


@nh.natural_function
async def holding_step(item: Any, play: Play) -> None:
    """natural
    Work with <item>.
    """


@asynccontextmanager
async def holding(item: object) -> AsyncGenerator[None]:
    """A step in flight has an object bound."""
    is_held, release = anyio.Event(), anyio.Event()

    async def wait(_: nh.StepActor) -> None:
        is_held.set()
        await release.wait()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(holding_step, item, wait)
        await is_held.wait()
        yield
        release.set()


def strict_run() -> Run:
    return nh.run(PlayingExecutor(), concurrent_mutation="error")


async def refusal_of(expression: str, thing: object, other: object = None) -> ConcurrentMutationError | None:
    """What a step is told that evaluates an expression."""
    errors: list[ConcurrentMutationError | None] = []

    async def play(actor: nh.StepActor) -> None:
        errors.append(await refused(evaluate(actor, expression)))

    await step(thing, play, other)
    return errors[0]


async def test_a_step_of_another_run_counts() -> None:
    thing = [1]
    async with strict_run(), holding(thing), strict_run():
        error = await refusal_of("thing.append(2)", thing)
    assert error is not None
    assert error.report.step.run_id != error.report.other_step.run_id
    assert thing == [1]


async def test_a_step_of_a_run_that_ignores_does_not_count() -> None:
    thing = [1]
    async with nh.run(PlayingExecutor(), concurrent_mutation="ignore"), holding(thing), strict_run():
        assert await refusal_of("thing.append(2)", thing) is None


async def test_two_executions_of_one_block_are_two_steps() -> None:
    thing, is_held, release = [1], anyio.Event(), anyio.Event()

    async def hold(_: nh.StepActor) -> None:
        is_held.set()
        await release.wait()

    async with strict_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, hold)
        await is_held.wait()
        error = await refusal_of("thing.append(2)", thing)
        release.set()
    assert "another execution of step" in str(error)


# --- within reach


async def test_a_local_that_the_block_does_not_bind_is_within_its_reach() -> None:
    other = [1]
    async with strict_run(), holding(other):
        error = await refusal_of("other.append(2)", None, other)
    assert error is not None
    assert error.report.binding == "other"
    assert other == [1]


class Holder:
    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.others: list[int] = []

    @nh.natural_function
    async def work(self, play: Play) -> None:
        """natural
        Work with <self.items>.
        """


@pytest.mark.parametrize(("name", "is_refused"), [("items", True), ("others", False)])
async def test_a_dotted_reference_binds_the_object_it_leads_to(name: str, is_refused: bool) -> None:
    holder, is_held, release = Holder([1]), anyio.Event(), anyio.Event()

    async def hold(_: nh.StepActor) -> None:
        is_held.set()
        await release.wait()

    async with strict_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(holder.work, hold)
        await is_held.wait()
        error = await refusal_of("thing.append(2)", getattr(holder, name))
        release.set()
    assert (error is not None) is is_refused


async def test_a_step_that_binds_a_name_to_another_object_has_that_bound() -> None:
    before, after = [1], [2]
    is_bound, release = anyio.Event(), anyio.Event()

    @nh.natural_function
    async def rebind(target: Any, source: Any, play: Play) -> Any:
        """natural
        Set <:target> from source.
        """
        return target

    async def play(actor: nh.StepActor) -> None:
        await assign(actor, "target", "source")
        is_bound.set()
        await release.wait()

    async with strict_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(rebind, before, after, play)
        await is_bound.wait()
        assert await refusal_of("thing.append(3)", before) is None
        error = await refusal_of("thing.append(3)", after)
        release.set()
    assert error is not None
    assert error.report.other_binding == "target"


# --- what is awaited


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
    async with strict_run(), holding(thing):
        error = await refusal_of(expression, thing)
    assert error is not None
    assert error.is_restored
    assert thing == [1]


async def test_statements_that_await_are_watched() -> None:
    thing = [1]

    async def play(actor: nh.StepActor) -> None:
        statements = "await read_slowly(thing)\nthing.append(2)"
        assert await refused(execute(actor, statements)) is not None

    async with strict_run(), holding(thing):
        await step(thing, play)
    assert thing == [1]


async def test_an_assignment_whose_value_is_awaited_is_refused_before_it_is_stored() -> None:
    thing = [1]

    async def play(actor: nh.StepActor) -> None:
        assert await refused(assign(actor, "other", "change_between_pauses(thing)")) is not None
        assert await evaluate(actor, "other") is None

    async with strict_run(), holding(thing):
        await step(thing, play)


async def test_a_call_that_reads_while_another_step_changes_is_not_blamed() -> None:
    thing = [1]
    begun, changed = anyio.Event(), anyio.Event()
    errors: dict[str, object] = {}

    async def read(_: nh.StepActor) -> None:
        actor = nh.get_current_step_actor()

        async def look() -> None:
            begun.set()
            await changed.wait()

        pending = actor.post_call("look", look)
        errors["reader"] = await refused(actor.settle(pending))

    async def change(actor: nh.StepActor) -> None:
        await begun.wait()
        errors["changer"] = await refused(evaluate(actor, "change_between_pauses(thing)"))
        changed.set()

    async with strict_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, read)
        task_group.start_soon(step, thing, change)
    assert errors["reader"] is None
    assert isinstance(errors["changer"], ConcurrentMutationError)


async def test_the_program_around_the_steps_may_change_what_they_bind() -> None:
    thing = [1]
    begun, changed = anyio.Event(), anyio.Event()
    errors: list[object] = []

    async def read(actor: nh.StepActor) -> None:
        async def look() -> None:
            begun.set()
            await changed.wait()

        errors.append(await refused(actor.settle(actor.post_call("look", look))))

    async with strict_run(), holding(thing), anyio.create_task_group() as task_group:
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

    async def play(actor: nh.StepActor) -> None:
        await actor.settle(actor.post_call("wait", wait_for_ever))

    async with strict_run(), holding(thing), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, play)
        await begun.wait()
        task_group.cancel_scope.cancel()
    assert ended == ["call"]


# --- steps that call steps


async def change_in_step(thing: list[int]) -> ConcurrentMutationError | None:
    return await refusal_of("thing.append(2)", thing)


async def test_an_inner_step_may_change_what_the_step_that_called_it_has_bound() -> None:
    thing = [1]
    async with strict_run():
        outer: list[object] = []

        async def play(actor: nh.StepActor) -> None:
            outer.append(await evaluate(actor, "change_in_step(thing)"))

        await step(thing, play)
    assert outer == [None]
    assert thing == [1, 2]


async def change_in_run(thing: list[int]) -> ConcurrentMutationError | None:
    async with strict_run():
        return await change_in_step(thing)


async def test_a_run_inside_a_step_does_not_hide_that_the_step_waits() -> None:
    thing = [1]

    async def play(actor: nh.StepActor) -> None:
        assert await evaluate(actor, "change_in_run(thing)") is None

    async with strict_run():
        await step(thing, play)
    assert thing == [1, 2]


async def test_two_steps_that_one_step_called_together_are_beside_each_other() -> None:
    thing = [1]
    errors: list[object] = []

    async def play(actor: nh.StepActor) -> None:
        async with holding(thing):
            errors.append(await evaluate(actor, "change_in_step(thing)"))

    async with strict_run():
        await step(thing, play)
    assert isinstance(errors[0], ConcurrentMutationError)
    assert thing == [1]


async def test_a_step_that_changes_what_a_step_it_called_works_with_is_told() -> None:
    thing = [1]

    async def play(actor: nh.StepActor) -> None:
        async with holding(thing):
            assert await refused(evaluate(actor, "thing.append(2)")) is not None

    async with strict_run():
        await step(thing, play)
    assert thing == [1]


# --- threads


@nh.natural_function
def sync_step(thing: Any, play: Play) -> None:
    """natural
    Work with <thing>.
    """


async def test_steps_of_other_threads_count() -> None:
    thing = [1]
    errors: list[object] = []

    async def play(actor: nh.StepActor) -> None:
        errors.append(await refused(evaluate(actor, "thing.append(2)")))

    def in_thread() -> None:
        with strict_run():
            sync_step(thing, play)

    async with strict_run(), holding(thing):
        thread = threading.Thread(target=in_thread)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert isinstance(errors[0], ConcurrentMutationError)
    assert errors[0].is_restored
    assert thing == [1]


class Meeting:
    """Two calls in two threads, each of which waits for the other before it goes on."""

    def __init__(self) -> None:
        self.begun, self.changed = threading.Event(), threading.Event()
        self.thing = [1]

    def watch_and_read(self) -> None:
        self.begun.set()
        assert self.changed.wait(10)

    def change(self) -> None:
        assert self.begun.wait(10)
        self.thing.append(2)


@pytest.mark.may_block_event_loop(reason="two calls in two threads wait for each other on purpose")
async def test_of_two_calls_at_once_in_two_threads_either_may_have_made_the_change() -> None:
    meeting = Meeting()
    errors: dict[str, ConcurrentMutationError | None] = {}

    async def read(actor: nh.StepActor) -> None:
        errors["reader"] = await refused(actor.settle(actor.post_call("read", meeting.watch_and_read)))

    async def change(actor: nh.StepActor) -> None:
        errors["changer"] = await refused(actor.settle(actor.post_call("change", meeting.change)))
        meeting.changed.set()

    def in_thread() -> None:
        with strict_run():
            sync_step(meeting.thing, change)

    thread = threading.Thread(target=in_thread)
    async with strict_run(), holding(meeting.thing):
        thread.start()
        await step(meeting.thing, read)
        await anyio.to_thread.run_sync(thread.join)
    error = errors["changer"]
    assert error is not None
    assert error.report.rival_step is not None
    assert error.report.rival_step.step_id != error.report.other_step.step_id
    assert "or step" in error.message
    assert not error.is_restored
    assert "could not be undone" in error.message
    assert errors["reader"] is None
    assert meeting.thing == [1, 2]
