"""Claims of queue entries by workers.

An entry that a worker has claimed names the worker, and has a lease and the number of its claim. A worker
that has lost an entry changes it no more. Every function is part of a transaction of the caller.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from . import audit_table
from .audit import Head
from .blob_table import is_of_row, store_body
from .database import Database
from .errors import JournalAuditError, JournalError
from .key_table import check_keys
from .queue_suspects import NOT_SUSPECTED, note_company, stuck_text
from .queue_table import QueueStatus, put_back, read_call, result_context
from .queued_call import encode_error
from .values import DEFAULT_RULES

_MOST_WOKEN = 1_000


class ClaimedEntry(Struct, frozen=True, kw_only=True):
    """An entry that a worker has claimed.

    Args:
        run_id: The run.
        function: The function, as `module:name`.
        arguments: Its arguments, encoded.
        lives: The number of its lives that count, this one included.
        max_lives: The number of lives after which it is not repeated.
        claim: The number of the claim.
        holder: The worker.
        losses: The number of its lives that were lost.
        is_suspect: Whether it was claimed alone.
    """

    run_id: str
    function: str
    arguments: bytes
    lives: int
    max_lives: int
    claim: int
    holder: str
    losses: int = 0
    is_suspect: bool = False


def claim_entries(
    database: Database,
    queue: str,
    functions: Sequence[str],
    holder: str,
    most: int,
    lease_seconds: float,
    *,
    has_company: bool,
) -> tuple[list[ClaimedEntry], dict[str, str]]:
    """Claim entries that are due and no suspects, by priority and then by age. One that was changed fails.

    Args:
        database: The database.
        queue: The queue.
        functions: The functions that the worker can call.
        holder: The worker.
        most: The greatest number of entries to claim.
        lease_seconds: The time after which the worker has lost an entry that it does not renew, in seconds.
        has_company: Whether the process of the worker has other calls.

    Returns:
        The entries; and the runs of those that have failed, with the reasons.

    Raises:
        JournalAuditError: The entries were written with another audit key.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    marks = ", ".join("?" * len(functions))
    due = database.query(  # of the index alone: there may be many entries of other functions
        "SELECT run_id FROM queue_entries "
        f"WHERE queue = ? AND status = 'queued' AND due_at <= {database.NOW} AND function IN ({marks}) "
        f"AND {NOT_SUSPECTED} "
        f"ORDER BY priority DESC, due_at, enqueued_at LIMIT ?{database.FOR_UPDATE_OF_FREE}",
        *(queue, *functions, most),
    )
    claimed, failed = _next_claims(database, [run_id for (run_id,) in due], holder)
    _write_claims(database, claimed, lease_seconds, has_company=has_company or len(claimed) > 1)
    if claimed and has_company:
        note_company(database, queue, holder)  # those that it has had
    return claimed, failed


def claim_suspect(
    database: Database, run_id: str, holder: str, lease_seconds: float
) -> tuple[list[ClaimedEntry], dict[str, str]]:
    """Claim one entry for a worker that has no other; see `claim_entries`."""
    free = database.query(
        "SELECT run_id FROM queue_entries WHERE run_id = ? AND status = 'queued'"
        f"{database.FOR_UPDATE_OF_FREE}",
        run_id,
    )
    claimed, failed = _next_claims(database, [each for (each,) in free], holder)
    claimed = [msgspec.structs.replace(each, is_suspect=True) for each in claimed]
    _write_claims(database, claimed, lease_seconds, has_company=False)
    return claimed, failed


def _next_claims(
    database: Database, run_ids: Sequence[str], holder: str
) -> tuple[list[ClaimedEntry], dict[str, str]]:
    claimed: list[ClaimedEntry] = []
    failed: dict[str, str] = {}
    for run_id in run_ids:
        try:
            claimed.append(_next_claim(database, run_id, holder))
        except JournalError as error:
            if not is_of_row(database, error):
                raise
            failed[run_id] = _fail(database, run_id, error)
    return claimed, failed


def _write_claims(
    database: Database, claimed: Sequence[ClaimedEntry], lease_seconds: float, *, has_company: bool
) -> None:
    for each in claimed:
        database.change(
            "UPDATE queue_entries SET status = 'claimed', lives = ?, claim = ?, holder = ?, has_company = ?, "
            f"leased_until = {database.NOW} + ? WHERE run_id = ?",
            *(each.lives, each.claim, each.holder, int(has_company), lease_seconds, each.run_id),
        )


def _fail(database: Database, run_id: str, error: JournalError) -> str:
    """Let an entry fail whose arguments are not those that were enqueued; return the reason."""
    ((function,),) = database.query("SELECT function FROM queue_entries WHERE run_id = ?", run_id)
    text = f"run {run_id!r}: its call in the queue cannot be made: {error}"
    result = encode_error(run_id, JournalAuditError(text, run_id=run_id), rules=DEFAULT_RULES)
    database.change(
        "UPDATE queue_entries SET status = 'failed', result = ? WHERE run_id = ?",
        *(store_body(database, result, *result_context(run_id, function)), run_id),
    )
    return text


def _next_claim(database: Database, run_id: str, holder: str) -> ClaimedEntry:
    (row,) = database.query(
        "SELECT lives, max_lives, claim, losses FROM queue_entries WHERE run_id = ?", run_id
    )
    function, arguments = read_call(database, run_id)
    return ClaimedEntry(
        run_id=run_id,
        function=function,
        arguments=arguments,
        lives=row[0] + 1,
        max_lives=row[1],
        claim=row[2] + 1,
        holder=holder,
        losses=row[3],
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
    """Record the end of a claimed entry; return whether the worker still had it.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    check_keys(database)
    stored = store_body(database, result, *result_context(entry.run_id, entry.function))
    changed = database.change(
        f"UPDATE queue_entries SET status = ?, result = ?, holder = '', leased_until = 0 WHERE {_HELD}",
        *(status, stored, *_held(entry)),
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

    Parking is progress, so earlier lives do not count any more, and a suspect is one no more.
    """
    changed = database.change(
        "UPDATE queue_entries SET status = 'parked', lives = 0, losses = 0, losses_alone = 0, "
        "holder = '', leased_until = 0 "
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
    put_back(database, [row[0] for row in rows])


def wake_continued_entries(database: Database, queue: str) -> None:
    """Put entries back into their queue whose parked runs went on without a worker."""
    rows = database.query(
        "SELECT run_id FROM queue_entries WHERE queue = ? AND status = 'parked' AND NOT EXISTS "
        "(SELECT 1 FROM runs WHERE runs.run_id = queue_entries.run_id AND runs.status = 'parked') "
        f"LIMIT {_MOST_WOKEN}{database.FOR_UPDATE_OF_FREE}",
        queue,
    )
    put_back(database, [row[0] for row in rows])


def return_lost_entries(
    database: Database, queue: str, holder: str, is_alive: Callable[[str], bool]
) -> list[str]:
    """Put entries back into their queue whose workers are dead, or have lost them.

    A life that was lost beside others of its process does not count: any of them may have ended it. Entries
    without a life left are stuck, and so are their runs.

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
        "SELECT run_id, lives, max_lives, has_company FROM queue_entries "
        "WHERE queue = ? AND status = 'claimed' "
        f"AND holder <> ? AND (holder IN ({marks}) OR leased_until <= {database.NOW} AND run_id NOT IN "
        f"(SELECT run_id FROM runs WHERE status = 'running' AND leased_until > {database.NOW}))"
        f"{database.FOR_UPDATE_OF_FREE}",
        *(queue, holder, *dead),
    )
    stuck: list[str] = []
    for run_id, lives, max_lives, has_company in rows:
        database.change(
            "UPDATE queue_entries SET losses = losses + 1, losses_alone = losses_alone + ?, lives = ? "
            "WHERE run_id = ?",
            *(int(not has_company), max(lives - has_company, 0), run_id),
        )
        if has_company or lives < max_lives:
            put_back(database, [run_id])
        else:
            stuck.append(run_id)
            _get_stuck(database, run_id, lives)
    return stuck


def _get_stuck(database: Database, run_id: str, lives: int) -> None:
    ((losses_alone,),) = database.query("SELECT losses_alone FROM queue_entries WHERE run_id = ?", run_id)
    database.change(
        "UPDATE queue_entries SET status = 'stuck', holder = '', leased_until = 0 WHERE run_id = ?", run_id
    )
    mark_run(database, run_id, "stuck", stuck_text(lives, losses_alone))


def mark_run(database: Database, run_id: str, status: Literal["stuck", "failed"], error: str) -> None:
    """Set the status of the run of an entry, which may not have begun, and its error."""
    now = database.NOW
    is_new = database.change(
        "INSERT INTO runs (run_id, status, epoch, holder, leased_until, created_at, updated_at, audit_key) "
        f"VALUES (?, ?, 0, '', 0, {now}, {now}, ?) ON CONFLICT (run_id) DO NOTHING",
        *(run_id, status, database.audit.key_name),
    )
    if is_new == 1:  # its lives crashed before the run began
        audit_table.write_head(database, run_id, Head())
    database.change(
        f"UPDATE runs SET status = ?, error = ?, holder = '', leased_until = 0, updated_at = {now} "
        "WHERE run_id = ?",
        *(status, error, run_id),
    )


def unknown_functions(database: Database, queue: str, functions: Sequence[str]) -> list[str]:
    """Functions of entries that are due and that a worker cannot call; at most ten."""
    marks = ", ".join("?" * len(functions))
    rows = database.query(
        f"SELECT DISTINCT function FROM queue_entries WHERE queue = ? AND status = 'queued' "
        f"AND due_at <= {database.NOW} AND function NOT IN ({marks}) LIMIT 10",
        *(queue, *functions),
    )
    return [row[0] for row in rows]
