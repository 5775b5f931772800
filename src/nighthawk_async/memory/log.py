"""The log of a memory, and the index of its current records, in the database of a store.

Nothing in the log is rewritten, but by `erase`. Every function is called in the thread of the store; those
that write are one transaction, and are done once for each event: a repeated call returns what the first did.
"""

import json
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from ..journal.database import Database
from ..journal.key_table import check_keys
from .errors import MemoryUseError
from .orders import Predicate, StoreOrder, encoded_order, utc
from .packing import packed, unpacked
from .records import ErasureReceipt, Forgotten, MemoryEvent, MemoryRecord
from .words import Terms, words_of

PIECE = 400
"""The number of rows that one statement names."""
_DELETE_TERM = "DELETE FROM memory_terms WHERE space = ? AND term = ? AND seq = ?"
_ROWS = "SELECT seq, operation, record_id, at, body FROM memory_log WHERE space = ?"


class Space(Struct, frozen=True):
    """A namespace in a database.

    Args:
        number: Its number.
        name: Its name.
        last_seq: The number of the last event of its log.
        records: The number of its current records.
        words: The number of words of these.
        terms: The terms of the store.
    """

    number: int
    name: str
    last_seq: int
    records: int
    words: int
    terms: Terms


class LogRow(Struct, frozen=True):
    """A record in the log.

    Args:
        seq: The number of its event.
        record: The record.
    """

    seq: int
    record: MemoryRecord


def find_space(database: Database, name: str, *, locks: bool = False) -> Space | None:
    """Return a namespace; None if nothing was stored in it.

    Args:
        database: The database.
        name: Its name.
        locks: Whether nobody else changes it before the transaction ends.
    """
    secrets = database.query("SELECT body FROM memory_secrets WHERE name = 'terms'")
    rows = database.query(
        "SELECT space, last_seq, records, words FROM memory_spaces WHERE name = ?"
        + (database.FOR_UPDATE if locks else ""),
        name,
    )
    if not secrets or not rows:
        return None
    terms = Terms(database.codec.unseal(secrets[0][0], "memory_secrets", "terms"))
    number, last_seq, records, words = rows[0]
    return Space(number, name, last_seq, records, words, terms)


def store(database: Database, namespace: str, order: StoreOrder, event: str, at: float) -> MemoryRecord:
    """Append a record, which takes the place of the current one of its key.

    Raises:
        MemoryUseError: A current record of another key has the id.
    """
    with _changing(database, namespace) as space:
        if (done := _find_event(database, space, event)) is not None:
            return _record(database, space, done)
        known = _current_with_id(database, space, order.id) if order.id else None
        if known is not None:
            if known.record.key != order.key:
                raise MemoryUseError(
                    f"the id {order.id!r} is that of the record with the key {known.record.key!r}; "
                    f"{order.key!r} needs another one"
                )
            if known.record == order.record(
                id=order.id, namespace=namespace, at=known.record.stored_at.timestamp()
            ):
                return known.record
        superseded = _current_of(database, space, _with_term(database, space, space.terms.version(order.key)))
        _retire(database, space, superseded)
        return _append_record(database, space, order, event, at)


def forget(database: Database, namespace: str, chosen: Predicate, event: str, at: float) -> Forgotten:
    """Append a tombstone for the current records that are chosen, if there are any."""
    with _changing(database, namespace) as space:
        if (done := _find_event(database, space, event)) is not None:
            ids = _ids(database, space, done)
            return Forgotten(count=len(ids), ids=ids)
        rows = find_rows(database, space, chosen, is_current=True)
        ids = tuple(row.record.id for row in rows)
        if rows:
            _retire(database, space, [row.seq for row in rows])
            _append(database, space, "forget", "", event, at, msgspec.json.encode(ids))
        return Forgotten(count=len(ids), ids=ids)


def erase(database: Database, namespace: str, chosen: Predicate, event: str, at: float) -> ErasureReceipt:
    """Delete the records that are chosen, and older versions of their keys; leave no trace of them.

    The log gets the ids and the counts alone.
    """
    with _changing(database, namespace) as space:
        done = _find_event(database, space, event)
        if done is not None:
            receipt = msgspec.json.decode(_body(database, space, done), type=ErasureReceipt)
        else:
            receipt = _erase(database, space, chosen, event, at)
    if not receipt.versions and not receipt.vectors:
        return receipt
    return msgspec.structs.replace(receipt, is_purged=database.purge(_ERASED_TABLES))


_ERASED_TABLES = ("memory_log", "memory_entries", "memory_terms", "memory_vectors")


def _erase(database: Database, space: Space, chosen: Predicate, event: str, at: float) -> ErasureReceipt:
    found = find_rows(database, space, chosen, is_current=False)
    newest: dict[str, int] = {}
    for row in found:
        newest[row.record.key] = max(row.seq, newest.get(row.record.key, 0))
    older = [
        row
        for key, last in newest.items()
        for row in rows_of(database, space, _with_term(database, space, space.terms.version(key)))
        if row.seq <= last
    ]
    rows = sorted({row.seq: row for row in (*found, *older)}.values(), key=lambda row: row.seq)
    seqs = [row.seq for row in rows]
    terms = vectors = 0
    contents: dict[bytes, None] = {}
    for seq, content, terms_of in _entries(database, space, seqs):
        contents[content] = None
        for term in unpacked("q", terms_of):
            terms += database.change(_DELETE_TERM, space.number, term, seq)
    _retire(database, space, _current_of(database, space, seqs))
    for table in ("memory_entries", "memory_log"):
        named = [(space.number, seq) for seq in seqs]
        if named:
            database.change_many(f"DELETE FROM {table} WHERE space = ? AND seq = ?", named)
    if rows:
        vectors = _delete_vectors(database, space, contents)
    receipt = ErasureReceipt(
        id=event,
        namespace=space.name,
        at=utc(at),
        ids=tuple(dict.fromkeys(row.record.id for row in rows)),
        versions=len(rows),
        terms=terms,
        vectors=vectors,
        is_purged=True,
    )
    if rows:
        _append(database, space, "erase", "", event, at, msgspec.json.encode(receipt))
    return receipt


def _delete_vectors(database: Database, space: Space, contents: Iterable[bytes]) -> int:
    """Delete the vectors of texts that no record has any more, and those of all queries; return how many."""
    count = database.change("DELETE FROM memory_vectors WHERE space = ? AND is_query = 1", space.number)
    for content in contents:
        if not database.query(
            "SELECT 1 FROM memory_entries WHERE space = ? AND content = ? LIMIT 1", space.number, content
        ):
            count += database.change(
                "DELETE FROM memory_vectors WHERE space = ? AND content = ?", space.number, content
            )
    return count


def history(database: Database, namespace: str, key: str | None) -> list[MemoryEvent]:
    """Return the events of a key in the log, or all of the namespace."""
    space = find_space(database, namespace)
    if space is None:
        return []
    events: list[MemoryEvent] = []
    own = None if key is None else set(_with_term(database, space, space.terms.version(key)))
    ids: set[str] = set()
    for row in database.query(f"{_ROWS} ORDER BY seq", space.number):
        seq, operation, record_id, at, _ = row
        if operation == "store":
            if own is not None and seq not in own:
                continue
            ids.add(record_id)
            events.append(
                MemoryEvent(
                    number=seq,
                    operation="store",
                    at=utc(at),
                    ids=(record_id,),
                    record=_record(database, space, row),
                )
            )
            continue
        about = _ids(database, space, row)
        if key is None or ids.intersection(about):
            events.append(MemoryEvent(number=seq, operation=operation, at=utc(at), ids=about))
    return events


def find_rows(database: Database, space: Space, chosen: Predicate, *, is_current: bool) -> list[LogRow]:
    """Return the records that are chosen, in the order of the log.

    Args:
        database: The database.
        space: The namespace.
        chosen: The choice.
        is_current: Whether current records alone count; otherwise all that are in the log.
    """
    seqs: Iterable[int]
    if chosen.id:
        rows = database.query(
            "SELECT seq FROM memory_log WHERE space = ? AND record_id = ?", space.number, chosen.id
        )
        seqs = [seq for (seq,) in rows]
    elif chosen.key:
        seqs = _with_term(database, space, space.terms.version(chosen.key))
    elif chosen.tags and is_current:
        seqs = _with_term(database, space, space.terms.tag(chosen.tags[0]))
    else:
        rows = database.query("SELECT seq FROM memory_entries WHERE space = ?", space.number)
        seqs = [seq for (seq,) in rows]
    if is_current:
        seqs = _current_of(database, space, seqs)
    return [row for row in rows_of(database, space, sorted(seqs)) if chosen.matches(row.record)]


def find_current(database: Database, space: Space, key: str) -> LogRow | None:
    """Return the current record of a key; None for none."""
    seqs = _current_of(database, space, _with_term(database, space, space.terms.version(key)))
    return next(iter(rows_of(database, space, seqs)), None)


def rows_of(database: Database, space: Space, seqs: Iterable[int]) -> list[LogRow]:
    """Return records by the numbers of their events, in that order; those that were erased are missing."""
    wanted = list(seqs)
    found: dict[int, LogRow] = {}
    for piece in pieces(wanted):
        places = ", ".join("?" * len(piece))
        for row in database.query(f"{_ROWS} AND seq IN ({places})", space.number, *piece):
            if row[1] == "store":
                found[row[0]] = LogRow(row[0], _record(database, space, row))
    return [found[seq] for seq in wanted if seq in found]


def pieces(seqs: Sequence[int]) -> Iterator[Sequence[int]]:
    """Divide rows, so that no statement names too many."""
    return (seqs[start : start + PIECE] for start in range(0, len(seqs), PIECE))


@contextmanager
def _changing(database: Database, namespace: str) -> Generator[Space, None, None]:
    """Make the `with` statement a transaction that has a namespace for itself."""
    if find_space(database, namespace) is None:
        _make_space(database, namespace)
    with database.transaction():
        check_keys(database)
        space = find_space(database, namespace, locks=True)
        assert space is not None
        yield space


def _make_space(database: Database, namespace: str) -> None:
    """Make a namespace, in a transaction of its own: who has the table for itself waits for nobody's row."""
    with database.transaction():
        check_keys(database)
        database.lock("memory_spaces")
        sealed = database.codec.seal(os.urandom(32), "memory_secrets", "terms")
        database.change(
            "INSERT INTO memory_secrets (name, body) VALUES ('terms', ?) ON CONFLICT DO NOTHING", sealed
        )
        if not database.query("SELECT 1 FROM memory_spaces WHERE name = ?", namespace):
            ((last,),) = database.query("SELECT COALESCE(MAX(space), 0) FROM memory_spaces")
            database.change(
                "INSERT INTO memory_spaces (space, name, last_seq, records, words) VALUES (?, ?, 0, 0, 0)",
                *(last + 1, namespace),
            )


def _append_record(
    database: Database, space: Space, order: StoreOrder, event: str, at: float
) -> MemoryRecord:
    terms, number = space.terms, space.number
    record = order.record(id=order.id or event, namespace=space.name, at=at)
    counts = terms.count(words_of("\n".join((order.key, *order.tags, order.text))))
    words = sum(counts.values())
    marks = [terms.key(order.key), terms.version(order.key), *map(terms.tag, order.tags)]
    marks += [terms.kind(order.kind)] if order.kind else []
    all_counts = Counter({**dict.fromkeys(marks, 1), **counts})
    seq = _append(database, space, "store", record.id, event, at, encoded_order(order))
    database.change(
        "INSERT INTO memory_entries (space, seq, is_current, words, content, terms) "
        "VALUES (?, ?, 1, ?, ?, ?)",
        *(number, seq, words, terms.content(record.text), packed("q", all_counts)),
    )
    database.change_many(
        "INSERT INTO memory_terms (space, term, seq, count, words) VALUES (?, ?, ?, ?, ?)",
        [(number, term, seq, count, words) for term, count in all_counts.items()],
    )
    database.change(
        "UPDATE memory_spaces SET records = records + 1, words = words + ? WHERE space = ?", words, number
    )
    return record


def _append(
    database: Database, space: Space, operation: str, record_id: str, event: str, at: float, body: bytes
) -> int:
    """Append an event to the log, and return its number."""
    seq = space.last_seq + 1
    database.change(
        "INSERT INTO memory_log (space, seq, operation, record_id, event, at, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(space.number, seq, operation, record_id, event, at),
        database.codec.seal(body, "memory_log", space.number, seq),
    )
    database.change("UPDATE memory_spaces SET last_seq = ? WHERE space = ?", seq, space.number)
    return seq


def _retire(database: Database, space: Space, seqs: Sequence[int]) -> None:
    """Take current records out of the index; what remains says which keys they had."""
    for seq, _, terms_of in _entries(database, space, seqs):
        record = rows_of(database, space, [seq])[0].record
        kept = space.terms.version(record.key)
        gone = [(space.number, term, seq) for term in unpacked("q", terms_of) if term != kept]
        database.change_many(_DELETE_TERM, gone)
        database.change(
            "UPDATE memory_spaces SET records = records - 1, words = words - "
            "(SELECT words FROM memory_entries WHERE space = ? AND seq = ?) WHERE space = ?",
            *(space.number, seq, space.number),
        )
        database.change(
            "UPDATE memory_entries SET is_current = 0 WHERE space = ? AND seq = ?", space.number, seq
        )


def _entries(database: Database, space: Space, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
    rows: list[tuple[Any, ...]] = []
    for piece in pieces(seqs):
        places = ", ".join("?" * len(piece))
        rows += database.query(
            f"SELECT seq, content, terms FROM memory_entries WHERE space = ? AND seq IN ({places})",
            *(space.number, *piece),
        )
    return [(seq, content, terms) for seq, content, terms in rows]


def _with_term(database: Database, space: Space, term: int) -> list[int]:
    rows = database.query(
        "SELECT seq FROM memory_terms WHERE space = ? AND term = ? ORDER BY seq", space.number, term
    )
    return [seq for (seq,) in rows]


def _current_of(database: Database, space: Space, seqs: Iterable[int]) -> list[int]:
    current: list[int] = []
    for piece in pieces(list(seqs)):
        places = ", ".join("?" * len(piece))
        rows = database.query(
            f"SELECT seq FROM memory_entries WHERE space = ? AND is_current = 1 AND seq IN ({places})",
            *(space.number, *piece),
        )
        current += [seq for (seq,) in rows]
    return sorted(current)


def _current_with_id(database: Database, space: Space, record_id: str) -> LogRow | None:
    return next(iter(find_rows(database, space, Predicate(id=record_id), is_current=True)), None)


def _find_event(database: Database, space: Space, event: str) -> tuple[Any, ...] | None:
    rows = database.query(f"{_ROWS} AND event = ?", space.number, event)
    return rows[0] if rows else None


def _body(database: Database, space: Space, row: tuple[Any, ...]) -> bytes:
    return database.codec.unseal(row[4], "memory_log", space.number, row[0])


def _ids(database: Database, space: Space, row: tuple[Any, ...]) -> tuple[str, ...]:
    body = _body(database, space, row)
    if row[1] == "forget":
        return msgspec.json.decode(body, type=tuple[str, ...])
    return msgspec.json.decode(body, type=ErasureReceipt).ids


def _record(database: Database, space: Space, row: tuple[Any, ...]) -> MemoryRecord:
    fields = json.loads(_body(database, space, row))
    fields["tags"] = tuple(fields["tags"])
    return StoreOrder(**fields).record(id=row[2], namespace=space.name, at=row[3])
