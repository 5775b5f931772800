"""Supervised actors: the handle and what waits in the mailbox outlive a crash."""

from functools import partial

import anyio
import pytest

from nighthawk_async.actors import (
    Actor,
    ActorChild,
    ActorEndedError,
    ActorInterruptedError,
    Child,
    Restart,
    RestartLimitError,
    Supervisor,
)
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio

AT_ONCE = Restart(backoff_seconds=0, jitter_seconds=0)


class Desk(Actor):
    def __init__(self, place: str, number: int = 0) -> None:
        self.place = place
        self.number = number

    async def where(self) -> tuple[str, int]:
        return self.place, self.number

    async def fail(self) -> None:
        raise LookupError("lost")


async def test_arguments_of_the_actor_follow_its_class() -> None:
    async with Supervisor() as supervisor:
        desk = supervisor.start_actor("desk", Desk, "front", 2, restart=AT_ONCE)
        assert await desk.ask(Desk.where) == ("front", 2)
        with pytest.raises(LookupError):
            await desk.ask(Desk.fail)
        assert await desk.ask(Desk.where) == ("front", 2)  # a new instance with the same arguments
        with pytest.raises(TypeError, match="callable"):
            supervisor.start_actor("other", "Desk", "front")  # type: ignore[arg-type]


async def test_a_crashed_actor_gets_a_new_instance_and_its_askers_notice_one_error() -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", partial(Counter, log), restart=AT_ONCE)
        assert await counter.ask(Counter.add, 5) == 5
        with pytest.raises(ValueError, match="crash"):
            await counter.ask(Counter.crash)
        assert await counter.ask(Counter.add, 1) == 1
        assert counter.statistics().lives == 2
    assert log == ["started", "add 5", "stopping", "started", "add 1", "stopping"]
    assert counter.status == "ended"


@pytest.mark.virtual_time
async def test_messages_that_wait_survive_a_crash_and_its_delay() -> None:
    restart = Restart(backoff_seconds=3, jitter_seconds=0)
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        counter = supervisor.start_actor("counter", Counter, restart=restart)
        await counter.tell(Counter.crash)
        first = await start(task_group, lambda: counter.ask(Counter.add, 1))
        second = await start(task_group, lambda: counter.ask(Counter.add, 2))
        assert (counter.status, first.result) == ("waiting", "nothing")
        assert supervisor.children[0].status == "waiting"
        await anyio.sleep(4)
        assert (first.result, second.result, counter.status) == (1, 3, "running")


async def test_when_the_supervisor_gives_up_what_waits_gets_the_reason() -> None:
    gate = anyio.Event()
    errors: list[Exception] = []

    async def ask(supervisor: Supervisor) -> None:
        counter = supervisor.find_actor("counter")
        assert counter is not None
        try:
            with anyio.CancelScope(shield=True):
                await counter.ask(Counter.add, 1)
        except ActorEndedError as error:
            errors.append(error)

    async def run() -> None:
        child = ActorChild(name="counter", make=partial(Counter, gate=gate))
        async with (
            Supervisor(children=[child], max_restarts=0) as supervisor,
            anyio.create_task_group() as task_group,
        ):
            counter = supervisor.find_actor("counter")
            assert counter is not None
            await counter.tell(Counter.wait)
            await counter.tell(Counter.crash)
            task_group.start_soon(ask, supervisor)
            await anyio.wait_all_tasks_blocked()
            gate.set()
            await anyio.sleep_forever()

    with pytest.raises(RestartLimitError, match="'counter'"):
        await run()
    (error,) = errors
    assert isinstance(error.__cause__, ValueError)


async def test_an_actor_that_is_not_restarted_refuses_what_waits() -> None:
    async with Supervisor() as supervisor, anyio.create_task_group() as task_group:
        counter = supervisor.start_actor("counter", Counter, restart=Restart(mode="never"))
        counter.tell_nowait(Counter.crash)
        waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
        assert isinstance(waiting.result, ActorEndedError)
        assert isinstance(waiting.result.__cause__, ValueError)
        assert supervisor.children[0].status == "failed"
        with pytest.raises(ActorEndedError):
            await counter.ask(Counter.add, 1)


@pytest.mark.parametrize("is_now", [True, False])
async def test_an_actor_that_is_stopped_through_its_handle_is_not_restarted(is_now: bool) -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", partial(Counter, log), restart=Restart(mode="always"))
        await counter.ask(Counter.add, 1)
        if is_now:
            counter.stop_now()
        await counter.stop()
        await supervisor.wait_ended()
        assert supervisor.children[0].status == "stopped"
    assert log == ["started", "add 1", "stopping"]


async def test_stopping_the_supervisor_lets_actors_handle_what_was_sent_before() -> None:
    log: list[str] = []
    async with Supervisor() as supervisor:
        counter = supervisor.start_actor("counter", partial(Counter, log))
        for number in range(3):
            counter.tell_nowait(Counter.add, number)
    assert log == ["started", "add 0", "add 1", "add 2", "stopping"]


@pytest.mark.virtual_time
async def test_an_actor_that_takes_too_long_to_stop_is_interrupted() -> None:
    async with anyio.create_task_group() as task_group:
        async with Supervisor(grace_seconds=2) as supervisor:
            counter = supervisor.start_actor("counter", partial(Counter, gate=anyio.Event()))
            handled = await start(task_group, lambda: counter.ask(Counter.wait))
            waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
            begin = anyio.current_time()
        assert anyio.current_time() == begin + 2
        await anyio.wait_all_tasks_blocked()
        assert isinstance(handled.result, ActorInterruptedError)
        assert isinstance(waiting.result, ActorEndedError)


@pytest.mark.virtual_time
async def test_a_sibling_that_is_restarted_along_finishes_its_message_and_keeps_the_others() -> None:
    gate = anyio.Event()
    log: list[str] = []

    async def fail_soon() -> None:
        await anyio.sleep(1)
        raise ValueError

    restart = Restart(jitter_seconds=0)
    async with (
        Supervisor(
            strategy="one_for_all", max_restarts=1, circuit_open_seconds=100, grace_seconds=50
        ) as supervisor,
        anyio.create_task_group() as task_group,
    ):
        counter = supervisor.start_actor("counter", partial(Counter, log, gate=gate))
        idle = supervisor.start_actor("idle", Counter)
        supervisor.start("bad", fail_soon, restart=restart)
        handled = await start(task_group, lambda: counter.ask(Counter.wait))
        waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
        await anyio.sleep(1.1)
        assert (counter.status, idle.status) == ("running", "waiting")
        assert [child.is_stopping for child in supervisor.children] == [True, False, False]
        gate.set()
        await anyio.sleep(0.5)
        assert (handled.result, waiting.result) == ("wait", 1)
        assert log == ["started", "wait", "stopping", "started", "add 1"]
        assert idle.statistics().lives == 2


@pytest.mark.virtual_time
async def test_a_sibling_that_does_not_finish_its_message_in_time_is_interrupted_and_restarted() -> None:
    async def fail_soon() -> None:
        await anyio.sleep(1)
        raise ValueError

    restart = Restart(jitter_seconds=0)
    async with (
        Supervisor(
            strategy="one_for_all", max_restarts=1, circuit_open_seconds=100, grace_seconds=3
        ) as supervisor,
        anyio.create_task_group() as task_group,
    ):
        counter = supervisor.start_actor("counter", partial(Counter, gate=anyio.Event()))
        supervisor.start("bad", fail_soon, restart=restart)
        handled = await start(task_group, lambda: counter.ask(Counter.wait))
        waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
        await anyio.sleep(4.5)
        assert isinstance(handled.result, ActorInterruptedError)
        assert waiting.result == 1


async def test_actors_of_a_cancelled_supervisor_refuse_what_waits() -> None:
    async with anyio.create_task_group() as task_group:
        with anyio.CancelScope() as scope:
            async with Supervisor() as supervisor:
                counter = supervisor.start_actor("counter", partial(Counter, gate=anyio.Event()))
                handled = await start(task_group, lambda: counter.ask(Counter.wait))
                waiting = await start(task_group, lambda: counter.ask(Counter.add, 1))
                scope.cancel()
                await anyio.sleep_forever()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(handled.result, ActorInterruptedError)
        assert isinstance(waiting.result, ActorEndedError)
        assert counter.status == "ended"


async def test_a_new_actor_may_have_the_name_of_one_that_has_ended() -> None:
    async with Supervisor() as supervisor:
        first = supervisor.start_actor("counter", Counter)
        await supervisor.stop_child("counter")
        second = supervisor.start_actor("counter", Counter)
        assert await second.ask(Counter.add, 1) == 1
        assert first.status == "ended"
        assert supervisor.find_actor("counter") == second
        assert supervisor.find_actor("nobody") is None
        await supervisor.stop_child("counter")
        supervisor.forget_child("counter")
        assert supervisor.find_actor("counter") is None


async def test_children_are_started_in_their_order_and_stopped_in_reverse() -> None:
    log: list[str] = []

    class Named(Actor):
        def __init__(self, name: str) -> None:
            self.name = name

        async def started(self) -> None:
            log.append(f"{self.name} starts")

        async def stopping(self) -> None:
            log.append(f"{self.name} stops")

    names = [f"actor {number}" for number in range(10)]
    children = [ActorChild(name=name, make=partial(Named, name)) for name in names]
    async with Supervisor(children=children):
        await anyio.wait_all_tasks_blocked()
    assert log == [*(f"{name} starts" for name in names), *(f"{name} stops" for name in reversed(names))]


async def test_functions_are_restarted_stopped_and_given_up_on_both_event_loops() -> None:
    runs: list[int] = []

    async def fail() -> None:
        runs.append(len(runs))
        raise ValueError(f"run {runs[-1]}")

    async def run() -> None:
        children = [
            Child(name="forever", function=anyio.sleep_forever),
            Child(name="bad", function=fail, restart=Restart(backoff_seconds=0, jitter_seconds=0)),
        ]
        async with Supervisor(children=children):
            await anyio.sleep_forever()

    with pytest.raises(RestartLimitError) as caught:
        await run()
    assert runs == list(range(6))
    assert str(caught.value.__cause__) == "run 5"
