"""A program that is killed at any record continues: nothing acknowledged is asked for again or done twice.

The normal run kills at a few records that a seed chooses; `--hypothesis-profile=explore` kills before and
after every record. `NIGHTHAWK_KILL_SEED` repeats a seed. Two controls switch a part of the journal off and
have to see its promise broken.
"""

import collections
import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller
from tests.faults.durable_program import ASKED, ITEMS, SERVICE, lines_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

BACKENDS = ("asyncio", "trio")
LIFE_SECONDS = 120.0
PARTS = 3
"""Parts of a run in each of which the normal run kills twice, on each backend."""
SURE_PART = 0.8
"""The part of the records of one run that another run has too: races and votes end after more or fewer."""


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    program = "tests.faults.durable_program:main"
    with ProgramKiller(program, {}, path=[root, root / "src"], timeout_seconds=LIFE_SECONDS) as opened:
        yield opened


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("NIGHTHAWK_KILL_SEED") or random.SystemRandom().randrange(2**32))
    print(f"NIGHTHAWK_KILL_SEED={seed}")  # pytest shows it when the test fails
    return random.Random(seed)


class Lives:
    """The lives of one run of the program.

    Args:
        killer: Runs them.
        folder: The folder of the program's files.
        backend: The event loop.
        without: The part of the journal that is switched off.
    """

    def __init__(self, killer: ProgramKiller, folder: Path, backend: str, without: str = "") -> None:
        folder.mkdir()
        self.folder = folder
        self.kills = 0
        self._killer = killer
        self._arguments = {"folder": str(folder), "backend": backend, "without": without}
        self._acknowledged: list[set[str]] = []  # before each life

    def live(self, kill_at: KillPoint | None = None) -> Life:
        """Live once."""
        self._acknowledged.append(self._places("response"))
        life = self._killer.live(kill_at=kill_at, life=len(self._acknowledged), **self._arguments)
        self.kills += life.was_killed
        return life

    @property
    def last_record(self) -> int:
        """The number of the last record."""
        with closing(sqlite3.connect(self.folder / "runs.db")) as connection:
            return int(connection.execute("SELECT max(seq) FROM records").fetchone()[0])

    def _places(self, kind: str) -> set[str]:
        if not (self.folder / "runs.db").exists():
            return set()
        with closing(sqlite3.connect(self.folder / "runs.db")) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'records'").fetchone():
                return set()
            rows = connection.execute("SELECT place FROM records WHERE kind = ?", (kind,))
            return {place for (place,) in rows}

    def asked_again(self) -> list[str]:
        """The requests whose responses had been acknowledged before the life that made them."""
        asked = [line.split(" ", 1) for line in lines_of(self.folder, ASKED)]
        return [f"{life} {place}" for life, place in asked if place in self._acknowledged[int(life) - 1]]

    def booked_again(self) -> list[str]:
        """The bookings that were made twice for one call."""
        counts = collections.Counter(lines_of(self.folder, SERVICE))
        return [line for line, count in counts.items() if count > 1]

    def bookings(self) -> dict[str, int]:
        """The number of bookings of each item that has to be booked once."""
        booked = collections.Counter(line.split()[0] for line in lines_of(self.folder, SERVICE))
        return {item: booked[item] for item in ITEMS}


def told(name: str) -> str:
    return f"booked {name} ['{name}']"


def check(lives: Lives, life: Life) -> None:
    """Check the last life, which was not killed, and what all lives have done."""
    assert not life.error, life.error
    result: dict[str, Any] = life.result
    assert result["map"] == [told(f"map{number}") for number in range(3)]
    assert result["race"] in [told(f"race{number}") for number in range(3)]
    assert result["hand"] == {f"hand{number}": told(f"hand{number}") for number in range(3)}
    assert result["tasks"] == [told(f"task{number}") for number in range(2)]
    assert sorted(result["stream"]) == [told(f"stream{number}") for number in range(3)]
    assert result["vote"] == told("vote")
    assert result["fallback"] == "booked fallback"
    assert result["last"] == told("last")
    assert lives.asked_again() == []
    assert lives.booked_again() == []
    assert lives.bookings() == dict.fromkeys(ITEMS, 1)


def run_with_kills(killer: ProgramKiller, folder: Path, backend: str, kills: Sequence[KillPoint]) -> Lives:
    """Kill a run at each of some points, let it end, and enter it once more."""
    print(backend, *kills)
    lives = Lives(killer, folder, backend)
    life = Life(was_killed=True)
    for kill_at in (*kills, None):
        life = lives.live(kill_at)
        if not life.was_killed:
            break
    check(lives, life)
    again = lives.live()
    assert again.result == life.result, again.error
    check(lives, again)
    return lives


def count_records(killer: ProgramKiller, folder: Path, backend: str) -> int:
    """The number of records of a run that nobody kills."""
    lives = Lives(killer, folder, backend)
    check(lives, lives.live())
    return lives.last_record


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_run_continues(
    tmp_path: Path, killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    every = count_records(killer, tmp_path / "whole", backend)
    if settings.get_current_profile_name() == "explore":
        for record in range(1, every + 1):
            run_with_kills(killer, tmp_path / f"before-{record}", backend, [KillPoint(record=record)])
            after = KillPoint(record=record, when="after")
            run_with_kills(killer, tmp_path / f"after-{record}", backend, [after])
    records = int(every * SURE_PART)
    kills = 0
    for part in range(PARTS):
        first, second = sorted(
            chance.sample(range(1 + part * records // PARTS, 1 + (part + 1) * records // PARTS), 2)
        )
        points = [KillPoint(record=first, when="before"), KillPoint(record=second, when="after")]
        kills += run_with_kills(killer, tmp_path / f"part-{part}", backend, points).kills
    assert kills >= PARTS  # a life may make fewer records than the one that was counted


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_recorded_responses_they_are_asked_for_again(
    tmp_path: Path, killer: ProgramKiller, backend: str
) -> None:
    lives = Lives(killer, tmp_path / "run", backend, without="responses")
    assert lives.live(KillPoint(record=20, when="after")).was_killed
    lives.live()
    assert lives.asked_again()


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_recorded_intents_calls_are_made_again(
    tmp_path: Path, killer: ProgramKiller, backend: str
) -> None:
    for record in range(6, 40):  # one of these is the result of a call, whatever the schedule
        lives = Lives(killer, tmp_path / f"run-{record}", backend, without="intents")
        assert lives.live(KillPoint(record=record)).was_killed
        lives.live()
        if lives.booked_again():
            return
    pytest.fail("no call was made twice")
