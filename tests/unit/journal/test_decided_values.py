"""Values of `nh.journal` that later lives get again, also in tasks that were started by hand."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel
from nighthawk_async.values.stable_digest import digest_of_version_1

from .durable_runs import live, opened

pytestmark = pytest.mark.anyio


@nh.once
async def note(text: str) -> str:
    return text


async def one_life(
    store: nh.journal.JournalStore, program: Callable[[], object], run_id: str = "run-1"
) -> object:
    async with nh.run(ScriptedExecutor([]), journal=store, run_id=run_id):
        result = program()
        await note("done")
        return result


def test_without_a_journal_the_value_is_returned() -> None:
    value = ["ann"]
    assert nh.journal.decide(value) is value


async def test_later_lives_get_the_recorded_value(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for value in (("ann", {"bob"}), None, 17):
            assert await one_life(store, lambda: nh.journal.decide(value)) == ("ann", {"bob"})  # noqa: B023
        assert [each.place for each in store.records("run-1") if each.kind == "value"] == ["run/decide()[0]"]
        store.fork("run-1", at="run/decide()[0]", to="other", set={"value": ("eve", {"bob"})})
        assert await one_life(store, lambda: nh.journal.decide("ann"), "other") == ("eve", {"bob"})


async def test_a_value_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(nh.journal.JournalValueError):
        await one_life(store, lambda: nh.journal.decide(object()))


async def test_values_of_tasks_started_by_hand_stay_with_their_task(tmp_path: Path) -> None:
    found: dict[str, tuple[float, str]] = {}
    orders = ["ab", "ba", "ab"]

    async def one(name: str) -> None:
        for _ in range(3 * orders[0].index(name)):
            await anyio.lowlevel.checkpoint()
        found[name] = nh.journal.random(), nh.journal.decide(orders[0])

    lives: list[dict[str, tuple[float, str]]] = []
    with opened(tmp_path) as store:
        while orders:
            await in_group(store, "run-1", one, *"ab")
            lives.append(dict(found))
            del orders[0]
    assert lives[0] == lives[1] == lives[2]


async def test_tasks_that_nothing_tells_apart_are_refused_in_the_first_life(tmp_path: Path) -> None:
    async def one(connection: object) -> None:
        nh.journal.decide(1)
        nh.journal.decide(2)  # one task alone may do it again

    with opened(tmp_path) as store:
        await in_group(store, "alone", one, object())
        with pytest.raises(BaseExceptionGroup) as raised:
            await in_group(store, "two", one, object(), object())
    assert raised.group_contains(nh.parallel.AmbiguousPlaceError, match="nothing tells them apart", depth=1)


async def in_group(
    store: nh.journal.JournalStore,
    run_id: str,
    function: Callable[..., Awaitable[None]],
    *arguments: object,
) -> None:
    """One life of a run that starts a function by hand for each argument."""
    async with nh.run(ScriptedExecutor([]), journal=store, run_id=run_id), anyio.create_task_group() as group:
        for argument in arguments:
            group.start_soon(function, argument)


async def test_values_of_a_run_of_version_1_stay_where_they_were_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> list[float]:
        values: list[float] = []

        async def draw(word: str) -> None:
            values.append(nh.journal.random())

        async with anyio.create_task_group() as group:
            group.start_soon(draw, "a")
            group.start_soon(draw, "b")
        return values

    with opened(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr("nighthawk_async.journal.records.VERSION", 1)
            first = await live(store, ScriptedModel([]), program)
        places = [each.place for each in store.records("run-1") if each.kind == "value"]
        place = f"run/random()~{digest_of_version_1(None)}"
        assert places == [f"{place}[0]", f"{place}[1]"]
        assert sorted(await live(store, ScriptedModel([]), program)) == sorted(first)
        assert [each.place for each in store.records("run-1") if each.kind == "value"] == places
