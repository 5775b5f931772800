"""What may be sent to an actor, and where it runs."""

import threading
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import pytest

from nighthawk_async.actors import Actor, ActorInterruptedError, open_actor
from tests.unit.actors.actor_examples import Counter
from tests.unit.actors.waiting_tasks import start

pytestmark = pytest.mark.anyio


async def test_an_overridden_method_is_called_as_overridden() -> None:
    class Doubling(Counter):
        async def add(self, number: int) -> int:
            return await super().add(2 * number)

    async with open_actor(Doubling) as counter:
        assert await counter.ask(Counter.add, 2) == 4


async def test_any_function_that_takes_the_actor_may_be_asked() -> None:
    async def add_twice(counter: Counter, number: int) -> int:
        await counter.add(number)
        return await counter.add(number)

    async with open_actor(Counter) as counter:
        assert await counter.ask(add_twice, 2) == 4
        assert await counter.ask(lambda counter: counter.total) == 4
        assert await counter.ask(lambda counter: counter.add(1)) == 5


async def test_what_cannot_be_called_is_refused_without_harm_to_the_actor() -> None:
    nothing: Any = "add"
    async with open_actor(Counter) as counter:
        with pytest.raises(TypeError, match="an actor is sent a function, not 'add'"):
            await counter.ask(nothing, 1)
        with pytest.raises(TypeError):
            await counter.tell(nothing, 1)
        with pytest.raises(TypeError):
            counter.tell_nowait(nothing, 1)
        assert await counter.ask(Counter.add, 1) == 1


async def test_a_method_that_is_not_async_runs_in_a_worker_thread() -> None:
    class Reader(Actor):
        def thread(self) -> int:
            return threading.get_ident()

    async with open_actor(Reader) as reader:
        assert await reader.ask(Reader.thread) != threading.get_ident()


async def test_a_cancelled_actor_waits_for_its_worker_thread_and_that_is_no_crash() -> None:
    class Blocking(Actor):
        def wait(self, has_begun: anyio.Event) -> None:
            anyio.from_thread.run_sync(has_begun.set)
            anyio.from_thread.run(anyio.sleep_forever)

    async with open_actor(Blocking) as blocking, anyio.create_task_group() as task_group:
        has_begun = anyio.Event()
        waiting = await start(task_group, partial(blocking.ask, Blocking.wait, has_begun))
        await has_begun.wait()
        blocking.stop_now()
    assert isinstance(waiting.result, ActorInterruptedError)


async def test_a_handler_in_a_worker_thread_runs_to_its_end_when_its_actor_is_stopped_now() -> None:
    class Blocking(Actor):
        def block(self) -> str:
            anyio.from_thread.run_sync(has_begun.set)
            may_end.wait()
            return "done"

    has_begun, may_end = anyio.Event(), threading.Event()
    async with open_actor(Blocking) as blocking, anyio.create_task_group() as task_group:
        asking = await start(task_group, partial(blocking.ask, Blocking.block))
        await has_begun.wait()
        blocking.stop_now()
        await anyio.wait_all_tasks_blocked()
        assert (asking.result, blocking.status) == ("nothing", "running")
        may_end.set()
    assert asking.result == "done"
