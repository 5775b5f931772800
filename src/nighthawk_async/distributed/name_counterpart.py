"""The service "names" on a worker: names around a call are the program's, and stand for no other objects.

Named locks, and messages to mailboxes, are served by the program. Everything else that has a name there is
refused: cells and maps have methods that do not wait, and pools and mailboxes are objects of the program.
What a call names in a run or task group of its own is its own.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn, TypeVar

import anyio

from ..actors.errors import LockReentryError
from ..actors.locks_state import LockKind, Permit
from ..actors.namespaces import Family, Namespace, NamespaceKind, using_namespace
from ..kernel.environment import Environment
from ..parallel.event_loop import EventLoop
from .crossing import encode_crossing
from .errors import LocalOnlyError
from .grants import ask_for_grant
from .messages import encode
from .name_service import TOPIC, LockWish, Message, decode_granted, decode_kinds
from .services import CallChannel

Thing = TypeVar("Thing")


class ProgramNamespace(Namespace):
    """A namespace of the program, on a worker.

    Args:
        kind: The kind of its scope.
        parent: The enclosing one; None for that of the process.
        server: The server of its locks and mailboxes.
    """

    __slots__ = ()

    def __init__(self, kind: NamespaceKind, parent: Namespace | None, server: "_ProgramNames") -> None:
        super().__init__(kind, parent)
        self.server = server

    def find(self, family: Family[Thing], name: str) -> NoReturn:
        """Refuse to look.

        Raises:
            LocalOnlyError: Always.
        """
        raise _refusal(family, name)

    def get_or_add(self, family: Family[Thing], name: str, make: Callable[[], Thing]) -> NoReturn:
        """Refuse to make or return an object.

        Raises:
            LocalOnlyError: Always.
        """
        raise _refusal(family, name)

    def remove(self, family: Family[Thing], name: str) -> NoReturn:
        """Refuse to free a name.

        Raises:
            LocalOnlyError: Always.
        """
        raise _refusal(family, name)

    def names(self, family: Family[Any]) -> NoReturn:
        """Refuse to list names.

        Raises:
            LocalOnlyError: Always.
        """
        raise LocalOnlyError(
            f"the names of each {family.title} are those of the program, which a call on a worker cannot see"
        )


def _refusal(family: Family[Any], name: str) -> LocalOnlyError:
    return LocalOnlyError(
        f"the {family.title} {name!r} belongs to the program, and this call runs on a worker, where the name "
        "would stand for another object. Use it in the program: give the function what it needs as "
        "arguments, and let it return the rest; or name it in a run or task group inside the function."
    )


class _ProgramNames:
    """The named locks and mailboxes of the program, for one call."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel
        self._numbers = count()
        self._loop = EventLoop()
        self.holders: dict[tuple[NamespaceKind, str], object] = {}

    async def acquire(
        self,
        scope: NamespaceKind,
        *,
        kind: LockKind,
        key: str,
        capacity: int,
        permits: int,
        seconds: float | None,
    ) -> Permit | None:
        """Acquire permits of a lock of the program; None when the timeout expires.

        Raises:
            LocalOnlyError: The caller is on another event loop than the call.
            LockReentryError: The current task is in a block that holds this mutex.
        """
        self._check_loop(f"the {kind} {key!r}")
        holder = self.holders.get((scope, key)) if kind == "mutex" else None
        if holder is not None and holder is anyio.get_current_task().coro:
            raise LockReentryError(f"the task holds the mutex {key!r} already: it would wait for ever")
        number = next(self._numbers)
        wish = LockWish(
            number=number,
            kind=kind,
            key=key,
            capacity=capacity,
            permits=permits,
            timeout=seconds,
            scope=scope,
        )
        giving_back = encode(number)
        answer = await ask_for_grant(self._channel, TOPIC, encode(wish), giving_back)
        if not decode_granted(answer):
            return None
        lock = _ProgramLock(self, scope, kind, key, lambda: self._channel.tell(TOPIC, giving_back))
        return Permit(lock, permits=permits, acquired_at=anyio.current_time())

    async def send(self, mailbox: str, message: object) -> None:
        """Send a message to a mailbox of the program.

        Raises:
            CrossingError: The message cannot cross.
            LocalOnlyError: The caller is on another event loop than the call.
            MailboxClosedError: The mailbox is closed, or was while waiting.
            UnknownMailboxError: No mailbox has the name.
        """
        self._check_loop(f"the mailbox {mailbox!r}")
        body = encode_crossing(message, None, f"the message to the mailbox {mailbox!r}")
        await self._channel.ask(TOPIC, encode(Message(mailbox=mailbox, body=body)))

    def _check_loop(self, subject: str) -> None:
        if not self._loop.is_here:
            raise LocalOnlyError(f"{subject} belongs to the program: use it on the event loop of the call")


class _ProgramLock:
    """One acquired lock; a `Permit` releases it."""

    def __init__(
        self,
        names: _ProgramNames,
        scope: NamespaceKind,
        kind: LockKind,
        key: str,
        release: Callable[[], None],
    ) -> None:
        self.kind: LockKind = kind
        self.key = key
        self._holders = names.holders
        self._name = (scope, key)
        self._release = release

    def hold(self) -> None:
        if self.kind == "mutex":
            self._holders[self._name] = anyio.get_current_task().coro

    def release(self, permits: int, *, acquired_at: float) -> None:
        if self.kind == "mutex":
            self._holders.pop(self._name, None)
        self._release()


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Make the names around a call those of the program."""
    server = _ProgramNames(channel)
    namespace: Namespace | None = None
    for kind in reversed(decode_kinds(setup)):
        namespace = ProgramNamespace(kind, namespace, server)
    assert namespace is not None, "there is always that of the process"
    with using_namespace(namespace):
        yield environment
