"""The table of large bodies. Equal ones are stored once; the rows that have one refer to it by its digest.

Functions that add or delete blobs first lock the table, so no body is deleted while a row is written that
refers to it.
"""

import hashlib
import hmac
from collections.abc import Sequence

from .database import Database
from .encryption import BLOB_MARK, DIGEST_BYTES, ChangedBodyError, is_encrypted
from .errors import JournalAuditError, JournalError, JournalKeyError, JournalStoreError
from .key_table import check_keys


class DamagedBodyError(JournalStoreError):
    """A body is missing, or was changed."""


LARGE_BYTES = 64 * 1024
"""Bodies with more bytes are blobs."""

REFERRING_COLUMNS = (
    ("records", "body"),
    ("messages", "body"),
    ("queue_entries", "arguments"),
    ("queue_entries", "result"),
    ("schedules", "arguments"),
    ("questions", "body"),
    ("questions", "answer"),
    ("votes", "body"),
    ("topic_messages", "body"),
)
"""The columns that are written by `store_body`, with their tables; each needs an index, see `index_of`."""


def index_of(name: str, table: str, column: str) -> str:
    """The statement for the index by which the rows with a blob are found."""
    return (
        f"CREATE INDEX {name} ON {table} (substr({column}, 3, {DIGEST_BYTES})) "
        f"WHERE substr({column}, 1, 2) = {{blob_mark}}"
    )


MIGRATION = (
    "CREATE TABLE blobs (digest {bytes} PRIMARY KEY, body {bytes} NOT NULL){table_options}",
    index_of("records_by_blob", "records", "body"),
    index_of("messages_by_blob", "messages", "body"),
)
"""The statements that make the table; see `tables.migrate`."""


def begin_writing(database: Database, *bodies: bytes) -> None:
    """Check the keys, and lock the table if a body is a large one, before a transaction locks any row.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    check_keys(database)
    if any(is_large(body) for body in bodies):
        database.lock("blobs")


def store_body(database: Database, body: bytes, *context: object, signed: tuple[object, ...] = ()) -> bytes:
    """Store a body if it is a large one, within a transaction of the caller.

    A transaction that locks other rows as well has to lock the table first; see `begin_writing`.

    Args:
        database: The database.
        body: The body.
        context: The table, and what identifies the row in it; see `BodyCodec.seal`.
        signed: More that the body is bound to where it is signed.

    Returns:
        The body as the row has it, or the reference to it.
    """
    codec = database.codec
    if len(body) <= LARGE_BYTES:
        return codec.seal(body, *context, signed=signed)
    database.lock("blobs")
    digest = codec.digest(body)
    if not database.query("SELECT 1 FROM blobs WHERE digest = ?", digest):
        sealed = codec.seal(body, "blobs", digest)
        database.change("INSERT INTO blobs (digest, body) VALUES (?, ?)", digest, sealed)
    proof = codec.seal(b"", *context, digest, signed=signed) if codec.needs_proof(context) else b""
    return BLOB_MARK + digest + proof


def load_body(database: Database, stored: object, *context: object, signed: tuple[object, ...] = ()) -> bytes:
    """Return the body that `store_body` was given with the same context.

    Raises:
        JournalAuditError: The body was signed with another key or for another row, or was not signed.
        JournalKeyError: A key is missing or another one, or the row was moved.
        JournalStoreError: The blob is missing, or was changed.
    """
    if not isinstance(stored, bytes):  # a damaged file may have any type
        raise DamagedBodyError("a body of the journal is damaged")
    if not stored.startswith(BLOB_MARK):
        return database.codec.unseal(stored, *context, signed=signed)
    start = len(BLOB_MARK)
    digest, proof = stored[start : start + DIGEST_BYTES], stored[start + DIGEST_BYTES :]
    if proof or database.codec.needs_proof(context):
        database.codec.unseal(proof, *context, digest, signed=signed)
    rows = database.query("SELECT body FROM blobs WHERE digest = ?", digest)
    if not rows:
        raise DamagedBodyError(f"a body of the journal is missing ({digest.hex()[:16]})")
    body = database.codec.unseal(rows[0][0], "blobs", digest)
    if not is_encrypted(rows[0][0]) and not hmac.compare_digest(hashlib.sha256(body).digest(), digest):
        raise DamagedBodyError(f"a body of the journal was changed ({digest.hex()[:16]})")
    return body


def is_of_row(database: Database, error: JournalError) -> bool:
    """Whether an error of `load_body` is one of that row alone; others are those of all, such as a wrong key.

    The keys of the database have been checked before.
    """
    if isinstance(error, JournalKeyError):
        return error.key_id in database.codec.key_ids
    return isinstance(error, ChangedBodyError | DamagedBodyError)


def check_gaps(database: Database, name: str, after: int, numbers: Sequence[int]) -> None:
    """Check, with an audit key, that no row of several was removed, which have numbers one after another.

    Args:
        database: The database.
        name: Their name, for errors.
        after: The number before the first one.
        numbers: The numbers that are there, in order.

    Raises:
        JournalAuditError: One was removed.
    """
    if database.audit.key_name and list(numbers) != list(range(after + 1, after + 1 + len(numbers))):
        raise JournalAuditError(f"{name}: something was removed, or has another number", run_id="")


def is_large(body: bytes) -> bool:
    """Whether a body is stored as a blob."""
    return len(body) > LARGE_BYTES


def delete_unused_blobs(database: Database, after: bytes, count: int) -> tuple[int, bytes | None]:
    """Delete those of some blobs that no row refers to, in one transaction.

    Args:
        database: The database.
        after: The digest before the first one; empty for the beginning.
        count: The number of blobs to look at.

    Returns:
        The number of deleted ones, and the last digest; None at the end.
    """
    used = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE substr({table}.{column}, 3, {DIGEST_BYTES}) = blobs.digest "
        f"AND substr({table}.{column}, 1, 2) = {database.SCHEMA_WORDS['blob_mark']})"
        for table, column in REFERRING_COLUMNS
    )
    with database.transaction():
        database.lock("blobs")
        rows = database.query(
            f"SELECT digest, ({used}) FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?", after, count
        )
        unused = [(digest,) for digest, is_used in rows if not is_used]
        if unused:
            database.change_many("DELETE FROM blobs WHERE digest = ?", unused)
    return len(unused), rows[-1][0] if rows else None
