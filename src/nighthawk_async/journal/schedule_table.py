"""The table of schedules: calls that are enqueued again and again.

Every function is part of a transaction of the caller.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .blob_table import begin_writing, index_of, is_of_row, load_body, store_body
from .database import Database
from .encryption import BLOB_MARK
from .errors import JournalError

MIGRATION = (
    """
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    function TEXT NOT NULL,
    arguments {bytes} NOT NULL,
    priority INTEGER NOT NULL,
    max_lives INTEGER NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    next_at {real} NOT NULL
){table_options}
""",
)
"""The statements that make the table; see `tables.migrate`."""

BLOB_MIGRATION = (index_of("schedules_by_blob", "schedules", "arguments"),)
"""The statements that make the index of large bodies; see `tables.migrate`."""


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """One schedule of a store.

    Args:
        name: Its name.
        queue: The queue of its runs.
        function: The function, as `module:name`.
        cron: The cron expression.
        timezone: The time zone of the expression.
        next_at: The next due time, in seconds since 1970.
        priority: The priority of its runs.
        max_lives: The number of lives after which a run is not repeated.
        arguments: The arguments of the function, encoded.
    """

    name: str
    queue: str
    function: str
    cron: str
    timezone: str
    next_at: float
    priority: int
    max_lives: int
    arguments: bytes


_COLUMNS = "name, queue, function, cron, timezone, next_at, priority, max_lives, arguments"


def _loaded(database: Database, row: Sequence[object]) -> ScheduleRow:
    stored = ScheduleRow(**dict(zip(_COLUMNS.split(", "), row, strict=True)))  # pyright: ignore[reportArgumentType]
    arguments = load_body(database, stored.arguments, *_context(stored), signed=_signed(stored))
    return msgspec.structs.replace(stored, arguments=arguments)


def _context(schedule: ScheduleRow) -> tuple[str, ...]:
    return "schedules", "arguments", schedule.name, schedule.function


def _signed(schedule: ScheduleRow) -> tuple[object, ...]:
    return schedule.queue, schedule.priority, schedule.max_lives, schedule.cron, schedule.timezone


def read_now(database: Database) -> float:
    """Read the clock of the database, in seconds since 1970."""
    ((now,),) = database.query(f"SELECT {database.NOW}")
    return now


def put_schedule(database: Database, schedule: ScheduleRow) -> None:
    """Add a schedule, or replace the one of its name. If its times are the same, it keeps the next one.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    begin_writing(database, schedule.arguments)
    arguments = store_body(database, schedule.arguments, *_context(schedule), signed=_signed(schedule))
    database.change(
        f"INSERT INTO schedules ({_COLUMNS}) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, "
        "function = excluded.function, arguments = excluded.arguments, priority = excluded.priority, "
        "max_lives = excluded.max_lives, cron = excluded.cron, timezone = excluded.timezone, "
        "next_at = CASE WHEN schedules.cron = excluded.cron AND schedules.timezone = excluded.timezone "
        "THEN schedules.next_at ELSE excluded.next_at END",
        *(schedule.name, schedule.queue, schedule.function, schedule.cron, schedule.timezone),
        *(schedule.next_at, schedule.priority, schedule.max_lives, arguments),
    )


def remove_schedule(database: Database, name: str) -> bool:
    """Remove a schedule; return whether there was one."""
    return database.change("DELETE FROM schedules WHERE name = ?", name) == 1


def read_schedules(database: Database) -> list[ScheduleRow]:
    """Read all schedules, by name."""
    rows = database.query(f"SELECT {_COLUMNS} FROM schedules ORDER BY name")
    return [_loaded(database, row) for row in rows]


def due_schedules(database: Database, queue: str) -> tuple[list[ScheduleRow], dict[str, str]]:
    """The schedules of a queue that are due, which nobody else may change before the transaction ends.

    The caller may store their arguments again. So the table of blobs is locked first if one is large.

    Returns:
        The schedules; and the names of those that were changed or moved, with the reasons.

    Raises:
        JournalAuditError: The schedules were written with another audit key.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    condition = f"FROM schedules WHERE queue = ? AND next_at <= {database.NOW}"
    bodies = database.query(f"SELECT arguments {condition}", queue)
    if not bodies:
        return [], {}
    has_blobs = any(_is_blob(body) for (body,) in bodies)
    if has_blobs:
        database.lock("blobs")
    rows = database.query(f"SELECT {_COLUMNS} {condition} ORDER BY name{database.FOR_UPDATE_OF_FREE}", queue)
    due: list[ScheduleRow] = []
    problems: dict[str, str] = {}
    for row in rows:
        if not has_blobs and _is_blob(row[-1]):
            continue  # it has become large since the first query, and is left to the next call
        try:
            due.append(_loaded(database, row))
        except JournalError as error:
            if not is_of_row(database, error):
                raise
            problems[row[0]] = str(error)
    return due, problems


def _is_blob(stored: bytes) -> bool:
    return stored.startswith(BLOB_MARK)


def advance_schedule(database: Database, name: str, next_at: float) -> None:
    """Set the next due time of a schedule."""
    database.change("UPDATE schedules SET next_at = ? WHERE name = ?", next_at, name)
