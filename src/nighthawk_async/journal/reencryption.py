"""Writes the bodies of a store anew, with its active key and its audit key."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from . import audit_table, tables
from .blob_table import load_body, store_body
from .database import Database
from .errors import RunInProgressError
from .holders import is_alive
from .key_table import check_keys, forget_other_keys
from .pruning import delete_blobs
from .records import Record
from .store_thread import StoreThread

_PIECE = 100


class Bodies(Struct, frozen=True, kw_only=True):
    """A column with bodies.

    Args:
        table: Its table.
        column: Its name.
        key: The columns that identify a row.
        context: The columns that a body is bound to.
        prefix: The beginning of the context.
        signed: The columns that a signed body is bound to as well.
        of_run: The condition for the bodies of one run, given its id; None for bodies of no run.
    """

    table: str
    column: str
    key: tuple[str, ...]
    context: tuple[str, ...]
    prefix: tuple[str, ...]
    signed: tuple[str, ...] = ()
    of_run: str | None = "run_id = ?"

    def load(self, database: Database, row: Sequence[Any]) -> tuple[bytes, tuple[Any, ...], tuple[Any, ...]]:
        """Return the body of a row of `columns`, its context, and what it is bound to where it is signed."""
        after = len(self.key) + len(self.context)
        context, signed = (*self.prefix, *row[len(self.key) : after]), tuple(row[after:-1])
        return load_body(database, row[-1], *context, signed=signed), context, signed

    @property
    def columns(self) -> str:
        """The columns of a row: its key, the context of the body, what it is bound to, and the body."""
        return ", ".join((*self.key, *self.context, *self.signed, self.column))


VOTES_OF_RUN = "question_id IN (SELECT question_id FROM questions WHERE run_id = ?)"
"""The condition for the votes of one run, given its id."""

BODIES = (
    Bodies(
        table="messages",
        column="body",
        key=("run_id", "name", "number"),
        context=("run_id", "name", "message_id"),
        prefix=("messages",),
        signed=("number",),
    ),
    *(
        Bodies(
            table="queue_entries",
            column=column,
            key=("run_id",),
            context=("run_id", "function"),
            prefix=("queue_entries", column),
            signed=signed,
        )
        for column, signed in (("arguments", ("queue", "priority", "max_lives")), ("result", ()))
    ),
    Bodies(
        table="schedules",
        column="arguments",
        key=("name",),
        context=("name", "function"),
        prefix=("schedules", "arguments"),
        signed=("queue", "priority", "max_lives", "cron", "timezone"),
        of_run=None,
    ),
    *(
        Bodies(
            table="questions",
            column=column,
            key=("question_id",),
            context=("question_id",),
            prefix=("questions", column),
            signed=signed,
        )
        for column, signed in (("body", ("run_id", "ends_at")), ("answer", ()))
    ),
    Bodies(
        table="votes",
        column="body",
        key=("question_id", "number"),
        context=("question_id", "number"),
        prefix=("votes",),
        of_run=VOTES_OF_RUN,
    ),
    Bodies(
        table="topics", column="secret", key=("name",), context=("name",), prefix=("topics",), of_run=None
    ),
    Bodies(
        table="topic_messages",
        column="body",
        key=("topic", "number"),
        context=("topic", "message_id"),
        prefix=("topic_messages",),
        signed=("number",),
        of_run=None,
    ),
    Bodies(
        table="subscriptions",
        column="options",
        key=("topic", "function"),
        context=("topic", "function"),
        prefix=("subscriptions",),
        signed=("queue", "priority", "max_lives"),
        of_run=None,
    ),
    *(
        Bodies(table=table, column="body", key=key, context=key, prefix=(table,), of_run=None)
        for table, key in (
            ("memory_secrets", ("name",)),
            ("memory_log", ("space", "seq")),
            ("memory_vectors", ("space", "hint", "content")),
        )
    ),
)
"""The columns with bodies, but for records, which have a chain."""


def reencrypt_runs(thread: StoreThread) -> int:
    """Write the bodies of all runs anew; see `JournalStore.reencrypt`."""
    runs = thread.perform(lambda: tables.read_runs(thread.opened())).wait_in_thread()
    for run in runs:
        thread.perform(_reencrypt_run, thread, run.run_id).wait_in_thread()
    thread.perform(_trust_others, thread, trusts=True).wait_in_thread()
    try:
        for bodies in BODIES:
            last: tuple[object, ...] | None = ()
            while last is not None:
                last = thread.perform(_reencrypt_rows, thread, bodies, last).wait_in_thread()
    finally:
        thread.perform(_trust_others, thread, trusts=False).wait_in_thread()
    delete_blobs(thread)
    thread.transact(forget_other_keys).wait_in_thread()
    return len(runs)


def _trust_others(thread: StoreThread, *, trusts: bool) -> None:
    """Read bodies that are not signed, or with another key, which are trusted while they are written anew."""
    thread.opened().codec.trusts_others = trusts


def _reencrypt_run(thread: StoreThread, run_id: str) -> None:
    """Write the bodies of a run anew, in one transaction: its chain has to fit them."""
    database = thread.opened()
    with database.transaction():
        check_keys(database)
        database.lock("blobs")  # before any row
        ((status, is_leased, holder, pruned_at),) = database.query(
            f"SELECT status, leased_until > {database.NOW}, holder, pruned_at FROM runs WHERE run_id = ?"
            f"{database.FOR_UPDATE}",
            run_id,
        )
        if status == "running":
            if is_leased and is_alive(holder):
                raise RunInProgressError(f"run {run_id!r} is in progress; stop all programs first.")
            # A process that hangs may not go on with the chain that it knows.
            database.change("UPDATE runs SET epoch = epoch + 1 WHERE run_id = ?", run_id)
        row = audit_table.read_head(database, run_id)
        is_same_key = row.key_name == database.audit.key_name
        if pruned_at is not None:
            audit_table.write_head(database, run_id, row.head, is_pruned=True)
            database.change("UPDATE runs SET audit_key = ? WHERE run_id = ?", database.audit.key_name, run_id)
            return
        if is_same_key and not row.is_unlinked:  # else what is there is trusted
            audit_table.check_chain(database, run_id)
        _write_records(database, run_id, tables.read_records(database, run_id))
        audit_table.link_records(database, run_id)


def _write_records(database: Database, run_id: str, records: Sequence[Record]) -> None:
    rows = [
        (
            store_body(database, each.body, "records", run_id, each.seq, each.place, each.kind),
            run_id,
            each.seq,
        )
        for each in records
    ]
    database.change_many("UPDATE records SET body = ? WHERE run_id = ? AND seq = ?", rows)


def _reencrypt_rows(
    thread: StoreThread, bodies: Bodies, last: tuple[object, ...]
) -> tuple[object, ...] | None:
    """Write the rows after one anew, some of them; empty for the first. Return the last; None at the end."""
    database, table, column = thread.opened(), bodies.table, bodies.column
    key = ", ".join(bodies.key)
    after = f"AND ({key}) > ({', '.join('?' * len(last))}) " if last else ""
    where = " AND ".join(f"{name} = ?" for name in bodies.key)
    with database.transaction():
        check_keys(database)
        database.lock("blobs")  # before any row
        rows = database.query(
            f"SELECT {bodies.columns} FROM {table} WHERE {column} IS NOT NULL {after}"
            f"ORDER BY {key} LIMIT {_PIECE}",
            *last,
        )
        for row in rows:
            content, context, signed = bodies.load(database, row)
            body = store_body(database, content, *context, signed=signed)
            database.change(
                f"UPDATE {table} SET {column} = ? WHERE {where}", *(body, *row[: len(bodies.key)])
            )
    return rows[-1][: len(bodies.key)] if rows else None
