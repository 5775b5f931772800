"""Checks the chains of a store, piece by piece, so that runs in progress are not held up."""

from msgspec import Struct

from . import tables
from .audit_table import ChainCheck, HeadRow
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
    return VerifiedRun(
        run_id=run_id,
        records=row.head.count,
        is_linked=not row.is_unlinked,
        is_pruned=row.is_pruned,
    )
