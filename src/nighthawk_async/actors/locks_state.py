"""State of one named lock: the permits that are held, the waiting requests, and the next one to grant.

Every method is synchronous: it decides, and never waits (`locks` adds the waiting). A mutex is a lock of one
permit, a gate gives one permit at a time, a semaphore gives several at once; the rules are the same for all.

Requests are served in their order. One that needs many permits is not overtaken by a later one that needs
few, so it is not starved; the price is that free permits may stay idle until there are enough of them.

AnyIO's own `Lock` and `Semaphore` give one permit at a time, which is not enough here: two tasks that each
collect several permits one after the other would block each other for ever.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

import anyio

from .errors import LockReentryError, NameConflictError
from .namespaces import Family, Namespace, NamespaceKind

LockKind: TypeAlias = Literal["mutex", "semaphore", "gate"]
"""The kind of a lock; locks of different kinds may have the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatistics:
    """Statistics of a lock at one moment. `acquired - released` permit objects have not been given back.

    Args:
        kind: The kind of lock.
        key: Its key.
        scope: The namespace it belongs to.
        capacity: The number of permits.
        acquired: Requests that were granted.
        timeouts: Requests that ended because their timeout expired.
        cancelled: Requests that were cancelled.
        released: Granted requests whose permits were given back.
        held: Permits that are not free.
        waiting: Requests that wait.
        greatest_waiting: The greatest number of requests that have waited at the same time.
        total_wait_seconds: The time that ended requests have waited, including those that got nothing.
        total_held_seconds: The time for which released permits were held; a request for several counts
            once.
    """

    kind: LockKind
    key: str
    scope: NamespaceKind
    capacity: int
    acquired: int
    timeouts: int
    cancelled: int
    released: int
    held: int
    waiting: int
    greatest_waiting: int
    total_wait_seconds: float
    total_held_seconds: float


@dataclass(slots=True, kw_only=True)
class _Counts:
    acquired: int = 0
    timeouts: int = 0
    cancelled: int = 0
    released: int = 0
    greatest_waiting: int = 0
    total_wait_seconds: float = 0.0
    total_held_seconds: float = 0.0


class LockRequest:
    """A request for permits, from the moment it is made until its task takes them or withdraws it."""

    __slots__ = ("_granted", "is_granted", "permits", "since")

    def __init__(self, *, permits: int, since: float) -> None:
        self.permits = permits
        self.since = since
        self.is_granted = False
        self._granted: anyio.Event | None = None

    def grant(self) -> None:
        """Notify the waiting task that it has the permits."""
        self.is_granted = True
        if self._granted is not None:
            self._granted.set()

    async def wait(self) -> None:
        """Wait until it is granted. It must not be granted yet."""
        self._granted = anyio.Event()
        await self._granted.wait()


class NamedLock:
    """The state of one named lock.

    Args:
        kind: The kind of lock.
        key: Its key.
        scope: The namespace it belongs to.
        capacity: The number of permits.
        on_idle: Called whenever no permit is held and no request waits any more.
    """

    def __init__(
        self,
        *,
        kind: LockKind,
        key: str,
        scope: NamespaceKind,
        capacity: int,
        on_idle: "Callable[[NamedLock], object]",
    ) -> None:
        self.kind: LockKind = kind
        self.key = key
        self.capacity = capacity
        self._scope: NamespaceKind = scope
        self._on_idle = on_idle
        self._held = 0
        self._holder: object | None = None
        self._waiting: OrderedDict[LockRequest, None] = OrderedDict()
        self._counts = _Counts()

    def request(self, permits: int, task: object = None) -> LockRequest:
        """Request permits for a task.

        Args:
            permits: The number of permits; at most the capacity.
            task: The coroutine of the task; None for the current one.

        Returns:
            The request: granted, or last in the queue.

        Raises:
            LockReentryError: This is a mutex, and the task is in a block that holds it.
        """
        if self._holder is not None and self._holder is (task or anyio.get_current_task().coro):
            raise LockReentryError(
                f"the task holds the {self.kind} {self.key!r} already: it would wait for ever"
            )
        request = LockRequest(permits=permits, since=anyio.current_time())
        self._waiting[request] = None
        self._admit()
        self._counts.greatest_waiting = max(self._counts.greatest_waiting, len(self._waiting))
        return request

    def hold(self) -> None:
        """Note that the current task enters a block that holds a permit.

        Only for such a block, and only of a mutex, is it always an error when the task waits for the lock
        again: a permit acquired without a block may be handed to a task that releases it. The coroutine is
        noted, not the task's id, which another task may reuse after this one ended.
        """
        if self.kind == "mutex":
            self._holder = anyio.get_current_task().coro

    def take(self, request: LockRequest) -> "Permit":
        """Take the permits of a granted request."""
        now = anyio.current_time()
        self._counts.acquired += 1
        self._counts.total_wait_seconds += now - request.since
        return Permit(self, permits=request.permits, acquired_at=now)

    def withdraw(self, request: LockRequest, reason: Literal["timeout", "cancelled"]) -> None:
        """Withdraw a request. Permits that it was granted and had not taken go to the next request."""
        if reason == "timeout":
            self._counts.timeouts += 1
        else:
            self._counts.cancelled += 1
        self._counts.total_wait_seconds += anyio.current_time() - request.since
        if request.is_granted:
            self._give_back(request.permits)
        else:
            del self._waiting[request]
            self._admit()  # those behind may need less than is free

    def release(self, permits: int, *, acquired_at: float) -> None:
        """Take permits back and grant the requests that come next."""
        now = anyio.current_time()
        self._counts.released += 1
        self._counts.total_held_seconds += now - acquired_at
        self._give_back(permits)

    def statistics(self) -> LockStatistics:
        """Return the current statistics."""
        counts = self._counts
        return LockStatistics(
            kind=self.kind,
            key=self.key,
            scope=self._scope,
            capacity=self.capacity,
            acquired=counts.acquired,
            timeouts=counts.timeouts,
            cancelled=counts.cancelled,
            released=counts.released,
            held=self._held,
            waiting=len(self._waiting),
            greatest_waiting=counts.greatest_waiting,
            total_wait_seconds=counts.total_wait_seconds,
            total_held_seconds=counts.total_held_seconds,
        )

    def _give_back(self, permits: int) -> None:
        self._held -= permits
        self._holder = None
        self._admit()
        if not self._held:  # then no request waits: the first would have been granted
            self._on_idle(self)

    def _admit(self) -> None:
        """Grant requests in their order, as long as the first one fits."""
        while self._waiting:
            request = next(iter(self._waiting))
            if request.permits > self.capacity - self._held:
                return
            del self._waiting[request]
            self._held += request.permits
            request.grant()


class AcquiredLock(Protocol):
    """The lock of a permit."""

    @property
    def kind(self) -> LockKind:
        """The kind of lock."""
        ...

    @property
    def key(self) -> str:
        """Its key."""
        ...

    def hold(self) -> None:
        """See `NamedLock.hold`."""
        ...

    def release(self, permits: int, *, acquired_at: float) -> None:
        """See `NamedLock.release`."""
        ...


class Permit:
    """Permits of a lock, held until they are released.

    Entering a lock with `async with`, or acquiring it, gives one; it is never made by hand. It is a context
    manager that releases on leaving; while its block runs, the task of the block is the holder. A permit
    without a block may be handed to another task of the same event loop, which then releases it.

    Attributes:
        permits: The number of permits of the lock that it represents.
    """

    __slots__ = ("_acquired_at", "_is_released", "_lock", "permits")

    def __init__(self, lock: "AcquiredLock", *, permits: int, acquired_at: float) -> None:
        self._lock = lock
        self._acquired_at = acquired_at
        self._is_released = False
        self.permits = permits

    @property
    def kind(self) -> LockKind:
        """The kind of lock that it belongs to."""
        return self._lock.kind

    @property
    def key(self) -> str:
        """The key of the lock."""
        return self._lock.key

    @property
    def is_released(self) -> bool:
        """Whether it was released."""
        return self._is_released

    def release(self) -> bool:
        """Release the permits. Must be called on the event loop of the lock.

        Returns:
            True the first time; False later, when there is nothing left to release.
        """
        if self._is_released:
            return False
        self._lock.release(self.permits, acquired_at=self._acquired_at)
        self._is_released = True
        return True

    def __enter__(self) -> Self:
        if not self._is_released:
            self._lock.hold()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "released" if self._is_released else "held"
        return f"<Permit for {self.permits} of the {self.kind} {self.key!r}, {state}>"

    def __del__(self) -> None:
        # Releasing here would wake tasks from any thread at any moment, so the loss is only reported.
        if not self._is_released:
            warnings.warn(
                f"{self!r} was lost without being released", ResourceWarning, stacklevel=1, source=self
            )


IDLE_LOCKS = 1_024
"""The number of idle locks that a namespace remembers."""


class _LockTable:
    def __init__(self, scope: NamespaceKind) -> None:
        self._scope: NamespaceKind = scope
        self._in_use: dict[tuple[LockKind, str], NamedLock] = {}
        self._idle: OrderedDict[tuple[LockKind, str], NamedLock] = OrderedDict()

    def use(self, kind: LockKind, key: str, capacity: int) -> NamedLock:
        name = (kind, key)
        lock = self._in_use.get(name) or self._idle.get(name)
        if lock is None:
            lock = NamedLock(
                kind=kind, key=key, scope=self._scope, capacity=capacity, on_idle=self._remember_idle
            )
        elif lock.capacity != capacity:
            raise NameConflictError(
                f"the {kind} {key!r} was made for {lock.capacity} permits, not {capacity}"
            )
        self._idle.pop(name, None)
        self._in_use[name] = lock
        return lock

    def statistics(self) -> Iterator[LockStatistics]:
        for locks in (self._in_use, self._idle):
            for lock in locks.values():
                yield lock.statistics()

    def _remember_idle(self, lock: NamedLock) -> None:
        name = (lock.kind, lock.key)
        del self._in_use[name]
        self._idle[name] = lock
        if len(self._idle) > IDLE_LOCKS:
            self._idle.popitem(last=False)


# Nothing is done when a namespace ends: permits still held are released into the table they came from.
_TABLES: Family[_LockTable] = Family(title="table of locks")
_TABLE_NAME = "named locks"


def find_lock(namespace: Namespace, kind: LockKind, key: str, *, capacity: int) -> NamedLock:
    """Find the lock of a key, or make it. The caller must make a request of it before it waits.

    Args:
        namespace: The namespace in which to look for the key.
        kind: The kind of lock.
        key: The key.
        capacity: The number of permits.

    Raises:
        NameConflictError: The lock has another capacity.
        NamespaceLeftError: The scope of the namespace has ended.
    """
    table = namespace.get_or_add(_TABLES, _TABLE_NAME, lambda: _LockTable(namespace.kind))
    return table.use(kind, key, capacity)


def iterate_statistics(namespace: Namespace) -> Iterator[LockStatistics]:
    """Iterate over the statistics of every lock of a namespace: those in use first, then the idle ones."""
    table = namespace.find(_TABLES, _TABLE_NAME)
    if table is not None:
        yield from table.statistics()
