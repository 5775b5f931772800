"""The chains of runs in the tables: they are continued, checked and made anew."""

from typing import cast

from msgspec import Struct

from .audit import Head, StoredRecord, Tail
from .blob_table import load_body
from .database import Database
from .encryption import BLOB_MARK
from .errors import JournalAuditError, JournalKeyError, JournalStoreError

_PAGE = 1_000


class HeadRow(Struct, frozen=True, kw_only=True):
    """The end of the chain of a run, as the row of the run has it.

    Args:
        head: The end of the chain.
        seal: Its code; None without a key.
        key_name: The name of the audit key; empty for none.
        is_unlinked: Whether the run is one of an earlier version that had no chains, or has no record.
        is_pruned: Whether its records were deleted.
    """

    head: Head
    seal: bytes | None
    key_name: str
    is_unlinked: bool
    is_pruned: bool


class ChainCheck:
    """Checks the chain of a run in pieces, between which others may append to it.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._found = Head()
        self._seq: int | None = None

    def check_next(self, database: Database) -> HeadRow | None:
        """Check the next piece.

        Returns:
            The row of the run after the last one; None before.

        Raises:
            JournalAuditError: A record was changed, removed or inserted.
            JournalKeyError: A body cannot be read without its key.
        """
        # Before the records: what is appended meanwhile is in the next piece.
        row = read_head(database, self._run_id)
        database.audit.check_key(self._run_id, row.key_name)
        if row.is_pruned:
            if row.seal != database.audit.seal(self._run_id, row.head, is_pruned=True):
                raise JournalAuditError(
                    f"run {self._run_id!r}: its records were not deleted by prune", run_id=self._run_id
                )
            return row
        if row.is_unlinked and not row.key_name:
            return row
        rows = _read_page(database, self._run_id, self._seq)
        for record, link in rows:
            database.audit.check_record(self._found.link, self._run_id, record, link)
            _check_blob(database, self._run_id, record)
            self._found = Head(cast("bytes", link), self._found.count + 1)
            self._seq = record[0]
        if rows:
            return None
        database.audit.check_head(self._run_id, self._found, row.head, row.seal)
        return row


def check_chain(database: Database, run_id: str) -> HeadRow:
    """Check the chain of a run; see `ChainCheck`."""
    check = ChainCheck(run_id)
    while (row := check.check_next(database)) is None:
        pass
    return row


def read_head(database: Database, run_id: str) -> HeadRow:
    """Read what the row of a run has of its chain.

    Raises:
        JournalAuditError: There is no such run.
    """
    rows = database.query(
        "SELECT link, linked, seal, audit_key, pruned_at IS NOT NULL FROM runs WHERE run_id = ?", run_id
    )
    if not rows:
        raise JournalAuditError(f"the journal has no run {run_id!r}", run_id=run_id)
    ((link, count, seal, key_name, is_pruned),) = rows
    return HeadRow(
        head=Head(link or b"", count if isinstance(count, int) else -1),  # a damaged file may have any type
        seal=seal,
        key_name=key_name,
        is_unlinked=link is None,
        is_pruned=bool(is_pruned),
    )


def read_tail(database: Database, run_id: str) -> Tail:
    """Read the end of the records of a run, whose row the caller has locked."""
    ((last,),) = database.query("SELECT max(seq) FROM records WHERE run_id = ?", run_id)
    return Tail(head=read_head(database, run_id).head, seq=last or 0)


def write_head(database: Database, run_id: str, head: Head, *, is_pruned: bool = False) -> None:
    """Write the end of a chain, within a transaction of the caller."""
    seal = database.audit.seal(run_id, head, is_pruned=is_pruned)
    database.change(
        "UPDATE runs SET link = ?, linked = ?, seal = ? WHERE run_id = ?",
        *(head.link, head.count, seal, run_id),
    )


def link_records(database: Database, run_id: str) -> Head:
    """Make the chain of a run anew, of the records that are there, within a transaction of the caller."""
    head = Head()
    seq: int | None = None
    while page := _read_page(database, run_id, seq):
        rows, head = database.audit.extend(head, run_id, (record for record, _ in page))
        database.change_many(
            "UPDATE records SET link = ? WHERE run_id = ? AND seq = ?",
            [(row[-1], run_id, row[1]) for row in rows],
        )
        seq = rows[-1][1]
    write_head(database, run_id, head)
    database.change("UPDATE runs SET audit_key = ? WHERE run_id = ?", database.audit.key_name, run_id)
    return head


def _read_page(database: Database, run_id: str, after: int | None) -> list[tuple[StoredRecord, bytes | None]]:
    rows = database.query(
        "SELECT seq, place, kind, epoch, at, body, link FROM records WHERE run_id = ? "
        f"{'' if after is None else 'AND seq > ? '}ORDER BY seq LIMIT {_PAGE}",
        *((run_id,) if after is None else (run_id, after)),
    )
    return [(row[:6], row[6]) for row in rows]


def _check_blob(database: Database, run_id: str, record: StoredRecord) -> None:
    """Check that the large body of a record is the one that it refers to."""
    seq, place, kind, body = *record[:3], record[5]
    if not body.startswith(BLOB_MARK):
        return
    try:
        load_body(database, body, "records", run_id, seq, place, kind)
    except JournalKeyError as error:
        if error.key_id not in database.codec.key_ids:
            raise
        reason = str(error)
    except JournalStoreError as error:
        reason = str(error)
    else:
        return
    raise JournalAuditError(
        f"run {run_id!r}: record {seq} ({kind} at {place}): {reason}", run_id=run_id, seq=seq, place=place
    )
