"""Named mutexes, semaphores and gates.

    async with mutex("customer-42"):                            # one task at a time
        ...
    async with semaphore("memory", capacity=16, permits=4):     # each task takes its share
        ...
    async with gate("connector", limit=8, timeout=5):           # eight tasks at a time
        ...

A key means the same lock everywhere in a scope: by default everywhere on the event loop. Another event loop,
for instance a portal thread of the same run, has its own locks.

Locks are granted in the order of requests. Permits are released on every way out of the block: its end, an
error, a cancellation. A wait that is cancelled or times out leaves nothing behind: no permit, no entry in the
queue. Entering a lock is a checkpoint; leaving it is not.

A timeout raises `LockTimeoutError` from `async with`, whose block cannot run without the lock. `acquire_…`
returns None instead, for programs that go on without it:

    permit = await acquire_mutex("customer-42", timeout=0.25)
    if permit is None:
        return "busy"
    with permit:
        ...

A timeout of zero takes the lock only when it is free.

A mutex that is requested again inside its own block raises `LockReentryError`. A gate or semaphore gives
further permits there; where only the block itself could release them, the wait ends with its timeout or
never.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled

from .errors import LockTimeoutError, check_seconds, check_whole_number
from .locks_state import LockKind, LockRequest, LockStatistics, Permit, find_lock, iterate_statistics
from .namespaces import Namespace, NamespaceKind, find_namespace
from .ordering import DONE, FINDERS, NOTHING, REFUSED, Turn, begin_turn, find_orders


def mutex(
    key: str, *, timeout: float | None = None, scope: NamespaceKind = "process"
) -> AbstractAsyncContextManager[Permit]:
    """Limit a block to one task at a time.

    Args:
        key: The key of the mutex: blocks with the same key exclude each other.
        timeout: The longest wait for it, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        LockReentryError: On entering: the current task is in a block that holds this mutex.
        LockTimeoutError: On entering: the timeout expired.
        NamespaceLeftError: On entering: the scope has ended.
        UnknownNamespaceError: On entering: no such scope encloses the caller.
        ValueError: At once: the timeout is not a number of at least 0.
    """
    return _Wish(kind="mutex", key=key, capacity=1, permits=1, timeout=timeout, scope=scope).entering()


def acquire_mutex(
    key: str, *, timeout: float | None = None, scope: NamespaceKind = "process"
) -> Awaitable[Permit | None]:
    """Acquire a mutex until its permit is released; return None when the timeout expires.

    Args:
        key: The key of the mutex.
        timeout: The longest wait for it, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        LockReentryError: The current task is in a block that holds this mutex.
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: No such scope encloses the caller.
        ValueError: The timeout is not a number of at least 0.
    """
    return _Wish(kind="mutex", key=key, capacity=1, permits=1, timeout=timeout, scope=scope).acquire()


def semaphore(
    key: str,
    *,
    capacity: int,
    permits: int = 1,
    timeout: float | None = None,
    scope: NamespaceKind = "process",
) -> AbstractAsyncContextManager[Permit]:
    """Run a block while holding a number of permits, acquired together from a shared number.

    Requested again inside the block, it gives further permits; where only the block could release them, the
    wait ends with its timeout or never.

    Args:
        key: The key of the semaphore.
        capacity: The number of permits; the same wherever the key is used.
        permits: The number that the block needs. It waits for all of them, and later requests do not
            overtake it.
        timeout: The longest wait for them, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        LockTimeoutError: On entering: the timeout expired.
        NameConflictError: On entering: the semaphore has another capacity.
        NamespaceLeftError: On entering: the scope has ended.
        UnknownNamespaceError: On entering: no such scope encloses the caller.
        ValueError: At once: a number is not whole and positive, more permits are requested than exist, or
            the timeout is not a number of at least 0.
    """
    return _Wish(
        kind="semaphore", key=key, capacity=capacity, permits=permits, timeout=timeout, scope=scope
    ).entering()


def acquire_semaphore(
    key: str,
    *,
    capacity: int,
    permits: int = 1,
    timeout: float | None = None,
    scope: NamespaceKind = "process",
) -> Awaitable[Permit | None]:
    """Acquire permits of a semaphore until they are released; return None when the timeout expires.

    Args:
        key: The key of the semaphore.
        capacity: The number of permits; the same wherever the key is used.
        permits: The number to acquire, all together.
        timeout: The longest wait for them, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        NameConflictError: The semaphore has another capacity.
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: No such scope encloses the caller.
        ValueError: A number is not whole and positive, more permits are requested than exist, or the timeout
            is not a number of at least 0.
    """
    return _Wish(
        kind="semaphore", key=key, capacity=capacity, permits=permits, timeout=timeout, scope=scope
    ).acquire()


def gate(
    key: str, *, limit: int, timeout: float | None = None, scope: NamespaceKind = "process"
) -> AbstractAsyncContextManager[Permit]:
    """Limit the number of tasks that run a block at a time.

    Requested again inside the block, it counts the task twice; where only the block could make room, the wait
    ends with its timeout or never.

    Args:
        key: The key of the gate.
        limit: The number of tasks that it lets in; the same wherever the key is used.
        timeout: The longest wait for admission, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        LockTimeoutError: On entering: the timeout expired.
        NameConflictError: On entering: the gate has another limit.
        NamespaceLeftError: On entering: the scope has ended.
        UnknownNamespaceError: On entering: no such scope encloses the caller.
        ValueError: At once: the limit is not whole and positive, or the timeout not a number of at least 0.
    """
    return _Wish(kind="gate", key=key, capacity=limit, permits=1, timeout=timeout, scope=scope).entering()


def acquire_gate(
    key: str, *, limit: int, timeout: float | None = None, scope: NamespaceKind = "process"
) -> Awaitable[Permit | None]:
    """Enter a gate until its permit is released; return None when the timeout expires.

    Args:
        key: The key of the gate.
        limit: The number of tasks that it lets in; the same wherever the key is used.
        timeout: The longest wait for admission, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique; the innermost one around the caller is used.

    Raises:
        NameConflictError: The gate has another limit.
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: No such scope encloses the caller.
        ValueError: The limit is not whole and positive, or the timeout not a number of at least 0.
    """
    return _Wish(kind="gate", key=key, capacity=limit, permits=1, timeout=timeout, scope=scope).acquire()


def acquire_for(
    task: object,
    *,
    kind: LockKind,
    key: str,
    capacity: int,
    permits: int,
    timeout: float | None,
    scope: NamespaceKind,
) -> Awaitable[Permit | None]:
    """Acquire permits on behalf of another process; see `acquire_semaphore`.

    Args:
        task: The coroutine of the task that waits for that process: a mutex that it holds is refused.
        kind: The kind of lock.
        key: The key of the lock.
        capacity: The number of permits.
        permits: The number to acquire, all together.
        timeout: The longest wait for them, in seconds; None for as long as it takes.
        scope: The kind of scope in which the key is unique.
    """
    wish = _Wish(
        kind=kind, key=key, capacity=capacity, permits=permits, timeout=timeout, scope=scope, task=task
    )
    return wish.acquire()


def lock_statistics(kind: LockKind | None = None, key: str | None = None) -> tuple[LockStatistics, ...]:
    """Return statistics of the named locks that the caller can reach.

    They cover every lock that is held or waited for, and of the others the 1,024 most recently used ones of
    each namespace; the statistics of earlier ones are dropped.

    Args:
        kind: The kind of locks; None for any.
        key: The key of the locks; None for any.

    Returns:
        The statistics, those of the innermost namespace first.
    """
    return tuple(
        statistics
        for namespace in find_namespace().outward()
        for statistics in iterate_statistics(namespace)
        if kind in (None, statistics.kind) and key in (None, statistics.key)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A request for a lock."""

    kind: LockKind
    key: str
    capacity: int
    permits: int
    timeout: float | None
    scope: NamespaceKind
    task: object = None

    def __post_init__(self) -> None:
        name = "limit" if self.kind == "gate" else "capacity"
        check_whole_number(f"the {name} of {self}", self.capacity, least=1)
        check_whole_number(f"the number of permits of {self}", self.permits, least=1)
        if self.permits > self.capacity:
            raise ValueError(f"{self} has {self.capacity} permits and can never give {self.permits}")
        check_seconds(f"the timeout of {self}", self.timeout, or_none=True)

    def __str__(self) -> str:
        return f"the {self.kind} {self.key!r}"

    @asynccontextmanager
    async def entering(self) -> AsyncGenerator[Permit, None]:
        permit = await self.acquire()
        if permit is None:
            assert self.timeout is not None, "only a wait with a timeout returns None"
            raise LockTimeoutError(kind=self.kind, key=self.key, seconds=self.timeout)
        with permit:
            yield permit

    async def acquire(self) -> Permit | None:
        await checkpoint_if_cancelled()
        namespace = find_namespace(self.scope)
        if namespace.server is not None:
            return await namespace.server.acquire(
                self.scope,
                kind=self.kind,
                key=self.key,
                capacity=self.capacity,
                permits=self.permits,
                seconds=self.timeout,
            )
        if FINDERS and find_orders() is not None and self.task is None:
            turn = begin_turn(f"{self.kind} {namespace.place} {self.key}", "acquisitions")
            if turn is not None:
                return await self._acquire_in_turn(namespace, turn)
        return await self._acquire(namespace, self.timeout)

    async def _acquire_in_turn(self, namespace: Namespace, turn: Turn) -> Permit | None:
        try:
            await turn.wait()
            if turn.recorded == NOTHING:
                await checkpoint()
                turn.end(NOTHING)
                return None
            # The earlier life was granted it in time.
            permit = await self._acquire(namespace, None if turn.recorded == DONE else self.timeout)
            turn.end(NOTHING if permit is None else DONE)
            return permit
        except Exception:
            turn.end(REFUSED)
            raise
        finally:
            turn.leave()

    async def _acquire(self, namespace: Namespace, seconds: float | None) -> Permit | None:
        lock = find_lock(namespace, self.kind, self.key, capacity=self.capacity)
        request = lock.request(self.permits, self.task)
        try:
            await self._wait(request, seconds)
        except BaseException:  # cancelled, maybe after it was granted
            lock.withdraw(request, "cancelled")
            raise
        if request.is_granted:  # maybe at the same moment as its timeout expired
            return lock.take(request)
        lock.withdraw(request, "timeout")
        return None

    async def _wait(self, request: LockRequest, seconds: float | None) -> None:
        if request.is_granted:
            await cancel_shielded_checkpoint()
            return
        with anyio.move_on_after(seconds):
            await request.wait()
