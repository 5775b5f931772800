"""Schedules of senders, receivers, selects, closings and cancellations, and what must be true after each.

A message is a pair: who sent it, and its number. Whatever is cancelled when, a message that was sent is
received exactly once or still there, one whose sending did not succeed is never received, and the messages of
one sender are received in their order. Only a sender that asyncio itself cancels, and no cancel scope, may be
cancelled although its message was received before; it is taken back if it was not.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from nighthawk_async.actors import ActorError, Channel, Mailbox, Received, Sent, SourceClosed, select

Message: TypeAlias = tuple[int, int]
Queue: TypeAlias = Mailbox[Message] | Channel[Message]

ENOUGH_TURNS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Start a task that sends some messages one after the other."""

    queue: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Start a task that receives some messages one after the other."""

    queue: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectAmong:
    """Start a task that selects some times among arms: where to send (or else receive)."""

    arms: tuple[tuple[int, bool], ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendNow:
    """Send a message without waiting."""

    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveNow:
    """Receive a message without waiting."""

    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Take everything that a mailbox holds."""

    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel a task."""

    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelNatively:
    """Cancel a task by asyncio's own means."""

    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close a mailbox or channel."""

    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Let the tasks run for some turns of the loop."""

    count: int


Event: TypeAlias = (
    Send | Receive | SelectAmong | SendNow | ReceiveNow | Drain | Cancel | CancelNatively | Close | Turns
)


@dataclass(slots=True)
class World:
    """Mailboxes and channels, the tasks that use them, and a ledger of what they did.

    Args:
        queues: The mailboxes and channels.
        is_native: Whether tasks can be cancelled by asyncio's own means.
    """

    queues: Sequence[Queue]
    scopes: list[anyio.CancelScope] = field(default_factory=list)
    is_native: bool = False
    running: int = 0
    tasks: list["asyncio.Task[object] | None"] = field(default_factory=list)
    cancelled: set["asyncio.Task[object] | None"] = field(default_factory=set)
    attempts: list[Sequence[Message]] = field(default_factory=list)
    senders: int = 0
    sent: list[Message] = field(default_factory=list)
    received: defaultdict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))

    async def play(self, schedule: Sequence[Event]) -> None:
        """Carry a schedule out, then close everything and check the ledger."""
        async with anyio.create_task_group() as task_group:
            for event in schedule:
                await self._carry_out(event, task_group)
            await let_run(ENOUGH_TURNS)
            await anyio.wait_all_tasks_blocked()
            self._check_that_nobody_waits_in_vain()
            for queue in self.queues:
                queue.close()
            await let_run(ENOUGH_TURNS)
            assert not self.running, "somebody waits at what is closed"
        self._count_attempts()
        for index in range(len(self.queues)):
            while self._receive_now(index):
                pass
        self._check_the_ledger()

    async def _carry_out(self, event: Event, task_group: TaskGroup) -> None:
        match event:
            case Send(queue=queue, count=count):
                sender = self._new_sender()
                self._start(task_group, lambda: self._send(queue, sender, count))
            case Receive(queue=queue, count=count):
                self._start(task_group, lambda: self._receive(queue, count))
            case SelectAmong(arms=arms, count=count):
                self._start(task_group, lambda: self._select(arms, count))
            case SendNow(queue=queue):
                self._send_now(queue)
            case ReceiveNow(queue=queue):
                self._receive_now(queue)
            case Drain(queue=queue):
                mailbox = self.queues[queue]
                self.received[queue] += mailbox.drain() if isinstance(mailbox, Mailbox) else []
            case Cancel(task=task) if self.scopes:
                self.scopes[task % len(self.scopes)].cancel()
            case CancelNatively(task=index) if self.tasks:
                task = self.tasks[index % len(self.tasks)]
                assert task is not None
                self.cancelled.add(task)
                task.cancel()
            case Close(queue=queue):
                self.queues[queue].close()
            case Turns(count=count):
                await let_run(count)
            case _:
                pass

    def _start(self, task_group: TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        scope = anyio.CancelScope()
        self.scopes.append(scope)

        async def run() -> None:
            if self.is_native:
                self.tasks.append(asyncio.current_task())
            self.running += 1
            with scope:
                try:
                    await work()
                except ActorError:
                    assert any(queue.is_closed for queue in self.queues)
                except asyncio.CancelledError:
                    if asyncio.current_task() not in self.cancelled:
                        raise
            self.running -= 1

        task_group.start_soon(run)

    def _new_sender(self) -> int:
        self.senders += 1
        return self.senders

    async def _send(self, queue: int, sender: int, count: int) -> None:
        for number in range(count):
            with self._attempt([(sender, number)]):
                await self.queues[queue].send((sender, number))
            self.sent.append((sender, number))

    async def _receive(self, queue: int, count: int) -> None:
        for _ in range(count):
            message = await self.queues[queue].receive()
            self.received[queue].append(message)

    async def _select(self, arms: tuple[tuple[int, bool], ...], count: int) -> None:
        for _ in range(count):
            sender = self._new_sender()
            selecting = select(
                *(
                    self.queues[queue].sending((sender, index))
                    if is_sending
                    else self.queues[queue].receiving()
                    for index, (queue, is_sending) in enumerate(arms)
                )
            )
            with self._attempt([(sender, index) for index in range(len(arms))]):
                async with selecting as fired:
                    match fired:
                        case Sent(index=index):
                            self.sent.append((sender, index))
                        case Received(index=index, message=message):
                            self.received[arms[index][0]].append(message)
                        case SourceClosed(source=source):
                            assert source.is_closed
                            return
                        case _:
                            raise AssertionError(f"{fired} fired")

    @contextmanager
    def _attempt(self, messages: Sequence[Message]) -> Generator[None, None, None]:
        try:
            yield
        except asyncio.CancelledError:
            if asyncio.current_task() in self.cancelled:
                self.attempts.append(messages)
            raise

    def _count_attempts(self) -> None:
        """Count what was received of cancelled sends. What is still there was to be taken back."""
        received = {message for messages in self.received.values() for message in messages}
        for messages in self.attempts:
            sent = received.intersection(messages)
            assert len(sent) <= 1
            self.sent += sent

    def _send_now(self, queue: int) -> None:
        mailbox = self.queues[queue]
        sender = self._new_sender()
        if isinstance(mailbox, Mailbox) and mailbox.try_send((sender, 0)):
            self.sent.append((sender, 0))

    def _receive_now(self, queue: int) -> bool:
        message = self.queues[queue].try_receive()
        if message is not None:
            self.received[queue].append(message)
        return message is not None

    def _check_that_nobody_waits_in_vain(self) -> None:
        for queue in self.queues:
            figures = queue.statistics()
            has_room = figures.capacity is None or figures.depth < figures.capacity
            assert not (figures.waiting_senders and (has_room or figures.is_closed))
            assert not (figures.waiting_receivers and (figures.depth or figures.waiting_senders))
            assert not (figures.waiting_receivers and figures.is_closed)

    def _check_the_ledger(self) -> None:
        everything = [message for messages in self.received.values() for message in messages]
        assert sorted(everything) == sorted(self.sent)
        for messages in self.received.values():
            numbers: defaultdict[int, list[int]] = defaultdict(list)
            for sender, number in messages:
                numbers[sender].append(number)
            assert all(sent == sorted(sent) for sent in numbers.values())
        figures = [queue.statistics() for queue in self.queues]
        assert sum(figure.sent for figure in figures) == len(self.sent)
        assert [figure.sent for figure in figures] == [figure.received for figure in figures]
        assert not any(
            figure.depth or figure.waiting_senders or figure.waiting_receivers for figure in figures
        )


async def let_run(turns: int) -> None:
    """Let other tasks run for some turns of the loop."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
