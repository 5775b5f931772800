"""Lives that found out that the program has changed: what they leave to the program before the change."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError

from .durable_runs import live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

made: list[str] = []


class CrashError(Exception):
    """The end of a life."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> str:
    """An effect that nobody knows more about."""
    made.append(name)
    return name


async def shout_side_by_side(words: Sequence[str]) -> list[str]:
    """Shout words in tasks that are started by hand."""
    shouted: list[str] = []

    async def one(word: str) -> None:
        shouted.append(await shout(word))

    async with anyio.create_task_group() as tasks:
        for word in words:
            tasks.start_soon(one, word)
    return shouted


async def crash_after(words: Sequence[str]) -> list[str]:
    await shout_side_by_side(words)
    raise CrashError


async def test_a_life_that_diverged_counts_for_nothing(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann", "bob"]))
        for _ in range(2):  # also where another life of its kind had the same places
            with pytest.raises(JournalDivergenceError):
                await live(store, model, lambda: shout_side_by_side(["ann", "carl"]))
        asked = len(model.prompts)
        first = await live(store, model, lambda: shout_side_by_side(["ann", "bob"]))
        assert sorted(first) == ["ANN", "BOB"]
        assert await live(store, model, lambda: shout_side_by_side(["ann", "bob"])) == first
    assert len(model.prompts) == asked, "what was recorded before the change is still there"


async def test_what_such_a_life_had_recorded_is_recorded_anew_at_the_same_place(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, model, lambda: shout_side_by_side(["carl"]))
        everyone = ["ann", "carl"]
        first = await live(store, model, lambda: shout_side_by_side(everyone))
        asked = len(model.prompts)
        assert await live(store, model, lambda: shout_side_by_side(everyone)) == first
    assert len(model.prompts) == asked


async def test_a_life_that_made_an_effect_before_it_diverged_counts(tmp_path: Path) -> None:
    async def changed() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shout, "carl")
            tasks.start_soon(pay, "carl")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), changed)
        assert made == ["carl"]
        with pytest.raises(JournalDivergenceError, match=r"shout\(\)|pay\(\)"):
            await live(store, shouting(), lambda: shout_side_by_side(["ann"]))


async def test_a_fork_has_nothing_of_such_a_life(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> list[str]:
        shouted = await shout_side_by_side(words)
        return [*shouted, await shout("last")]

    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, model, lambda: shout_side_by_side(["carl"]))
        await live(store, model, lambda: program(["ann"]))
        fork = store.fork("run-1", at="run/shout()[0]")  # the one of the last word
        assert await live(store, model, lambda: program(["ann"]), fork) == ["ANN", "LAST"]
    carl = [each for each in model.prompts if "carl" in each]
    assert len(carl) == 1


async def test_nothing_new_begins_after_a_recorded_call_that_is_passed_by(tmp_path: Path) -> None:
    async def rest(*, crashes: bool) -> None:
        await pay("b")
        if crashes:
            raise CrashError
        await pay("c")

    async def before() -> None:
        await nh.parallel.gather(shout("first"))
        await nh.parallel.map(lambda crashes: rest(crashes=crashes), [True])

    async def after() -> None:
        await nh.parallel.map(lambda crashes: rest(crashes=crashes), [False])

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), before)
        with pytest.raises(JournalDivergenceError, match=r"gather\[0\], which the program has passed"):
            await live(store, shouting(), after)
    assert made == ["b"]
