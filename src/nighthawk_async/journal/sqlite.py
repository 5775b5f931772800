"""The tables of a store in SQLite: records, and the lease of each run.

Every function takes the connection of the store's thread and is one transaction. A lease names the process
that works on a run. Each claim raises the run's epoch, and each commit of records checks it in its own
transaction, so a process that has lost a run can record nothing more.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from .errors import JournalStoreError, RunInProgressError, RunTakenOverError
from .records import Record, RecordKind

LEASE_SECONDS = 30.0
"""The time after which a process that renews its lease no more has lost its run."""

RunStatus: TypeAlias = Literal["running", "ended", "failed", "cancelled"]
"""The status of a run: how its last life ended, or `running` as long as it was not."""

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL,
    leased_until REAL NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    error TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE records (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    place TEXT NOT NULL,
    kind TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX records_by_place ON records (run_id, place, kind) WHERE kind <> 'life';
"""
_BUSY_SECONDS = 30.0
_ENDED = "ended"


class RunRow(Struct, frozen=True, kw_only=True):
    """One run of a store.

    Args:
        run_id: The run.
        status: Its status: `running` also after its process was killed, until the next one takes it up.
        lives: The number of its lives.
        created_at: The beginning of its first life, in seconds since 1970.
        updated_at: The time of the last change, in seconds since 1970.
        error: The error that ended its last life; empty for none.
    """

    run_id: str
    status: RunStatus
    lives: int
    created_at: float
    updated_at: float
    error: str


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file of a store, or create it.

    Raises:
        JournalStoreError: It is no such file, is one of a newer version, or cannot be written durably there.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        if mode != "wal":
            raise JournalStoreError(
                f"{path} cannot have a write-ahead log there (its journal mode is {mode!r}): use a file on a "
                "disk of this machine, not in memory and not on a network file system."
            )
        _migrate(connection, path)
    except sqlite3.Error as error:
        raise JournalStoreError(f"{path} cannot be opened as a journal: {error}") from error
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _SCHEMA_VERSION:
            raise JournalStoreError(
                f"{path} was written by a newer version of nighthawk-async (schema {version}; this version "
                f"knows {_SCHEMA_VERSION}); update the package."
            )
        if version < 1:
            for statement in _SCHEMA.strip().removesuffix(";").split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None, None, None]:
    """Make the `with` statement one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def claim_run(connection: sqlite3.Connection, run_id: str, holder: str) -> tuple[int, list[Record]]:
    """Begin a life of a run: take its lease, and read its records.

    Returns:
        The epoch of the life, and the records of earlier ones, in order.

    Raises:
        RunInProgressError: Another process works on the run.
    """
    now = time.time()
    with transaction(connection):
        row = connection.execute(
            "SELECT epoch, status, holder, leased_until FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None:
            epoch = 1
            connection.execute(
                "INSERT INTO runs (run_id, status, epoch, holder, leased_until, created_at, updated_at) "
                "VALUES (?, 'running', 1, ?, ?, ?, ?)",
                (run_id, holder, now + LEASE_SECONDS, now, now),
            )
        else:
            epoch = row[0] + 1
            if row[1] == "running" and row[3] > now and is_alive(row[2]):
                raise RunInProgressError(
                    f"run {run_id!r} is in progress in process {row[2]}; it can be taken over when that has "
                    f"ended, or has not renewed its lease for {LEASE_SECONDS:g} seconds."
                )
            connection.execute(
                "UPDATE runs SET status = 'running', epoch = ?, holder = ?, leased_until = ?, "
                "updated_at = ?, error = '' WHERE run_id = ?",
                (epoch, holder, now + LEASE_SECONDS, now, run_id),
            )
        return epoch, read_records(connection, run_id)


def append_records(
    connection: sqlite3.Connection, run_id: str, epoch: int, records: Sequence[Record]
) -> None:
    """Append records to a run, and renew its lease, within a transaction of the caller.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    renew_lease(connection, run_id, epoch)
    connection.executemany(
        "INSERT INTO records (run_id, seq, place, kind, epoch, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(run_id, each.seq, each.place, each.kind, epoch, each.at, each.body) for each in records],
    )


def renew_lease(connection: sqlite3.Connection, run_id: str, epoch: int) -> None:
    """Renew the lease of a run, within a transaction of the caller.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    now = time.time()
    changed = connection.execute(
        "UPDATE runs SET leased_until = ?, updated_at = ? WHERE run_id = ? AND epoch = ?",
        (now + LEASE_SECONDS, now, run_id, epoch),
    ).rowcount
    if changed != 1:
        raise RunTakenOverError(
            f"run {run_id!r} was taken over by another process; this one records nothing more."
        )


def end_run(connection: sqlite3.Connection, run_id: str, epoch: int, status: RunStatus, error: str) -> None:
    """End a life of a run, and give its lease back.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    with transaction(connection):
        renew_lease(connection, run_id, epoch)
        connection.execute(
            "UPDATE runs SET status = ?, error = ?, holder = '', leased_until = 0 WHERE run_id = ?",
            (status, error, run_id),
        )


def read_runs(connection: sqlite3.Connection) -> list[RunRow]:
    """Read the runs of a store, in the order of their first lives."""
    rows: Iterable[tuple[str, RunStatus, int, float, float, str]] = connection.execute(
        "SELECT run_id, status, epoch, created_at, updated_at, error FROM runs ORDER BY created_at, run_id"
    )
    return [
        RunRow(run_id=row[0], status=row[1], lives=row[2], created_at=row[3], updated_at=row[4], error=row[5])
        for row in rows
    ]


def read_records(connection: sqlite3.Connection, run_id: str) -> list[Record]:
    """Read the records of a run, in order."""
    rows = connection.execute(
        "SELECT seq, place, kind, epoch, at, body FROM records WHERE run_id = ? ORDER BY seq", (run_id,)
    )
    return [
        Record(
            seq=row[0], place=row[1], kind=cast("RecordKind", row[2]), epoch=row[3], at=row[4], body=row[5]
        )
        for row in rows
    ]


def process_name(token: str) -> str:
    """The name of this process as the holder of a lease.

    Args:
        token: A text that distinguishes the stores of one process.
    """
    return f"{os.getpid()}:{_started_at(os.getpid())}:{token}"


def is_alive(holder: str) -> bool:
    """Whether the process that holds a lease still runs. SQLite files are used on one machine alone."""
    pid, _, rest = holder.partition(":")
    started_at = rest.partition(":")[0]
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to somebody else
    return _started_at(int(pid)) in (started_at, "")


def _started_at(pid: int) -> str:
    """The start time of a process, which distinguishes it from later ones of its number.

    Empty if unknown, and `_ENDED` for a process that its parent has not waited for yet.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return _ENDED if fields[0] in ("Z", "X") else fields[19]
