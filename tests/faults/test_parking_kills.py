"""A run that is parked again and again is killed at its records, right before and after it is parked too.

The normal run kills at two records that a seed chooses, with `--all-cases` at four;
`--hypothesis-profile=explore` kills before and after every record. `NIGHTHAWK_KILL_SEED` sets the seed.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio
import pytest
from hypothesis import settings

import nighthawk_async as nh
from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.parked_program import PAID, PARKED

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

EXPECTED = ["BLUE", ["ada", "bob"], "thanks"]
CHOSEN = 2
"""Kills of a normal run, beside those at records of parking."""


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    with ProgramKiller("tests.faults.parked_program:main", {}, path=[root, root / "src"]) as opened:
        yield opened


async def answer_something(store: nh.journal.JournalStore) -> None:
    """Answer one of the questions that are open, or send the message."""
    runs = store.runs()
    assert [row.status for row in runs] == ["parked"]
    assert all(len(question.votes) < 2 for question in store.questions())
    questions = sorted(store.questions(), key=lambda question: question.kind)
    if not questions:
        await store.send("run-1", "reply", "thanks", id="1")
    elif questions[0].kind == "question":
        await store.answer(questions[0].id, "blue")
    else:
        digest = questions[0].content["digest"]
        voter = "bob" if questions[0].votes else "ada"
        await store.vote(questions[0].id, approve=True, voter=voter, digest=digest)
    (row,) = store.runs()
    assert row.wakes_at is not None


def live_to_the_end(
    killer: ProgramKiller, folder: Path, backend: str, kill_at: KillPoint | None = None
) -> tuple[int, list[int]]:
    """Live until the program has ended; return the number of kills, and the numbers of records of parking."""
    folder.mkdir()
    kills = 0
    with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
        for _ in range(12):
            life = killer.live(kill_at=kill_at, folder=str(folder), backend=backend)
            assert not life.error
            kills += life.was_killed
            if life.was_killed:
                kill_at = None
            elif life.result == PARKED:
                anyio.run(answer_something, store)
            else:
                break
        assert life.result == EXPECTED
        assert (folder / PAID).read_text().split() == ["first", "last"]
        records = store.records("run-1")
        assert len([record for record in records if record.kind == "response"]) == 1
        assert [row.status for row in store.runs()] == ["ended"]
        return kills, [record.seq for record in records if record.body == b"parked"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_parked_run_survives_kills(
    killer: ProgramKiller, tmp_path: Path, chance: random.Random, all_cases: bool, backend: str
) -> None:
    kills, parked = live_to_the_end(killer, tmp_path / "whole", backend)
    assert (kills, len(parked)) == (0, 4)
    moments: list[Literal["before", "after"]] = ["before", "after"]
    points = [(record, when) for record in range(1, parked[-1] + 3) for when in moments]
    if settings.get_current_profile_name() != "explore":
        chosen = [(record, when) for record in chance.sample(parked, 1) for when in moments]
        others = chance.sample([point for point in points if point not in chosen], CHOSEN)
        points = [*chosen, *others] if all_cases else [chance.choice(chosen), *others[:1]]
    for record, when in points:
        kill_at = KillPoint(record=record, when=when)
        kills, _ = live_to_the_end(killer, tmp_path / f"{record}-{when}", backend, kill_at)
        assert kills == 1
