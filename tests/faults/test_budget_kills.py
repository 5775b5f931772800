"""A program is killed at any point of its requests: what it has spent of a shared budget stays, no more."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import nighthawk_async as nh
from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.budget_program import ASKED, LIMITS, WORDS
from tests.unit.journal.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

TURN_TOKENS = 10_050


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    with ProgramKiller("tests.faults.budget_program:main", {}, path=[root, root / "src"]) as opened:
        yield opened


def amounts(address: str) -> tuple[nh.policies.BudgetAmounts, nh.policies.BudgetAmounts, int]:
    """What is spent and reserved, and the number of recorded responses."""
    with nh.journal.open(address) as store:
        budget = nh.budget(**LIMITS, store=store)
        responses = [each for each in store.records("run-1") if each.kind == "response"]
        return budget.spent, budget.reserved, len(responses)


def kill_and_end(
    killer: ProgramKiller, folder: Path, address: str, backend: str, kill_at: KillPoint, is_durable: bool
) -> None:
    """Kill one life, let a second one end, and check what was spent after each."""
    folder.mkdir()
    arguments = {"folder": str(folder), "address": address, "backend": backend, "is_durable": is_durable}
    first = killer.live(kill_at=kill_at, **arguments)
    assert first.was_killed, (kill_at, first)
    asked = _asked(folder)
    spent, reserved, responses = amounts(address)
    case = kill_at, spent, reserved, responses, asked
    assert reserved == nh.policies.BudgetAmounts(), case  # the process is gone, and so is its reservation
    # What has begun to arrive is spent; of the last request nobody may know.
    assert max(asked - 1, responses, 0) <= spent.turns <= asked, case
    assert spent.tokens <= spent.turns * TURN_TOKENS, case

    second = killer.live(**arguments)
    assert second.result == [word.upper() for word in WORDS], second
    lost = asked - responses if is_durable else asked  # requests whose responses no life has found recorded
    spent, reserved, _ = amounts(address)
    case = kill_at, spent, reserved, responses, asked
    assert reserved == nh.policies.BudgetAmounts(), case
    assert spent.steps == len(WORDS) if is_durable else spent.steps > len(WORDS), case
    known = _asked(folder) - lost
    assert known * TURN_TOKENS <= spent.tokens <= _asked(folder) * TURN_TOKENS, case
    assert known <= spent.turns <= _asked(folder), case


def _asked(folder: Path) -> int:
    path = folder / ASKED
    return len(path.read_text().splitlines()) if path.exists() else 0


MOMENTS: list[Literal["before", "after"]] = ["before", "after"]
MARKED = [
    (KillPoint(mark=mark, nth=nth), is_durable)
    for mark in ("reserved", "answered", "ended")
    for nth in (1, 3)
    for is_durable in (True, False)
]
AT_RECORDS = [(KillPoint(record=record, when=when), True) for record in range(2, 11) for when in MOMENTS]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_killed_programs_free_nothing_and_keep_nothing(
    killer: ProgramKiller,
    tmp_path: Path,
    chance: random.Random,
    all_cases: bool,
    store: str,
    request: pytest.FixtureRequest,
) -> None:
    points = [*MARKED, *AT_RECORDS] if all_cases else [chance.choice([*MARKED, *AT_RECORDS])]
    for number, (kill_at, is_durable) in enumerate(points):
        folder = tmp_path / str(number)
        if store == "postgresql":
            server: PostgresqlServer = request.getfixturevalue("postgresql_server")
            address = server.address_of(folder)
        else:
            address = f"sqlite:///{folder}/runs.db"
        kill_and_end(killer, folder, address, chance.choice(("trio", "asyncio")), kill_at, is_durable)
