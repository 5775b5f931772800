"""Topics: messages that are published, and the functions that are subscribed to them.

A transaction that publishes to a topic or changes its subscriptions locks the row of the topic first. So its
messages are numbered in the order of the commits, and a new subscription gets each message that follows it.
Every function is part of a transaction of the caller. `topic_starts` has what workers do.
"""

import hmac
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from .blob_table import begin_writing, check_gaps, is_of_row, load_body, store_body
from .database import Database
from .errors import JournalError
from .key_table import check_keys
from .registered_types import registered
from .topic_rows import Delivery, Receipt, SubscriptionOptions, SubscriptionRow, TopicRow
from .values import decode_value, write_value

NO_KEY = "-"
"""The key of a delivery whose message has none, although the subscription names one."""
MOST_MESSAGES = 2**62
_SECRET_BYTES = 32
_PIECE = 500


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to publish.

    Args:
        topic: The topic.
        message_id: Its id.
        publisher: The place in all lives of a run that publishes it; empty outside of runs.
        body: Its value, encoded.
    """

    topic: str
    message_id: str
    publisher: str
    body: bytes


def publish_message(database: Database, message: NewMessage) -> tuple[Receipt, Sequence[str]]:
    """Publish a message, unless its topic has one with its id; return also the queues that it reaches.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    topic, id_ = message.topic, message.message_id
    begin_writing(database, message.body)
    secret = _lock_topic(database, topic)
    known = database.query(
        "SELECT number, publisher FROM topic_messages WHERE topic = ? AND message_id = ?", topic, id_
    )
    if known:
        ((number, publisher),) = known
        is_own = bool(publisher) and publisher == message.publisher  # of an earlier life
        return Receipt(topic=topic, number=number, id=id_, duplicate=not is_own), ()
    database.change("UPDATE topics SET last_number = last_number + 1 WHERE name = ?", topic)
    ((number, now),) = database.query(f"SELECT last_number, {database.NOW} FROM topics WHERE name = ?", topic)
    stored = store_body(database, message.body, *_context(topic, id_), signed=(number,))
    database.change(
        "INSERT INTO topic_messages (topic, number, message_id, publisher, at, body) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        *(topic, number, id_, message.publisher, now, stored),
    )
    queues: list[str] = []
    for row in _subscriptions_of(database, topic):
        key = _Keys(row.options.key, secret).of(message.body)
        _add_deliveries(database, row, [(number, now, len(message.body), key)])
        queues.append(row.queue)
    return Receipt(topic=topic, number=number, id=id_, duplicate=False), queues


def put_subscription(database: Database, row: SubscriptionRow, after: int | None) -> None:
    """Add a subscription, or replace the one of its topic and function.

    Args:
        database: The database.
        row: The subscription.
        after: The number of the last earlier message that it does not get; None for all earlier ones.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    begin_writing(database)
    keys = _Keys(row.options.key, _lock_topic(database, row.topic))
    known = next(
        (each for each in _subscriptions_of(database, row.topic) if each.function == row.function), None
    )
    body = msgspec.msgpack.encode(row.options)
    stored = database.codec.seal(body, *_subscription_context(row), signed=_signed(row))
    database.change(
        "INSERT INTO subscriptions (topic, function, queue, priority, max_lives, options) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (topic, function) DO UPDATE SET queue = excluded.queue, "
        "priority = excluded.priority, max_lives = excluded.max_lives, options = excluded.options",
        *(row.topic, row.function, row.queue, row.priority, row.max_lives, stored),
    )
    if known is not None and known.options.key != row.options.key:
        _name_keys_anew(database, row, keys)
    if after is not None:
        for piece in _bodies_after(database, row, after):
            _add_deliveries(
                database, row, [(number, at, len(body), keys.of(body)) for number, at, body in piece]
            )


def remove_subscription(database: Database, topic: str, function: str) -> bool:
    """Remove a subscription, with the messages that wait for a run; return whether there was one."""
    check_keys(database)
    database.query(f"SELECT name FROM topics WHERE name = ?{database.FOR_UPDATE}", topic)
    changed = database.change("DELETE FROM subscriptions WHERE topic = ? AND function = ?", topic, function)
    database.change(
        "DELETE FROM topic_deliveries WHERE topic = ? AND function = ? AND state = 'waiting'", topic, function
    )
    return changed == 1


def read_topics(database: Database) -> list[TopicRow]:
    """Read all topics, by name.

    Raises:
        JournalAuditError: A subscription was changed, or was written with another audit key.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    check_keys(database)
    messages = database.query(
        "SELECT name, (SELECT COUNT(*) FROM topic_messages WHERE topic = name AND body IS NOT NULL) "
        "FROM topics ORDER BY name"
    )
    counts: dict[tuple[str, str], list[int]] = {}
    for topic, function, waiting, stuck in database.query(
        "SELECT topic, function, SUM(CASE WHEN state = 'waiting' THEN 1 ELSE 0 END), "
        "SUM(CASE WHEN EXISTS (SELECT 1 FROM queue_entries WHERE queue_entries.run_id = "
        "topic_deliveries.run_id AND queue_entries.status = 'stuck') THEN 1 ELSE 0 END) "
        "FROM topic_deliveries GROUP BY topic, function"
    ):
        counts[topic, function] = [int(waiting), int(stuck)]
    rows = [
        TopicRow(name=name, messages=count, subscriptions=tuple(_read_subscriptions(database, name)))
        for name, count in messages
    ]
    return [
        msgspec.structs.replace(
            row, subscriptions=tuple(_counted(each, counts) for each in row.subscriptions)
        )
        for row in rows
    ]


def _counted(row: SubscriptionRow, counts: Mapping[tuple[str, str], Sequence[int]]) -> SubscriptionRow:
    waiting, stuck = counts.get((row.topic, row.function), (0, 0))
    return msgspec.structs.replace(row, waiting=waiting, stuck=stuck)


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message as it is stored, its value encoded; see `TopicMessage`."""

    number: int
    id: str
    at: float
    body: bytes
    deliveries: tuple[Delivery, ...]


def read_messages(
    database: Database, topic: str, after: int, limit: int = MOST_MESSAGES
) -> list[StoredMessage]:
    """Read the first messages of a topic after a number that were not deleted.

    Raises:
        JournalAuditError: With an audit key: a message was changed, moved or removed.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    check_keys(database)
    rows = database.query(
        "SELECT number, message_id, at, body FROM topic_messages WHERE topic = ? AND number > ? "
        "AND body IS NOT NULL ORDER BY number LIMIT ?",
        *(topic, after, limit),
    )
    if not rows:
        return []
    last = rows[-1][0]
    numbers = database.query(
        "SELECT number FROM topic_messages WHERE topic = ? AND number > ? AND number <= ? ORDER BY number",
        *(topic, after, last),
    )
    check_gaps(database, f"the topic {topic!r}", after, [number for (number,) in numbers])
    deliveries: dict[int, list[Delivery]] = {}
    for number, function, state, run_id, status in database.query(
        "SELECT d.number, d.function, d.state, d.run_id, e.status FROM topic_deliveries d "
        "LEFT JOIN queue_entries e ON e.run_id = d.run_id "
        "WHERE d.topic = ? AND d.number > ? AND d.number <= ? ORDER BY d.number, d.function",
        *(topic, after, last),
    ):
        # The run of a delivery without an entry has ended, and was pruned.
        shown = "waiting" if state == "waiting" else status or "ended"
        deliveries.setdefault(number, []).append(Delivery(function=function, status=shown, run_id=run_id))
    return [
        StoredMessage(
            number=number,
            id=id_,
            at=at,
            body=load_body(database, stored, *_context(topic, id_), signed=(number,)),
            deliveries=tuple(deliveries.get(number, ())),
        )
        for number, id_, at, stored in rows
    ]


def load_message(database: Database, topic: str, number: int) -> bytes:
    """Read the body of a message.

    Raises:
        JournalAuditError: It was changed, moved or removed.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    ((id_, stored),) = database.query(
        "SELECT message_id, body FROM topic_messages WHERE topic = ? AND number = ?", topic, number
    )
    return load_body(database, stored, *_context(topic, id_), signed=(number,))


def load_subscription(database: Database, row: Sequence[Any]) -> SubscriptionRow:
    """Read a row of `SUBSCRIPTION_COLUMNS`.

    Raises:
        JournalAuditError: It was changed, or was written with another audit key.
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    topic, function, queue, priority, max_lives, stored = row
    bare = SubscriptionRow(
        topic=topic,
        function=function,
        queue=queue,
        priority=priority,
        max_lives=max_lives,
        options=SubscriptionOptions(),
    )
    body = load_body(database, stored, *_subscription_context(bare), signed=_signed(bare))
    return msgspec.structs.replace(bare, options=msgspec.msgpack.decode(body, type=SubscriptionOptions))


SUBSCRIPTION_COLUMNS = "topic, function, queue, priority, max_lives, options"


def _read_subscriptions(database: Database, topic: str) -> Iterator[SubscriptionRow]:
    rows = database.query(
        f"SELECT {SUBSCRIPTION_COLUMNS} FROM subscriptions WHERE topic = ? ORDER BY function", topic
    )
    for row in rows:
        yield load_subscription(database, row)


def _subscriptions_of(database: Database, topic: str) -> Iterator[SubscriptionRow]:
    """The subscriptions of a topic. One that was changed behind our back has no key: no run of it begins."""
    rows = database.query(
        f"SELECT {SUBSCRIPTION_COLUMNS} FROM subscriptions WHERE topic = ? ORDER BY function", topic
    )
    for row in rows:
        try:
            yield load_subscription(database, row)
        except JournalError as error:
            if not is_of_row(database, error):
                raise
            yield SubscriptionRow(
                topic=topic,
                function=row[1],
                queue=row[2],
                priority=row[3],
                max_lives=row[4],
                options=SubscriptionOptions(),
            )


def _context(topic: str, message_id: str) -> tuple[str, ...]:
    return "topic_messages", topic, message_id


def _subscription_context(row: SubscriptionRow) -> tuple[str, ...]:
    return "subscriptions", row.topic, row.function


def _signed(row: SubscriptionRow) -> tuple[object, ...]:
    return row.queue, row.priority, row.max_lives


def _lock_topic(database: Database, topic: str) -> bytes:
    """Make a topic if there is none, let nobody else change it in this transaction; return its secret."""
    query = f"SELECT secret FROM topics WHERE name = ?{database.FOR_UPDATE}"
    rows = database.query(query, topic)
    if not rows:
        sealed = database.codec.seal(os.urandom(_SECRET_BYTES), "topics", topic)
        database.change(
            "INSERT INTO topics (name, last_number, secret) VALUES (?, 0, ?) ON CONFLICT DO NOTHING",
            *(topic, sealed),
        )
        rows = database.query(query, topic)
    return load_body(database, rows[0][0], "topics", topic)


class _Keys:
    """The keys of messages, as deliveries have them: nobody learns a part of a value from one.

    Args:
        field: The name of the field; None for no keys.
        secret: The secret of the topic.
    """

    def __init__(self, field: str | None, secret: bytes) -> None:
        self._field = field
        self._secret = secret

    def of(self, body: bytes) -> str:
        """The key of a message; empty for subscriptions without keys."""
        if self._field is None:
            return ""
        try:
            found = decode_value(body, place="a message")
            for name in self._field.split("."):
                found = getattr(found, name) if type(found) in registered else found[name]
            if isinstance(found, Mapping | Sequence | set | frozenset) and not isinstance(found, str | bytes):
                return NO_KEY
            return hmac.digest(self._secret, write_value(found, place="a key"), "sha256").hex()
        except Exception:  # there is no such field, or code of a registered type has raised
            return NO_KEY


def _add_deliveries(
    database: Database, row: SubscriptionRow, messages: Sequence[tuple[int, float, int, str]]
) -> None:
    """Have messages wait for a run of a subscription, given by number, time, size and key."""
    database.change_many(
        "INSERT INTO topic_deliveries (topic, function, number, at, size, key, state) "
        "VALUES (?, ?, ?, ?, ?, ?, 'waiting') ON CONFLICT DO NOTHING",
        [(row.topic, row.function, *each) for each in messages],
    )


def _name_keys_anew(database: Database, row: SubscriptionRow, keys: _Keys) -> None:
    """Set the keys of the deliveries of a subscription that are not over: they are those of another field."""
    note_ends(database, row)
    numbers = database.query(
        "SELECT number FROM topic_deliveries WHERE topic = ? AND function = ? AND state <> 'over'",
        *(row.topic, row.function),
    )
    changed = [
        (keys.of(load_message(database, row.topic, number)), row.topic, row.function, number)
        for (number,) in numbers
    ]
    database.change_many(
        "UPDATE topic_deliveries SET key = ? WHERE topic = ? AND function = ? AND number = ?", changed
    )


def note_ends(database: Database, row: SubscriptionRow) -> None:
    """Note which deliveries of a subscription are over: their runs have ended or failed."""
    ended = database.query(  # those that nobody else is about to change, so that none waits for the other
        "SELECT topic, function, number FROM topic_deliveries WHERE topic = ? AND function = ? "
        "AND state IN ('begun', 'stuck') AND NOT EXISTS (SELECT 1 FROM queue_entries "
        "WHERE queue_entries.run_id = topic_deliveries.run_id "
        f"AND queue_entries.status NOT IN ('ended', 'failed')){database.FOR_UPDATE_OF_FREE}",
        *(row.topic, row.function),
    )
    database.change_many(
        "UPDATE topic_deliveries SET state = 'over' WHERE topic = ? AND function = ? AND number = ?", ended
    )


def _bodies_after(
    database: Database, row: SubscriptionRow, after: int
) -> Iterator[list[tuple[int, float, bytes]]]:
    """The messages of a topic after a number that are kept, piece by piece."""
    while True:
        rows = database.query(
            "SELECT number, at, message_id, body FROM topic_messages WHERE topic = ? AND number > ? "
            "AND body IS NOT NULL ORDER BY number LIMIT ?",
            *(row.topic, after, _PIECE),
        )
        if not rows:
            return
        yield [
            (number, at, load_body(database, stored, *_context(row.topic, id_), signed=(number,)))
            for number, at, id_, stored in rows
        ]
        after = rows[-1][0]
