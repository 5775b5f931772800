"""The lives of one run of the killed program, and what must be true of them.

- lost: an item that should have been booked was not.
- repeated: a call of an effect took effect twice; two results of one shape were booked.
- asked again: a request, or a question to a person, whose answer had been acknowledged before the life that
  asked; or anything below a decision that had been.
- wrong: another result than that of a run that nobody killed, an error, or records that changed.
- hangs: a life that did not end.
"""

import collections
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nighthawk_async as nh
from nighthawk_async.journal.diverged_lives import records_that_count
from nighthawk_async.journal.effect_call import idempotency_key
from nighthawk_async.journal.records import Record
from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller

from .service import ASKED, BOOKINGS, QUESTIONS, READINGS, RECONCILED, lines_of
from .shapes import SHAPES, seal

ROOT = Path(__file__).parents[3]
LIFE_SECONDS = 120.0
KINDS = ("lost", "repeated", "asked again", "wrong", "hangs")


@contextmanager
def warm_killer() -> Iterator[ProgramKiller]:
    """A killer of the program that has loaded it."""
    program = "tests.faults.durable.program:main"
    with ProgramKiller(program, {}, path=[ROOT, ROOT / "src"], timeout=LIFE_SECONDS) as killer:
        yield killer


def read_records(address: str, run_id: str) -> list[Record]:
    """Read the records of a run, and leave the files of SQLite as the killed process left them."""
    if not address.startswith("sqlite:"):
        with nh.journal.open(address) as store:
            return store.records(run_id)
    path = Path(address.removeprefix("sqlite:///"))
    if not path.exists():
        return []
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for name in (path.name, f"{path.name}-wal"):
            if (path.parent / name).exists():
                shutil.copy(path.parent / name, folder)
        with nh.journal.open(f"sqlite:///{folder}/{path.name}") as store:
            return store.records(run_id)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until another process has come so far."""
    limit = time.monotonic() + LIFE_SECONDS
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


class Lives:
    """The lives of one run.

    Args:
        killer: Runs them.
        folder: The folder of the program's files; its name is the id of the run.
        backend: The event loop.
        shapes: What the program does.
        address: The address of the store; None for a file in the folder.
        options: More arguments of the program.
    """

    def __init__(
        self,
        killer: ProgramKiller,
        folder: Path,
        backend: str,
        shapes: Sequence[str],
        address: str | None = None,
        **options: Any,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.address = address or f"sqlite:///{folder}/runs.db"
        self.run_id = folder.name
        self.shapes = list(shapes)
        self.kills = 0
        self.records: list[Record] = []  # after the last life
        self._killer = killer
        self._arguments = {
            "folder": str(folder),
            "address": self.address,
            "run_id": self.run_id,
            "backend": backend,
            "shapes": self.shapes,
            **options,
        }
        self._before: list[list[Record]] = []  # the records before each life

    def live(
        self, kill_at: KillPoint | None = None, *, killer: ProgramKiller | None = None, **accidents: Any
    ) -> Life:
        """Live once.

        Args:
            kill_at: The moment at which the life is killed; None to let it end.
            killer: Runs it; None for that of all lives.
            accidents: What happens meanwhile; see `program.main`.
        """
        self._before.append(self.records)
        life = (killer or self._killer).live(
            kill_at=kill_at, life=len(self._before), accidents=accidents, **self._arguments
        )
        self.kills += life.was_killed
        self.refresh()
        return life

    def refresh(self) -> None:
        """Read the records."""
        self.records = read_records(self.address, self.run_id)

    @property
    def last_record(self) -> int:
        """The number of the last record."""
        return self.records[-1].seq if self.records else 0

    @property
    def lives(self) -> int:
        """The number of lives."""
        return len(self._before)

    @property
    def reconciled(self) -> int:
        """The number of questions whether a call took effect."""
        return len(lines_of(self.folder, RECONCILED))

    @property
    def bookings(self) -> list[str]:
        """What the service has booked: a key and an item each."""
        return lines_of(self.folder, BOOKINGS)

    def asked_again(self) -> list[str]:
        """Requests and questions that were sent although their answers had been acknowledged."""
        found: list[str] = []
        for line in lines_of(self.folder, ASKED):
            life, place = line.split(" ", 1)
            before = records_that_count(self._before[int(life) - 1])
            if any(
                (each.kind == "response" and each.place == place)
                or (each.kind == "decision" and place.startswith(f"{each.place}/"))
                for each in before
            ):
                found.append(line)
        for line in lines_of(self.folder, QUESTIONS):
            life, question = line.split()
            if any(
                each.kind == "value" and idempotency_key(self.run_id, each.place) == question
                for each in self._before[int(life) - 1]
            ):
                found.append(line)
        return found

    def repeated_calls(self) -> set[str]:
        """The keys of calls that took effect twice."""
        keys = collections.Counter(line.split()[0] for line in self.bookings)
        return {key for key, count in keys.items() if count > 1}

    def repeated(self) -> list[str]:
        """Calls that took effect twice, and shapes with two results."""
        seals = collections.Counter(
            line.split(" ", 1)[1].split(":")[0] for line in self.bookings if " seal of " in line
        )
        return [*self.repeated_calls(), *(name for name, count in seals.items() if count > 1)]

    def lost(self) -> list[str]:
        """Items that were not booked once."""
        booked = collections.Counter(line.split(" ", 1)[1] for line in self.bookings)
        return [item for name in self.shapes for item in SHAPES[name].once if booked[item] != 1]

    def wrong(self, life: Life) -> list[str]:
        """The mistakes in the result of a life that ended, and in the records that it began with."""
        found: list[str] = []
        if life.error:
            return [life.error]
        for name in self.shapes:
            result = life.result[name]
            if not SHAPES[name].is_right(result):
                found.append(f"{name}: {result}")
            if not any(line.endswith(f" {seal(name, result)}") for line in self.bookings):
                found.append(f"{name}: {result} was not booked")
        for earlier, later in zip(self._before, [*self._before[1:], self.records], strict=True):
            if later[: len(earlier)] != earlier:
                found.append("a record has changed")
        if [each.seq for each in self.records] != list(range(1, len(self.records) + 1)):
            found.append("the numbers of the records have gaps")
        readings = lines_of(self.folder, READINGS)
        if len({line.split()[0] for line in readings}) != len({line.split()[1] for line in readings}):
            found.append("a repeatable call got another key")
        return found

    def findings(self, life: Life) -> dict[str, list[str]]:
        """What is not as it should be after a life that ended; by kind, empty lists left out."""
        found = {
            "wrong": self.wrong(life),
            "asked again": self.asked_again(),
            "repeated": self.repeated(),
            "lost": [] if life.error else self.lost(),
        }
        return {kind: each for kind, each in found.items() if each}


def run_with_kills(lives: Lives, kills: Sequence[KillPoint]) -> dict[str, list[str]]:
    """Kill a run at each of some points, let it end, and enter it once more.

    Returns:
        The findings, by kind.
    """
    try:
        life = Life(was_killed=True)
        for kill_at in (*kills, None):
            life = lives.live(kill_at)
            if not life.was_killed:
                break
        findings = lives.findings(life)
        if findings:
            return findings
        again = lives.live()
        findings = lives.findings(again)
        if again.result != life.result:
            findings.setdefault("wrong", []).append(f"{again.result} after {life.result}")
        return findings
    except TimeoutError as error:
        return {"hangs": [str(error)]}
