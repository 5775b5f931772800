"""Which steps count, which objects are within reach, and steps of several threads."""

import threading
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.policies.shared_objects.bound_objects import ConcurrentMutationError
from tests.unit.policies.gathered_steps import (
    Play,
    PlayingExecutor,
    assign,
    evaluate,
    holding,
    refusal_of,
    refused,
    step,
    strict_run,
    sync_step,
)

pytestmark = pytest.mark.anyio


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

    async def hold(_: nh.runtime.StepActor) -> None:
        is_held.set()
        await release.wait()

    async with strict_run(), anyio.create_task_group() as task_group:
        task_group.start_soon(step, thing, hold)
        await is_held.wait()
        error = await refusal_of("thing.append(2)", thing)
        release.set()
    assert "another execution of step" in str(error)


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

    async def hold(_: nh.runtime.StepActor) -> None:
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

    async def play(actor: nh.runtime.StepActor) -> None:
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


async def test_steps_of_other_threads_count() -> None:
    thing = [1]
    errors: list[object] = []

    async def play(actor: nh.runtime.StepActor) -> None:
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
        assert self.changed.wait(240)

    def change(self) -> None:
        assert self.begun.wait(240)
        self.thing.append(2)


@pytest.mark.may_block_event_loop(reason="two calls in two threads wait for each other on purpose")
async def test_of_two_calls_at_once_in_two_threads_either_may_have_made_the_change() -> None:
    meeting = Meeting()
    errors: dict[str, ConcurrentMutationError | None] = {}

    async def read(actor: nh.runtime.StepActor) -> None:
        errors["reader"] = await refused(actor.settle(actor.post_call("read", meeting.watch_and_read)))

    async def change(actor: nh.runtime.StepActor) -> None:
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


async def test_a_refused_assignment_leaves_a_write_binding_unassigned() -> None:
    thing = SimpleNamespace(status="open")

    @nh.natural_function
    async def sell(thing: Any, play: Play) -> None:
        """natural
        Sell <:thing>.
        """

    async def play(actor: nh.runtime.StepActor) -> None:
        assert await refused(assign(actor, "thing.status", "'sold'")) is not None
        assert (await actor.snapshot()).assigned_names == frozenset()

    async with strict_run(), holding(thing):
        await sell(thing, play)
    assert thing.status == "open"
