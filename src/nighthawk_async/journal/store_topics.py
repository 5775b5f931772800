"""The topics of a store, as programs use them."""

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..lazy_exports import LazyModule
from .active_replay import is_replaying
from .queues import EnqueueOptions, Queues
from .run_writes import refuse_after_divergence, written_by_programs
from .store_queues import DEFAULT_MAX_LIVES
from .store_thread import StoreThread
from .values import ValueRules

if TYPE_CHECKING:
    from . import topic_rows, topic_table, topics
else:  # few programs have topics
    topic_table = LazyModule(f"{__package__}.topic_table")
    topics = LazyModule(f"{__package__}.topics")


class StoreTopics:
    """The part of a store that has topics; see `JournalStore`."""

    thread: StoreThread
    queues: Queues
    rules: ValueRules

    @cached_property
    def _topics(self) -> "topics.Topics":
        return topics.Topics(self.queues, self.rules)

    async def publish(self, topic: str, value: object, *, id: str | None = None) -> "topic_rows.Receipt":
        """Publish a message to a topic. Workers start a run of each function that is subscribed to it.

        Within a durable run, publishing is an effect of the run: it happens once in all of its lives.

        Args:
            topic: The name of the topic, which need not exist.
            value: The message: plain data, dataclasses, pydantic models, structs and enumerations,
                also in lists and dictionaries, and what is registered with `register`.
            id: The identity of the message in its topic, for publishers that may publish it again: of those
                with the same id, the first one counts. None for one of its own; within a durable run, for one
                that is the same in all lives.

        Returns:
            The number of the message in its topic, and whether the topic had one with the id before.

        Raises:
            JournalValueError: The value or a name cannot be stored, or the value is too large.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalDivergenceError: The active run has published something else there, or its program has
                changed.
            JournalStoreError: The store cannot be written.
            NighthawkError: The name or the id is empty.
        """
        return await self._topics.publish(topic, value, id)

    @written_by_programs
    async def subscribe(
        self,
        topic: str,
        function: Callable[..., Any],
        /,
        *,
        queue: str = "default",
        count: int | None = None,
        window: float | timedelta | None = None,
        key: str | None = None,
        after: int | None = None,
        priority: int = 0,
        max_lives: int = DEFAULT_MAX_LIVES,
    ) -> None:
        """Have workers call a function with each message of a topic, each in a durable run of its own.

            await store.subscribe("orders", handle, queue="orders", key="customer")

        The id of a run is the topic, the function and the number of the message, as in
        `orders@shop:handle#17`. Subscribing the same function to the same topic again replaces the
        subscription, and no message is handled twice, so a program may do it at each start.

        Args:
            topic: The name of the topic.
            function: The function, at the top level of a module. It takes one argument, which is decoded by
                its annotation; a list of messages with `count` or `window`.
            queue: The queue of the runs.
            count: The most messages of a batch. Without `window`, a batch waits until it has so many.
            window: The seconds after its first message, by their times of publishing, after which a batch
                ends. Without `count`, a batch has at most 10,000 messages.
            key: The name of a field of the messages, with dots for a field of a field. Messages that have the
                same text or number there are handled in order, one run after the other has ended or failed;
                the messages of a batch have the same key.
            after: The number of the last message that the function does not get; 0 for all that are kept.
                None for those alone that are published from now on.
            priority: The priority of the runs.
            max_lives: See `enqueue`.

        Raises:
            NighthawkError: No worker can import the function, it gets lists and takes none, or an option has
                a bad value.
            TypeError: The function does not take one argument.
            JournalValueError: No argument or result of its types can be stored, or a name cannot.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be written.
        """
        options = EnqueueOptions(queue=queue, priority=priority, max_lives=max_lives)
        await self._topics.subscribe(
            topic, function, options, count=count, window=window, key=key, after=after
        )

    async def unsubscribe(self, topic: str, function: Callable[..., Any] | str, /) -> bool:
        """Remove a subscription, with the messages that wait for a run. Runs that have begun stay.

        Args:
            topic: The name of the topic.
            function: The function, or its name as `module:name`, where it is gone.

        Returns:
            Whether there was such a subscription.

        Raises:
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be written.
        """
        if is_replaying():
            return False
        refuse_after_divergence("store.unsubscribe()")
        return await self._topics.unsubscribe(topic, function)

    def topics(self) -> "list[topic_rows.TopicRow]":
        """Return the topics with their subscriptions, by name. Blocks while it reads.

        Raises:
            JournalAuditError: A subscription was changed.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be read.
        """
        return self.thread.perform(lambda: topic_table.read_topics(self.thread.opened())).wait_in_thread()

    def messages(
        self, topic: str, *, after: int = 0, limit: int | None = None, type: object = None
    ) -> "list[topic_rows.TopicMessage]":
        """Return the messages of a topic, in order, with what became of them. Blocks while it reads.

        Args:
            topic: The name of the topic.
            after: The number of the last message to leave out; 0 for none.
            limit: The most messages; None for all.
            type: The type of the values, for objects; None for plain data, where objects are dictionaries.

        Raises:
            JournalValueError: A value is none of that type.
            JournalAuditError: With an audit key: a message was changed, moved or removed.
            JournalKeyError: A key of the encryption is missing, or is another one.
            JournalStoreError: The store cannot be read.
            NighthawkError: An argument has a bad value.
        """
        topics.check_topic(topic)
        topics.check_after(after)
        most = topics.checked_limit(limit)
        stored = self.thread.perform(
            lambda: topic_table.read_messages(self.thread.opened(), topic, after, most)
        ).wait_in_thread()
        return topics.messages_of(stored, topic, type)
