"""No effect is made beside recorded calls that it may stand for, and nothing recorded is left over."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError, JournalDivergenceError, JournalError
from nighthawk_async.journal.records import Record
from nighthawk_async.journal.store_thread import commit_listeners

from .durable_runs import live, opened, places, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

sold: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sold() -> None:
    sold.clear()


@nh.once
async def sell(customer: str, seat: int) -> str:
    """An effect."""
    sold.append(f"{customer} {seat}")
    return sold[-1]


@nh.once
def sell_synchronously(customer: str, seat: int) -> str:
    """The same, for synchronous code."""
    sold.append(f"{customer} {seat}")
    return sold[-1]


@nh.once
async def announce() -> str:
    """An effect without arguments."""
    sold.append("announced")
    return "announced"


def leaves_of(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves_of(each)]
    return [error]


async def ending(store: nh.journal.JournalStore, program: Any, *args: Any) -> BaseException | None:
    """The error with which a life ends, alone; None for none."""
    try:
        await live(store, shouting(), lambda: program(*args))
    except Exception as error:
        (leaf,) = leaves_of(error)
        return leaf
    return None


@pytest.mark.parametrize("is_in_thread", [False, True])
async def test_an_effect_with_other_arguments_is_not_made_beside_the_recorded_one(
    tmp_path: Path, is_in_thread: bool
) -> None:
    async def program(seat: int) -> None:
        async with anyio.create_task_group() as group:
            if is_in_thread:
                group.start_soon(anyio.to_thread.run_sync, sell_synchronously, "ann", seat)
            else:
                group.start_soon(sell, "ann", seat)
        if seat == 1:
            raise SystemError("the power is off")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, program, 1), SystemError)
        error = await ending(store, program, 2)
        assert isinstance(error, JournalDivergenceError)
        assert "<seat>" in str(error)
        assert "Nothing was begun" in str(error)
        assert sold == ["ann 1"]
        assert len(places(store, "intent")) == 1


async def test_an_effect_waits_for_a_recorded_one_that_comes_late(tmp_path: Path) -> None:
    async def program(seconds: float, *, is_whole: bool) -> None:
        async def one(customer: str, seat: int) -> None:
            if customer == "ann":
                await anyio.sleep(seconds)
            elif not is_whole:
                await anyio.sleep_forever()
            await sell(customer, seat)
            if not is_whole:
                raise SystemError("the power is off")

        async with anyio.create_task_group() as group:
            group.start_soon(one, "ann", 1)
            group.start_soon(one, "bob", 2)

    async def run(seconds: float, is_whole: bool) -> None:
        await program(seconds, is_whole=is_whole)

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, run, 0.0, False), SystemError)
        assert await ending(store, run, 0.6, True) is None
    assert sold == ["ann 1", "bob 2"]


async def test_an_effect_is_not_made_while_an_answered_call_is_left_over(tmp_path: Path) -> None:
    async def program(words: Sequence[str], *, is_whole: bool) -> None:
        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(shout, word)
        if not is_whole:
            raise SystemError("the power is off")
        await announce()

    async def run(words: Sequence[str], is_whole: bool) -> None:
        await program(words, is_whole=is_whole)

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, run, ["ann", "bob"], False), SystemError)
        error = await ending(store, run, ["ann"], True)
    assert isinstance(error, JournalDivergenceError)
    assert sold == []


async def test_what_a_task_has_left_over_is_a_divergence_at_the_end(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> None:
        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(shout, word)

    with opened(tmp_path) as store:
        assert await ending(store, program, ["ann", "bob"]) is None
        error = await ending(store, program, ["ann"])
        assert isinstance(error, JournalDivergenceError)
        assert "started by hand" in str(error)
        assert await ending(store, program, ["ann", "bob"]) is None
    with opened(tmp_path, changes="insert") as store:
        assert await ending(store, program, ["ann"]) is None


async def test_what_is_asked_less_often_with_equal_arguments_is_no_divergence(tmp_path: Path) -> None:
    async def program(beats: int) -> None:
        async def beat() -> None:
            for _ in range(beats):
                await shout("beat")

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
        await announce()

    with opened(tmp_path) as store:
        assert await ending(store, program, 3) is None
        assert await ending(store, program, 1) is None
    assert sold == ["announced"]


async def test_answers_that_never_arrive_do_not_hold_up_the_others(tmp_path: Path) -> None:
    model = shouting()

    async def program(beats: int) -> list[str]:
        async def beat() -> None:
            for _ in range(beats):
                await shout("beat")

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            loud = await nh.parallel.map(shout, ["ann", "bob"])
        return [*loud, await shout("carl")]

    with opened(tmp_path) as store:
        assert await live(store, model, lambda: program(4)) == ["ANN", "BOB", "CARL"]
        asked = len(model.prompts)
        with anyio.fail_after(240):
            assert await live(store, model, lambda: program(1)) == ["ANN", "BOB", "CARL"]
    assert len(model.prompts) == asked


async def test_calls_that_were_removed_do_not_hold_up_the_others(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> list[str]:
        return [await shout(word) for word in words]

    with opened(tmp_path, changes="insert") as store:
        words = [f"word {number}" for number in range(200)]
        assert await live(store, shouting(), lambda: program(words)) == [word.upper() for word in words]
        assert await live(store, shouting(), lambda: program(words[:1])) == ["WORD 0"]


@contextmanager
def when_intents_are_durable(call: Any) -> Iterator[None]:
    def listen(moment: str, records: Sequence[Record]) -> None:
        if moment == "after" and any(record.kind == "intent" for record in records):
            call()

    commit_listeners.append(listen)
    try:
        yield
    finally:
        commit_listeners.remove(listen)


async def test_an_effect_that_was_cancelled_before_it_began_is_not_in_doubt(tmp_path: Path) -> None:
    async def cancelled() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sell("ann", 1)
        raise SystemError("the power is off")

    async def program() -> None:
        await sell("ann", 1)

    with opened(tmp_path) as store:
        for _ in range(2):
            assert isinstance(await ending(store, cancelled), SystemError)
        assert sold == []
        withdrawn = [place for place in places(store, "decision") if "withdrawn[" in place]
        assert await ending(store, program) is None
        assert sold == ["ann 1"]
        intents = places(store, "intent")
        assert len(intents) == len(withdrawn) + 1
        assert await ending(store, program) is None
        copy = store.fork("run-1", at=intents[0]) if len(intents) > 1 else None
        assert copy is None or store.records(copy) is not None
    assert sold == ["ann 1"]


async def test_a_call_that_was_withdrawn_and_begun_anew_is_in_doubt_when_it_is_killed(tmp_path: Path) -> None:
    begun: list[str] = []

    @nh.once
    async def pay() -> str:
        begun.append("begun")
        raise JournalError("the process ends here")

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pay()
        raise SystemError("the power is off")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, cancelled), SystemError)
        assert begun == []
        assert isinstance(await ending(store, pay), JournalError)
        assert begun == ["begun"]
        assert isinstance(await ending(store, pay), CallInDoubtError)
    assert begun == ["begun"]


async def test_a_value_in_a_task_started_by_hand_belongs_to_the_call_before_it(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> dict[str, float]:
        values: dict[str, float] = {}

        async def one(word: str) -> None:
            loud = await shout(word)
            values[loud] = nh.journal.random()

        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(one, word)
        return values

    with opened(tmp_path) as store:
        first = await live(store, shouting(), lambda: program(["ann", "bob", "carl"]))
        assert await live(store, shouting(), lambda: program(["carl", "bob", "ann"])) == first
