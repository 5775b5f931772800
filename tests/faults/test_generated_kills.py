"""Generated programs are killed, continued and changed: an oracle compares their lives with the outside.

The normal run kills the programs of one seed. The session `kills` of nox kills some thousand times, also
programs that change: see `generated.matrix`. The controls switch each rule off, and have to see it broken.
"""

import itertools
import os
import random
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import ProgramKiller
from tests.faults.durable.counting import BACKENDS
from tests.faults.durable.switches import SWITCHES
from tests.faults.generated.controls import CONTROLS, Control, findings_of
from tests.faults.generated.matrix import GeneratedMatrix, generate_until
from tests.faults.generated.oracle import KINDS
from tests.faults.generated.values import MAKERS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

KILLS, KILLS_OF_ALL_CASES = 6, 30
MOST_RUNS = 10
"""Runs without a rule; after so many that found nothing the control fails."""
SEED = 1
"""Always the same programs: those of a seed of its own each time are for the session `kills`."""


def test_killed_generated_programs_continue(tmp_path: Path, killer: ProgramKiller, all_cases: bool) -> None:
    chance = random.Random(SEED)
    matrix = GeneratedMatrix(
        killer, tmp_path, chance, {"sqlite": None}, list(MAKERS), only_supported=True, changed_part=0
    )
    generate_until(matrix, KILLS_OF_ALL_CASES if all_cases else KILLS, SEED)
    assert {kind: matrix.figures[kind] for kind in KINDS if matrix.figures[kind]} == {}


@pytest.mark.parametrize(
    ("control", "backend"),
    list(zip(CONTROLS, itertools.cycle(BACKENDS), strict=False)),
    ids=lambda value: value.rule if isinstance(value, Control) else value,
)
def test_without_a_rule_the_oracle_sees_it_broken(
    tmp_path: Path, killer: ProgramKiller, control: Control, backend: str
) -> None:
    assert control.switch in SWITCHES
    assert findings_of(control, killer, tmp_path / "whole", backend) == {}
    found: set[str] = set()
    for number in range(MOST_RUNS):
        folder = tmp_path / f"without-{number}"
        found |= findings_of(control, killer, folder, backend, without=control.switch).keys()
        if found & control.found:
            return
    pytest.fail(f"without {control.switch} the oracle has found {found or 'nothing'}")
