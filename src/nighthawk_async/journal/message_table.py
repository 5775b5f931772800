"""The tables of the messages to runs.

Whoever appends to a mailbox first locks its row, so its messages are numbered in the order of the commits,
also where several processes send at once.
"""

from collections.abc import Sequence

from msgspec import Struct

from .database import Database

MIGRATION = (
    """
CREATE TABLE mailboxes (
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    PRIMARY KEY (run_id, name)
){table_options}
""",
    """
CREATE TABLE messages (
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    at {real} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (run_id, name, number)
){table_options}
""",
    "CREATE UNIQUE INDEX messages_by_id ON messages (run_id, name, message_id)",
)
"""The statements that make the tables; see `tables.migrate`."""


class Message(Struct, frozen=True, kw_only=True):
    """A message to a run.

    Args:
        number: Its number in its mailbox, from 1.
        body: Its value, encoded.
    """

    number: int
    body: bytes


def append_message(database: Database, run_id: str, name: str, message_id: str, body: bytes) -> None:
    """Append a message to a mailbox, within a transaction of the caller; nothing if it has the id already."""
    database.change(
        "INSERT INTO mailboxes (run_id, name, last_number) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        run_id,
        name,
    )
    # The row is locked until the transaction ends.
    database.change(
        "UPDATE mailboxes SET last_number = last_number + 1 WHERE run_id = ? AND name = ? AND NOT EXISTS "
        "(SELECT 1 FROM messages WHERE run_id = ? AND name = ? AND message_id = ?)",
        *(run_id, name, run_id, name, message_id),
    )
    database.change(
        "INSERT INTO messages (run_id, name, number, message_id, at, body) "
        f"SELECT run_id, name, last_number, ?, {database.NOW}, ? FROM mailboxes "
        "WHERE run_id = ? AND name = ? ON CONFLICT DO NOTHING",
        *(message_id, body, run_id, name),
    )


def read_messages(database: Database, run_id: str) -> list[tuple[object, ...]]:
    """Read the rows of all messages to a run, without its id."""
    return list(
        database.query(
            "SELECT name, number, message_id, at, body FROM messages WHERE run_id = ? ORDER BY name, number",
            run_id,
        )
    )


def insert_messages(database: Database, run_id: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert the messages of another run into mailboxes that are new, within a transaction of the caller."""
    last = {row[0]: row[1] for row in rows}
    database.change_many(
        "INSERT INTO mailboxes (run_id, name, last_number) VALUES (?, ?, ?)",
        [(run_id, name, number) for name, number in last.items()],
    )
    database.change_many(
        "INSERT INTO messages (run_id, name, number, message_id, at, body) VALUES (?, ?, ?, ?, ?, ?)",
        [(run_id, *row) for row in rows],
    )


def next_message(database: Database, run_id: str, name: str, after: int) -> Message | None:
    """Read the first message of a mailbox after a number; None for none."""
    rows = database.query(
        "SELECT number, body FROM messages WHERE run_id = ? AND name = ? AND number > ? "
        "ORDER BY number LIMIT 1",
        run_id,
        name,
        after,
    )
    return Message(number=rows[0][0], body=rows[0][1]) if rows else None
