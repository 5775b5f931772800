"""Mailboxes and channels: queues of messages, with what they share (receive, wait to send, close, count).

Not thread-safe: everything happens on one event loop. A mailbox belongs to its reader and holds messages: it
is the only way to send messages to an actor. A channel connects tasks of equal rank, holds none and hands
each message over.

`QueueState` has the messages, the senders and the receivers: plain data that synchronous functions change.
Two rules keep every message safe, wherever a task is cancelled:

- A message leaves the queue only when its receiver runs. A receiver is woken with a claim; it takes a message
  when it runs, and passes the claim on if it was cancelled in between.
- Code that makes room lets waiting senders in, in their order, except those that are being cancelled. A
  sender that is cancelled after it was let in, which only asyncio's own `task.cancel()` does, takes its
  message back unless it was already received. So a cancelled send has sent nothing.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

import anyio
from anyio.lowlevel import checkpoint

from .errors import (
    ActorError,
    ChannelClosedError,
    MailboxClosedError,
    MailboxFullError,
    NameConflictError,
    UnknownMailboxError,
    check_whole_number,
)
from .namespaces import Family, NamespaceKind, find_namespace
from .ordering import (
    DONE,
    FINDERS,
    NOTHING,
    REFUSED,
    Turn,
    Wait,
    Waiter,
    begin_turn,
    name_object,
    wait_for_first,
    wait_in_turn,
)

Message = TypeVar("Message")
Message_co = TypeVar("Message_co", covariant=True)
Default = TypeVar("Default")


class QueueState(Generic[Message]):
    """Messages that are sent and not yet received, and the tasks that wait.

    Args:
        capacity: The greatest number of messages that are held; None for no limit, 0 to hand each from its
            sender to its receiver.
    """

    __slots__ = (
        "capacity",
        "claims",
        "failed_sends",
        "has_one_receiver",
        "high_water_mark",
        "is_closed",
        "messages",
        "place",
        "put_so_far",
        "received",
        "receivers",
        "senders",
    )

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.messages: OrderedDict[int, Message] = OrderedDict()  # by number, so that one can be taken back
        self.put_so_far = 0
        self.senders: OrderedDict[SendWait[Message], None] = OrderedDict()
        self.receivers: OrderedDict[ReceiveWait[Message], None] = OrderedDict()
        self.claims = 0  # receivers that were woken and have not run yet
        self.is_closed = False
        self.place = ""
        self.has_one_receiver = False
        self.received = self.failed_sends = self.high_water_mark = 0

    def begin_send(self) -> Turn | None:
        """Begin the turn of the caller to send; None where the order is not kept."""
        return begin_turn(self.place, "sends")

    def begin_receive(self) -> Turn | None:
        """Begin the turn of the caller to receive; None where the order is not kept."""
        return None if self.has_one_receiver else begin_turn(self.place, "receives")

    def has_room(self) -> bool:
        """Whether one more message can be held. No sender waits while there is room."""
        return self.capacity is None or len(self.messages) < self.capacity

    def is_ready(self) -> bool:
        """Whether there is a message for a receiver that did not wait for it."""
        return len(self.messages) + len(self.senders) > self.claims

    def is_exhausted(self) -> bool:
        """Whether no more messages will ever come."""
        return self.is_closed and not self.messages  # closing refuses the waiting senders

    def put(self, message: Message) -> int:
        """Add a message; return its number."""
        number = self.put_so_far
        self.messages[number] = message
        self.put_so_far += 1
        self.high_water_mark = max(self.high_water_mark, len(self.messages))
        if self.receivers:
            self.wake_receivers()
        return number

    def take_back(self, number: int) -> None:
        """Remove a message, if it was not received yet."""
        self.messages.pop(number, None)
        self.admit_senders()
        self.wake_receivers()

    def take(self) -> Message:
        """Take the oldest message.

        Raises:
            anyio.WouldBlock: There is none.
        """
        if self.messages:
            _, message = self.messages.popitem(last=False)
            if self.senders:
                self.admit_senders()
        else:
            message = self._take_from_sender()
        self.received += 1
        if self.receivers:
            self.wake_receivers()
        return message

    def drain(self) -> list[Message]:
        """Take all messages that are held, oldest first."""
        messages = list(self.messages.values())
        self.messages.clear()
        self.received += len(messages)
        if self.senders:
            self.admit_senders()
        if self.receivers:
            self.wake_receivers()
        return messages

    def close(self) -> None:
        """Accept no more messages."""
        self.is_closed = True
        while self.senders:
            self.senders.popitem(last=False)[0].refuse()
        self.wake_receivers()

    def admit_senders(self) -> None:
        """Let waiting senders in while there is room."""
        while self.senders and self.has_room():
            sender, _ = self.senders.popitem(last=False)
            if sender.accept():
                sender.number = self.put(sender.message)

    def wake_receivers(self) -> None:
        """Wake as many receivers as there are unclaimed messages, or all when none will come."""
        while self.receivers and (self.is_ready() or self.is_exhausted()):
            receiver, _ = self.receivers.popitem(last=False)
            if receiver.wake():
                self.claims += 1

    def _take_from_sender(self) -> Message:
        while self.senders:
            sender, _ = self.senders.popitem(last=False)
            if sender.accept():
                return sender.message
        raise anyio.WouldBlock


class SendWait(Wait, Generic[Message]):
    """The wait of a task until its message is let in.

    Args:
        state: The queue to send it to.
        message: The message.
    """

    __slots__ = ("_is_accepted", "_state", "_task", "_waiter", "message", "number")

    def __init__(self, state: QueueState[Message], message: Message) -> None:
        self._state = state
        self.message = message
        self.number: int | None = None  # of the message in a mailbox that let it in
        self.turn = None
        self.is_refused = False
        self._is_accepted = False

    @property
    def lane(self) -> str:
        """The operations that have one order."""
        return f"{self._state.place} sends"

    def begin_turn(self) -> Turn | None:
        """Begin the turn of the caller; see `Wait`."""
        return self._state.begin_send()

    def poll(self) -> bool:
        """Send it if there is room."""
        if self._state.is_closed:
            self.is_refused = True
            self._state.failed_sends += 1
        elif self._state.has_room():
            self._state.put(self.message)
            self._end_turn()
        else:
            return False
        return True

    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Wait for room; a channel's receivers are notified."""
        if self in self._state.senders:
            return
        self._waiter = waiter
        self._task = anyio.get_current_task()
        self._state.senders[self] = None
        if is_again:
            self._state.senders.move_to_end(self, last=False)
        self._state.wake_receivers()

    def leave(self) -> None:
        """Stop waiting."""
        self._state.senders.pop(self, None)

    def settle(self) -> bool:
        """Return whether it was accepted, or is refused now; otherwise the task must have been cancelled."""
        return self._is_accepted or self.poll()

    def pass_on(self) -> None:
        """Take the message back, and leave the room to the next sender."""
        if self.number is not None:
            self._state.take_back(self.number)

    def accept(self) -> bool:
        """Wake the sender because its message is let in; return False when it cannot be."""
        if not self._waiter.wake(self):
            return False
        self._is_accepted = not self._task.has_pending_cancellation()
        if self._is_accepted:
            self._end_turn()
        return self._is_accepted

    def _end_turn(self) -> None:
        if self.turn is not None:
            self.turn.end(DONE)

    def refuse(self) -> None:
        """Wake the sender because no more messages are let in."""
        self.is_refused = self._waiter.wake(self)

    def is_over(self) -> bool:
        """Whether it was accepted or refused, although the task may not have run since. Changes nothing."""
        return self._is_accepted or self.is_refused


class ReceiveWait(Wait, Generic[Message]):
    """The wait of a task for a message.

    Args:
        state: The queue that it comes from.
    """

    __slots__ = ("_message", "_state", "_waiter")

    def __init__(self, state: QueueState[Message]) -> None:
        self._state = state
        self._message: Message | None = None
        self.is_refused = False
        self.turn = None

    @property
    def message(self) -> Message:
        """The message received."""
        return cast("Message", self._message)

    @property
    def lane(self) -> str | None:
        """The operations that have one order; None where there is no other receiver."""
        return None if self._state.has_one_receiver else f"{self._state.place} receives"

    def begin_turn(self) -> Turn | None:
        """Begin the turn of the caller; see `Wait`."""
        return self._state.begin_receive()

    def poll(self) -> bool:
        """Take a message that no receiver has a claim on."""
        if self._state.is_exhausted():
            self.is_refused = True
            return True
        if not self._state.is_ready():
            return False
        try:
            self._message = self._state.take()
        except anyio.WouldBlock:
            return False
        if self.turn is not None:
            self.turn.end(DONE)
        return True

    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Wait for a message."""
        if self in self._state.receivers:
            return
        self._waiter = waiter
        self._state.receivers[self] = None
        if is_again:
            self._state.receivers.move_to_end(self, last=False)

    def leave(self) -> None:
        """Stop waiting."""
        self._state.receivers.pop(self, None)

    def settle(self) -> bool:
        """Turn the claim into a message; there is none when it was drained, or its sender left."""
        self._state.claims -= 1
        return self.poll()

    def pass_on(self) -> None:
        """Pass the claim to the next receiver."""
        self._state.claims -= 1
        self._state.wake_receivers()

    def wake(self) -> bool:
        """Wake the receiver with a claim; return False when it was woken for something else."""
        return self._waiter.wake(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Statistics of a mailbox or channel at one moment. `sent` is always `received + depth`.

    Args:
        depth: Messages sent and not yet received.
        capacity: The greatest number of messages that are held; None for no limit.
        sent: Messages sent so far.
        received: Messages received so far, drained ones included.
        failed_sends: Messages that were refused; excludes those whose sender was cancelled.
        waiting_senders: Tasks waiting to send.
        waiting_receivers: Tasks waiting for a message.
        high_water_mark: The greatest depth so far.
        is_closed: Whether it is closed.
    """

    depth: int
    capacity: int | None
    sent: int
    received: int
    failed_sends: int
    waiting_senders: int
    waiting_receivers: int
    high_water_mark: int
    is_closed: bool


class MessageQueue(Generic[Message]):
    """A first-in-first-out queue of messages; each goes to exactly one receiver."""

    _closed_error: ClassVar[type[ActorError]]

    def __init__(self, *, capacity: int | None, name: str | None) -> None:
        self._name = name
        self._state: QueueState[Message] = QueueState(capacity)
        self._state.place = name_object(type(self).__name__.lower(), name)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"<{self._label()}, {state}, {len(self._state.messages)} messages>"

    def __deepcopy__(self, memo: object) -> "MessageQueue[Message]":
        """Return itself: everything that holds it shares it, even as a task-local value."""
        return self

    @property
    def name(self) -> str | None:
        """The name; None for none."""
        return self._name

    @property
    def is_closed(self) -> bool:
        """Whether it is closed. There may still be messages to receive."""
        return self._state.is_closed

    async def send(self, message: Message) -> None:
        """Wait until the message can be sent, and send it. A cancelled wait has sent nothing.

        Senders are served in the order of waiting. (One exception: a task that is cancelled by asyncio itself
        rather than by a cancel scope, after a receiver has taken its message and before it runs again, ends
        cancelled although the message was received.)

        Raises:
            ActorError: It is closed, or was while waiting; the message is not sent.
        """
        if self._state.is_closed or self._state.has_room():
            await checkpoint()
        wait = SendWait(self._state, message)
        if FINDERS:
            await wait_in_turn(wait, self._state.begin_send())
        else:
            await wait_for_first((wait,))
        if wait.is_refused:
            raise self._closed()

    async def receive(self) -> Message:
        """Wait for the oldest message and take it. A cancelled wait takes nothing.

        Receivers are served in the order of waiting.

        Raises:
            ActorError: It is closed, and all messages were received.
        """
        if self._state.is_exhausted() or self._state.is_ready():
            await checkpoint()
        wait = ReceiveWait(self._state)
        if FINDERS:
            await wait_in_turn(wait, self._state.begin_receive())
        else:
            await wait_for_first((wait,))
        if wait.is_refused:
            raise self._closed()
        return wait.message

    def receive_nowait(self) -> Message:
        """Take the oldest message.

        Raises:
            anyio.WouldBlock: There is none, or every message is reserved for a receiver that waited before.
            ActorError: It is closed, and all messages were received.
        """
        turn = self._state.begin_receive() if FINDERS else None
        if turn is None:
            return self._take()
        try:
            if turn.recorded == NOTHING or (turn.recorded is None and not turn.is_due):
                raise anyio.WouldBlock
            if turn.recorded == REFUSED:
                raise self._closed()
            if not turn.is_due:
                raise turn.divergence("another task has not taken its message yet, and it cannot wait")
            message = self._take()
            turn.end(DONE)
        except (anyio.WouldBlock, self._closed_error) as error:
            if turn.recorded == DONE:
                raise turn.divergence("the message is not there yet, and it cannot wait") from error
            turn.end(NOTHING if isinstance(error, anyio.WouldBlock) else REFUSED)
            raise
        finally:
            turn.leave()
        return message

    def _take(self) -> Message:
        if self._state.is_exhausted():
            raise self._closed()
        if not self._state.is_ready():
            raise anyio.WouldBlock
        return self._state.take()

    @overload
    def try_receive(self) -> Message | None: ...
    @overload
    def try_receive(self, default: Default) -> Message | Default: ...
    def try_receive(self, default: object = None) -> object:
        """Take the oldest message.

        Args:
            default: The value to give when there is none, closed or not.
        """
        try:
            return self.receive_nowait()
        except (anyio.WouldBlock, self._closed_error):
            return default

    def close(self) -> None:
        """Accept no more messages. Sent ones are still received; waiting senders fail. Twice is fine."""
        self._state.close()

    def receiving(self) -> "Receiving[Message]":
        """An arm of `select` that receives a message."""
        return Receiving(self, self._state)

    def sending(self, message: Message) -> "Sending":
        """An arm of `select` that sends a message."""
        return Sending(self, self._state, message)

    def statistics(self) -> QueueStatistics:
        """Return the current statistics."""
        state = self._state
        return QueueStatistics(
            depth=len(state.messages),
            capacity=state.capacity,
            sent=state.received + len(state.messages),
            received=state.received,
            failed_sends=state.failed_sends,
            waiting_senders=len(state.senders),
            waiting_receivers=len(state.receivers),
            high_water_mark=state.high_water_mark,
            is_closed=state.is_closed,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except self._closed_error:
            raise StopAsyncIteration from None

    def _label(self) -> str:
        kind = type(self).__name__.lower()
        return kind if self._name is None else f"{kind} {self._name!r}"

    def _closed(self) -> ActorError:
        return self._closed_error(f"the {self._label()} is closed")


class Receiving(Generic[Message_co]):
    """An arm of `select`: receive a message. Made by the method `receiving` of a mailbox or channel."""

    __slots__ = ("_state", "source")

    def __init__(self, source: MessageQueue[Message_co], state: QueueState[Message_co]) -> None:
        self.source = source
        self._state = state

    def wait(self) -> ReceiveWait[Message_co]:
        """Begin a wait for a select."""
        return ReceiveWait(self._state)


class Sending:
    """An arm of `select`: send a message. Made by the method `sending` of a mailbox or channel."""

    __slots__ = ("_message", "_state", "source")

    def __init__(self, source: MessageQueue[Any], state: QueueState[Any], message: object) -> None:
        self.source = source
        self._state = state
        self._message = message

    def wait(self) -> SendWait[Any]:
        """Begin a wait for a select."""
        return SendWait(self._state, self._message)


class Channel(MessageQueue[Message]):
    """Hand each message from a sender to a receiver: `send` returns once a receiver has it.

    It may have several senders and several receivers. Closing makes waiting senders fail and waiting
    receivers end: then both raise `ChannelClosedError`, and iterations end.

    Args:
        name: Its name in errors; None for none.
    """

    _closed_error = ChannelClosedError

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(capacity=0, name=name)


class Mailbox(MessageQueue[Message]):
    """A bounded first-in-first-out queue: senders only wait when it is full.

    It may have several senders and several receivers; each message goes to exactly one receiver. Messages
    sent before `close` are still delivered; then receiving raises `MailboxClosedError` and iterations end.
    `send` waits for room, `send_nowait` raises, `try_send` returns whether there was room.

    Args:
        capacity: The greatest number of waiting messages; None for no limit.
        name: Its name in errors; None for none. `open_mailbox` makes mailboxes found by name.

    Raises:
        ValueError: The capacity is not a whole number of at least 1.
    """

    _closed_error = MailboxClosedError

    def __init__(self, *, capacity: int | None = 256, name: str | None = None) -> None:
        if capacity is not None:
            check_whole_number("capacity", capacity, least=1, or_none=True)
        super().__init__(capacity=capacity, name=name)

    @property
    def capacity(self) -> int | None:
        """The number of messages that may wait; None for no limit."""
        return self._state.capacity

    def send_nowait(self, message: Message) -> None:
        """Send a message.

        Raises:
            MailboxClosedError: The mailbox is closed.
            MailboxFullError: The mailbox is full.
        """
        turn = begin_turn(self._state.place, "sends") if FINDERS else None
        if turn is None:
            self._put(message)
        else:
            self._put_in_turn(message, turn)

    def _put_in_turn(self, message: Message, turn: Turn) -> None:
        if turn.recorded == DONE or (turn.recorded is None and not turn.is_due):
            turn.call_when_due(lambda: self._state.put(message))  # receivers get it in the order of turns
            return
        try:
            if turn.recorded is not None:
                raise self._closed() if turn.recorded == REFUSED else self._full()
            self._put(message)
        except (MailboxClosedError, MailboxFullError) as error:
            turn.end(REFUSED if isinstance(error, MailboxClosedError) else NOTHING)
            raise
        turn.end(DONE)

    def _put(self, message: Message) -> None:
        state = self._state
        if not state.is_closed and state.has_room():
            state.put(message)
            return
        state.failed_sends += 1
        if state.is_closed:
            raise self._closed()
        raise self._full()

    def _full(self) -> MailboxFullError:
        return MailboxFullError(f"the {self._label()} holds {self._state.capacity} messages already")

    def try_send(self, message: Message) -> bool:
        """Send a message; return False when the mailbox is closed or full."""
        try:
            self.send_nowait(message)
        except (MailboxClosedError, MailboxFullError):
            return False
        return True

    def drain(self) -> list[Message]:
        """Take all messages that were sent and not received, oldest first."""
        return self._state.drain()


def in_order_of(mailbox: Mailbox[Message], place: str, *, has_one_receiver: bool = False) -> Mailbox[Message]:
    """Let the operations on a mailbox be ordered under a name, whoever makes it.

    Args:
        mailbox: The mailbox.
        place: The name; empty where no order is kept.
        has_one_receiver: Whether always the same task receives, so that the order of that is no decision.
    """
    state = mailbox._state  # pyright: ignore[reportPrivateUsage]
    state.place, state.has_one_receiver = place, has_one_receiver
    return mailbox


MAILBOXES: Family[Mailbox[Any]] = Family(title="mailbox", close=Mailbox[Any].close)
"""The named mailboxes; each is closed when its namespace ends."""


def open_mailbox(
    name: str, *, capacity: int | None = 256, scope: NamespaceKind | None = None
) -> Mailbox[Any]:
    """Return the mailbox of a name; make it when the name is free or its mailbox is closed.

    The mailbox is closed, and its name free, when the scope ends. Messages sent to a closed mailbox whose
    name is opened again can still be received through that mailbox; by name only the new one is found.

    Args:
        name: Its name.
        capacity: The greatest number of waiting messages; None for no limit.
        scope: The kind of scope that the name belongs to; None for the innermost one around the caller.

    Raises:
        NameConflictError: The name belongs to a mailbox with another capacity.
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: The caller is in no such scope.
        ValueError: The capacity is not a whole number of at least 1.
    """
    namespace = find_namespace(scope)
    known = namespace.find(MAILBOXES, name)
    if known is not None and known.is_closed:
        namespace.remove(MAILBOXES, name)
    mailbox = namespace.get_or_add(
        MAILBOXES,
        name,
        lambda: in_order_of(Mailbox[Any](capacity=capacity, name=name), f"mailbox {namespace.place} {name}"),
    )
    if mailbox.capacity != capacity:
        raise NameConflictError(
            f"the mailbox {name!r} has the capacity {mailbox.capacity} already, not {capacity}"
        )
    return mailbox


def find_mailbox(name: str) -> Mailbox[Any] | None:
    """Return the mailbox of a name, closed or not; None when no scope around the caller has one.

    Of several with the same name it is that of the innermost scope: even a closed one hides an open one of
    an enclosing scope until its name is opened again.
    """
    return find_namespace().search(MAILBOXES, name)


async def send(name: str, message: object) -> None:
    """Send a message to the mailbox that `find_mailbox` finds, waiting while it is full.

    A cancelled wait sends nothing.

    Raises:
        UnknownMailboxError: No mailbox has the name.
        MailboxClosedError: The mailbox is closed, or was while waiting.
    """
    for namespace in find_namespace().outward():
        if namespace.server is not None:
            return await namespace.server.send(name, message)
        mailbox = namespace.find(MAILBOXES, name)
        if mailbox is not None:
            return await mailbox.send(message)
    raise UnknownMailboxError(f"no mailbox has the name {name!r}")


def try_send(name: str, message: object) -> bool:
    """Send a message to the mailbox that `find_mailbox` finds; False when there is none or it refuses it."""
    mailbox = find_mailbox(name)
    return mailbox is not None and mailbox.try_send(message)
