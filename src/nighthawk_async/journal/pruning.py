"""Deletes the records of runs that have ended, piece by piece, so that runs in progress are not held up."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from . import audit_table, blob_table
from .database import Database
from .store_thread import StoreThread

_PIECE = 500
_BLOB_PIECE = 100

EndedStatus: TypeAlias = Literal["ended", "failed", "cancelled"]

_OF_RUN = "run_id = ?"
_DELETED: tuple[tuple[str, str, str], ...] = (
    ("records", "seq", _OF_RUN),
    ("messages", "name, number", _OF_RUN),
    ("mailboxes", "name", _OF_RUN),  # after their messages
    ("queue_entries", "run_id", _OF_RUN),
    ("votes", "question_id, number", "question_id IN (SELECT question_id FROM questions WHERE run_id = ?)"),
    ("questions", "question_id", _OF_RUN),  # after their votes
)
"""The tables that have rows of a run, the columns that identify a row of it, and the condition for them."""

_IN_QUEUE = (
    "SELECT 1 FROM queue_entries WHERE queue_entries.run_id = runs.run_id "
    "AND queue_entries.status IN ('queued', 'claimed', 'parked')"
)
"""The entry of a run that a worker has still to serve."""


class PruneReport(Struct, frozen=True, kw_only=True):
    """The result of `JournalStore.prune`.

    Args:
        runs: The ids of the runs whose records were deleted, or would be.
        records: The number of records.
        messages: The number of messages.
        queue_entries: The number of queue entries.
        questions: The number of questions to people.
        topic_messages: The number of messages of topics whose runs were pruned, or that nobody got.
        blobs: The number of large bodies that nothing refers to any more; 0 for a trial.
        releases_space: Whether the database gives the space back to the disk. A SQLite file of an earlier
            version keeps it for later records.
    """

    runs: tuple[str, ...]
    records: int
    messages: int
    queue_entries: int
    questions: int
    blobs: int
    releases_space: bool
    topic_messages: int = 0


def prune_runs(
    thread: StoreThread, older_than: timedelta, statuses: Collection[EndedStatus], *, is_trial: bool
) -> PruneReport:
    """Delete the records of runs; see `JournalStore.prune`."""

    def find() -> tuple[list[str], list[str], bool]:
        database = thread.opened()
        seconds = older_than.total_seconds()
        return *_find_runs(database, seconds, statuses), database.releases_space

    due, begun, releases_space = thread.perform(find).wait_in_thread()
    counts = {table: 0 for table, *_ in _DELETED}
    pruned: list[str] = []
    if is_trial:
        pruned = due + begun
        for run_id in pruned:
            counted = thread.perform(_count, thread, run_id).wait_in_thread()
            counts = {table: counts[table] + count for table, count in counted.items()}
        ((messages,),) = thread.perform(
            lambda: _count_topic_messages(thread.opened(), older_than.total_seconds(), statuses)
        ).wait_in_thread()
        return _report(pruned, counts, 0, releases_space, messages)
    for run_id in due:
        if thread.perform(_mark, thread, run_id, statuses).wait_in_thread():
            pruned.append(run_id)
    pruned += begun  # by a process that was killed
    for run_id in pruned:
        for table, columns, condition in _DELETED:
            while count := thread.perform(
                _delete, thread, table, columns, condition, run_id
            ).wait_in_thread():
                counts[table] += count
    messages = 0
    while count := thread.transact(_delete_topic_messages, older_than.total_seconds()).wait_in_thread():
        messages += count
    blobs = delete_blobs(thread)
    while thread.perform(lambda: thread.opened().release_space()).wait_in_thread():
        pass
    return _report(pruned, counts, blobs, releases_space, messages)


def _report(
    runs: Sequence[str], counts: Mapping[str, int], blobs: int, releases_space: bool, topic_messages: int
) -> PruneReport:
    shown = {table: count for table, count in counts.items() if table not in ("mailboxes", "votes")}
    return PruneReport(
        runs=tuple(runs),
        blobs=blobs,
        releases_space=releases_space,
        topic_messages=topic_messages,
        **shown,
    )


def delete_blobs(thread: StoreThread) -> int:
    """Delete the blobs that no row refers to, and return their number."""
    blobs = 0
    last: bytes | None = b""
    while last is not None:
        count, last = thread.perform(_delete_blobs, thread, last).wait_in_thread()
        blobs += count
    return blobs


def _delete_blobs(thread: StoreThread, after: bytes) -> tuple[int, bytes | None]:
    return blob_table.delete_unused_blobs(thread.opened(), after, _BLOB_PIECE)


def _find_runs(
    database: Database, seconds: float, statuses: Collection[EndedStatus]
) -> tuple[list[str], list[str]]:
    """The runs that are due, and those whose records another process has begun to delete."""
    places = ", ".join("?" * len(statuses))
    due = database.query(
        f"SELECT run_id FROM runs WHERE pruned_at IS NULL AND status IN ({places}) "
        f"AND updated_at <= {database.NOW} - ? AND NOT EXISTS ({_IN_QUEUE}) ORDER BY created_at, run_id",
        *(*statuses, seconds),
    )
    rows_left = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {table}.run_id = runs.run_id)"
        for table, _, condition in _DELETED
        if condition == _OF_RUN
    )
    begun = database.query(f"SELECT run_id FROM runs WHERE pruned_at IS NOT NULL AND ({rows_left})")
    return [run_id for (run_id,) in due], [run_id for (run_id,) in begun]


def _mark(thread: StoreThread, run_id: str, statuses: Collection[EndedStatus]) -> bool:
    """Note that the records of a run are deleted from now on. False: it has none of the statuses any more."""
    database = thread.opened()
    with database.transaction():
        database.query(f"SELECT 1 FROM queue_entries WHERE run_id = ?{database.FOR_UPDATE}", run_id)
        ((status, pruned_at),) = database.query(
            f"SELECT status, pruned_at FROM runs WHERE run_id = ?{database.FOR_UPDATE}", run_id
        )
        is_in_queue = database.query(f"SELECT 1 FROM runs WHERE run_id = ? AND EXISTS ({_IN_QUEUE})", run_id)
        if status not in statuses or pruned_at is not None or is_in_queue:
            return False
        database.change(f"UPDATE runs SET pruned_at = {database.NOW} WHERE run_id = ?", run_id)
        row = audit_table.read_head(database, run_id)
        if row.key_name:
            database.audit.check_key(run_id, row.key_name)
            audit_table.write_head(database, run_id, row.head, is_pruned=True)
    return True


def _delete(thread: StoreThread, table: str, columns: str, condition: str, run_id: str) -> int:
    """Delete some rows of a run, and return their number."""
    database = thread.opened()
    with database.transaction():
        return database.change(
            f"DELETE FROM {table} WHERE {condition} AND ({columns}) IN "
            f"(SELECT {columns} FROM {table} WHERE {condition} LIMIT {_PIECE})",
            run_id,
            run_id,
        )


def _count(thread: StoreThread, run_id: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table, _, condition in _DELETED:
        rows = thread.opened().query(f"SELECT count(*) FROM {table} WHERE {condition}", run_id)
        counts[table] = rows[0][0]
    return counts


_OLD_MESSAGES = (
    "FROM topic_messages WHERE body IS NOT NULL AND at <= {now} - ? AND NOT EXISTS (SELECT 1 "
    "FROM topic_deliveries WHERE topic_deliveries.topic = topic_messages.topic "
    "AND topic_deliveries.number = topic_messages.number AND (topic_deliveries.state = 'waiting' "
    "OR EXISTS (SELECT 1 FROM queue_entries WHERE queue_entries.run_id = topic_deliveries.run_id{but})))"
)
"""Messages of topics that nobody waits for, and whose runs were pruned."""


def _count_topic_messages(
    database: Database, seconds: float, statuses: Collection[EndedStatus]
) -> Sequence[tuple[int]]:
    """The number of messages of topics that would be deleted after their runs."""
    places = ", ".join("?" * len(statuses))
    but = (
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = queue_entries.run_id "
        f"AND (runs.pruned_at IS NOT NULL OR runs.status IN ({places}) "
        f"AND runs.updated_at <= {database.NOW} - ? "
        "AND queue_entries.status NOT IN ('queued', 'claimed', 'parked')))"
    )
    condition = _OLD_MESSAGES.format(now=database.NOW, but=but)
    return database.query(f"SELECT COUNT(*) {condition}", seconds, *statuses, seconds)


def _delete_topic_messages(database: Database, seconds: float) -> int:
    """Delete the values of some messages of one topic, in a transaction of the caller. Their ids stay.

    Returns:
        The number of messages.
    """
    condition = _OLD_MESSAGES.format(now=database.NOW, but="")
    rows = database.query(f"SELECT topic {condition} LIMIT 1", seconds)
    if not rows:
        return 0
    ((topic,),) = rows
    # Nobody may subscribe to them meanwhile, and no worker may look for the ends of their runs.
    database.query(f"SELECT name FROM topics WHERE name = ?{database.FOR_UPDATE}", topic)
    database.query(
        f"SELECT function FROM subscriptions WHERE topic = ? ORDER BY function{database.FOR_UPDATE}", topic
    )
    numbers = database.query(
        f"SELECT topic, number {condition} AND topic = ? ORDER BY number LIMIT {_PIECE}", seconds, topic
    )
    database.change_many("UPDATE topic_messages SET body = NULL WHERE topic = ? AND number = ?", numbers)
    database.change_many("DELETE FROM topic_deliveries WHERE topic = ? AND number = ?", numbers)
    return len(numbers)
