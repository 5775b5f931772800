"""A process whose lease may have ended confirms it before an effect begins."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import RunTakenOverError, store_thread
from nighthawk_async.journal.records import Record

from .durable_runs import change_tables, live, opened, places, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

paid: list[str] = []


@nh.once
async def pay(item: str) -> str:
    """An effect."""
    paid.append(item)
    return item


@nh.once
def pay_in_thread(item: str) -> str:
    """The same, for synchronous code."""
    paid.append(item)
    return item


async def pay_twice() -> list[str]:
    """Two effects."""
    return [await pay("a"), pay_in_thread("b")]


@pytest.fixture(autouse=True)
def ended_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes between any two looks at the clock, as in a process that hangs there."""
    paid.clear()
    monkeypatch.setattr(store_thread, "lease_clock", itertools.count(0.0, 3_600.0).__next__)


async def test_an_effect_begins_when_the_lease_is_confirmed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert await live(store, shouting(), pay_twice) == ["a", "b"]
    assert paid == ["a", "b"]


@pytest.mark.parametrize(("number", "expected"), [(1, []), (2, ["a"])])
async def test_an_effect_does_not_begin_when_the_run_was_taken_over_after_its_intent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: list[str]
) -> None:
    def take_over(moment: str, records: Sequence[Record]) -> None:
        if moment == "after" and any(each.kind == "intent" for each in records):
            intents.extend(records)
            if sum(each.kind == "intent" for each in intents) == number:
                change_tables(tmp_path, "UPDATE runs SET epoch = epoch + 1")

    intents: list[Record] = []
    monkeypatch.setattr(store_thread, "commit_listeners", [take_over])
    with opened(tmp_path) as store:
        with pytest.raises(RunTakenOverError):
            await live(store, shouting(), pay_twice)
        assert len(places(store, "intent")) == number
        assert len(places(store, "result")) == number - 1
    assert paid == expected
