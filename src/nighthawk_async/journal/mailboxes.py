"""Mailboxes of runs, as their store keeps them and as one life of a run takes messages from them."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

import anyio
import msgspec
from msgspec import Struct

from ..parallel.event_loop import LoopEvent
from . import message_table, tables
from .database import Database
from .listeners import FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, Listeners
from .message_table import Message
from .names import check_id, check_name
from .records import Record
from .store_thread import StoreThread
from .values import DEFAULT_RULES, ValueRules, encode_value

Result = TypeVar("Result")


class ReceivedMessages(Struct, frozen=True, kw_only=True):
    """The body of the record of messages that were received together.

    Args:
        name: The mailbox.
        messages: The messages; empty when none came in time.
    """

    name: str
    messages: tuple[Message, ...]


class Choice(Struct, frozen=True, kw_only=True):
    """The messages to take from a mailbox now.

    Args:
        messages: The messages; empty to wait for further ones.
        due_in: The longest wait for further ones, in seconds; None for as long as it takes.
    """

    messages: tuple[Message, ...] = ()
    due_in: float | None = None


Choose: TypeAlias = Callable[[list[Message], float], Choice]
"""Chooses among the messages of a mailbox that nobody has taken, at a time in seconds since 1970."""


class Mailboxes:
    """The mailboxes of all runs of a store.

    Args:
        thread: The thread of the store.
        rules: The rules for messages.
    """

    def __init__(self, thread: StoreThread, rules: ValueRules = DEFAULT_RULES) -> None:
        self._thread = thread
        self._rules = rules
        self._listeners = Listeners()

    def encode(self, run_id: str, name: str, value: object, message_id: str | None) -> bytes:
        """Write a message, and check its names; see `JournalStore.send`."""
        check_names(run_id, name)
        if message_id is not None:
            check_name(message_id, "the id of a message")
        return encode_value(value, place=f"the message {name!r} to run {run_id!r}", rules=self._rules)

    async def send(self, run_id: str, name: str, body: bytes, message_id: str) -> None:
        """Send a message that is encoded; nothing if the mailbox has one with that id."""

        def append() -> None:
            database = self._thread.opened()
            with database.transaction():
                message_table.append_message(database, run_id, name, message_id, body)
                tables.wake_run(database, run_id)
            self._listeners.wake((run_id, name))

        await self._thread.perform(append).wait()

    async def has_message(self, run_id: str, name: str, message_id: str) -> bool:
        """Whether a mailbox has a message with an id."""
        return await self._thread.perform(
            lambda: message_table.has_message(self._thread.opened(), run_id, name, message_id)
        ).wait()

    async def read(self, run_id: str, name: str, after: int, limit: int) -> tuple[list[Message], float]:
        """Return the first messages of a mailbox after a number, and the time."""
        return await self._thread.perform(
            lambda: message_table.read_messages(self._thread.opened(), run_id, name, after, limit)
        ).wait()

    def listening(self, run_id: str, name: str) -> AbstractContextManager[LoopEvent]:
        """Yield an event that is set when this process sends a message to a mailbox."""
        return self._listeners.listening((run_id, name))


class _Taken:
    """The numbers of the messages of one mailbox that were taken."""

    def __init__(self) -> None:
        self.all_until = 0
        self.further: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.all_until or number in self.further

    def add(self, number: int) -> None:
        self.further.add(number)
        while self.all_until + 1 in self.further:
            self.all_until += 1
            self.further.remove(self.all_until)


class Inbox:
    """The mailboxes of one run in one life of it.

    Args:
        run_id: The run.
        mailboxes: The mailboxes of the store.
        records: The records of received messages of earlier lives, whether this life has reached them or not.
    """

    def __init__(self, run_id: str, mailboxes: Mailboxes, records: Iterable[Record]) -> None:
        self._run_id = run_id
        self._mailboxes = mailboxes
        self._lock = threading.Lock()
        self._taken: defaultdict[str, _Taken] = defaultdict(_Taken)
        for record in records:
            received = msgspec.msgpack.decode(record.body, type=ReceivedMessages)
            for message in received.messages:
                self._taken[received.name].add(message.number)

    async def take(self, name: str, seconds: float | None, choose: Choose, limit: int) -> tuple[Message, ...]:
        """Wait for messages of a mailbox, and take them; none when they did not come in time.

        The store is looked into at least once, also when there is no time left. Between the return and the
        record of the messages there must be no checkpoint.

        Args:
            name: The mailbox.
            seconds: The longest wait, in seconds; None for as long as it takes.
            choose: Chooses the messages.
            limit: The most messages that it looks at.
        """
        ends_at = None if seconds is None else anyio.current_time() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._mailboxes.listening(self._run_id, name) as sent:
                taken = self._taken[name]
                messages, now = await self._mailboxes.read(
                    self._run_id, name, taken.all_until, limit + len(taken.further)
                )
                with self._lock:  # other tasks and threads take messages, too
                    choice = choose([each for each in messages if each.number not in taken][:limit], now)
                    for message in choice.messages:
                        taken.add(message.number)
                if choice.messages:
                    return choice.messages
                left = pause if choice.due_in is None else min(pause, choice.due_in)
                if ends_at is not None:
                    left = min(left, ends_at - anyio.current_time())
                    if anyio.current_time() >= ends_at:
                        return ()
                with anyio.move_on_after(left):
                    await sent.wait()
            pause = min(2 * pause, MOST_PAUSE_SECONDS)

    def has_news(self, name: str, choose: Choose, limit: int, database: Database) -> bool:
        """Whether the wait for messages of a mailbox is about to end; called by the thread of the store."""
        taken = self._taken[name]
        messages, now = message_table.read_messages(
            database, self._run_id, name, taken.all_until, limit + len(taken.further)
        )
        try:
            return bool(choose([each for each in messages if each.number not in taken][:limit], now).messages)
        except Exception:  # raised again by the wait; raised here, it would end all runs of the store
            return True


def check_names(run_id: object, name: object) -> None:
    """Check the id of a run and the name of a mailbox.

    Raises:
        NighthawkError: One of them is no text, or empty.
        JournalValueError: One of them cannot be stored.
    """
    check_id(run_id)
    check_name(name, "the name of a mailbox")
