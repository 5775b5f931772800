"""Checks the chains of a store, piece by piece, so that runs in progress are not held up."""

from msgspec import Struct

from . import tables
from .audit_table import ChainCheck, HeadRow
from .database import Database
from .errors import JournalAuditError
from .reencryption import BODIES
from .store_thread import StoreThread


class VerifiedRun(Struct, frozen=True, kw_only=True):
    """A run whose records are those that were recorded.

    Args:
        run_id: The run.
        records: The number of its records.
        is_linked: Whether it has a chain; false for runs of an earlier version, of which nothing is known.
        is_pruned: Whether its records were deleted by `prune`.
    """

    run_id: str
    records: int
    is_linked: bool
    is_pruned: bool


def verify_runs(thread: StoreThread, run_id: str | None) -> list[VerifiedRun]:
    """Check the chains of all runs, or of one; see `JournalStore.verify`."""
    if run_id is not None:
        return [_verify_run(thread, run_id)]
    runs = thread.perform(lambda: tables.read_runs(thread.opened())).wait_in_thread()
    return [_verify_run(thread, run.run_id) for run in runs]


def _verify_run(thread: StoreThread, run_id: str) -> VerifiedRun:
    check = ChainCheck(run_id)

    def check_next() -> HeadRow | None:
        return check.check_next(thread.opened())

    while (row := thread.perform(check_next).wait_in_thread()) is None:
        pass
    thread.perform(lambda: _check_bodies(thread.opened(), run_id)).wait_in_thread()
    return VerifiedRun(
        run_id=run_id,
        records=row.head.count,
        is_linked=not row.is_unlinked,
        is_pruned=row.is_pruned,
    )


def _check_bodies(database: Database, run_id: str) -> None:
    """Check the messages, the questions with answers and votes, and the call of a run, if they are signed.

    Raises:
        JournalAuditError: One was changed or moved, or is one of another run.
    """
    if not database.audit.key_name:
        return
    of_run = "question_id IN (SELECT question_id FROM questions WHERE run_id = ?)"
    for bodies in BODIES:
        if bodies.table == "schedules":  # which are of no run, and are checked when they are due
            continue
        condition = of_run if bodies.table == "votes" else "run_id = ?"
        rows = database.query(
            f"SELECT {bodies.columns} FROM {bodies.table} WHERE {bodies.column} IS NOT NULL AND {condition}",
            run_id,
        )
        for row in rows:
            try:
                bodies.load(database, row)
            except JournalAuditError as error:
                raise JournalAuditError(f"run {run_id!r}: {error}", run_id=run_id) from None
