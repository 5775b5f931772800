"""Topics as programs see them: messages and what became of them, subscriptions, receipts."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .queue_table import QueueStatus

DeliveryStatus: TypeAlias = Literal["waiting"] | QueueStatus
"""The status of a message for one subscription: it waits for its run to begin, or that of its queue entry."""

MessageStatus: TypeAlias = Literal["published", "waiting", "ended", "failed", "stuck"]
"""The status of a message: nobody is subscribed to it; a run of it has still to end; all have ended; one has
failed; or one is stuck, because its lives crashed or no worker of its queue is given its function."""


class Receipt(Struct, frozen=True, kw_only=True):
    """The answer to a publisher.

    Args:
        topic: The topic.
        number: The number of the message in its topic, from 1; 0 in a replay that has no record of it.
        id: The id of the message.
        duplicate: Whether the topic had a message with the id before. Then nothing was published.
    """

    topic: str
    number: int
    id: str
    duplicate: bool


class Delivery(Struct, frozen=True, kw_only=True):
    """The fate of a message for one subscription.

    Args:
        function: The function, as `module:name`.
        status: The status.
        run_id: The run; empty as long as it waits.
    """

    function: str
    status: DeliveryStatus
    run_id: str


class TopicMessage(Struct, frozen=True, kw_only=True):
    """A message of a topic.

    Args:
        topic: The topic.
        number: Its number in the topic, from 1.
        id: Its id.
        at: The time at which it was published, in seconds since 1970.
        value: Its value.
        deliveries: What became of it, for each subscription, by function.
    """

    topic: str
    number: int
    id: str
    at: float
    value: Any
    deliveries: tuple[Delivery, ...]

    @property
    def status(self) -> MessageStatus:
        """Its status."""
        return status_of(self.deliveries)


def status_of(deliveries: Iterable[Delivery]) -> MessageStatus:
    """The status of a message with these deliveries."""
    found = {each.status for each in deliveries}
    if "stuck" in found:
        return "stuck"
    if "failed" in found:
        return "failed"
    if found - {"ended"}:
        return "waiting"
    return "ended" if found else "published"


class SubscriptionOptions(Struct, frozen=True, kw_only=True):
    """The rules by which messages are put into runs.

    Args:
        count: The most messages of a batch; None for any number.
        window: The seconds after its first message that a batch is open; None for any number.
        key: The name of the field that is the key of a message; None for no keys.
    """

    count: int | None = None
    window: float | None = None
    key: str | None = None

    @property
    def is_batch(self) -> bool:
        """Whether runs get lists of messages."""
        return self.count is not None or self.window is not None


class SubscriptionRow(Struct, frozen=True, kw_only=True):
    """A subscription.

    Args:
        topic: The topic.
        function: The function, as `module:name`.
        queue: The queue of its runs.
        priority: The priority of its runs.
        max_lives: The number of lives after which a run is not repeated.
        options: How messages are put into runs.
        waiting: The number of messages that wait for a run.
        stuck: The number of messages whose run is stuck.
    """

    topic: str
    function: str
    queue: str
    priority: int
    max_lives: int
    options: SubscriptionOptions
    waiting: int = 0
    stuck: int = 0


class TopicRow(Struct, frozen=True, kw_only=True):
    """A topic.

    Args:
        name: Its name.
        messages: The number of its messages that are kept.
        subscriptions: Its subscriptions, by function.
    """

    name: str
    messages: int
    subscriptions: tuple[SubscriptionRow, ...]
