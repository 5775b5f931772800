"""Answers reach their callers in the order of their records in the first life, as in all later ones."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal.acknowledgement import Acknowledgement
from nighthawk_async.journal.departures import Departures

from .arriving_model import ArrivingModel
from .durable_runs import live, opened, shout

pytestmark = pytest.mark.anyio

WORDS = ("ann", "bob", "carl", "dora", "emil", "fay")


@nh.repeatable
async def look(word: str) -> str:
    """A call whose result need not be durable before it is given."""
    return word


@nh.once
async def post(word: str) -> str:
    """A call whose result has to be durable."""
    return f"posted {word}"


class Counter:
    """A service with a public counter, which counts as an input of its block."""

    def __init__(self) -> None:
        self.count = 0

    @nh.natural_function
    async def shout_with_number(self, word: str) -> str:
        """Shout a word."""
        loud: str
        """natural
        Set <:loud> to <word> in capitals.
        """
        return loud

    async def both(self, word: str) -> str:
        """Two requests, and the counter between them."""
        await shout(word)
        self.count += 1
        await look(word)
        return await self.shout_with_number(word)


async def in_map() -> list[Any]:
    seen: list[Any] = []

    async def one(word: str) -> None:
        for call in (shout, look, post, look, shout):
            seen.append(await call(word))

    await nh.parallel.map(one, WORDS)
    return seen


async def in_group() -> list[Any]:
    seen: list[Any] = []

    async def ask(word: str) -> None:
        seen.append(await shout(word))

    async def find(word: str) -> None:
        for number in range(3):
            seen.append(await look(f"{word}{number}"))

    async with anyio.create_task_group() as group:
        for word in WORDS:
            group.start_soon(ask, word)
            group.start_soon(find, word)
    return seen


@pytest.mark.parametrize("program", [in_map, in_group], ids=lambda each: each.__name__)
async def test_the_order_of_answers_that_come_at_once_is_that_of_later_lives(
    program: Any, tmp_path: Path
) -> None:
    with opened(tmp_path) as store:
        seen = await live(store, ArrivingModel(WORDS), program)
        for _ in range(2):
            assert await live(store, ArrivingModel(WORDS), program) == seen


async def test_a_service_with_a_counter_continues(tmp_path: Path) -> None:
    async def program() -> list[str]:
        return await nh.parallel.map(Counter().both, WORDS)

    with opened(tmp_path) as store:
        model = ArrivingModel(WORDS)
        for _ in range(2):
            model = ArrivingModel(WORDS)
            assert await live(store, model, program) == [word.upper() for word in WORDS]
        assert model.asked == []


async def test_an_answer_that_is_cancelled_while_it_waits_lets_the_next_one_leave() -> None:
    departures, left = Departures(), list[str]()
    first = Acknowledgement[None]()

    async def leave(place: str, written: Any = None) -> None:
        await departures.leave(place, written)
        left.append(place)

    async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
        inner.start_soon(leave, "run/map[0]/item[0]/a()[0]", first)
        await anyio.wait_all_tasks_blocked()
        outer.start_soon(leave, "run/map[0]/item[1]/a()[0]")
        await anyio.wait_all_tasks_blocked()
        assert left == []
        inner.cancel_scope.cancel()
    assert left == ["run/map[0]/item[1]/a()[0]"]
