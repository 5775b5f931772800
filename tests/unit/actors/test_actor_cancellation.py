"""Cancellations around actors: of askers, of tellers, of what handlers await, and of asyncio's own."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

from nighthawk_async.actors import (
    ActorHandle,
    ForeignCancellationError,
    Restart,
    Supervisor,
    open_actor,
)
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.test_foreign_cancellation import await_something_cancelled, only_asyncio

pytestmark = pytest.mark.anyio


class Careless(Counter):
    """Awaits what others have cancelled."""

    async def stumble(self) -> None:
        await await_something_cancelled()


@only_asyncio
async def test_the_cancellation_of_what_a_handler_awaits_is_an_error_that_its_asker_gets() -> None:
    log: list[str] = []
    async with open_actor(partial(Careless, log)) as careless:
        with pytest.raises(ForeignCancellationError):
            await careless.ask(Careless.stumble)
        await careless.wait_ended()
        log.append("the block goes on")
    assert log == ["started", "stopping", "the block goes on"]


@only_asyncio
async def test_the_cancellation_of_what_a_handler_awaits_is_raised_from_the_block_when_nobody_asked() -> None:
    async def run() -> None:
        async with open_actor(Careless) as careless:
            await careless.tell(Careless.stumble)
            await anyio.sleep_forever()

    with pytest.raises(ForeignCancellationError):
        await run()


@only_asyncio
async def test_the_cancellation_of_what_a_handler_awaits_may_be_an_answer_only() -> None:
    class Tolerant(Careless):
        answers = (ForeignCancellationError,)

    async with open_actor(Tolerant) as tolerant:
        with pytest.raises(ForeignCancellationError):
            await tolerant.ask(Tolerant.stumble)
        assert await tolerant.ask(Tolerant.add, 1) == 1


@only_asyncio
async def test_the_cancellation_of_what_a_handler_awaits_is_a_crash_that_a_supervisor_restarts() -> None:
    async with Supervisor() as supervisor:
        at_once = Restart(backoff_seconds=0, jitter_seconds=0)
        careless = supervisor.start_actor("careless", Careless, restart=at_once)
        with pytest.raises(ForeignCancellationError):
            await careless.ask(Careless.stumble)
        assert await careless.ask(Careless.add, 1) == 1
        assert careless.statistics().lives == 2


@only_asyncio
@pytest.mark.parametrize("hook", ["started", "stopping"])
async def test_the_cancellation_of_what_a_hook_awaits_is_a_crash(hook: str) -> None:
    class Broken(Counter):
        pass

    async def run() -> None:
        async with open_actor(Broken) as broken:
            await broken.stop()
            await anyio.sleep_forever()

    setattr(Broken, hook, lambda self: await_something_cancelled())
    with pytest.raises(ForeignCancellationError):
        await run()


@only_asyncio
@pytest.mark.parametrize("is_host_first", [False, True])
@pytest.mark.parametrize("send", [ActorHandle[Counter].ask, ActorHandle[Counter].tell])
async def test_a_block_that_asyncio_cancels_together_with_its_actor_ends_cancelled(
    send: Callable[..., Awaitable[object]], is_host_first: bool
) -> None:
    log: list[str] = []

    async def host() -> None:
        async with open_actor(partial(Counter, log, gate=anyio.Event())) as counter:
            await send(counter, Counter.wait)
            await anyio.sleep_forever()

    before = asyncio.all_tasks()
    task = await start_task(host())
    tasks = sorted(asyncio.all_tasks() - before, key=lambda each: each is task, reverse=is_host_first)
    assert len(tasks) == 2
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    assert task.cancelled()
    assert log == ["started", "wait", "stopping"]


async def test_a_crash_whose_asker_is_cancelled_in_that_moment_is_raised_from_the_block() -> None:
    scope = anyio.CancelScope()

    async def cancel_asker_and_crash(counter: Counter) -> None:
        scope.cancel()
        raise ValueError("crash")

    async def run() -> None:
        async with open_actor(Counter) as counter:
            with scope:
                await counter.ask(cancel_asker_and_crash)
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="crash"):
        await run()


@only_asyncio
async def test_a_crash_whose_asker_asyncio_cancels_after_it_was_woken_is_raised_from_the_block() -> None:
    async def cancel_asker_and_crash(counter: Counter) -> None:
        asyncio.get_running_loop().call_soon(tasks[0].cancel)  # comes before the turn of the asker
        raise ValueError("crash")

    async def run() -> None:
        async with open_actor(Counter) as counter:
            tasks.append(asyncio.create_task(counter.ask(cancel_asker_and_crash)))
            await anyio.sleep_forever()

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(ValueError, match="crash"):
        await run()
    assert tasks[0].cancelled()


async def test_an_answer_whose_asker_is_cancelled_in_that_moment_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scope = anyio.CancelScope()

    async def cancel_asker_and_miss(counter: Counter) -> None:
        scope.cancel()
        raise KeyError("miss")

    async with open_actor(Counter) as counter:
        with scope:
            await counter.ask(cancel_asker_and_miss)
        assert await counter.ask(Counter.add, 1) == 1
    (record,) = caplog.records
    assert record.message.endswith("cancel_asker_and_miss failed, and no caller received the error")


@only_asyncio
async def test_a_message_of_an_asker_that_asyncio_cancels_is_handled_to_its_end_or_never() -> None:
    gate = anyio.Event()
    log: list[str] = []
    async with open_actor(partial(Counter, log, gate=gate)) as counter:
        taken = await start_task(counter.ask(Counter.wait, "taken"))
        not_taken = await start_task(counter.ask(Counter.add, 1))
        for task in (taken, not_taken):
            task.cancel()
        await asyncio.wait((taken, not_taken))
        gate.set()
    assert taken.cancelled()
    assert not_taken.cancelled()
    assert log == ["started", "taken", "stopping"]
    figures = counter.statistics()
    assert (figures.handled, figures.abandoned, figures.failed) == (1, 1, 0)


@only_asyncio
async def test_a_teller_that_asyncio_cancels_while_it_waits_for_room_has_sent_nothing() -> None:
    gate = anyio.Event()
    log: list[str] = []
    async with open_actor(partial(Counter, log, gate=gate), capacity=1) as counter:
        await counter.tell(Counter.wait)
        await anyio.wait_all_tasks_blocked()
        await counter.tell(Counter.add, 1)
        telling = await start_task(counter.tell(Counter.add, 2))
        telling.cancel()
        await asyncio.wait((telling,))
        gate.set()
    assert telling.cancelled()
    assert log == ["started", "wait", "add 1", "stopping"]


async def start_task(awaitable: Awaitable[object]) -> "asyncio.Task[object]":
    """Start a task of asyncio, which no cancel scope knows, and wait until it waits."""

    async def run() -> object:
        return await awaitable

    task = asyncio.create_task(run())
    await anyio.wait_all_tasks_blocked()
    return task
