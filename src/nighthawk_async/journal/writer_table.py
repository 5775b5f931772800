"""The table of the writers of runs: processes beside that of a run which append to it themselves.

The process of a run admits each of them by a name that the writer has made up, and that nobody else knows. So
a writer that finds its name here has the store of the run, and no copy of it. A writer is dismissed before
what it did is given to another one; from then on, nothing that it appends is taken.
"""

from .database import Database
from .errors import RunTakenOverError

MIGRATION = (
    "CREATE TABLE run_writers (run_id TEXT NOT NULL, writer TEXT NOT NULL, PRIMARY KEY (run_id, writer))"
    "{table_options}",
)
"""The statements that make the table; see `tables.migrate`."""


def admit_writer(database: Database, run_id: str, epoch: int, writer: str) -> None:
    """Let a writer append to a run, within a transaction of the caller.

    Raises:
        RunTakenOverError: The epoch is not that of the run any more.
    """
    if not database.query(
        f"SELECT 1 FROM runs WHERE run_id = ? AND epoch = ?{database.FOR_UPDATE}", run_id, epoch
    ):
        raise RunTakenOverError(f"run {run_id!r} was taken over by another process; it admits no writer.")
    database.change(
        "INSERT INTO run_writers (run_id, writer) VALUES (?, ?) ON CONFLICT DO NOTHING", run_id, writer
    )


def dismiss_writer(database: Database, run_id: str, writer: str) -> None:
    """Take nothing more from a writer, within a transaction of the caller.

    The row of the run is locked: what the writer is about to commit is there afterwards, or is refused.
    """
    database.query(f"SELECT 1 FROM runs WHERE run_id = ?{database.FOR_UPDATE}", run_id)
    database.change("DELETE FROM run_writers WHERE run_id = ? AND writer = ?", run_id, writer)


def dismiss_writers(database: Database, run_id: str) -> None:
    """Take nothing more from any writer of a run, within a transaction of the caller that has its row."""
    database.change("DELETE FROM run_writers WHERE run_id = ?", run_id)


def finds_itself(database: Database, run_id: str, epoch: int, writer: str) -> bool:
    """Whether a writer finds here that it may append to a life of a run, so that this is the run's store."""
    return bool(
        database.query(
            "SELECT 1 FROM runs JOIN run_writers USING (run_id) "
            "WHERE run_id = ? AND epoch = ? AND writer = ?",
            *(run_id, epoch, writer),
        )
    )
