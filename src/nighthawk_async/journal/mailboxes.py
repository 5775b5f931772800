"""Mailboxes of runs, as their store keeps them and as one life of a run takes messages from them."""

import threading
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

import anyio
import msgspec
from msgspec import Struct

from ..errors import NighthawkError
from ..parallel.event_loop import LoopEvent
from . import message_table, tables
from .database import Database
from .listeners import Listeners
from .message_table import Message
from .records import Record
from .store_thread import StoreThread
from .values import encode_value

Result = TypeVar("Result")

_FIRST_PAUSE_SECONDS = 0.05
_MOST_PAUSE_SECONDS = 1.0
"""The time between two looks into the store for messages of other processes."""


class ReceivedMessage(Struct, frozen=True, kw_only=True):
    """The body of the record of a message.

    Args:
        name: The mailbox.
        number: The number of the message in it; 0 when none came in time.
        body: The value, encoded.
    """

    name: str
    number: int
    body: bytes = b""


class Mailboxes:
    """The mailboxes of all runs of a store.

    Args:
        thread: The thread of the store.
    """

    def __init__(self, thread: StoreThread) -> None:
        self._thread = thread
        self._listeners = Listeners()

    async def send(self, run_id: str, name: str, value: object, message_id: str | None) -> None:
        """Send a message; see `JournalStore.send`."""
        check_names(run_id, name)
        if message_id is not None and not message_id:
            raise NighthawkError("the id of a message is not empty")
        body = encode_value(value, place=f"the message {name!r} to run {run_id!r}")

        def append() -> None:
            database = self._thread.opened()
            with database.transaction():
                message_table.append_message(database, run_id, name, message_id or uuid.uuid4().hex, body)
                tables.wake_run(database, run_id)
            self._listeners.wake((run_id, name))

        await self._thread.perform(append).wait()

    async def find_next(self, run_id: str, name: str, after: int) -> Message | None:
        """Return the first message of a mailbox after a number; None for none."""
        return await self._thread.perform(
            lambda: message_table.next_message(self._thread.opened(), run_id, name, after)
        ).wait()

    def listening(self, run_id: str, name: str) -> AbstractContextManager[LoopEvent]:
        """Yield an event that is set when this process sends a message to a mailbox."""
        return self._listeners.listening((run_id, name))


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
        self._taken: dict[str, int] = {}
        for record in records:
            message = msgspec.msgpack.decode(record.body, type=ReceivedMessage)
            self._take(message.name, message.number)

    async def take(self, name: str, seconds: float | None) -> Message | None:
        """Wait for the next message of a mailbox, and take it; None when none came in time.

        The store is looked into at least once, also when there is no time left. Between the return and the
        record of the message there must be no checkpoint.
        """
        ends_at = None if seconds is None else anyio.current_time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with self._mailboxes.listening(self._run_id, name) as sent:
                message = await self._mailboxes.find_next(self._run_id, name, self._taken.get(name, 0))
                if message is not None:
                    if self._take(name, message.number):
                        return message
                    continue  # another task was faster
                left = pause if ends_at is None else ends_at - anyio.current_time()
                if left <= 0:
                    return None
                with anyio.move_on_after(min(pause, left)):
                    await sent.wait()
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)

    def has_news(self, name: str, database: Database) -> bool:
        """Whether a mailbox has a message that was not taken; called by the thread of the store."""
        return message_table.next_message(database, self._run_id, name, self._taken.get(name, 0)) is not None

    def _take(self, name: str, number: int) -> bool:
        with self._lock:
            is_next = number > self._taken.get(name, 0)
            if is_next:
                self._taken[name] = number
        return is_next


def check_names(run_id: object, name: object) -> None:
    """Check the id of a run and the name of a mailbox.

    Raises:
        NighthawkError: One of them is no text, or empty.
    """
    for kind, given in (("run id", run_id), ("name of a mailbox", name)):
        if not isinstance(given, str) or not given:
            raise NighthawkError(f"a {kind} is a text that is not empty, not {given!r}")
