"""A program that is killed anywhere continues: nothing acknowledged is asked for again or done twice.

The normal run kills at a few moments that a seed chooses; `NIGHTHAWK_KILL_SEED` repeats them. The session
`kills` of nox kills at every moment: see `durable.matrix`. The controls in `test_journal_kill_controls`
switch parts of the journal off, and have to see its promises broken.
"""

import os
import random
from pathlib import Path

import pytest

from nighthawk_async.journal.records import Record
from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.durable.lives import Lives, run_with_kills
from tests.faults.durable.plans import KillPlans
from tests.faults.durable.shapes import SHAPES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

BACKENDS = ("asyncio", "trio")
CASES = [
    *((backend, "sqlite", shape) for backend in BACKENDS for shape in SHAPES),
    # Each shape on one of the event loops with the slower store.
    *((BACKENDS[number % 2], "postgresql", shape) for number, shape in enumerate(SHAPES)),
]

_whole: dict[str, list[Record]] = {}


def whole_records(killer: ProgramKiller, folder: Path, shape: str) -> list[Record]:
    """The records of a run that nobody kills."""
    if shape not in _whole:
        lives = Lives(killer, folder / "whole", "trio", [shape])
        assert lives.findings(lives.live()) == {}
        _whole[shape] = lives.records
    return _whole[shape]


@pytest.mark.parametrize(("backend", "store", "shape"), CASES)
def test_a_killed_run_continues(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    killer: ProgramKiller,
    chance: random.Random,
    backend: str,
    store: str,
    shape: str,
) -> None:
    address = None
    if store == "postgresql":
        address = request.getfixturevalue("postgresql_server").address_of(Path("kills"))
    plans = KillPlans(whole_records(killer, tmp_path, shape), chance)
    kills = 0
    # Half as many with the slower store.
    for number, plan in enumerate(plans.some_plans()[: 2 if address is None else 1]):
        print(backend, store, shape, *plan)
        folder = tmp_path / f"{shape}-{backend}-{number}"
        durability = chance.choice(("response", "effect"))
        lives = Lives(killer, folder, backend, [shape], address, durability=durability)
        assert run_with_kills(lives, plan) == {}
        kills += lives.kills
    assert kills


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_run_of_all_shapes_continues(
    tmp_path: Path, killer: ProgramKiller, chance: random.Random, backend: str
) -> None:
    whole = Lives(killer, tmp_path / "whole", backend, list(SHAPES))
    assert whole.findings(whole.live()) == {}
    last = whole.last_record
    plan = [KillPoint(record=number) for number in sorted(chance.sample(range(2, int(0.8 * last)), 3))]
    print(*plan)
    lives = Lives(killer, tmp_path / "killed", backend, list(SHAPES))
    assert run_with_kills(lives, plan) == {}
    assert lives.kills
