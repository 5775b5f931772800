"""Kills of workers and programs at random, on both event loops and both stores, with the figures at the end.

    python -m tests.faults.durable_workers.matrix [--kills 100] [--seed N] [--stores sqlite]

The kills are those of workers; each run is also killed as a whole, once or twice. The store `writers` is one
of PostgreSQL, to which workers append themselves. The exit status is 1 if anything was found. Without
PostgreSQL on the machine, its part is left out.
"""

import argparse
import collections
import itertools
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.unit.journal.postgresql_server import running_server

from .checks import kills_in, run_with_kills, warm_workers_killer

BACKENDS = ("trio", "asyncio")
STORES = ["sqlite", "postgresql", "writers"]
KINDS = ("lost", "doubled", "unexpected", "asked again", "wrong", "charged wrongly")
ITEMS = 12
KILLS = 6
"""The greatest number of kills of workers in one run."""


class Matrix:
    """Counts what happens in many runs.

    Args:
        killer: Runs the lives.
        folder: A folder for the files of the runs.
        chance: Chooses moments.
    """

    def __init__(self, killer: ProgramKiller, folder: Path, chance: random.Random) -> None:
        self._killer = killer
        self._folder = folder
        self._chance = chance
        self._numbers = itertools.count(1)
        self.figures: collections.Counter[str] = collections.Counter()

    def run(self, store: str, address: str | None, backend: str) -> None:
        """Kill one run."""
        folder = self._folder / f"{store}-{backend}-{next(self._numbers)}"
        folder.mkdir()
        writes = store == "writers"
        kill_at = [self._kill_point(writes) for _ in range(self._chance.randint(0, 2))]
        durability = self._chance.choice(("response", "effect"))
        found, lives = run_with_kills(
            self._killer,
            folder,
            backend,
            sorted(kill_at, key=lambda each: each.record or 0),
            address=address,
            items=ITEMS,
            kills=KILLS,
            durability=durability,
            writes=writes,
        )
        self.figures.update(
            runs=1,
            lives=lives,
            **{"kills of programs": len(kill_at)},
            **{"kills of workers": len(kills_in(folder))},
        )
        for kind, what in found.items():
            self.figures[kind] += len(what)
            print(f"{kind}: {folder}: {str(what)[:2_000]}", flush=True)
        if not found:
            shutil.rmtree(folder)

    def _kill_point(self, writes: bool) -> KillPoint:
        """The moment of a kill of the program, which appends few records where its workers do that."""
        if writes:
            return KillPoint(seconds=self._chance.uniform(0.5, 4))
        return KillPoint(
            record=self._chance.randint(2, 20 * ITEMS), when=self._chance.choice(("before", "after"))
        )


def main() -> int:
    """Run the matrix; return the exit status."""
    parser = argparse.ArgumentParser(description="Kill workers of durable runs at random.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--kills", type=int, default=100, help="the number of kills of workers, at least")
    parser.add_argument(
        "--stores", type=lambda text: text.split(","), default=STORES, metavar=",".join(STORES)
    )
    parser.add_argument("--folder", type=Path, help="where the files of the runs are; those of failures stay")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="worker-kills-", dir=options.folder))
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with ExitStack() as stack:
        addresses: dict[str, str | None] = {"sqlite": None} if "sqlite" in options.stores else {}
        if others := [each for each in STORES[1:] if each in options.stores]:
            try:
                address = stack.enter_context(running_server()).address_of(folder)
                addresses |= dict.fromkeys(others, address)
            except pytest.skip.Exception as reason:
                print(f"PostgreSQL is left out: {reason}", flush=True)
        matrix = Matrix(stack.enter_context(warm_workers_killer()), folder, random.Random(options.seed))
        for (store, address), backend in itertools.cycle(itertools.product(addresses.items(), BACKENDS)):
            matrix.run(store, address, backend)
            print(f"{time.monotonic() - began:5.0f} s  {store} {backend}: {dict(matrix.figures)}", flush=True)
            if matrix.figures["kills of workers"] >= options.kills:
                break
    found = {kind: matrix.figures[kind] for kind in KINDS}
    print(", ".join(f"{kind}: {count}" for kind, count in found.items()))
    if not any(found.values()):
        shutil.rmtree(folder)
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
