"""The tables of a store: records, and the lease of each run.

Every function takes the database of the store's thread and is one transaction. A lease names the process
that works on a run. Each claim raises the run's epoch, and each commit of records checks it in its own
transaction, so a process that has lost a run can record nothing more. The time is that of the database, which
all processes share.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from . import (
    audit,
    audit_table,
    blob_table,
    budget_table,
    key_table,
    memory_schema,
    message_table,
    question_table,
    queue_suspects,
    queue_table,
    schedule_table,
    store_mark,
    topic_schema,
    writer_table,
)
from .audit import Head, StoredRecord, Tail
from .blob_table import load_body, store_body
from .database import Database
from .errors import JournalStoreError, RunInProgressError, RunPrunedError, RunTakenOverError
from .holders import describe_holder, is_alive
from .key_table import check_keys
from .names import check_text
from .records import Record

LEASE_SECONDS = 30.0
"""The time after which a process that renews its lease no more has lost its run."""

RunStatus: TypeAlias = Literal["running", "ended", "failed", "cancelled", "parked", "stuck"]
"""The status of a run: how its last life ended, or `running` as long as it was not.

A run that is parked waits: its process has ended it, and a later life goes on. A run of a queue is stuck when
too many of its lives crashed: no worker takes it up any more.
"""

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL,
    leased_until {real} NOT NULL,
    created_at {real} NOT NULL,
    updated_at {real} NOT NULL,
    error TEXT NOT NULL DEFAULT ''
){table_options}
""",
        """
CREATE TABLE records (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    place TEXT NOT NULL,
    kind TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    at {real} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (run_id, seq)
){table_options}
""",
        "CREATE UNIQUE INDEX records_by_place ON records (run_id, {place}, kind) WHERE kind <> 'life'",
    ),
    message_table.MIGRATION,
    ("ALTER TABLE runs ADD COLUMN wakes_at {real}",),
    (
        *audit.MIGRATION,
        *key_table.MIGRATION,
        *blob_table.MIGRATION,
        "ALTER TABLE runs ADD COLUMN pruned_at {real}",
    ),
    (*queue_table.MIGRATION, *schedule_table.MIGRATION),
    question_table.MIGRATION,
    (*queue_table.BLOB_MIGRATION, *schedule_table.BLOB_MIGRATION, *question_table.BLOB_MIGRATION),
    writer_table.MIGRATION,
    queue_suspects.MIGRATION,
    store_mark.MIGRATION,
    (  # a life that counts for nothing does not take the place of a later one
        "DROP INDEX records_by_place",
        "CREATE UNIQUE INDEX records_by_place ON records (run_id, {place}, kind, epoch) WHERE kind <> 'life'",
    ),
    budget_table.MIGRATION,
    memory_schema.MIGRATION,
    topic_schema.MIGRATION,
)
"""The statements that lead from each version of the schema to the next one. Only ever append to them."""


class RunRow(Struct, frozen=True, kw_only=True):
    """One run of a store.

    Args:
        run_id: The run.
        status: Its status: `running` also after its process was killed, until the next one takes it up.
        lives: The number of its lives.
        created_at: The beginning of its first life, in seconds since 1970.
        updated_at: The time of the last change, in seconds since 1970.
        error: The error that ended its last life; empty for none.
        wakes_at: The time at which a parked run is due, in seconds since 1970; None for none.
        pruned_at: The time at which its records were deleted, in seconds since 1970; None for never.
    """

    run_id: str
    status: RunStatus
    lives: int
    created_at: float
    updated_at: float
    error: str
    wakes_at: float | None = None
    pruned_at: float | None = None


def migrate(database: Database, name: str) -> None:
    """Bring the schema up to date.

    Args:
        database: The database.
        name: Its name, for errors.

    Raises:
        JournalStoreError: The schema is one of a newer version.
    """
    with database.transaction():
        version = database.read_schema_version()
        if version > len(_MIGRATIONS):
            raise JournalStoreError(
                f"{name} was written by a newer version of nighthawk-async (schema {version}; this version "
                f"knows {len(_MIGRATIONS)}); update the package."
            )
        if version == len(_MIGRATIONS):
            return
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                database.change(statement.strip().format_map(database.SCHEMA_WORDS))
        database.write_schema_version(len(_MIGRATIONS))


def claim_run(database: Database, run_id: str, holder: str) -> tuple[int, list[Record]]:
    """Begin a life of a run: take its lease, and read its records.

    Returns:
        The epoch of the life, and the records of earlier ones, in order.

    Raises:
        JournalAuditError: The run has the chain of another audit key, or its records do not fit a keyed one.
        JournalKeyError: A key of the encryption is missing, or is another one.
        JournalValueError: The id cannot be stored.
        RunInProgressError: Another process works on the run.
        RunPrunedError: The records of the run were deleted.
    """
    check_text(run_id, "the id of the run")
    now = database.NOW
    with database.transaction():
        check_keys(database)
        database.change(
            "INSERT INTO runs "
            "(run_id, status, epoch, holder, leased_until, created_at, updated_at, audit_key) "
            f"VALUES (?, 'ended', 0, '', 0, {now}, {now}, ?) ON CONFLICT (run_id) DO NOTHING",
            run_id,
            database.audit.key_name,
        )
        ((epoch, is_leased, holds, pruned_at),) = database.query(
            f"SELECT epoch, status = 'running' AND leased_until > {now}, holder, pruned_at FROM runs "
            f"WHERE run_id = ?{database.FOR_UPDATE}",
            run_id,
        )
        if pruned_at is not None:
            raise RunPrunedError(
                f"run {run_id!r} has ended, and its records were deleted since: it cannot continue. Give new "
                "work an id of its own."
            )
        if is_leased and is_alive(holds):
            raise RunInProgressError(
                f"run {run_id!r} is in progress in {describe_holder(holds)}; it can be taken over when that "
                f"has ended, or has not renewed its lease for {LEASE_SECONDS:g} seconds."
            )
        database.change(
            f"UPDATE runs SET status = 'running', epoch = ?, holder = ?, leased_until = {now} + ?, "
            f"updated_at = {now}, error = '', wakes_at = NULL WHERE run_id = ?",
            epoch + 1,
            holder,
            LEASE_SECONDS,
            run_id,
        )
        writer_table.dismiss_writers(database, run_id)
        head = _continued_chain(database, run_id, is_new=epoch == 0)
        records = read_records(database, run_id)
        last = records[-1].seq if records else 0
        database.audit.tails[run_id, epoch + 1] = Tail(head=head, seq=last)
        return epoch + 1, records


def _continued_chain(database: Database, run_id: str, *, is_new: bool) -> Head:
    """The head of the chain of a run that is about to continue. A chain with a key is checked first."""
    row = audit_table.read_head(database, run_id)
    database.audit.check_key(run_id, row.key_name)
    if row.key_name:
        if is_new:
            audit_table.write_head(database, run_id, Head())
        return audit_table.check_chain(database, run_id).head
    if row.is_unlinked:  # new, or of an earlier version
        return audit_table.link_records(database, run_id)
    return row.head


def append_records(database: Database, run_id: str, epoch: int, records: Sequence[Record]) -> None:
    """Append records to a run, and renew its lease, within a transaction of the caller.

    Their numbers follow the last one that is there: other processes may append to the run, too.

    Raises:
        JournalValueError: A place cannot be stored.
        RunTakenOverError: The epoch is not that of the run any more.
    """
    tail = database.audit.tails.get((run_id, epoch))
    if tail is not None and _append_after(database, run_id, epoch, records, tail):
        return
    lock_run(database, run_id)
    is_appended = _append_after(database, run_id, epoch, records, audit_table.read_tail(database, run_id))
    _check_lease(database, run_id, epoch, int(is_appended))


def _append_after(database: Database, run_id: str, epoch: int, records: Sequence[Record], tail: Tail) -> bool:
    """Append records after the last ones; False, and nothing done, if others are the last ones."""
    audit = database.audit
    rows, after = _linked_rows(database, run_id, _numbered(records, tail.seq), tail.head)
    # Nobody else appends to a chain with a key. What its row has instead was changed, and is not continued.
    is_shared = not audit.key_name
    changed = database.change(
        f"UPDATE runs SET leased_until = {database.NOW} + ?, updated_at = {database.NOW}, link = ?, "
        "linked = ?, seal = ? WHERE run_id = ? AND epoch = ?" + (" AND linked = ?" if is_shared else ""),
        *(LEASE_SECONDS, after.link, after.count, audit.seal(run_id, after), run_id, epoch),
        *((tail.head.count,) if is_shared else ()),
    )
    if changed == 1:
        audit.tails[run_id, epoch] = Tail(head=after, seq=tail.seq + len(records))
        database.change_many(_INSERT_RECORD, rows)
    return changed == 1


def append_as_writer(
    database: Database, run_id: str, epoch: int, records: Sequence[Record], writer: str
) -> float:
    """Append records to a run of another process, within a transaction of the caller; see `writer_table`.

    The lease is not renewed: it is that of the other process.

    Returns:
        The seconds until it ends, if it is not renewed.

    Raises:
        JournalValueError: A place cannot be stored.
        RunTakenOverError: The run has ended or was taken over, or the writer was dismissed.
    """
    rows = database.query(
        f"SELECT leased_until - {database.NOW}, link, linked FROM runs WHERE run_id = ? AND epoch = ? "
        f"AND status = 'running'{database.FOR_UPDATE}",
        run_id,
        epoch,
    )
    if not rows:
        raise RunTakenOverError(
            f"run {run_id!r} has ended or was taken over; its workers record nothing more."
        )
    ((seconds, link, count),) = rows
    # A query of its own, which sees what was committed while the one before waited.
    ((last, is_admitted),) = database.query(
        "SELECT (SELECT max(seq) FROM records WHERE run_id = ?), "
        "EXISTS (SELECT 1 FROM run_writers WHERE run_id = ? AND writer = ?)",
        *(run_id, run_id, writer),
    )
    if not is_admitted:
        raise RunTakenOverError(
            f"run {run_id!r}: the program has lost this worker, and has given its calls to others; this one "
            "records nothing more."
        )
    linked, after = _linked_rows(database, run_id, _numbered(records, last or 0), Head(link or b"", count))
    database.change(
        f"UPDATE runs SET updated_at = {database.NOW}, link = ?, linked = ? WHERE run_id = ?",
        *(after.link, after.count, run_id),
    )
    database.change_many(_INSERT_RECORD, linked)
    return seconds


def _numbered(records: Sequence[Record], last: int) -> list[Record]:
    """Records with the numbers after the last one; mostly, the process of the run has given them these."""
    return [
        record if record.seq == seq else msgspec.structs.replace(record, seq=seq)
        for seq, record in enumerate(records, last + 1)
    ]


_INSERT_RECORD = (
    "INSERT INTO records (run_id, seq, place, kind, epoch, at, body, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _linked_rows(
    database: Database, run_id: str, records: Sequence[Record], head: Head
) -> tuple[Sequence[tuple[object, ...]], Head]:
    """The rows of records that continue the chain of a run, and its new end."""
    for each in records:
        check_text(each.place, "a place")
    return database.audit.extend(head, run_id, [_stored_record(database, run_id, each) for each in records])


def insert_copy(database: Database, row: RunRow, records: Sequence[Record]) -> bool:
    """Insert a run that nobody works on, with its records, within a transaction of the caller.

    Returns:
        Whether there was none with its id.

    Raises:
        JournalValueError: The id cannot be stored.
    """
    check_text(row.run_id, "the id of the run")
    check_keys(database)
    changed = database.change(
        "INSERT INTO runs "
        "(run_id, status, epoch, holder, leased_until, created_at, updated_at, error, audit_key) "
        "VALUES (?, ?, ?, '', 0, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING",
        *(row.run_id, row.status, row.lives, row.created_at, row.updated_at, row.error),
        database.audit.key_name,
    )
    if changed == 1:
        rows, head = _linked_rows(database, row.run_id, records, Head())
        database.change_many(_INSERT_RECORD, rows)
        audit_table.write_head(database, row.run_id, head)
    return changed == 1


def _stored_record(database: Database, run_id: str, record: Record) -> StoredRecord:
    seq, place, kind = record.seq, record.place, record.kind
    body = store_body(database, record.body, "records", run_id, seq, place, kind)
    return seq, place, kind, record.epoch, record.at, body


def renew_lease(database: Database, run_id: str, epoch: int) -> None:
    """Renew the lease of a run, within a transaction of the caller.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    changed = database.change(
        f"UPDATE runs SET leased_until = {database.NOW} + ?, updated_at = {database.NOW} "
        "WHERE run_id = ? AND epoch = ?",
        LEASE_SECONDS,
        run_id,
        epoch,
    )
    _check_lease(database, run_id, epoch, changed)


def _check_lease(database: Database, run_id: str, epoch: int, changed: int) -> None:
    if changed != 1:
        database.audit.tails.pop((run_id, epoch), None)
        raise RunTakenOverError(
            f"run {run_id!r} was taken over by another process; this one records nothing more."
        )


def end_run(
    database: Database,
    run_id: str,
    epoch: int,
    status: RunStatus,
    error: str,
    wakes_at: float | None = None,
    due: Sequence[Callable[[Database], bool]] = (),
) -> float | None:
    """End a life of a run, and give its lease back.

    Args:
        database: The database.
        run_id: The run.
        epoch: The life.
        status: Its status.
        error: The error that ended it; empty for none.
        wakes_at: The time at which a parked run is due, in seconds since 1970; None for none.
        due: Functions that look for what the run waits for; it is due at once if one of them finds it.

    Returns:
        The time at which the run is due.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    error = error.encode(errors="replace").decode().replace("\0", "?")
    if database.codec.active_key:
        error = error.partition(":")[0]  # the type alone: the text may have parts of values
    # A run that was woken during its life is due at once.
    wakes = "COALESCE(wakes_at, ?)" if status == "parked" else "?"
    with database.transaction():
        renew_lease(database, run_id, epoch)
        database.change(
            f"UPDATE runs SET status = ?, error = ?, wakes_at = {wakes}, holder = '', leased_until = 0 "
            "WHERE run_id = ?",
            *(status, error, wakes_at, run_id),
        )
        database.audit.tails.pop((run_id, epoch), None)
        writer_table.dismiss_writers(database, run_id)
        if status == "ended":
            question_table.close_questions(database, run_id)
        elif any(is_due(database) for is_due in due):
            wake_run(database, run_id)
            ((wakes_at,),) = database.query("SELECT wakes_at FROM runs WHERE run_id = ?", run_id)
    return wakes_at


def lock_run(database: Database, run_id: str) -> None:
    """Let no other process begin, park or end the run before the transaction of the caller ends."""
    database.query(f"SELECT run_id FROM runs WHERE run_id = ?{database.FOR_UPDATE}", run_id)


def wake_run(database: Database, run_id: str) -> None:
    """Make a parked run due at once, within a transaction of the caller; nothing for any other run.

    The row is locked in any case, so a process that parks the run at this moment either has done so, or finds
    what the caller has written.
    """
    database.change(
        f"UPDATE runs SET wakes_at = CASE WHEN status = 'parked' THEN {database.NOW} ELSE wakes_at END "
        "WHERE run_id = ?",
        run_id,
    )


def find_run(database: Database, run_id: str) -> RunRow | None:
    """Read one run; None for none."""
    return next(iter(_read_runs(database, "WHERE run_id = ?", run_id)), None)


def read_runs(database: Database, run_ids: Sequence[str] | None = None) -> list[RunRow]:
    """Read the runs of a store, or some of them, in the order of their first lives."""
    if run_ids is None:
        return _read_runs(database, "")
    marks = ", ".join("?" * len(run_ids))
    return _read_runs(database, f"WHERE run_id IN ({marks})", *run_ids) if run_ids else []


def _read_runs(database: Database, condition: str, *parameters: object) -> list[RunRow]:
    rows = database.query(
        "SELECT run_id, status, epoch, created_at, updated_at, error, wakes_at, pruned_at FROM runs "
        f"{condition} ORDER BY created_at, run_id",
        *parameters,
    )
    return [
        RunRow(
            run_id=row[0],
            status=row[1],
            lives=row[2],
            created_at=row[3],
            updated_at=row[4],
            error=row[5],
            wakes_at=row[6] if row[1] == "parked" else None,
            pruned_at=row[7],
        )
        for row in rows
    ]


def read_records(database: Database, run_id: str, *, after: int = 0) -> list[Record]:
    """Read the records of a run, in order; those after a number alone."""
    return _select_records(database, run_id, "seq > ?", after)


def read_part(database: Database, run_id: str, epoch: int, place: str) -> list[Record]:
    """Read what one life of a run has recorded in a place, in order."""
    inside = f"{place}/"
    condition = "epoch = ? AND (place = ? OR substr(place, 1, ?) = ?)"
    return _select_records(database, run_id, condition, epoch, place, len(inside), inside)


def _select_records(database: Database, run_id: str, condition: str, *parameters: object) -> list[Record]:
    rows = database.query(
        "SELECT seq, place, kind, epoch, at, body FROM records "
        f"WHERE run_id = ? AND {condition} ORDER BY seq",
        run_id,
        *parameters,
    )
    return [
        Record(
            seq=row[0],
            place=row[1],
            kind=row[2],
            epoch=row[3],
            at=row[4],
            body=load_body(database, row[5], "records", run_id, *row[:3]),
        )
        for row in rows
    ]
