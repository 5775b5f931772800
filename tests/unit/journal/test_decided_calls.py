"""Nothing new begins in a call whose end an earlier life has decided, and a new effect overtakes no hold."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError
from nighthawk_async.resilience import vote

from .durable_runs import live, opened, shout, shout_synchronously, shouting
from .test_holding import leaves_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

made: list[str] = []
Call = Callable[[], Awaitable[Any]]


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> str:
    """An effect."""
    made.append(name)
    return name


@nh.once
def pay_synchronously(name: str) -> str:
    """The same, for threads."""
    made.append(name)
    return name


async def ask() -> Any:
    return await shout("ann")


async def ask_more() -> Any:
    return [await shout("ann"), await shout("bob")]


async def ask_in_thread() -> Any:
    return await anyio.to_thread.run_sync(shout_synchronously, "bob")


async def pay_more() -> Any:
    return [await shout("ann"), await pay("new")]


async def pay_in_thread() -> Any:
    return [await shout("ann"), await anyio.to_thread.run_sync(pay_synchronously, "new")]


async def draw_more() -> Any:
    return [await shout("ann"), nh.journal.random()]


async def begin_more() -> Any:
    return [await shout("ann"), *await nh.parallel.map(shout, ["bob"])]


CHANGES = (ask_more, ask_in_thread, pay_more, pay_in_thread, draw_more, begin_more)


async def in_vote(call: Call) -> None:
    async def opinion() -> str:
        return str(await call() is not None)

    await vote(count=2)(opinion)()


async def in_race(call: Call) -> None:
    async def one(_: int) -> Any:
        return await call()

    await nh.parallel.race(one, [0])


async def in_stream(call: Call) -> None:
    async def one(_: int) -> Any:
        return await call()

    async with nh.parallel.stream(one, [0]) as results:
        async for _ in results:
            pass


async def in_failed_map(call: Call) -> None:
    async def one(_: int) -> None:
        await call()
        raise ValueError("the call failed")

    with pytest.raises(ValueError, match="the call failed"):
        await nh.parallel.map(one, [0])


DECIDED = (in_vote, in_race, in_stream, in_failed_map)


async def ending(store: nh.journal.JournalStore, model: Any, program: Call) -> BaseException | None:
    """The first error with which a life ends; None for none."""
    try:
        await live(store, model, program)
    except Exception as error:
        return leaves_of(error)[0]
    return None


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("group", DECIDED, ids=lambda each: each.__name__)
async def test_nothing_new_begins_in_calls_that_have_counted(
    group: Any, change: Call, tmp_path: Path
) -> None:
    async def program(call: Call) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(group, call)
        await pay("end")

    with opened(tmp_path) as store:
        assert await ending(store, shouting(), partial(program, ask)) is None
        model = shouting()
        error = await ending(store, model, partial(program, change))
        assert isinstance(error, JournalDivergenceError)
        assert "item[" in error.place
        assert made == ["end"]
        assert model.prompts == []
        assert await ending(store, model, partial(program, ask)) is None
    with opened(tmp_path, changes="insert") as store:
        assert await ending(store, shouting(), partial(program, ask_more)) is None
    assert made == ["end"]
