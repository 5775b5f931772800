"""State of a mailbox or channel: the senders, the receivers, and the wake-ups.

Plain data that synchronous functions change; `mailbox` adds the waiting. Two rules keep every message
safe, wherever a task is cancelled:

- A message leaves the queue only when its receiver runs. A receiver is woken with a claim; it takes a message
  when it runs, and passes the claim on if it was cancelled in between.
- Code that makes room lets waiting senders in, in their order, except those that are being cancelled. A
  sender that is cancelled after it was let in, which only asyncio's own `task.cancel()` does, takes its
  message back unless it was already received. So a cancelled send has sent nothing.

`wait_for_first` waits for the first of several such operations: exactly one happens, and a cancelled wait
undoes itself.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .ordering import DONE, REFUSED, Turn, TurnEnd, begin_turn


class Waiter:
    """A waiting task. It is woken for one of the operations it waits for."""

    __slots__ = ("_is_woken", "_woken_for")

    def __init__(self) -> None:
        self._is_woken = anyio.Event()
        self._woken_for: Wait | None = None

    def wake(self, wait: "Wait") -> bool:
        """Wake the task for an operation; return False when it was already woken for another."""
        if self._woken_for is not None:
            return False
        self._woken_for = wait
        self._is_woken.set()
        return True

    async def wait(self) -> "Wait":
        """Wait until woken; return the wait that woke it."""
        try:
            await self._is_woken.wait()
        except BaseException:  # cancelled, maybe after it was woken
            if self._woken_for is not None:
                self._woken_for.pass_on()
            raise
        return cast("Wait", self._woken_for)

    def wait_again(self) -> None:
        """Get ready to be woken again."""
        self._is_woken = anyio.Event()
        self._woken_for = None


class Wait(ABC):
    """An operation that a task waits for. Every method is synchronous: it decides, and never waits itself.

    Attributes:
        is_refused: Whether it will never happen. A task notified of that has still waited for it.
        turn: Its turn, which ends when it happens; None where the order is not kept.
    """

    __slots__ = ("is_refused", "turn")

    is_refused: bool
    turn: TurnEnd | None

    @abstractmethod
    def begin_turn(self) -> Turn | None:
        """Begin the turn of the caller; None where the order is not kept."""

    @abstractmethod
    def poll(self) -> bool:
        """Do it now if no other task waits before; return whether it was done."""

    @abstractmethod
    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Join the queue, at the end at first; a task that was woken for nothing keeps its position."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the queue."""

    @abstractmethod
    def settle(self) -> bool:
        """Do it, when the task was woken for this; return False when there is nothing left to do."""

    @abstractmethod
    def pass_on(self) -> None:
        """Undo it and leave it to the next task, when the task was woken for this and then cancelled."""


AnyWait = TypeVar("AnyWait", bound=Wait)


async def wait_for_first(waits: Sequence[AnyWait]) -> AnyWait:
    """Wait until one of several operations is done; the others are not, and none is if this is cancelled.

    Args:
        waits: The operations. If several can be done at once, the first one is.

    Returns:
        The wait whose operation was done.
    """
    done = _poll(waits)
    if done is not None:
        return done
    waiter = Waiter()
    is_again = False
    try:
        while True:
            for wait in waits:
                wait.enter(waiter, is_again=is_again)
            done = _settle(waits, await waiter.wait())
            if done is not None:
                if done.is_refused:  # the cancellation of the other side may have cancelled the caller, too
                    await checkpoint_if_cancelled()
                return done
            waiter.wait_again()
            is_again = True
    finally:
        for wait in waits:
            wait.leave()


async def wait_in_turn(wait: Wait, turn: Turn | None) -> None:
    """Wait until an operation is done, or refused, in its turn.

    Args:
        wait: The operation.
        turn: Its turn; None where the order is not kept.
    """
    if turn is None:
        await wait_for_first((wait,))
        return
    try:
        await turn.wait()
        if turn.recorded == REFUSED:
            await checkpoint()
            wait.is_refused = True
        else:
            wait.turn = turn
            await wait_for_first((wait,))
        if wait.is_refused:
            if turn.recorded == DONE:
                raise turn.divergence("it is closed now")
            turn.end(REFUSED)
    finally:
        turn.leave()


def _settle(waits: Sequence[AnyWait], woken_for: Wait) -> AnyWait | None:
    for wait in waits:
        if wait is woken_for and wait.settle():
            return wait
    return _poll(waits)  # operations that became possible meanwhile woke no task


def _poll(waits: Sequence[AnyWait]) -> AnyWait | None:
    for wait in waits:
        if wait.poll():
            return wait
    return None


Message = TypeVar("Message")


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
