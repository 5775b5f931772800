"""Parts of the journal that can be switched off, and accidents of stores, inside of a life of the program."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nighthawk_async.journal import effects, response, sqlite_database, tables
from nighthawk_async.journal.acknowledgement import Acknowledgement
from nighthawk_async.journal.departures import Departures
from nighthawk_async.journal.records import Record, RecordIndex
from nighthawk_async.journal.run_journal import RunJournal
from nighthawk_async.journal.store_thread import StoreThread, commit_listeners
from nighthawk_async.parallel.task_node import Positions
from nighthawk_async.testing.killing import mark

from ..generated.rules import RULES

STOPPED = "stopped.txt"
PAUSED = "paused.txt"
GO_ON = "go-on.txt"
LOG_SIZE = "log-size.txt"
SLOW_SECONDS = 0.03


def _done() -> Acknowledgement[None]:
    acknowledgement: Acknowledgement[None] = Acknowledgement()
    acknowledgement.succeed(None)
    return acknowledgement


def _without_responses() -> None:
    async def find_nothing(self: response.JournaledResponse) -> None:
        return None

    response.JournaledResponse._find_exchange = find_nothing  # type: ignore[method-assign]


def _without_intents() -> None:
    @contextmanager
    def begin_without_record(self: effects.EffectCall) -> Iterator[Acknowledgement[None]]:
        yield _done()

    effects.EffectCall._beginning = begin_without_record  # type: ignore[method-assign,assignment]


def _without_waiting() -> None:
    beginning = effects.EffectCall._beginning

    @contextmanager
    def begin_at_once(self: effects.EffectCall) -> Iterator[Acknowledgement[None]]:
        with beginning(self):
            yield _done()

    effects.EffectCall._beginning = begin_at_once  # type: ignore[method-assign,assignment]


def _without_fence() -> None:
    tables._check_lease = lambda database, run_id, epoch, changed: None  # type: ignore[assignment]


def _without_lease() -> None:
    tables.is_alive = lambda holder: False  # type: ignore[assignment]


def _without_confirmation() -> None:
    StoreThread.hold = lambda self, run_id, epoch: None  # type: ignore[method-assign]


def _without_digests() -> None:
    Positions.is_owned_by = lambda self, owner: True  # type: ignore[method-assign]


def _without_decisions() -> None:
    RunJournal.find = lambda self, place: None  # type: ignore[method-assign]


SWITCHES: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "responses": _without_responses,
    "intents": _without_intents,
    "waiting": _without_waiting,
    "fence": _without_fence,
    "lease": _without_lease,
    "confirmation": _without_confirmation,
    "digests": _without_digests,
    "decisions": _without_decisions,
    **RULES,
}


def switch_off(part: str) -> None:
    """Switch a part of the journal off, so that a test sees it missed."""
    SWITCHES[part]()


def mark_reads() -> None:
    """Pass a mark at each record that is read, and within each transaction, before it is committed."""
    find, append, claim = RecordIndex.find, tables.append_records, tables.claim_run

    def find_and_mark(self: RecordIndex, place: str, kind: Any) -> Record | None:
        record = find(self, place, kind)
        if record is not None:
            mark("read")
        return record

    def append_and_mark(*arguments: Any) -> None:
        append(*arguments)
        mark("appended")

    def claim_and_mark(*arguments: Any) -> Any:
        claimed = claim(*arguments)
        mark("claimed")
        return claimed

    RecordIndex.find = find_and_mark  # type: ignore[method-assign]
    tables.append_records = append_and_mark
    tables.claim_run = claim_and_mark


def slow_down() -> None:
    """Let each commit take long, so that what does not wait for it is seen."""

    def wait(moment: str, records: Sequence[Record]) -> None:
        if moment == "before":
            time.sleep(SLOW_SECONDS)

    commit_listeners.insert(0, wait)  # before the one that may kill the process


def hold_results() -> None:
    """Let the result of a call become durable only when its caller waits for that."""
    waited = threading.Event()
    leave = Departures.leave

    async def tell_and_leave(
        self: Departures, place: str, written: Acknowledgement[None] | None = None
    ) -> None:
        if written is not None:
            waited.set()
        await leave(self, place, written)

    def hold(moment: str, records: Sequence[Record]) -> None:
        if moment == "before" and any(record.kind == "result" for record in records):
            waited.wait()  # for ever where nobody waits: then the process is killed

    Departures.leave = tell_and_leave  # type: ignore[method-assign]
    commit_listeners.insert(0, hold)


def stop_at(folder: Path, number: int) -> None:
    """Stop the process when a record has been written, until it is sent SIGCONT."""

    def stop(moment: str, records: Sequence[Record]) -> None:
        if moment == "after" and any(record.seq == number for record in records):
            (folder / STOPPED).write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            while not (folder / GO_ON).exists():  # another thread may have been given the signal
                time.sleep(0.005)

    commit_listeners.append(stop)


def pause_at(folder: Path, number: int) -> None:
    """Wait before a record is written, until a test has done something to the store."""

    def wait(moment: str, records: Sequence[Record]) -> None:
        if moment == "before" and any(record.seq == number for record in records):
            (folder / PAUSED).touch()
            while not (folder / GO_ON).exists():
                time.sleep(0.005)

    commit_listeners.append(wait)


def fill_disk_at(log: Path, number: int, room: int) -> None:
    """Let files of this process grow no more than some bytes from a record on: the disk is full.

    Args:
        log: The file of SQLite that grows.
        number: The number of the record.
        room: The number of bytes that still fit.
    """

    import resource  # not on every system

    def fill(moment: str, records: Sequence[Record]) -> None:
        if moment == "before" and any(record.seq == number for record in records):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + room, hard))

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    commit_listeners.append(fill)


def limit_pages(number: int) -> None:
    """Let the file of SQLite grow by no more than some pages."""
    prepare = sqlite_database.SqliteDatabase.prepare

    def prepare_limited(self: sqlite_database.SqliteDatabase) -> None:
        prepare(self)
        ((pages,),) = self.query("PRAGMA page_count")
        self.query(f"PRAGMA max_page_count = {pages + number}")

    sqlite_database.SqliteDatabase.prepare = prepare_limited  # type: ignore[method-assign]


def note_log_size(folder: Path, log: Path) -> None:
    """Write down how large the log of SQLite is before each commit: what it holds then is acknowledged."""

    def note(moment: str, records: Sequence[Record]) -> None:
        if moment == "before":
            (folder / LOG_SIZE).write_text(str(log.stat().st_size if log.exists() else 0))

    commit_listeners.append(note)
