"""What type checkers see of parallel calls, tasks, pools and actors.

They read `assert_type`, and a comment that ignores an error has to ignore one. Running shows the values.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import assert_type

import pytest

import nighthawk_async as nh
from nighthawk_async import actors, parallel
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

pytestmark = pytest.mark.anyio


def count_stars(call: StepCall) -> StepResponse:
    return pass_response(count=str(call.step_locals["review"]).count("*"))


executor = CallbackExecutor(count_stars)


@nh.natural_function
async def stars(review: str) -> int:
    count = 0
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@nh.natural_function
def stars_here(review: str) -> int:
    count = 0
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def length(text: str, *, factor: int = 1) -> int:
    return len(text) * factor


def length_here(text: str) -> int:
    return len(text)


async def find(text: str) -> str | None:
    return text or None


async def forget(text: str) -> None:
    del text


@dataclass
class Library:
    books: dict[str, int]

    async def pages(self, title: str) -> int:
        return self.books[title]

    def pages_here(self, title: str) -> int:
        return self.books[title]

    async def __call__(self, title: str) -> float:
        return self.books[title] / 2


async def texts() -> AsyncIterator[str]:
    yield "a"
    yield "bb"


async def test_map_gives_what_an_async_function_gives() -> None:
    assert assert_type(await parallel.map(length, ["a", "bb"]), list[int]) == [1, 2]
    assert assert_type(await parallel.map(length, texts(), max_concurrent=1), list[int]) == [1, 2]
    assert assert_type(await parallel.map(partial(length, factor=2), ["a"]), list[int]) == [2]
    assert assert_type(await parallel.map(find, ["a", ""]), list[str | None]) == ["a", None]
    assert assert_type(await parallel.map(forget, ["a"]), list[None]) == [None]
    assert assert_type(await parallel.map(nh.deadline(5)(length), ["a"]), list[int]) == [1]
    library = Library({"Emma": 400})
    assert assert_type(await parallel.map(library.pages, ["Emma"]), list[int]) == [400]
    assert assert_type(await parallel.map(library, ["Emma"]), list[float]) == [200]


async def test_map_gives_what_a_synchronous_function_gives() -> None:
    assert assert_type(await parallel.map(length_here, ["a", "bb"]), list[int]) == [1, 2]
    assert assert_type(await parallel.map(lambda text: text + "!", ["a"]), list[str]) == ["a!"]
    assert assert_type(await parallel.map(Library({"Emma": 4}).pages_here, ["Emma"]), list[int]) == [4]
    assert assert_type(await parallel.map(int, ["1"]), list[int]) == [1]


async def test_natural_functions_are_called_like_any_other() -> None:
    async with nh.run(executor):
        assert assert_type(await parallel.map(stars, ["Good ***"]), list[int]) == [3]
        assert assert_type(await parallel.map(stars_here, ["Good ***"]), list[int]) == [3]
        assert assert_type(await parallel.race(stars, ["Good ***"]), int) == 3


async def test_settle_gives_the_outcomes_of_the_results() -> None:
    settled = assert_type(await parallel.settle(length, ["a"]), parallel.Settled[int])
    assert assert_type(settled.outcomes[0], parallel.Outcome[int]) == parallel.Succeeded(value=1)
    assert_type(await parallel.settle(length_here, ["a"]), parallel.Settled[int])
    for outcome in settled.outcomes:
        if isinstance(outcome, parallel.Failed):
            assert_type(outcome.error, Exception)
        else:
            assert_type(outcome.value, int)


async def test_a_race_gives_one_result() -> None:
    assert assert_type(await parallel.race(length, ["a"]), int) == 1
    assert assert_type(await parallel.race(length_here, ["a"]), int) == 1
    assert assert_type(await parallel.race(find, ["a"]), str | None) == "a"


async def test_a_stream_gives_results() -> None:
    async with parallel.stream(length, ["a"]) as results:
        async for result in results:
            assert assert_type(result, int) == 1
    async with assert_type(parallel.stream(length_here, ["a"]), parallel.Stream[int]) as results:
        async for position, result in results.indexed():
            assert_type(position, int)
            assert_type(result, int)


async def test_items_have_to_fit_the_function() -> None:
    with pytest.raises(TypeError):
        await parallel.map(length, [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await parallel.race(length_here, 1)  # type: ignore[call-overload]


async def test_gather_gives_a_tuple() -> None:
    number, text = await parallel.gather(length("a"), find("b"))
    assert assert_type(number, int) == 1
    assert assert_type(text, str | None) == "b"
    assert_type(await parallel.gather(length("a"), return_exceptions=True), list[int | Exception])


async def test_tasks_give_what_their_functions_give() -> None:
    async with nh.open_tasks() as tasks:
        assert assert_type(await assert_type(tasks.start(length, "a"), nh.parallel.TaskHandle[int]), int) == 1
        assert assert_type(await tasks.start(length_here, "a"), int) == 1
        assert assert_type(await tasks.start(partial(length, factor=2), "a"), int) == 2
        with pytest.raises(TypeError):
            await tasks.start(length, 1)  # type: ignore[arg-type]


async def test_jobs_give_what_their_functions_give() -> None:
    async with actors.Pool(max_concurrent=2) as pool:
        job = await pool.submit(length, "a", key="b")
        assert_type(job, actors.JobHandle[int])
        assert assert_type(await job, int) == 1


class Shelf(actors.Actor):
    def __init__(self) -> None:
        self.books: list[str] = []

    async def add(self, book: str, *, copies: int = 1) -> int:
        self.books += [book] * copies
        return len(self.books)

    def first(self) -> str:
        return self.books[0]


async def test_asking_an_actor_gives_what_its_method_gives() -> None:
    async with actors.open_actor(Shelf) as shelf:
        assert_type(shelf, actors.ActorHandle[Shelf])
        assert assert_type(await shelf.ask(Shelf.add, "Emma", copies=2), int) == 2
        assert assert_type(await shelf.ask(Shelf.first), str) == "Emma"
        await shelf.tell(Shelf.add, "Persuasion")
        with pytest.raises(TypeError):
            await shelf.ask(Shelf.add, "Emma", number=2)  # type: ignore[call-arg]


async def test_cells_hold_one_type() -> None:
    async with nh.run(executor):
        cell = actors.shared_cell("visits", initial=1)
        assert_type(cell, actors.SharedCell[int])
        assert assert_type(cell.get(), int) == 1
        assert assert_type(cell.update(lambda visits: visits + 1), int) == 2
