"""Topics of a store, as programs use them: messages that start runs of the functions that are subscribed."""

import uuid
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Union

from ..errors import NighthawkError
from ..prompt.plain_text import class_of
from ..types.json import is_number
from . import topic_table
from .active_replay import is_replaying
from .effect_call import Effect
from .names import check_name
from .queued_call import check_handler, function_name
from .queues import EnqueueOptions, Queues
from .recorder import find_recorder
from .registered_types import is_registered
from .run_writes import RunWrite
from .topic_rows import Receipt, SubscriptionOptions, SubscriptionRow, TopicMessage
from .topic_table import NewMessage
from .value_leaves import LEAVES, SCALARS
from .values import ValueRules, decode_value, encode_value

_MOST_OF_BATCH = 10_000


class Topics:
    """The topics of a store.

    Args:
        queues: The queues of the store, whose workers begin the runs.
        rules: The rules for messages.
    """

    def __init__(self, queues: Queues, rules: ValueRules) -> None:
        self._queues = queues
        self._rules = rules

    async def publish(self, topic: str, value: object, id_: str | None) -> Receipt:
        """Publish a message; see `JournalStore.publish`."""
        check_topic(topic)
        if id_ is not None:
            check_name(id_, "the id of a message")
        body = encode_value(
            value, place=f"the message to the topic {topic!r}", declared=type_of(value), rules=self._rules
        )
        recorder = find_recorder()
        if recorder is None:
            message = NewMessage(topic=topic, message_id=id_ or uuid.uuid4().hex, publisher="", body=body)
            if is_replaying():
                return Receipt(topic=topic, number=0, id=message.message_id, duplicate=False)
            return await self._publish(message)
        # The first of the messages with an id counts, whatever a later one says.
        inputs: dict[str, object] = {"topic": topic, **({"value": value} if id_ is None else {"id": id_})}
        write = RunWrite(recorder, "store.publish()", inputs, inputs)
        message = NewMessage(topic=topic, message_id=id_ or write.key, publisher=write.key, body=body)
        return await write.make(
            _PUBLISHING,
            lambda: self._publish(message),
            was_made=_never,
            in_replays=Receipt(topic=topic, number=0, id=message.message_id, duplicate=False),
        )

    async def _publish(self, message: NewMessage) -> Receipt:
        receipt, queues = await self._queues.transact(topic_table.publish_message, message)
        for queue in queues:
            self._queues.wake(queue)
        return receipt

    async def subscribe(
        self,
        topic: str,
        function: Callable[..., Any],
        options: EnqueueOptions,
        *,
        count: int | None,
        window: float | timedelta | None,
        key: str | None,
        after: int | None,
    ) -> None:
        """Subscribe a function to a topic; see `JournalStore.subscribe`."""
        check_topic(topic)
        options.check()
        batches = SubscriptionOptions(count=_checked_count(count), window=_seconds(window), key=key)
        if key is not None:
            check_name(key, "key is the name of a field of the messages; it")
        if after is not None:
            check_after(after)
        name = function_name(function)
        check_handler(function, name, is_batch=batches.is_batch, rules=self._rules)
        row = SubscriptionRow(
            topic=topic,
            function=name,
            queue=options.queue,
            priority=options.priority,
            max_lives=options.max_lives,
            options=batches,
        )
        await self._queues.transact(topic_table.put_subscription, row, after)
        self._queues.wake(options.queue)

    async def unsubscribe(self, topic: str, function: Callable[..., Any] | str) -> bool:
        """Remove a subscription; see `JournalStore.unsubscribe`."""
        check_topic(topic)
        name = function if isinstance(function, str) else function_name(function)
        check_name(name, "the name of a function")
        return await self._queues.transact(topic_table.remove_subscription, topic, name)


def messages_of(stored: list[topic_table.StoredMessage], topic: str, declared: object) -> list[TopicMessage]:
    """The messages that are stored, with their values."""
    return [
        TopicMessage(
            topic=topic,
            number=each.number,
            id=each.id,
            at=each.at,
            value=decode_value(
                each.body, place=f"message {each.number} of the topic {topic!r}", declared=declared
            ),
            deliveries=each.deliveries,
        )
        for each in stored
    ]


def check_topic(topic: object) -> None:
    """Check the name of a topic.

    Raises:
        NighthawkError: It is no text, or empty.
        JournalValueError: It cannot be stored.
    """
    check_name(topic, "the name of a topic")


def check_after(after: object) -> None:
    """Check the number of a message.

    Raises:
        NighthawkError: It is no whole number of at least 0.
    """
    if type(after) is not int or after < 0:
        raise NighthawkError(f"after is the number of a message, or 0 for the first one, not {after!r}")


def checked_limit(limit: int | None) -> int:
    """The greatest number of messages to read.

    Raises:
        NighthawkError: It is no whole number of at least 1.
    """
    if limit is None:
        return topic_table.MOST_MESSAGES
    if type(limit) is not int or limit < 1:
        raise NighthawkError(f"limit is a whole number of at least 1, not {limit!r}")
    return limit


def _checked_count(count: object) -> int | None:
    if count is None:
        return None
    if type(count) is not int or not 1 <= count <= _MOST_OF_BATCH:
        raise NighthawkError(f"count is a whole number from 1 to {_MOST_OF_BATCH:,}, not {count!r}")
    return count


def _seconds(window: object) -> float | None:
    if window is None:
        return None
    seconds = window.total_seconds() if isinstance(window, timedelta) else window
    if not is_number(seconds) or not 0 < seconds < float("inf"):
        raise NighthawkError(f"window is a number of seconds above 0 or a timedelta, not {window!r}")
    return float(seconds)


def type_of(value: object) -> object:
    """The type that could have been declared for a value: the classes in it; None for none."""
    kinds: dict[type[Any], None] = {}
    met: set[int] = set()
    left: list[Any] = [value]
    while left:
        each = left.pop()
        kind = class_of(each)
        if kind in SCALARS or kind in LEAVES or kind is int or is_registered(kind):
            continue
        if id(each) in met:
            continue
        met.add(id(each))
        if isinstance(each, Mapping) and kind.__module__ in _BUILTIN:
            left += [*each.keys(), *each.values()]
        elif kind in (list, tuple, set, frozenset, deque):
            left += each
        else:
            kinds[kind] = None
    return Union[tuple(kinds)] if kinds else None  # noqa: UP007  (of classes that only this call knows)


_BUILTIN = ("builtins", "collections")


async def _never() -> bool:
    return False


async def _publish() -> Receipt:
    """The call that publishes a message, as the run that makes it records it."""
    raise NotImplementedError


_publish.__name__ = "store.publish"
_PUBLISHING = Effect(_publish, "repeatable")
