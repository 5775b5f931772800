"""Kills at every moment of every shape, on both event loops and both stores, with the figures at the end.

    python -m tests.faults.durable.matrix [--seed N] [--part 0.25] [--shapes map,race] [--stores sqlite]

The exit status is 1 if anything was found. Without PostgreSQL on the machine, its half is left out.
"""

import itertools
import random
import sys
import time
from pathlib import Path

from nighthawk_async.testing.killing import KillPoint, ProgramKiller

from .counting import BACKENDS, KillCounter, new_parser, opened_stores
from .lives import KINDS, Lives, run_with_kills
from .plans import KillPlans
from .shapes import SHAPES


class Matrix(KillCounter):
    """Counts what happens in runs of shapes.

    Args:
        killer: See `KillCounter`, as for `folder`, `chance` and `addresses`.
        folder: See there.
        chance: See there.
        addresses: See there.
        part: The part of the moments, which chance chooses.
    """

    def __init__(
        self,
        killer: ProgramKiller,
        folder: Path,
        chance: random.Random,
        addresses: dict[str, str | None],
        part: float,
    ) -> None:
        super().__init__(killer, folder, chance, addresses)
        self._part = part

    def run_shape(self, store: str, backend: str, shape: str) -> None:
        """Kill a shape at every moment, or at a part of them."""
        whole = self._new_lives(store, backend, shape)
        findings = whole.findings(whole.live())
        self.count(whole, findings, store, backend, "whole")
        for plan in KillPlans(whole.records, self.chance).every_plan():
            if self.chance.random() >= self._part:
                continue
            lives = self._new_lives(store, backend, shape)
            title = f"{store} {backend} {shape} {_told(plan)}"
            self.count(lives, run_with_kills(lives, plan), store, backend, title)

    def _new_lives(self, store: str, backend: str, shape: str) -> Lives:
        folder, address, durability = self.new_run(f"{store}-{backend}-{shape}", store)
        return Lives(self.killer, folder, backend, [shape], address, durability=durability)


def _told(plan: list[KillPoint]) -> str:
    return ", ".join(
        f"{point.mark} {point.nth}"
        if point.mark
        else f"{point.when} record {point.record}"
        if point.record
        else f"{point.seconds:.3f} s"
        for point in plan
    )


def main() -> int:
    """Run the matrix; return the exit status."""
    parser = new_parser("Kill durable runs at every moment.")
    parser.add_argument("--part", type=float, default=1.0, help="the part of the moments, at random")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(SHAPES))
    options = parser.parse_args()
    began = time.monotonic()
    with opened_stores(options) as stores:
        matrix = Matrix(*stores, options.part)
        for store, backend, shape in itertools.product(matrix.addresses, BACKENDS, options.shapes):
            matrix.run_shape(store, backend, shape)
            seconds = time.monotonic() - began
            print(f"{seconds:5.0f} s  {store} {backend} {shape}: {matrix.figures['kills']} kills", flush=True)
    return matrix.finish(("runs", "lives", "kills", "reconciled"), KINDS)


if __name__ == "__main__":
    sys.exit(main())
