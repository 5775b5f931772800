"""Kills at every moment of every shape, on both event loops and both stores, with the figures at the end.

    python -m tests.faults.durable.matrix [--seed N] [--part 0.25] [--shapes map,race] [--stores sqlite]

The exit status is 1 if anything was found. Without PostgreSQL on the machine, its half is left out.
"""

import argparse
import collections
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.unit.journal.postgresql_server import running_server

from .lives import KINDS, Lives, run_with_kills, warm_killer
from .plans import KillPlans
from .shapes import SHAPES

BACKENDS = ("trio", "asyncio")
STORES = ("sqlite", "postgresql")
DURABILITIES = ("response", "effect")


class Matrix:
    """Counts what happens in many runs.

    Args:
        killer: Runs the lives.
        folder: A folder for the files of the runs.
        chance: Chooses moments.
        addresses: The addresses of the stores; None for a file of each run.
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
        self._killer = killer
        self._folder = folder
        self._chance = chance
        self._addresses = addresses
        self._part = part
        self._numbers = itertools.count(1)
        self.figures: collections.Counter[str] = collections.Counter()

    def run_shape(self, store: str, backend: str, shape: str) -> None:
        """Kill a shape at every moment, or at a part of them."""
        whole = self._new_lives(store, backend, shape)
        findings = whole.findings(whole.live())
        self._count(whole, findings, "whole")
        for plan in KillPlans(whole.records, self._chance).every_plan():
            if self._chance.random() >= self._part:
                continue
            lives = self._new_lives(store, backend, shape)
            self._count(lives, run_with_kills(lives, plan), f"{store} {backend} {shape} {_told(plan)}")

    def _new_lives(self, store: str, backend: str, shape: str) -> Lives:
        folder = self._folder / f"{store}-{backend}-{shape}-{next(self._numbers)}"
        durability = self._chance.choice(DURABILITIES)
        return Lives(self._killer, folder, backend, [shape], self._addresses[store], durability=durability)

    def _count(self, lives: Lives, findings: dict[str, list[str]], title: str) -> None:
        self.figures.update(runs=1, kills=lives.kills, lives=lives.lives, reconciled=lives.reconciled)
        for kind, found in findings.items():
            self.figures[kind] += 1
            print(f"{kind}: {title}\n{found[0][-2_000:]}", flush=True)
        if findings:
            print(f"the files are in {lives.folder}", flush=True)
        else:
            shutil.rmtree(lives.folder)


def _told(plan: list[KillPoint]) -> str:
    return ", ".join(
        f"{point.mark} {point.nth}"
        if point.mark
        else f"{point.when} record {point.record}"
        if point.record
        else f"{point.seconds:.3f} s"
        for point in plan
    )


def open_addresses(stores: list[str], stack: ExitStack, folder: Path) -> Iterator[tuple[str, str | None]]:
    """The stores that are there, and their addresses."""
    if "sqlite" in stores:
        yield "sqlite", None
    if "postgresql" in stores:
        try:
            yield "postgresql", stack.enter_context(running_server()).address_of(folder)
        except pytest.skip.Exception as reason:
            print(f"PostgreSQL is left out: {reason}", flush=True)


def main() -> int:
    """Run the matrix; return the exit status."""
    parser = argparse.ArgumentParser(description="Kill durable runs at every moment.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--part", type=float, default=1.0, help="the part of the moments, at random")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--stores", type=lambda text: text.split(","), default=list(STORES))
    parser.add_argument("--folder", type=Path, help="where the files of the runs are; those of failures stay")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=options.folder))
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with ExitStack() as stack:
        addresses = dict(open_addresses(options.stores, stack, folder))
        killer = stack.enter_context(warm_killer())
        matrix = Matrix(killer, folder, random.Random(options.seed), addresses, options.part)
        for store, backend, shape in itertools.product(addresses, BACKENDS, options.shapes):
            matrix.run_shape(store, backend, shape)
            seconds = time.monotonic() - began
            print(f"{seconds:5.0f} s  {store} {backend} {shape}: {matrix.figures['kills']} kills", flush=True)
    print(", ".join(f"{name}: {matrix.figures[name]}" for name in ("runs", "lives", "kills", "reconciled")))
    print(", ".join(f"{kind}: {matrix.figures[kind]}" for kind in KINDS))
    found = sum(matrix.figures[kind] for kind in KINDS)
    if not found:
        shutil.rmtree(folder)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
