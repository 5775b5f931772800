"""What workers do, each until a moment at which it kills itself, chosen at random."""

import fcntl
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import anyio.to_thread

from nighthawk_async import parallel
from nighthawk_async.distributed import journal_writers
from nighthawk_async.journal.store_thread import commit_listeners
from nighthawk_async.testing import killing
from tests.faults.durable.service import book, book_in_thread, enter_life, read
from tests.faults.durable.shapes import booked, booked_in_thread

KILLS = "kills.txt"
CHARGES = "charges.txt"
PARTS = ("first", "direct", "natural", "left", "right", "thread")
"""The bookings of each item."""

_MARKS = ("booking", "booked", "reconciling", "read outside", "told", "acknowledged", "time")
_MARKS_OF_STORE = ("before commit", "after commit")
"""Marks of workers that append to the store themselves."""
_MOST_PASSES = 6
_MOST_SECONDS = 0.5

Job = tuple[str, int, str, int]
"""The folder, the number of the life, the item, and the greatest number of kills."""


class _DeadlyMarks:
    """Marks at one pass of which the process kills itself.

    Args:
        folder: The folder of the file of kills.
        most: The greatest number of kills.
    """

    def __init__(self, folder: Path, most: int) -> None:
        chance = random.SystemRandom()
        self._folder = folder
        self._most = most
        writes = "NIGHTHAWK_JOURNAL" in os.environ
        self._fatal = chance.choice(_MARKS + (_MARKS_OF_STORE if writes else ()))
        self._nth = chance.randint(1, _MOST_PASSES)
        self._passes: Counter[str] = Counter()
        if self._fatal == "time":
            threading.Thread(
                target=self._die_in, args=(chance.random() * _MOST_SECONDS,), daemon=True
            ).start()

    def reach(self, name: str) -> None:
        """Count a pass."""
        self._passes[name] += 1
        if name == self._fatal and self._passes[name] == self._nth:
            self._die()

    def _die_in(self, seconds: float) -> None:
        time.sleep(seconds)
        self._die()

    def _die(self) -> None:
        with (self._folder / KILLS).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if len(file.readlines()) < self._most:
                file.write(f"{self._fatal} {self._nth}\n")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)


def _arm(folder: Path, most: int) -> None:
    if isinstance(killing._marks, _DeadlyMarks):
        return
    killing._marks = _DeadlyMarks(folder, most)  # type: ignore[assignment]
    writer = journal_writers.ProgramWriter
    tell, take_order = writer.tell, writer.take_order

    def tell_and_mark(self: journal_writers.ProgramWriter, report: object) -> None:
        tell(self, report)  # type: ignore[arg-type]
        killing.mark("told")

    def take_and_mark(self: journal_writers.ProgramWriter, body: bytes) -> None:
        take_order(self, body)
        killing.mark("acknowledged")

    commit_listeners.append(lambda moment, records: killing.mark(f"{moment} commit"))
    writer.tell, writer.take_order = tell_and_mark, take_and_mark  # type: ignore[method-assign]


async def work(job: Job) -> str:
    """Book the parts of an item in all ways."""
    folder, life, item, most_kills = job
    enter_life(Path(folder), life)
    _arm(Path(folder), most_kills)
    results = [await book(f"{item} first"), book_in_thread(f"{item} direct"), await booked(f"{item} natural")]
    results += await parallel.map(book, [f"{item} left", f"{item} right"])
    results.append(await read(item))
    results.append(await anyio.to_thread.run_sync(booked_in_thread, f"{item} thread"))
    return " | ".join(results)
