"""Workers that are killed at random, and programs that are killed: no effect is lost, and none doubled.

`python -m tests.faults.durable_workers.matrix` kills more, with PostgreSQL, too.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.durable_workers.checks import kills_in, run_with_kills, warm_workers_killer
from tests.unit.journal.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

ITEMS = 8


@pytest.fixture(scope="module")
def workers_killer() -> Iterator[ProgramKiller]:
    """A killer of the program in `durable_workers`."""
    with warm_workers_killer() as opened:
        yield opened


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_killed_workers_and_programs_lose_and_double_nothing(
    tmp_path: Path, workers_killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    kill_at = KillPoint(record=chance.randint(20, 12 * ITEMS), when=chance.choice(("before", "after")))
    print(kill_at)
    found, lives = run_with_kills(
        workers_killer, folder, backend, [kill_at], items=ITEMS, kills=4, enters_again=False
    )
    assert found == {}, kills_in(folder)
    assert lives >= 2
    assert kills_in(folder)


def test_killed_workers_that_append_to_the_store_themselves_lose_and_double_nothing(
    tmp_path: Path,
    workers_killer: ProgramKiller,
    chance: random.Random,
    postgresql_server: PostgresqlServer,
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    kill_at = KillPoint(seconds=chance.uniform(0.5, 2))
    print(kill_at)
    found, _ = run_with_kills(
        workers_killer,
        folder,
        chance.choice(("asyncio", "trio")),
        [kill_at],
        address=postgresql_server.address_of(folder),
        items=4,
        kills=2,
        writes=True,
        enters_again=False,
    )
    assert found == {}, kills_in(folder)
