"""Checks the chains of a store, piece by piece, so that runs in progress are not held up."""

from msgspec import Struct

from . import tables
from .audit_table import ChainCheck, HeadRow
from .blob_table import check_gaps
from .database import Database
from .errors import JournalAuditError
from .reencryption import BODIES, VOTES_OF_RUN, Bodies
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
    verified = [_verify_run(thread, run.run_id) for run in runs]
    thread.perform(lambda: _check_others(thread.opened())).wait_in_thread()
    return verified


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
        JournalAuditError: One was changed or moved, is one of another run, or was removed between others.
    """
    if not database.audit.key_name:
        return
    try:
        for bodies in BODIES:
            if bodies.of_run is not None:
                _load_all(database, bodies, bodies.of_run, run_id)
        _check_numbers(database, "messages", "name", "run_id = ?", run_id)
        _check_numbers(database, "votes", "question_id", VOTES_OF_RUN, run_id)
    except JournalAuditError as error:
        raise JournalAuditError(f"run {run_id!r}: {error}", run_id=run_id) from None


def _check_others(database: Database) -> None:
    """Check what is of no run, and what there is for runs that have not begun; see `_check_bodies`."""
    if not database.audit.key_name:
        return
    not_begun = "run_id NOT IN (SELECT run_id FROM runs)"
    for bodies in BODIES:
        if bodies.table not in ("questions", "votes"):
            _load_all(database, bodies, "1 = 1" if bodies.of_run is None else not_begun)
    for (topic,) in database.query("SELECT name FROM topics ORDER BY name"):
        _check_numbers(database, "topic_messages", "topic", "topic = ?", topic)


def _load_all(database: Database, bodies: Bodies, condition: str, *values: object) -> None:
    for row in database.query(
        f"SELECT {bodies.columns} FROM {bodies.table} WHERE {bodies.column} IS NOT NULL AND {condition}",
        *values,
    ):
        bodies.load(database, row)


def _check_numbers(database: Database, table: str, group: str, condition: str, name_or_id: str) -> None:
    numbers: dict[str, list[int]] = {}
    for name, number in database.query(
        f"SELECT {group}, number FROM {table} WHERE {condition} ORDER BY {group}, number",
        name_or_id,
    ):
        numbers.setdefault(name, []).append(number)
    for name, found in numbers.items():
        check_gaps(database, f"the {table} of {name}", 0, found)
