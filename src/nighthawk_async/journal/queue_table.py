"""The table of queue entries: calls that workers are to make, each in a run of its own.

An entry that a worker has claimed names the worker, and has a lease and the number of its claim. A worker
that has lost an entry changes it no more. Every function is part of a transaction of the caller.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .database import Database

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

_MOST_WOKEN = 1_000


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
        lives: The number of its lives that began since it was enqueued, requeued or parked.
        max_lives: The number of lives after which it is not repeated.
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


class ClaimedEntry(Struct, frozen=True, kw_only=True):
    """An entry that a worker has claimed.

    Args:
        run_id: The run.
        function: The function, as `module:name`.
        arguments: Its arguments, encoded.
        lives: The number of its lives, this one included.
        max_lives: The number of lives after which it is not repeated.
        claim: The number of the claim.
        holder: The worker.
    """

    run_id: str
    function: str
    arguments: bytes
    lives: int
    max_lives: int
    claim: int
    holder: str


class StoredCall(Struct, frozen=True, kw_only=True):
    """What an entry calls, and its end.

    Args:
        status: The status of the entry.
        function: The function, as `module:name`.
        arguments: Its arguments, encoded.
        lives: The number of its lives.
        result: Its end, encoded; None before.
    """

    status: QueueStatus
    function: str
    arguments: bytes
    lives: int
    result: bytes | None


def add_entry(database: Database, entry: NewEntry, *, delay: float, due_at: float | None) -> bool:
    """Enqueue an entry, unless its run has one; return whether it was new.

    Args:
        database: The database.
        entry: The entry.
        delay: The seconds after which it is due.
        due_at: The time at which it is due, in seconds since 1970, instead; None for none.
    """
    due = f"{database.NOW} + ?" if due_at is None else "?"
    changed = database.change(
        "INSERT INTO queue_entries (run_id, queue, function, arguments, status, priority, due_at, "
        f"enqueued_at, lives, max_lives) VALUES (?, ?, ?, ?, 'queued', ?, {due}, ?, 0, ?) "
        "ON CONFLICT (run_id) DO NOTHING",
        *(entry.run_id, entry.queue, entry.function, entry.arguments, entry.priority),
        *(delay if due_at is None else due_at, entry.enqueued_at, entry.max_lives),
    )
    return changed == 1


def find_call(database: Database, run_id: str) -> StoredCall | None:
    """Read an entry; None for none."""
    rows = database.query(
        "SELECT status, function, arguments, lives, result FROM queue_entries WHERE run_id = ?", run_id
    )
    return next(
        (
            StoredCall(status=row[0], function=row[1], arguments=row[2], lives=row[3], result=row[4])
            for row in rows
        ),
        None,
    )


def claim_entries(
    database: Database, queue: str, functions: Sequence[str], holder: str, most: int, lease_seconds: float
) -> list[ClaimedEntry]:
    """Claim entries that are due, by priority and then by age.

    Args:
        database: The database.
        queue: The queue.
        functions: The functions that the worker can call.
        holder: The worker.
        most: The greatest number of entries to claim.
        lease_seconds: The time after which the worker has lost an entry that it does not renew, in seconds.
    """
    marks = ", ".join("?" * len(functions))
    due = database.query(  # of the index alone: there may be many entries of other functions
        "SELECT run_id FROM queue_entries "
        f"WHERE queue = ? AND status = 'queued' AND due_at <= {database.NOW} AND function IN ({marks}) "
        f"ORDER BY priority DESC, due_at, enqueued_at LIMIT ?{database.FOR_UPDATE_OF_FREE}",
        *(queue, *functions, most),
    )
    claimed = [_next_claim(database, run_id, holder) for (run_id,) in due]
    for each in claimed:
        database.change(
            "UPDATE queue_entries SET status = 'claimed', lives = ?, claim = ?, holder = ?, "
            f"leased_until = {database.NOW} + ? WHERE run_id = ?",
            *(each.lives, each.claim, holder, lease_seconds, each.run_id),
        )
    return claimed


def _next_claim(database: Database, run_id: str, holder: str) -> ClaimedEntry:
    (row,) = database.query(
        "SELECT function, arguments, lives, max_lives, claim FROM queue_entries WHERE run_id = ?", run_id
    )
    return ClaimedEntry(
        run_id=run_id,
        function=row[0],
        arguments=row[1],
        lives=row[2] + 1,
        max_lives=row[3],
        claim=row[4] + 1,
        holder=holder,
    )


def renew_claims(database: Database, claimed: Sequence[ClaimedEntry], lease_seconds: float) -> None:
    """Renew the leases of claimed entries, but for those that were lost."""
    for each in sorted(claimed, key=lambda entry: entry.run_id):  # all processes in the same order
        database.change(
            f"UPDATE queue_entries SET leased_until = {database.NOW} + ? WHERE {_HELD}",
            *(lease_seconds, *_held(each)),
        )


_HELD = "run_id = ? AND status = 'claimed' AND claim = ? AND holder = ?"


def _held(entry: ClaimedEntry) -> tuple[object, ...]:
    return entry.run_id, entry.claim, entry.holder


def end_entry(database: Database, entry: ClaimedEntry, status: QueueStatus, result: bytes) -> bool:
    """Record the end of a claimed entry; return whether the worker still had it."""
    changed = database.change(
        f"UPDATE queue_entries SET status = ?, result = ?, holder = '', leased_until = 0 WHERE {_HELD}",
        *(status, result, *_held(entry)),
    )
    return changed == 1


def return_entry(database: Database, entry: ClaimedEntry, *, delay: float, counts: bool) -> bool:
    """Put a claimed entry back into its queue; return whether the worker still had it.

    Args:
        database: The database.
        entry: The entry.
        delay: The seconds after which it is due again.
        counts: Whether this life counts.
    """
    changed = database.change(
        f"UPDATE queue_entries SET status = 'queued', due_at = {database.NOW} + ?, lives = ?, holder = '', "
        f"leased_until = 0 WHERE {_HELD}",
        *(delay, entry.lives - (not counts), *_held(entry)),
    )
    return changed == 1


def park_entry(database: Database, entry: ClaimedEntry) -> bool:
    """Note that the run of a claimed entry is parked, if it is.

    Parking is progress, so earlier lives do not count any more.
    """
    changed = database.change(
        "UPDATE queue_entries SET status = 'parked', lives = 0, holder = '', leased_until = 0 "
        f"WHERE {_HELD} AND EXISTS (SELECT 1 FROM runs WHERE runs.run_id = queue_entries.run_id "
        "AND runs.status = 'parked')",
        *_held(entry),
    )
    return changed == 1


def wake_entries(database: Database, queue: str) -> None:
    """Put entries back into their queue whose parked runs are due, or were continued elsewhere."""
    rows = database.query(
        # CROSS JOIN has SQLite begin with the few runs that are due.
        "SELECT queue_entries.run_id FROM runs CROSS JOIN queue_entries WHERE runs.status = 'parked' "
        f"AND runs.wakes_at <= {database.NOW} AND queue_entries.run_id = runs.run_id "
        f"AND queue_entries.queue = ? AND queue_entries.status = 'parked' "
        f"LIMIT {_MOST_WOKEN}{database.FOR_UPDATE_OF_FREE}",
        queue,
    )
    _put_back(database, [row[0] for row in rows])


def wake_continued_entries(database: Database, queue: str) -> None:
    """Put entries back into their queue whose parked runs went on without a worker."""
    rows = database.query(
        "SELECT run_id FROM queue_entries WHERE queue = ? AND status = 'parked' AND NOT EXISTS "
        "(SELECT 1 FROM runs WHERE runs.run_id = queue_entries.run_id AND runs.status = 'parked') "
        f"LIMIT {_MOST_WOKEN}{database.FOR_UPDATE_OF_FREE}",
        queue,
    )
    _put_back(database, [row[0] for row in rows])


def _put_back(database: Database, run_ids: Sequence[str]) -> None:
    for run_id in run_ids:
        database.change(
            f"UPDATE queue_entries SET status = 'queued', due_at = {database.NOW}, holder = '', "
            "leased_until = 0 WHERE run_id = ?",
            run_id,
        )


def return_lost_entries(
    database: Database, queue: str, holder: str, is_alive: Callable[[str], bool]
) -> list[str]:
    """Put entries back into their queue whose workers are dead, or have lost them.

    Entries without a life left are stuck, and so are their runs.

    Args:
        database: The database.
        queue: The queue.
        holder: The worker that asks. It still has its own.
        is_alive: Whether a worker may still run.

    Returns:
        The runs that are stuck.
    """
    holders = database.query(
        "SELECT DISTINCT holder FROM queue_entries WHERE queue = ? AND status = 'claimed'", queue
    )
    dead = [holder for (holder,) in holders if not is_alive(holder)]
    marks = ", ".join("?" * len(dead)) or "''"
    # A worker whose event loop is busy may renew no claim, while the thread of its store keeps its runs.
    rows = database.query(
        "SELECT run_id, lives, max_lives FROM queue_entries WHERE queue = ? AND status = 'claimed' "
        f"AND holder <> ? AND (holder IN ({marks}) OR leased_until <= {database.NOW} AND run_id NOT IN "
        f"(SELECT run_id FROM runs WHERE status = 'running' AND leased_until > {database.NOW}))"
        f"{database.FOR_UPDATE_OF_FREE}",
        *(queue, holder, *dead),
    )
    stuck = [row[0] for row in rows if row[1] >= row[2]]
    _put_back(database, [row[0] for row in rows if row[1] < row[2]])
    for run_id, lives, max_lives in rows:
        if lives >= max_lives:
            _get_stuck(database, run_id, lives)
    return stuck


def _get_stuck(database: Database, run_id: str, lives: int) -> None:
    now, error = database.NOW, f"{lives} lives in a row ended without an end: their processes crashed or hung"
    database.change(
        "UPDATE queue_entries SET status = 'stuck', holder = '', leased_until = 0 WHERE run_id = ?", run_id
    )
    database.change(
        "INSERT INTO runs (run_id, status, epoch, holder, leased_until, created_at, updated_at) "
        f"VALUES (?, 'stuck', 0, '', 0, {now}, {now}) ON CONFLICT (run_id) DO NOTHING",
        run_id,
    )
    database.change(
        f"UPDATE runs SET status = 'stuck', error = ?, holder = '', leased_until = 0, updated_at = {now} "
        "WHERE run_id = ?",
        error,
        run_id,
    )


def requeue_entry(database: Database, run_id: str) -> str | None:
    """Put an entry back into its queue that failed or is stuck; return the queue, None if it is not."""
    rows = database.query(
        "SELECT queue FROM queue_entries WHERE run_id = ? AND status IN ('failed', 'stuck')"
        f"{database.FOR_UPDATE}",
        run_id,
    )
    if not rows:
        return None
    database.change("UPDATE queue_entries SET lives = 0, result = NULL WHERE run_id = ?", run_id)
    _put_back(database, [run_id])
    return rows[0][0]


def unknown_functions(database: Database, queue: str, functions: Sequence[str]) -> list[str]:
    """Functions of entries that are due and that a worker cannot call; at most ten."""
    marks = ", ".join("?" * len(functions))
    rows = database.query(
        f"SELECT DISTINCT function FROM queue_entries WHERE queue = ? AND status = 'queued' "
        f"AND due_at <= {database.NOW} AND function NOT IN ({marks}) LIMIT 10",
        *(queue, *functions),
    )
    return [row[0] for row in rows]


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
        "SELECT run_id, queue, function, status, priority, due_at, enqueued_at, lives, max_lives "
        "FROM queue_entries ORDER BY enqueued_at, run_id"
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
        )
        for row in rows
    ]
