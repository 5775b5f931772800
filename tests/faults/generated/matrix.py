"""Kills of generated programs, on both event loops and both stores, with the figures at the end.

    python -m tests.faults.generated.matrix [--kills 2000] [--seed N] [--stores sqlite] [--kinds text,row]

Half of the programs change after their first life. The exit status is 1 if anything was found; each finding
has a file with its program, which `--program` runs again:

    python -m tests.faults.generated.matrix --program FILE
"""

import itertools
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.durable.counting import BACKENDS, KillCounter, new_parser, opened_stores
from tests.faults.durable.lives import warm_killer
from tests.faults.durable.plans import KillPlans

from .changes import changed
from .oracle import KINDS, GeneratedLives, run_lives
from .programs import Program, dumped, generated_programs, is_supported, loaded
from .values import MAKERS

PROGRAMS_OF_A_PART = 20


class GeneratedMatrix(KillCounter):
    """Counts what happens in the lives of generated programs.

    Args:
        killer: See `KillCounter`, as for `folder`, `chance` and `addresses`.
        folder: See there.
        chance: See there; it also chooses loops, stores and changes.
        addresses: See there.
        kinds: The kinds of values.
        only_supported: Whether programs are left out that keep orders in ways of their own.
        changed_part: The part of the programs that change after their first life.
    """

    def __init__(
        self,
        killer: ProgramKiller,
        folder: Path,
        chance: random.Random,
        addresses: dict[str, str | None],
        kinds: list[str],
        *,
        only_supported: bool = False,
        changed_part: float = 0.5,
    ) -> None:
        super().__init__(killer, folder, chance, addresses)
        self.kinds = kinds
        self._only_supported = only_supported
        self._changed_part = changed_part

    def kill_program(self, program: Program) -> None:
        """Run a program once, and then kill it at a named moment of its first life and in recovery."""
        if self._only_supported and not is_supported(program.root):
            return
        chance = self.chance
        store, backend = chance.choice(list(self.addresses)), chance.choice(BACKENDS)
        whole = self._lives(program, store, backend)
        life = whole.live()
        if life.result is not None and "raised" in life.result:
            self.figures["refused in the first life"] += 1
            return
        findings = whole.findings(life)
        self._count(whole, findings, {"program": program, "store": store, "backend": backend})
        if findings:
            return
        plans = KillPlans(whole.records, chance)
        change = changed(program, chance, self.kinds) if chance.random() < self._changed_part else None
        firsts = list(plans.first_kills())
        for first in chance.sample(firsts, min(3, len(firsts))):
            kills = [first] if change else [first, plans.recovery_kill()]
            lives = self._lives(program, store, backend)
            findings = run_lives(lives, kills, change)
            case = {"program": program, "kills": kills, "change": change, "store": store, "backend": backend}
            self._count(lives, findings, case)

    def _lives(self, program: Program, store: str, backend: str) -> GeneratedLives:
        folder, address, durability = self.new_run("run", store)
        return GeneratedLives(self.killer, folder, backend, program, address, durability=durability)

    def _count(self, lives: GeneratedLives, findings: dict[str, list[str]], case: dict[str, Any]) -> None:
        self.figures["raised"] += bool(lives.raised)
        if self.count(lives, findings, case["store"], case["backend"]):
            told = {name: _plain(value) for name, value in case.items()}
            (lives.folder / "case.json").write_text(json.dumps(told))


def _plain(value: Any) -> Any:
    if isinstance(value, Program):
        return json.loads(dumped(value))
    if isinstance(value, list):
        return [asdict(point) for point in value]
    return value


def run_case(
    killer: ProgramKiller, folder: Path, case: dict[str, Any], **options: Any
) -> dict[str, list[str]]:
    """Run one case again, as a finding of the matrix has written it."""
    change = case.get("change")
    kills = [KillPoint(**point) for point in case.get("kills", ())]
    program = loaded(json.dumps(case["program"]))
    lives = GeneratedLives(killer, folder, case.get("backend", "trio"), program, **options)
    return run_lives(lives, kills, loaded(json.dumps(change)) if change else None)


def main() -> int:
    """Run the matrix; return the exit status."""
    parser = new_parser("Kill generated programs.")
    parser.add_argument("--kills", type=int, default=2_000)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(MAKERS))
    parser.add_argument("--supported", action="store_true", help="only programs that may never raise")
    parser.add_argument("--program", type=Path, help="a case.json to run again")
    options = parser.parse_args()
    if options.program:
        folder = Path(tempfile.mkdtemp(prefix="case-", dir=options.folder))
        with warm_killer() as killer:
            findings = run_case(killer, folder / "run", json.loads(options.program.read_text()))
        print(json.dumps(findings, indent=2))
        return int(bool(findings))
    with opened_stores(options) as stores:
        matrix = GeneratedMatrix(*stores, options.kinds, only_supported=options.supported)
        generate_until(matrix, options.kills, options.seed, is_told=True)
    names = ("runs", "lives", "kills", "reconciled", "raised", "refused in the first life")
    return matrix.finish(names, KINDS)


def generate_until(matrix: GeneratedMatrix, kills: int, first_seed: int, *, is_told: bool = False) -> None:
    """Generate programs and kill them, until there are enough kills."""
    began = time.monotonic()
    for part in itertools.count(first_seed):

        @seed(part)
        @settings(
            max_examples=PROGRAMS_OF_A_PART,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(generated_programs(matrix.kinds))
        def kill_some(program: Program) -> None:
            if matrix.figures["kills"] < kills:
                matrix.kill_program(program)

        kill_some()
        if is_told:
            print(f"{time.monotonic() - began:5.0f} s  {matrix.figures['kills']} kills", flush=True)
        if matrix.figures["kills"] >= kills:
            return


if __name__ == "__main__":
    sys.exit(main())
