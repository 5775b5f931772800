"""The part of workers in topics: messages become calls in the queue of their subscription.

A worker puts them there in the transaction in which it claims calls, so that a message is in one call whoever
is killed. Every function is part of a transaction of the caller.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from . import tables
from .blob_table import LARGE_BYTES, is_of_row, store_body
from .database import Database
from .errors import JournalAuditError, JournalError, JournalValueError, RunPrunedError
from .queue_claims import mark_run
from .queue_table import NewEntry, add_entry, put_back, result_context
from .queued_call import StoredArguments, encode_error
from .topic_rows import SubscriptionRow
from .topic_table import (
    NO_KEY,
    SUBSCRIPTION_COLUMNS,
    load_message,
    load_subscription,
    note_ends,
)
from .values import DEFAULT_RULES

_MOST_STARTED = 100
"""The most runs of one subscription that one look into the queue begins."""
_MOST_OF_BATCH = 10_000
_SLACK_BYTES = 16
"""The bytes of a message in the arguments of a call beyond its own."""


class _Batch(Struct, frozen=True, kw_only=True):
    """Messages of one run.

    Args:
        numbers: Their numbers.
        size: The bytes of their values.
        lacks_key: Whether it is a message without the field that is its key.
    """

    numbers: tuple[int, ...]
    size: int
    lacks_key: bool = False


def run_id_of(topic: str, function: str, number: int) -> str:
    """The id of the run that a function gets a message in, the first one of its batch."""
    return f"{topic}@{function}#{number}"


def start_due(database: Database, queue: str, max_bytes: int) -> tuple[dict[str, str], dict[str, str]]:
    """Enqueue the calls for the messages of all subscriptions of a queue that are due.

    It locks the table of blobs, if it needs that, before any row. So it is the first step of a transaction.

    Args:
        database: The database.
        queue: The queue.
        max_bytes: The greatest size of the messages of one call together.

    Returns:
        The runs that have failed at once, with the reasons; and the subscriptions that were changed or are
        none of this store, with the reasons.

    Raises:
        JournalAuditError: The subscriptions were written with another audit key.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    condition = (
        "FROM subscriptions WHERE queue = ? AND EXISTS (SELECT 1 FROM topic_deliveries "
        "WHERE topic_deliveries.topic = subscriptions.topic "
        "AND topic_deliveries.function = subscriptions.function AND topic_deliveries.state = 'waiting')"
    )
    rows = database.query(f"SELECT {SUBSCRIPTION_COLUMNS} {condition}", queue)
    if not rows:
        return {}, {}
    seen, _ = _loaded(database, rows)
    due = [batch for row in seen for batch in _due_batches(database, row, max_bytes)]
    is_locked = any(_may_be_large(batch) for batch in due)
    if is_locked:
        database.lock("blobs")
    rows = database.query(
        f"SELECT {SUBSCRIPTION_COLUMNS} {condition} ORDER BY topic, function{database.FOR_UPDATE_OF_FREE}",
        queue,
    )
    mine, problems = _loaded(database, rows)
    failed: dict[str, str] = {}
    for row in mine:
        if row.options.key is not None:
            note_ends(database, row)
        for batch in _due_batches(database, row, max_bytes):
            if is_locked or not _may_be_large(
                batch
            ):  # else it has become due since, and is left to the next look
                failed.update(_start(database, row, batch))
    return failed, problems


def _may_be_large(batch: _Batch) -> bool:
    return batch.size + _SLACK_BYTES * (len(batch.numbers) + 2) > LARGE_BYTES


def _loaded(
    database: Database, rows: Sequence[Sequence[object]]
) -> tuple[list[SubscriptionRow], dict[str, str]]:
    """The subscriptions in rows; and the names of those that were changed or moved, with the reasons."""
    loaded: list[SubscriptionRow] = []
    problems: dict[str, str] = {}
    for row in rows:
        try:
            loaded.append(load_subscription(database, row))
        except JournalError as error:
            if not is_of_row(database, error):
                raise
            problems[f"{row[1]} to {row[0]!r}"] = str(error)
    return loaded, problems


def _due_batches(database: Database, row: SubscriptionRow, max_bytes: int) -> list[_Batch]:
    """The batches of a subscription that are due, in the order of their first messages."""
    options = row.options
    if options.key is None and not options.is_batch:
        waiting = _waiting(database, row, "", _MOST_STARTED)
        return [_Batch(numbers=(number,), size=size) for number, _, size in waiting]
    ((now,),) = database.query(f"SELECT {database.NOW}")
    due: list[_Batch] = []
    for key in _due_keys(database, row, max_bytes, now):
        batches = _batches(database, row, key, max_bytes, now)
        due += list(batches)[: _MOST_STARTED if options.key is None else 1]  # one after the other
    if options.key is not None:
        due += [
            _Batch(numbers=(number,), size=size, lacks_key=True)
            for number, _, size in _waiting(database, row, NO_KEY, _MOST_STARTED)
        ]
    return sorted(due, key=lambda batch: batch.numbers[0])


def _waiting(database: Database, row: SubscriptionRow, key: str, most: int) -> list[tuple[int, float, int]]:
    """The first messages of a key that wait: number, time and size."""
    rows = database.query(
        "SELECT number, at, size FROM topic_deliveries WHERE topic = ? AND function = ? AND key = ? "
        "AND state = 'waiting' ORDER BY number LIMIT ?",
        *(row.topic, row.function, key, most),
    )
    return [(number, at, size) for number, at, size in rows]


def _due_keys(database: Database, row: SubscriptionRow, max_bytes: int, now: float) -> list[str]:
    """The keys with a first batch that may be due, and without a run that has still to end."""
    count, window = row.options.count, row.options.window
    having, values = ["SUM(size) > ?"], [max_bytes]
    if not row.options.is_batch:
        having = ["1 = 1"]
        values = []
    parameters: list[object] = [*values]
    if count is not None:
        having.append("COUNT(*) >= ?")
        parameters.append(count)
    if window is not None:
        having.append("MIN(at) < ?")
        parameters.append(now - window)
        having.append("COUNT(*) >= ?")
        parameters.append(_MOST_OF_BATCH)
    rows = database.query(
        "SELECT key, MIN(number) AS first FROM topic_deliveries "
        "WHERE topic = ? AND function = ? AND state = 'waiting' AND key <> ? AND key NOT IN "
        "(SELECT key FROM topic_deliveries AS begun WHERE begun.topic = ? AND begun.function = ? "
        "AND begun.state IN ('begun', 'stuck') AND begun.key <> '' AND EXISTS (SELECT 1 FROM queue_entries "
        "WHERE queue_entries.run_id = begun.run_id AND queue_entries.status NOT IN ('ended', 'failed'))) "
        f"GROUP BY key HAVING {' OR '.join(having)} ORDER BY first LIMIT {_MOST_STARTED}",
        *(row.topic, row.function, NO_KEY, row.topic, row.function, *parameters),
    )
    return [key for key, _ in rows]


def _batches(
    database: Database, row: SubscriptionRow, key: str, max_bytes: int, now: float
) -> Iterator[_Batch]:
    """The batches of a key that have ended, in order."""
    options = row.options
    count = 1 if not options.is_batch else min(options.count or _MOST_OF_BATCH, _MOST_OF_BATCH)
    window = options.window
    open_: list[tuple[int, float, int]] = []
    for each in _waiting(database, row, key, _MOST_OF_BATCH):
        if open_ and (
            len(open_) == count
            or (window is not None and each[1] > open_[0][1] + window)
            or _size(open_) + each[2] + _SLACK_BYTES > max_bytes
        ):
            yield _batch_of(open_)
            open_ = []
        open_.append(each)
    if len(open_) == count or (open_ and window is not None and now > open_[0][1] + window):
        yield _batch_of(open_)


def _size(messages: Sequence[tuple[int, float, int]]) -> int:
    return sum(size + _SLACK_BYTES for _, _, size in messages)


def _batch_of(messages: Sequence[tuple[int, float, int]]) -> _Batch:
    return _Batch(
        numbers=tuple(number for number, _, _ in messages), size=sum(size for _, _, size in messages)
    )


def _start(database: Database, row: SubscriptionRow, batch: _Batch) -> dict[str, str]:
    """Enqueue the call for the messages of a batch; return its run and the reason if it has failed."""
    run_id = run_id_of(row.topic, row.function, batch.numbers[0])
    stored = StoredArguments([], {})
    problem: JournalError | None = None
    try:
        bodies = [load_message(database, row.topic, number) for number in batch.numbers]
        is_batch = row.options.is_batch
        stored = StoredArguments([], {}, batch=bodies) if is_batch else StoredArguments([], {}, bodies[0])
    except JournalError as error:
        if not is_of_row(database, error):
            raise
        problem = JournalAuditError(f"run {run_id!r}: its message cannot be read: {error}", run_id=run_id)
    if batch.lacks_key and problem is None:
        place = f"message {batch.numbers[0]} of the topic {row.topic!r}"
        problem = JournalValueError(
            f"{place} has no field {row.options.key!r} with one text or number, which is the key of the "
            f"subscription of {row.function}. store.requeue({run_id!r}) calls the function all the same.",
            place=place,
        )
    entry = NewEntry(
        run_id=run_id,
        queue=row.queue,
        function=row.function,
        arguments=msgspec.msgpack.encode(stored),
        priority=row.priority,
        max_lives=row.max_lives,
        enqueued_at=time.time(),
    )
    state, failed = "over", dict[str, str]()
    with suppress(RunPrunedError):  # then its messages were handled before
        add_entry(database, entry, delay=0.0, due_at=None)
        state = "begun"
        if problem is not None:
            failed[run_id] = str(problem)
            _fail(database, entry, problem)
    database.change_many(
        f"UPDATE topic_deliveries SET state = ?, run_id = ?, begun_at = {database.NOW} "
        "WHERE topic = ? AND function = ? AND number = ?",
        [(state, run_id, row.topic, row.function, number) for number in batch.numbers],
    )
    return failed


def _fail(database: Database, entry: NewEntry, problem: JournalError) -> None:
    """Let a new entry fail, as a run that has failed before it began."""
    body = encode_error(entry.run_id, problem, rules=DEFAULT_RULES)
    database.change(
        "UPDATE queue_entries SET status = 'failed', result = ? WHERE run_id = ?",
        *(store_body(database, body, *result_context(entry.run_id, entry.function)), entry.run_id),
    )
    mark_run(database, entry.run_id, "failed", type(problem).__name__)


def note_handlers(database: Database, queue: str, functions: Sequence[str]) -> None:
    """Note that a worker of a queue is given functions; nothing where no message has been delivered."""
    if not database.query("SELECT 1 FROM topic_deliveries LIMIT 1"):
        return
    for function in sorted(functions):  # all processes in the same order
        database.change(
            f"INSERT INTO topic_handlers (queue, function, seen_at) VALUES (?, ?, {database.NOW}) "
            "ON CONFLICT (queue, function) DO UPDATE SET seen_at = excluded.seen_at",
            *(queue, function),
        )


def find_unhandled(database: Database, queue: str) -> dict[str, str]:
    """Let runs of messages be stuck whose function no worker of the queue is given any more.

    Returns:
        The runs, with the reasons.
    """
    since = f"{database.NOW} - {tables.LEASE_SECONDS}"
    rows = database.query(
        "SELECT run_id, function FROM queue_entries WHERE queue = ? AND status = 'queued' "
        f"AND due_at <= {since} AND NOT EXISTS (SELECT 1 FROM topic_handlers "
        "WHERE topic_handlers.queue = queue_entries.queue "
        f"AND topic_handlers.function = queue_entries.function "
        f"AND seen_at > {since}) AND EXISTS (SELECT 1 FROM topic_deliveries "
        "WHERE topic_deliveries.run_id = queue_entries.run_id "
        f"AND begun_at <= {since}) LIMIT {_MOST_STARTED}{database.FOR_UPDATE_OF_FREE}",
        queue,
    )
    reasons: dict[str, str] = {}
    for run_id, function in rows:
        reasons[run_id] = (
            f"no worker of the queue {queue!r} has been given {function}, which is subscribed to its topic. "
            "It goes on as soon as one is"
        )
        database.change("UPDATE queue_entries SET status = 'stuck' WHERE run_id = ?", run_id)
        database.change("UPDATE topic_deliveries SET state = 'stuck' WHERE run_id = ?", run_id)
        mark_run(database, run_id, "stuck", reasons[run_id])
    return reasons


def resume_handled(database: Database, queue: str, functions: Sequence[str]) -> None:
    """Put calls back into their queue that were stuck because no worker was given their functions."""
    marks = ", ".join("?" * len(functions))
    rows = database.query(
        f"SELECT run_id FROM queue_entries WHERE queue = ? AND status = 'stuck' AND function IN ({marks}) "
        "AND EXISTS (SELECT 1 FROM topic_deliveries WHERE topic_deliveries.run_id = queue_entries.run_id "
        f"AND topic_deliveries.state = 'stuck'){database.FOR_UPDATE_OF_FREE}",
        *(queue, *functions),
    )
    for (run_id,) in rows:
        put_back(database, [run_id])
        database.change(
            f"UPDATE topic_deliveries SET state = 'begun', begun_at = {database.NOW} WHERE run_id = ?", run_id
        )
