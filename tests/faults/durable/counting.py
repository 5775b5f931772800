"""What both matrices of kills share: their options, their stores, and the figures at the end."""

import argparse
import collections
import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nighthawk_async.testing.killing import ProgramKiller
from tests.unit.journal.postgresql_server import running_server

from .lives import Lives, warm_killer

BACKENDS = ("trio", "asyncio")
STORES = ("sqlite", "postgresql")
DURABILITIES = ("response", "effect")


class KillCounter:
    """Counts what happens in the lives of many runs.

    Args:
        killer: Runs the lives.
        folder: A folder for the files of the runs.
        chance: Chooses moments.
        addresses: The addresses of the stores; None for a file of each run.
    """

    def __init__(
        self, killer: ProgramKiller, folder: Path, chance: random.Random, addresses: dict[str, str | None]
    ) -> None:
        self.killer = killer
        self.chance = chance
        self.addresses = addresses
        self.figures: collections.Counter[str] = collections.Counter()
        self._folder = folder
        self._numbers = itertools.count(1)
        self._kills: collections.Counter[tuple[str, str]] = collections.Counter()  # by store and loop

    def new_run(self, name: str, store: str) -> tuple[Path, str | None, str]:
        """A folder for one more run, the address of its store, and when it waits for its records."""
        folder = self._folder / f"{name}-{next(self._numbers)}"
        return folder, self.addresses[store], self.chance.choice(DURABILITIES)

    def count(
        self, lives: Lives, findings: dict[str, list[str]], store: str, backend: str, title: str = ""
    ) -> bool:
        """Count the lives of one run. The files of one with findings stay.

        Returns:
            Whether anything was found.
        """
        self.figures.update(runs=1, kills=lives.kills, lives=lives.lives, reconciled=lives.reconciled)
        self._kills[store, backend] += lives.kills
        for kind, found in findings.items():
            self.figures[kind] += 1
            print(f"{kind}: {title}\n{found[0][-2_000:]}", flush=True)
        if findings:
            print(f"the files are in {lives.folder}", flush=True)
        else:
            shutil.rmtree(lives.folder)
        return bool(findings)

    def finish(self, names: Sequence[str], kinds: Sequence[str]) -> int:
        """Print the figures. The folder stays if there are findings.

        Args:
            names: The names of what is no finding.
            kinds: The kinds of findings.

        Returns:
            The exit status.
        """
        print(", ".join(f"{name}: {self.figures[name]}" for name in names))
        for (store, loop), kills in sorted(self._kills.items()):
            print(f"{store} on {loop}: {kills} kills")
        print(", ".join(f"{kind}: {self.figures[kind]}" for kind in kinds), flush=True)
        has_findings = any(self.figures[kind] for kind in kinds)
        if not has_findings:
            shutil.rmtree(self._folder)
        return int(has_findings)


def new_parser(description: str) -> argparse.ArgumentParser:
    """The options that both matrices have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--stores", type=lambda text: text.split(","), default=list(STORES))
    parser.add_argument("--folder", type=Path, help="where the files of the runs are; those of failures stay")
    return parser


@contextmanager
def opened_stores(
    options: argparse.Namespace,
) -> Iterator[tuple[ProgramKiller, Path, random.Random, dict[str, str | None]]]:
    """What a `KillCounter` needs."""
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=options.folder))
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        addresses = dict(_open_addresses(options.stores, stack, folder))
        yield stack.enter_context(warm_killer()), folder, random.Random(options.seed), addresses


def _open_addresses(stores: list[str], stack: ExitStack, folder: Path) -> Iterator[tuple[str, str | None]]:
    """The stores that are there, and their addresses."""
    if "sqlite" in stores:
        yield "sqlite", None
    if "postgresql" in stores:
        try:
            yield "postgresql", stack.enter_context(running_server()).address_of(folder)
        except pytest.skip.Exception as reason:
            print(f"PostgreSQL is left out: {reason}", flush=True)
