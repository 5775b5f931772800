"""Suspects in a queue: calls that may have ended their processes, and run alone to find out.

Of the calls that a process had when it was lost, nobody knows which one has ended it. So a lost life counts
against a call only if the call was alone in its process. After its second lost life a call is a suspect: a
worker claims it when it has no other call, and claims none before it has ended. Every function is part of a
transaction of the caller.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from .database import Database

SUSPICIOUS_LOSSES = 2
"""The lost lives after which a call runs alone. The first one may be an accident of the machine."""

MIGRATION = (
    "ALTER TABLE queue_entries ADD COLUMN losses INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE queue_entries ADD COLUMN losses_alone INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE queue_entries ADD COLUMN has_company INTEGER NOT NULL DEFAULT 0",
    # Nobody knows what the workers of earlier versions had beside them.
    "UPDATE queue_entries SET has_company = 1 WHERE status = 'claimed'",
    "DROP INDEX queue_entries_by_turn",
    "CREATE INDEX queue_entries_by_turn ON queue_entries "
    "(queue, priority DESC, due_at, enqueued_at, function, status, losses) WHERE status = 'queued'",
    "CREATE INDEX queue_entries_suspected ON queue_entries (queue, status) "
    f"WHERE losses >= {SUSPICIOUS_LOSSES}",
)
"""The statements that add the losses of entries; see `tables.migrate`."""

NOT_SUSPECTED = f"losses < {SUSPICIOUS_LOSSES}"
_SUSPECTED = f"losses >= {SUSPICIOUS_LOSSES}"


class Suspects(Struct, frozen=True, kw_only=True):
    """The suspects of a queue, as one worker sees them.

    Args:
        due: Those that it may claim, the next one first. None has calls of a greater priority before it.
        is_free: Whether one more worker may have a suspect.
        reserved: Whether it claims no other calls at the moment, to have none when it claims a suspect.
        reservable: The one for which it may begin to do so; empty for none.
    """

    due: Sequence[str] = ()
    is_free: bool = False
    reserved: bool = False
    reservable: str = ""


def find_suspects(database: Database, queue: str, functions: Collection[str], holder: str) -> Suspects:
    """Look for suspects.

    At most half of the workers that have calls are used for suspects at once, and at least one. The suspects
    with the fewest losses come first, so that innocent ones do not wait for the one that is not.

    Args:
        database: The database.
        queue: The queue.
        functions: The functions that the worker can call.
        holder: The worker.
    """
    now = database.NOW
    rows = database.query(
        f"SELECT run_id, function, priority, status, holder, leased_until > {now}, due_at <= {now} "
        f"FROM queue_entries WHERE queue = ? AND status IN ('queued', 'claimed') AND {_SUSPECTED} "
        "ORDER BY priority DESC, losses_alone, due_at, enqueued_at, run_id",
        queue,
    )
    if not rows:
        return Suspects()
    least = _greatest_priority(database, queue, functions)
    due: list[str] = []
    reservable, is_reserved = "", False
    having: set[str] = set()
    reserving: set[str] = set()
    for run_id, function, priority, status, held_by, is_leased, is_due in rows:
        is_held = bool(held_by and is_leased)
        if status == "claimed":
            having.add(held_by)
            continue
        if is_held and held_by != holder:
            reserving.add(held_by)
        if is_due and function in functions and (least is None or priority >= least):
            due.append(run_id)
            is_reserved = is_reserved or (is_held and held_by == holder)
            reservable = reservable or ("" if is_held else run_id)
    ((workers,),) = database.query(
        "SELECT COUNT(DISTINCT holder) FROM queue_entries WHERE queue = ? AND status = 'claimed'", queue
    )
    most = max(workers // 2, 1)
    return Suspects(
        due=due,
        is_free=len(having) < most,
        reserved=is_reserved,
        reservable=reservable if len(having | reserving) < most else "",
    )


def _greatest_priority(database: Database, queue: str, functions: Collection[str]) -> int | None:
    """The greatest priority of the calls that are due and no suspects; None for none."""
    marks = ", ".join("?" * len(functions))
    rows = database.query(
        "SELECT priority FROM queue_entries "
        f"WHERE queue = ? AND status = 'queued' AND due_at <= {database.NOW} AND function IN ({marks}) "
        f"AND {NOT_SUSPECTED} ORDER BY priority DESC LIMIT 1",
        *(queue, *functions),
    )
    return rows[0][0] if rows else None


def reserve(database: Database, run_id: str, holder: str, seconds: float) -> None:
    """Note that a worker claims no calls for a time, to have none when it claims a suspect.

    Args:
        database: The database.
        run_id: The suspect.
        holder: The worker.
        seconds: The time. Afterwards other workers may do so.
    """
    database.change(
        f"UPDATE queue_entries SET holder = ?, leased_until = {database.NOW} + ? "
        "WHERE run_id = ? AND status = 'queued'",
        *(holder, seconds, run_id),
    )


def note_company(database: Database, queue: str, holder: str) -> None:
    """Note that the calls of a worker are not alone in its process."""
    database.change(
        "UPDATE queue_entries SET has_company = 1 "
        "WHERE queue = ? AND status = 'claimed' AND holder = ? AND has_company = 0",
        *(queue, holder),
    )


def count_suspects(database: Database, queue: str) -> int:
    """The number of suspects of a queue."""
    ((number,),) = database.query(
        "SELECT COUNT(*) FROM queue_entries "
        f"WHERE queue = ? AND status IN ('queued', 'claimed') AND {_SUSPECTED}",
        queue,
    )
    return number


def stuck_text(lives: int, losses_alone: int) -> str:
    """The reason why a run is stuck, in words.

    Args:
        lives: The number of its lives that count.
        losses_alone: The number of those that were lost while it was alone in its process.
    """
    times = "once" if losses_alone == 1 else f"{losses_alone} times"
    return (
        f"{lives} lives in a row ended without an end: {times}, its process crashed or hung while it ran "
        "there alone"
    )
