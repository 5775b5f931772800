"""The locks of a namespace by kind and key, and what is remembered of those that nobody uses. Floor 1.

Keys often come from data, customer numbers for instance, so there may be very many in the life of a process.
A lock in use is always known. Of the idle ones only those used last are kept, with their capacity and their
figures; the others are forgotten, and begin anew when their key is used again.
"""

from collections import OrderedDict
from collections.abc import Iterator

from .errors import NameConflictError
from .locks_state import LockKind, LockStatistics, NamedLock
from .namespaces import Family, Namespace, NamespaceKind

__all__ = ["IDLE_LOCKS", "find_lock", "iterate_statistics"]

IDLE_LOCKS = 1_024
"""How many idle locks a namespace remembers."""


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


# Nothing is done when a namespace is left: permits still held are released into the table they came from.
_TABLES: Family[_LockTable] = Family(title="table of locks")
_TABLE_NAME = "named locks"


def find_lock(namespace: Namespace, kind: LockKind, key: str, *, capacity: int) -> NamedLock:
    """The lock of a key, made when there is none. The caller makes a request of it before it waits.

    Args:
        namespace: Where the key is looked for.
        kind: What kind of lock it is.
        key: The key.
        capacity: How many permits there are.

    Raises:
        NameConflictError: The lock has another capacity.
        NamespaceLeftError: The extent of the namespace has ended.
    """
    table = namespace.get_or_add(_TABLES, _TABLE_NAME, lambda: _LockTable(namespace.kind))
    return table.use(kind, key, capacity)


def iterate_statistics(namespace: Namespace) -> Iterator[LockStatistics]:
    """The figures of every lock that a namespace knows: those in use first, then the idle ones."""
    table = namespace.find(_TABLES, _TABLE_NAME)
    if table is not None:
        yield from table.statistics()
