"""Objects that say of themselves that steps may share and change them: `nighthawk_async.shared`."""

import sys
import weakref
from typing import TypeVar

__all__ = ["is_shared", "shared"]

Object = TypeVar("Object")

_FIRST_SWEEP = 64


class _SharedObjects:
    """The declared objects by identity.

    Those that cannot be referred to weakly (lists, dictionaries) are held. Now and then the ones that nobody
    else holds any more are let go, so a service that declares a list per request does not grow.
    """

    def __init__(self) -> None:
        self._held: dict[int, object] = {}
        self._weak: dict[int, weakref.ref[object]] = {}
        self._sweep_at = _FIRST_SWEEP
        self._has_types = False

    def add(self, value: object) -> None:
        key = id(value)
        try:
            self._weak[key] = weakref.ref(value, lambda _: self._weak.pop(key, None))
        except TypeError:  # it has no room for weak references
            self._held[key] = value
            if len(self._held) >= self._sweep_at:
                self._sweep()
        self._has_types = self._has_types or isinstance(value, type)

    def __contains__(self, value: object) -> bool:
        if not self._held and not self._weak:
            return False
        return self._is_declared(value) or (
            self._has_types and any(map(self._is_declared, type(value).__mro__))
        )

    def _is_declared(self, value: object) -> bool:
        if (reference := self._weak.get(id(value))) is not None:
            return reference() is value
        return id(value) in self._held

    def _sweep(self) -> None:
        for key in list(self._held):
            # Two references: this table's, and the argument of getrefcount.
            if sys.getrefcount(self._held[key]) <= 2:
                del self._held[key]
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._held))


_SHARED = _SharedObjects()


def shared(value: Object) -> Object:
    """Declare that an object is meant to be changed by steps that run at the same time.

    No `ConcurrentMutationWarning` is given for it, nor for what is reached through it alone. Use it for
    caches, registries and clients that look after themselves. `SharedCell`, `SharedMap`, mailboxes and locks
    need no declaration.

    Args:
        value: The object; a class declares its instances and those of its subclasses.

    Returns:
        The same object.
    """
    _SHARED.add(value)
    return value


def is_shared(value: object) -> bool:
    """Whether an object, or its class, was declared to be shared."""
    return value in _SHARED
