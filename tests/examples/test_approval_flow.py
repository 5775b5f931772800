"""The example `approval_flow`: an order waits for two people, is killed at any record, is charged once."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller

ROOT = Path(__file__).parents[2]
PAID = "order 17: 800.00 paid, approved by ada and bob"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    with ProgramKiller("tests.examples.approval_lives:main", {}, path=[ROOT, ROOT / "src"]) as opened:
        yield opened


@pytest.fixture(params=["asyncio", "trio"])
def arguments(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"folder": str(tmp_path), "backend": request.param}


def ended(life: Life) -> Any:
    assert not life.error, life.error
    return life.result


def test_an_order_waits_for_two_people_over_several_processes(
    killer: ProgramKiller, arguments: dict[str, Any]
) -> None:
    assert ended(killer.live(**arguments)) == [None, [], 1]
    assert ended(killer.live(vote="ada", **arguments)) == [None, [], 1]
    assert ended(killer.live(vote="bob", **arguments)) == [PAID, ["17"], 1]
    assert ended(killer.live(**arguments)) == [PAID, ["17"], 1]


def test_one_person_denies(killer: ProgramKiller, arguments: dict[str, Any]) -> None:
    killer.live(**arguments)
    end, charged, _ = ended(killer.live(vote="-eve", **arguments))
    assert end.startswith("order 17 was denied")
    assert charged == []


def test_too_few_people_approve_in_time(killer: ProgramKiller, arguments: dict[str, Any]) -> None:
    end, charged, _ = ended(killer.live(days=0.1 / 86_400, **arguments))
    assert end == "order 17 was dropped: too few people approved in time"
    assert charged == []


def test_a_small_order_asks_nobody(killer: ProgramKiller, arguments: dict[str, Any]) -> None:
    assert ended(killer.live(amount=5.0, **arguments)) == ["order 17: 5.00 paid", ["17"], 1]


@pytest.mark.parametrize("arguments", ["trio"], indirect=True)
def test_a_worker_that_is_killed_at_any_record_charges_once(
    killer: ProgramKiller, arguments: dict[str, Any]
) -> None:
    folder = Path(arguments["folder"])
    kills = 0
    for number, when in itertools.product(range(1, 100, 5), ("before", "after")):
        arguments["folder"] = str(folder / f"{number}-{when}")
        Path(arguments["folder"]).mkdir()
        was_killed, asked = False, 1
        for vote in ("", "ada", "bob"):
            life = killer.live(
                vote=vote, kill_at=None if was_killed else KillPoint(record=number, when=when), **arguments
            )
            if life.was_killed:
                was_killed, asked = True, 2  # at most: the response was in flight
                life = killer.live(**arguments)
            end, charged, requests = ended(life)
        assert (end, charged) == (PAID, ["17"])
        assert requests <= asked
        kills += was_killed
        if not was_killed:
            break
    assert kills >= 4


def test_a_charge_whose_answer_was_lost_is_found_by_its_key(
    killer: ProgramKiller, arguments: dict[str, Any]
) -> None:
    for vote in ("", "ada"):
        killer.live(vote=vote, **arguments)
    assert killer.live(vote="bob", kill_at=KillPoint(mark="charged"), **arguments).was_killed
    assert ended(killer.live(**arguments)) == [PAID, ["17"], 1]
