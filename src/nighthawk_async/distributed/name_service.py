"""The service "names" in the program: its named locks and mailboxes, for calls on workers."""

from typing import Literal

import msgspec
from msgspec import Struct

from ..actors.locks import acquire_for
from ..actors.locks_state import LockKind, Permit
from ..actors.mailbox import send
from ..actors.namespaces import NamespaceKind, find_namespace
from ..kernel.environment import Environment
from .caller_task import find_caller_task
from .crossing import decode_crossing
from .grants import Grants
from .messages import encode
from .services import ProgramPart, SendOrder

TOPIC = "names"


class LockWish(Struct, frozen=True, kw_only=True, tag=True):
    """A request for permits of a lock.

    Args:
        number: The number of the request in the call.
        kind: The kind of the lock.
        key: Its key.
        capacity: The number of its permits.
        permits: The number of permits that are wanted.
        timeout: The longest wait, in seconds; None for any.
        scope: The kind of scope in which the key is unique.
    """

    number: int
    kind: LockKind
    key: str
    capacity: int
    permits: int
    timeout: float | None
    scope: NamespaceKind


class Message(Struct, frozen=True, kw_only=True, tag=True):
    """A message to a mailbox.

    Args:
        mailbox: The name of the mailbox.
        body: The message, encoded.
    """

    mailbox: str
    body: bytes


decode_kinds = msgspec.msgpack.Decoder(list[Literal["process", "run", "task_group"]]).decode
decode_granted = msgspec.msgpack.Decoder(bool).decode
_decode_question = msgspec.msgpack.Decoder(LockWish | Message).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


def _release(permit: Permit) -> None:
    permit.release()


class _NamesPart(ProgramPart):
    """The locks that one placement of a call holds or waits for. They are released when it ends."""

    def __init__(self) -> None:
        self._grants = Grants[Permit](_release)

    def setup(self) -> bytes:
        """Return the kinds of the namespaces around the caller, the innermost first."""
        return encode([each.kind for each in find_namespace().outward()])

    async def answer(self, body: bytes) -> bytes:
        """Acquire permits, and tell whether they were granted before the timeout; or send a message.

        Raises:
            MailboxClosedError: The mailbox is closed.
            UnknownMailboxError: No mailbox has the name.
            LockReentryError: The caller is in a block that holds this mutex, and waits for the call.
            NameConflictError: The lock has another capacity.
            NamespaceLeftError: The scope has ended.
        """
        wish = _decode_question(body)
        if isinstance(wish, Message):
            await send(wish.mailbox, decode_crossing(wish.body, None, "the message"))
            return b""
        permit = await acquire_for(
            find_caller_task(),
            kind=wish.kind,
            key=wish.key,
            capacity=wish.capacity,
            permits=wish.permits,
            timeout=wish.timeout,
            scope=wish.scope,
        )
        if permit is not None:
            self._grants.add(wish.number, permit)
        return encode(permit is not None)

    def note(self, body: bytes) -> None:
        """Release a permit, or the request for it."""
        self._grants.return_one(_decode_number(body))

    def end(self, *, is_lost: bool) -> None:
        """Release everything."""
        for permit in self._grants.end():
            permit.release()


def begin(environment: Environment | None, worker: str, attempt: int, send_order: SendOrder) -> _NamesPart:
    """Begin the service for one placement of a call."""
    return _NamesPart()
