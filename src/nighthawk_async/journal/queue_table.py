"""The table of queue entries: calls that workers are to make, each in a run of its own.

`queue_claims` has what workers do with it. Every function is part of a transaction of the caller. A
transaction that changes an entry and its run changes the entry first.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .blob_table import begin_writing, index_of, load_body, store_body
from .database import Database
from .errors import RunPrunedError
from .queue_suspects import SUSPICIOUS_LOSSES

QueueStatus: TypeAlias = Literal["queued", "claimed", "parked", "ended", "failed", "stuck"]
"""The status of a queue entry.

A worker has claimed it and works on it; its run is parked; it has ended with a result or an error; or it is
stuck, because too many of its lives crashed.
"""

MIGRATION = (
    """
CREATE TABLE queue_entries (
    run_id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    function TEXT NOT NULL,
    arguments {bytes} NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due_at {real} NOT NULL,
    enqueued_at {real} NOT NULL,
    lives INTEGER NOT NULL,
    max_lives INTEGER NOT NULL,
    claim INTEGER NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '',
    leased_until {real} NOT NULL DEFAULT 0,
    result {bytes}
){table_options}
""",
    # With the status, although it is always the same: only so does SQLite read the index alone.
    "CREATE INDEX queue_entries_by_turn ON queue_entries "
    "(queue, priority DESC, due_at, enqueued_at, function, status) WHERE status = 'queued'",
    "CREATE INDEX queue_entries_by_status ON queue_entries (queue, status, holder)",
    "CREATE INDEX runs_by_wake ON runs (wakes_at) WHERE status = 'parked'",
)
"""The statements that make the table; see `tables.migrate`."""

BLOB_MIGRATION = (
    index_of("queue_entries_by_arguments_blob", "queue_entries", "arguments"),
    index_of("queue_entries_by_result_blob", "queue_entries", "result"),
)
"""The statements that make the indexes of large bodies; see `tables.migrate`."""


class QueueEntry(Struct, frozen=True, kw_only=True):
    """One entry of a queue.

    Args:
        run_id: The run.
        queue: The queue.
        function: The function, as `module:name`.
        status: Its status.
        priority: Its priority; the greatest comes first.
        due_at: The time from which a worker may claim it, in seconds since 1970.
        enqueued_at: The time at which it was enqueued, in seconds since 1970.
        lives: The number of its lives that began since it was enqueued, requeued or parked, and count: a life
            that was lost beside others of its process does not.
        max_lives: The number of lives after which it is not repeated.
        losses: The number of its lives since then that were lost: their processes crashed or hung.
        losses_alone: The number of those that were lost while it was alone in its process.
    """

    run_id: str
    queue: str
    function: str
    status: QueueStatus
    priority: int
    due_at: float
    enqueued_at: float
    lives: int
    max_lives: int
    losses: int = 0
    losses_alone: int = 0

    @property
    def is_suspect(self) -> bool:
        """Whether it runs alone in its worker, because it may have ended earlier ones."""
        return self.losses >= SUSPICIOUS_LOSSES and self.status in ("queued", "claimed")


class NewEntry(Struct, frozen=True, kw_only=True):
    """An entry to enqueue.

    Args:
        run_id: The run.
        queue: The queue.
        function: The function, as `module:name`.
        arguments: Its arguments, encoded.
        priority: Its priority.
        max_lives: The number of lives after which it is not repeated.
        enqueued_at: The time of this process, which orders entries that are due at the same time.
    """

    run_id: str
    queue: str
    function: str
    arguments: bytes
    priority: int
    max_lives: int
    enqueued_at: float


class StoredCall(Struct, frozen=True, kw_only=True):
    """The call of an entry, and its end.

    Args:
        status: The status of the entry.
        function: The function, as `module:name`.
        lives: The number of its lives that count.
        losses_alone: The number of those that were lost while it was alone in its process.
        result: Its end, encoded; None before.
        error: The error of its run; empty for none.
    """

    status: QueueStatus
    function: str
    lives: int
    losses_alone: int
    result: bytes | None
    error: str = ""


def add_entry(database: Database, entry: NewEntry, *, delay: float, due_at: float | None) -> bool:
    """Enqueue an entry, unless its run has one; return whether it was new.

    Args:
        database: The database.
        entry: The entry.
        delay: The seconds after which it is due.
        due_at: The time at which it is due, in seconds since 1970, instead; None for none.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
        RunPrunedError: The records of the run were deleted.
    """
    begin_writing(database, entry.arguments)
    check_not_pruned(database, entry.run_id)
    context = arguments_context(entry.run_id, entry.function)
    signed = (entry.queue, entry.priority, entry.max_lives)
    arguments = store_body(database, entry.arguments, *context, signed=signed)
    due = f"{database.NOW} + ?" if due_at is None else "?"
    changed = database.change(
        "INSERT INTO queue_entries (run_id, queue, function, arguments, status, priority, due_at, "
        f"enqueued_at, lives, max_lives) VALUES (?, ?, ?, ?, 'queued', ?, {due}, ?, 0, ?) "
        "ON CONFLICT (run_id) DO NOTHING",
        *(entry.run_id, entry.queue, entry.function, arguments, entry.priority),
        *(delay if due_at is None else due_at, entry.enqueued_at, entry.max_lives),
    )
    if changed == 1:
        # The run may be a fork, which nothing wakes, and its life may end before it has begun.
        database.change(
            f"UPDATE runs SET wakes_at = {database.NOW} WHERE run_id = ? AND status = 'parked' "
            "AND wakes_at IS NULL",
            entry.run_id,
        )
    return changed == 1


def check_not_pruned(database: Database, run_id: str) -> None:
    """Check that a run still has its records and its entry.

    Raises:
        RunPrunedError: They were deleted.
    """
    if database.query("SELECT 1 FROM runs WHERE run_id = ? AND pruned_at IS NOT NULL", run_id):
        raise RunPrunedError(
            f"run {run_id!r} has ended, and its records were deleted since. Give new work an id of its own."
        )


def arguments_context(run_id: str, function: str) -> tuple[str, ...]:
    """The context of the arguments of an entry; see `blob_table.store_body`."""
    return "queue_entries", "arguments", run_id, function


def result_context(run_id: str, function: str) -> tuple[str, ...]:
    """The context of the result of an entry; see `blob_table.store_body`."""
    return "queue_entries", "result", run_id, function


def find_call(database: Database, run_id: str) -> StoredCall | None:
    """Read an entry; None for none.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
        RunPrunedError: The entry was deleted with the records of the run.
    """
    rows = database.query(
        "SELECT status, function, lives, losses_alone, result, "
        "(SELECT error FROM runs WHERE runs.run_id = queue_entries.run_id) "
        "FROM queue_entries WHERE run_id = ?",
        run_id,
    )
    if not rows:
        check_not_pruned(database, run_id)
        return None
    ((status, function, lives, losses_alone, stored, error),) = rows
    result = None if stored is None else load_body(database, stored, *result_context(run_id, function))
    return StoredCall(
        status=status,
        function=function,
        lives=lives,
        losses_alone=losses_alone,
        result=result,
        error=error or "",
    )


def read_call(database: Database, run_id: str) -> tuple[str, bytes]:
    """Read the function of an entry, and its arguments, encoded.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    ((function, stored, *signed),) = database.query(
        "SELECT function, arguments, queue, priority, max_lives FROM queue_entries WHERE run_id = ?", run_id
    )
    context = arguments_context(run_id, function)
    return function, load_body(database, stored, *context, signed=tuple(signed))


def put_back(database: Database, run_ids: Sequence[str]) -> None:
    """Put entries back into their queue, due at once."""
    for run_id in run_ids:
        database.change(
            f"UPDATE queue_entries SET status = 'queued', due_at = {database.NOW}, holder = '', "
            "leased_until = 0 WHERE run_id = ?",
            run_id,
        )


def requeue_entry(database: Database, run_id: str) -> str | None:
    """Put an entry back into its queue that failed or is stuck; return the queue, None if it is not.

    Raises:
        RunPrunedError: The records of the run were deleted.
    """
    rows = database.query(
        "SELECT queue FROM queue_entries WHERE run_id = ? AND status IN ('failed', 'stuck')"
        f"{database.FOR_UPDATE}",
        run_id,
    )
    check_not_pruned(database, run_id)  # after the lock of the row, which `prune` locks too
    if not rows:
        return None
    database.change(
        "UPDATE queue_entries SET lives = 0, losses = 0, losses_alone = 0, result = NULL WHERE run_id = ?",
        run_id,
    )
    put_back(database, [run_id])
    # The messages behind those of this run wait for it.
    database.change(
        f"UPDATE topic_deliveries SET state = 'begun', begun_at = {database.NOW} WHERE run_id = ?", run_id
    )
    return rows[0][0]


def count_entries(database: Database, queue: str) -> dict[str, int]:
    """The numbers of entries of a queue that have not ended, by status."""
    rows = database.query(
        "SELECT status, COUNT(*) FROM queue_entries WHERE queue = ? "
        "AND status IN ('queued', 'claimed', 'parked', 'stuck') GROUP BY status",
        queue,
    )
    return {"queued": 0, "claimed": 0, "parked": 0, "stuck": 0, **dict(rows)}


def read_entries(database: Database) -> list[QueueEntry]:
    """Read the entries of all queues, in the order in which they were enqueued."""
    rows = database.query(
        "SELECT run_id, queue, function, status, priority, due_at, enqueued_at, lives, max_lives, "
        "losses, losses_alone FROM queue_entries ORDER BY enqueued_at, run_id"
    )
    return [
        QueueEntry(
            run_id=row[0],
            queue=row[1],
            function=row[2],
            status=row[3],
            priority=row[4],
            due_at=row[5],
            enqueued_at=row[6],
            lives=row[7],
            max_lives=row[8],
            losses=row[9],
            losses_alone=row[10],
        )
        for row in rows
    ]
