"""Supervised actors that are closed or stopped by their handles, while they live and between two lives."""

from functools import partial

import anyio
import pytest

from nighthawk_async.actors import ActorEndedError, ActorHandle, Restart, Supervisor, SupervisorStrategy
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio

SOON = Restart(backoff_seconds=0.01, jitter_seconds=0)
LATER = Restart(backoff_seconds=1000, max_backoff_seconds=1000, jitter_seconds=0)


class Fragile(Counter):
    """Fails when it stops."""

    async def stopping(self) -> None:
        await super().stopping()
        raise ValueError("stopping")


async def pause(supervisor: Supervisor, log: list[str], gate: anyio.Event) -> ActorHandle[Counter]:
    """An actor that is restarted along with a sibling once its message is handled; another one waits."""
    counter = supervisor.start_actor("counter", partial(Counter, log, gate=gate), restart=SOON)
    bad = supervisor.start_actor("bad", Counter, restart=SOON)
    await counter.tell(Counter.wait)
    await counter.tell(Counter.add, 1)
    await bad.tell(Counter.crash)
    await anyio.wait_all_tasks_blocked()
    assert supervisor.children[0].is_stopping
    return counter


@pytest.mark.parametrize("is_waited_for", [True, False])
async def test_an_actor_that_is_closed_while_it_is_restarted_along_handles_what_was_sent(
    is_waited_for: bool,
) -> None:
    log: list[str] = []
    gate = anyio.Event()
    async with Supervisor(strategy="one_for_all") as supervisor, anyio.create_task_group() as task_group:
        counter = await pause(supervisor, log, gate)
        if is_waited_for:
            await start(task_group, counter.stop)
        else:
            counter.close()
        gate.set()
        await counter.wait_ended()
        assert supervisor.children[0].status == "stopped"
    assert log == ["started", "wait", "stopping", "started", "add 1", "stopping"]
    assert counter.statistics().refused == 0


async def test_an_actor_that_is_closed_while_it_is_restarted_along_does_not_live_again_for_nothing() -> None:
    log: list[str] = []
    async with Supervisor(strategy="one_for_all") as supervisor:
        counter = await pause(supervisor, log, anyio.Event())
        counter.stop_now()
        await counter.wait_ended()
        assert supervisor.children[0].status == "stopped"
    assert log == ["started", "wait", "stopping"]
    assert counter.statistics().refused == 1


async def test_an_actor_that_is_stopped_at_once_refuses_what_waits_at_once() -> None:
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        gate = anyio.Event()

        class Slow(Counter):
            async def stopping(self) -> None:
                await gate.wait()

        slow = supervisor.start_actor("slow", partial(Slow, gate=anyio.Event()))
        await slow.tell(Slow.wait)
        waiting = await start(task_group, lambda: slow.ask(Slow.add, 1))
        slow.stop_now()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(waiting.result, ActorEndedError)
        assert slow.status == "running"
        gate.set()


@pytest.mark.parametrize("is_now", [True, False])
async def test_an_actor_that_fails_in_the_end_after_it_was_closed_is_not_restarted(is_now: bool) -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        fragile = supervisor.start_actor("fragile", partial(Fragile, log), restart=SOON)
        await fragile.ask(Fragile.add, 1)
        if is_now:
            fragile.stop_now()
        await fragile.stop()
        assert (supervisor.children[0].status, supervisor.statistics().failures) == ("failed", 1)
    assert log == ["started", "add 1", "stopping"]


async def test_a_closed_actor_that_crashes_is_restarted_for_what_was_sent_before() -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", partial(Counter, log), restart=SOON)
        await counter.tell(Counter.crash)
        await counter.tell(Counter.add, 1)
        await counter.tell(Counter.crash)
        await counter.stop()
        assert supervisor.children[0].status == "failed"
    assert log == ["started", "stopping", "started", "add 1", "stopping"]


async def crash(supervisor: Supervisor, log: list[str]) -> ActorHandle[Counter]:
    """An actor that has crashed and would be restarted much later."""
    counter = supervisor.start_actor("counter", partial(Counter, log), restart=LATER)
    await counter.tell(Counter.crash)
    await anyio.wait_all_tasks_blocked()
    assert counter.status == "waiting"
    return counter


@pytest.mark.parametrize("circuit_open_seconds", [None, 1000])
@pytest.mark.parametrize("is_now", [True, False])
async def test_an_actor_that_is_closed_between_two_lives_ends_when_nothing_waits(
    is_now: bool, circuit_open_seconds: float | None
) -> None:
    log: list[str] = []
    max_restarts = 5 if circuit_open_seconds is None else 0
    async with (
        Supervisor(max_restarts=max_restarts, circuit_open_seconds=circuit_open_seconds) as supervisor,
        anyio.create_task_group() as task_group,
    ):
        counter = await crash(supervisor, log)
        waiting = await start(task_group, supervisor.wait_ended)
        if is_now:
            await counter.tell(Counter.add, 1)
            counter.stop_now()
        else:
            counter.close()
        await counter.wait_ended()
        await anyio.wait_all_tasks_blocked()
        assert waiting.result is None
        assert (supervisor.children[0].status, supervisor.statistics().restarts) == ("suppressed", 0)
        supervisor.forget_child("counter")
    assert log == ["started", "stopping"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_an_actor_that_is_closed_between_two_lives_lives_at_once_for_what_waits(
    strategy: SupervisorStrategy,
) -> None:
    log: list[str] = []
    async with Supervisor(strategy=strategy) as supervisor:
        counter = await crash(supervisor, log)
        await counter.tell(Counter.add, 1)
        await counter.stop()
        assert (supervisor.children[0].status, supervisor.statistics().restarts) == ("stopped", 1)
    assert log == ["started", "stopping", "started", "add 1", "stopping"]


async def test_an_actor_that_is_closed_before_its_first_life_lives_once() -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", partial(Counter, log))
        counter.close()
        await counter.wait_ended()
        assert supervisor.children[0].status == "stopped"
    assert log == ["started", "stopping"]


async def test_an_actor_that_waits_is_not_touched_by_the_end_of_an_earlier_one_of_its_name() -> None:
    async with Supervisor() as supervisor:
        old = supervisor.start_actor("counter", Counter)
        await supervisor.stop_child("counter")
        counter = await crash(supervisor, [])
        old.close()
        old.stop_now()
        await anyio.wait_all_tasks_blocked()
        assert (counter.status, supervisor.children[0].status) == ("waiting", "waiting")
    counter.close()  # after its end, outside of everything
