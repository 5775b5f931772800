"""The chain over the records of a run, which shows that one was changed, removed or inserted.

The link of a record is a digest of the link before it and of everything that is stored of the record. The
row of the run keeps the last link and the number of records, so that removals at the end show, too. With a
key, links are authentication codes, and the row of the run has one of its own.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from .errors import JournalAuditError

MIGRATION = (
    "ALTER TABLE records ADD COLUMN link {bytes}",
    "ALTER TABLE runs ADD COLUMN link {bytes}",
    "ALTER TABLE runs ADD COLUMN linked INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN seal {bytes}",
    "ALTER TABLE runs ADD COLUMN audit_key TEXT NOT NULL DEFAULT ''",
)
"""The statements that add the chain to the tables; see `tables.migrate`."""

StoredRecord: TypeAlias = tuple[int, str, str, int, float, bytes]
"""A record as its row has it: seq, place, kind, epoch, at, body."""

_encode = msgspec.msgpack.Encoder().encode


class Head(Struct, frozen=True):
    """The end of a chain.

    Args:
        link: The last link; empty before the first record.
        count: The number of records.
    """

    link: bytes = b""
    count: int = 0


class Tail(Struct, frozen=True, kw_only=True):
    """The end of the records of a run.

    Args:
        head: The end of their chain.
        seq: The number of the last one; 0 for none.
    """

    head: Head
    seq: int


class Audit:
    """Makes chains.

    Args:
        key: The key; None for chains without one.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self.key_name = "" if key is None else hmac.digest(key, b"nighthawk-async audit", "sha256").hex()[:16]
        """A name of the key that gives nothing of it away; empty for none."""
        self.tails: dict[tuple[str, int], Tail] = {}
        """The ends of the runs in progress here, by life, as this process has left them."""

    def link(self, previous: bytes, run_id: str, record: StoredRecord) -> bytes:
        """The link of a record after another one."""
        text = _encode((previous, run_id, record))
        return hashlib.sha256(text).digest() if self._key is None else hmac.digest(self._key, text, "sha256")

    def extend(self, head: Head, run_id: str, records: Iterable[StoredRecord]) -> tuple[list[Any], Head]:
        """Append records to a chain.

        Returns:
            The rows of the records, with the run and the links; and the new head.
        """
        link, rows = head.link, list[Any]()
        for record in records:
            link = self.link(link, run_id, record)
            rows.append((run_id, *record, link))
        return rows, Head(link, head.count + len(rows))

    def seal(self, run_id: str, head: Head, *, is_pruned: bool = False) -> bytes | None:
        """The code of the row of a run; None without a key."""
        if self._key is None:
            return None
        return hmac.digest(self._key, _encode((run_id, head.link, head.count, is_pruned)), "sha256")

    def check_key(self, run_id: str, key_name: str) -> None:
        """Check that a run has the chain of this key.

        Args:
            run_id: The run.
            key_name: The name of the key that its row has.

        Raises:
            JournalAuditError: It has not.
        """
        if key_name == self.key_name:
            return
        had = "another audit key" if key_name else "no audit key"
        raise JournalAuditError(
            f"run {run_id!r} was recorded with {had}. Open the journal with the same audit_key. To change "
            'it, stop all programs, verify the runs, and use "nighthawk-async journal reencrypt".',
            run_id=run_id,
        )

    def check_record(self, previous: bytes, run_id: str, record: StoredRecord, link: bytes | None) -> None:
        """Check one record.

        Raises:
            JournalAuditError: It is not the one that was recorded after the one before it.
        """
        if link != self.link(previous, run_id, record):
            seq, place, kind = record[:3]
            raise JournalAuditError(
                f"run {run_id!r}: record {seq} ({kind} at {place}) was changed or inserted, or one right "
                "before it was removed",
                run_id=run_id,
                seq=seq,
                place=place,
            )

    def check_head(self, run_id: str, found: Head, row: Head, seal: bytes | None) -> None:
        """Check the end of a chain.

        Args:
            run_id: The run.
            found: The head of the chain that the records have.
            row: The one that the row of the run has.
            seal: The code that the row of the run has.

        Raises:
            JournalAuditError: They differ.
        """
        problem = None
        if found.count < row.count:
            problem = f"{row.count - found.count} of {row.count} records were removed"
        elif found.count > row.count:
            problem = f"{found.count - row.count} records were inserted at the end"
        elif found.link != row.link or seal != self.seal(run_id, row):
            problem = "the row of the run was changed, or its last records were"
        if problem is not None:
            raise JournalAuditError(f"run {run_id!r}: {problem}", run_id=run_id)
