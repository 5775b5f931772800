"""The tables of the messages to runs.

A transaction that appends to a mailbox first locks its row, so its messages are numbered in the order of the
commits, also where several processes send at once.
"""

from msgspec import Struct

from .blob_table import begin_writing, check_gaps, load_body, store_body
from .database import Database
from .errors import RunPrunedError

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
        at: The time at which it was sent, in seconds since 1970.
    """

    number: int
    body: bytes
    at: float = 0.0


def append_message(database: Database, run_id: str, name: str, message_id: str, body: bytes) -> None:
    """Append a message to a mailbox, within a transaction of the caller; nothing if it has the id already.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
        RunPrunedError: The records of the run were deleted.
    """
    begin_writing(database, body)
    if database.query("SELECT 1 FROM runs WHERE run_id = ? AND pruned_at IS NOT NULL", run_id):
        raise RunPrunedError(f"run {run_id!r} has ended, and its records were deleted since.")
    database.change(
        "INSERT INTO mailboxes (run_id, name, last_number) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        run_id,
        name,
    )
    # The row is locked until the transaction ends.
    changed = database.change(
        "UPDATE mailboxes SET last_number = last_number + 1 WHERE run_id = ? AND name = ? AND NOT EXISTS "
        "(SELECT 1 FROM messages WHERE run_id = ? AND name = ? AND message_id = ?)",
        *(run_id, name, run_id, name, message_id),
    )
    if changed == 0:
        return
    ((number,),) = database.query(
        "SELECT last_number FROM mailboxes WHERE run_id = ? AND name = ?", run_id, name
    )
    stored = store_body(database, body, "messages", run_id, name, message_id, signed=(number,))
    database.change(
        "INSERT INTO messages (run_id, name, number, message_id, at, body) "
        f"VALUES (?, ?, ?, ?, {database.NOW}, ?)",
        *(run_id, name, number, message_id, stored),
    )


def has_message(database: Database, run_id: str, name: str, message_id: str) -> bool:
    """Whether a mailbox has a message with an id."""
    return bool(
        database.query(
            "SELECT 1 FROM messages WHERE run_id = ? AND name = ? AND message_id = ?",
            *(run_id, name, message_id),
        )
    )


def copy_messages(database: Database, run_id: str, to: str) -> None:
    """Copy all messages to a run to one that is new, within a transaction of the caller."""
    rows = database.query(
        "SELECT name, number, message_id, at, body FROM messages WHERE run_id = ? ORDER BY name, number",
        run_id,
    )
    database.change_many(
        "INSERT INTO mailboxes (run_id, name, last_number) VALUES (?, ?, ?)",
        [(to, name, number) for name, number in {row[0]: row[1] for row in rows}.items()],
    )
    bodies = [
        load_body(database, body, "messages", run_id, name, id_, signed=(number,))
        for name, number, id_, _, body in rows
    ]
    database.change_many(
        "INSERT INTO messages (run_id, name, number, message_id, at, body) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                *(to, name, number, id_, at),
                store_body(database, body, "messages", to, name, id_, signed=(number,)),
            )
            for (name, number, id_, at, _), body in zip(rows, bodies, strict=True)
        ],
    )


def read_messages(
    database: Database, run_id: str, name: str, after: int, limit: int
) -> tuple[list[Message], float]:
    """Read the first messages of a mailbox after a number, and the time, in seconds since 1970.

    Raises:
        JournalAuditError: With an audit key: a message was changed, moved or removed.
    """
    rows = database.query(
        "SELECT number, message_id, body, at FROM messages WHERE run_id = ? AND name = ? AND number > ? "
        "ORDER BY number LIMIT ?",
        *(run_id, name, after, limit),
    )
    ((now,),) = database.query(f"SELECT {database.NOW}")
    messages = [
        Message(
            number=number,
            body=load_body(database, stored, "messages", run_id, name, id_, signed=(number,)),
            at=at,
        )
        for number, id_, stored, at in rows
    ]
    check_gaps(database, f"the mailbox {name!r} of run {run_id!r}", after, [row[0] for row in rows])
    return messages, now
