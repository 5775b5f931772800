"""A mapping that tasks share on purpose, with a version for every key and compare-and-set.

    memo = shared_map("memo", initial={"customer-42": "new"})
    snapshot = memo.snapshot("customer-42")
    summary = await summarize(snapshot.value)
    memo.compare_and_set("customer-42", snapshot, summary)  # False when another task was faster

Like a `SharedCell`, it holds values without copying them, and lives on one event loop.

Every change takes the next version of the whole map, so a key that was deleted and set again has a greater
version than before. For missing keys, the versions of the latest 1,024 deletions are known exactly; for an
older one, a comparison may fail that should succeed, but never succeed that should fail. So keys that come
and go do not use memory for ever.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast, overload

from .errors import UpdateConflictError
from .namespaces import Family, NamespaceKind
from .shared_state import (
    UPDATE_ATTEMPTS,
    SharedState,
    SharedStatistics,
    Snapshot,
    find_shared_namespace,
    refuse_coroutine,
)

Key = TypeVar("Key")
Value = TypeVar("Value")
Default = TypeVar("Default")

KNOWN_DELETIONS = 1_024
"""The number of deletions whose versions a map remembers."""


class SharedMap(Generic[Key, Value]):
    """Shared values by key. Made directly to be passed around, or with a name by `shared_map`.

    Args:
        initial: The first entries.
    """

    def __init__(self, initial: Mapping[Key, Value] | None = None) -> None:
        self._state = SharedState()
        self._entries: dict[Key, tuple[Value, int]] = {
            key: (value, 0) for key, value in (initial or {}).items()
        }
        self._deletions: OrderedDict[Key, int] = OrderedDict()
        self._forgotten_deletion = 0

    def __deepcopy__(self, memo: object) -> "SharedMap[Key, Value]":
        """Return itself: everything that holds it shares it, even as a task-local value."""
        return self

    @overload
    def get(self, key: Key) -> Value | None: ...
    @overload
    def get(self, key: Key, default: Default) -> Value | Default: ...
    def get(self, key: Key, default: object = None) -> object:
        """Return the value of a key, or the default when there is none."""
        self._state.reads += 1
        entry = self._entries.get(key)
        return default if entry is None else entry[0]

    def set(self, key: Key, value: Value) -> Value | None:
        """Set the value of a key, whatever its current value.

        Returns:
            The previous value; None when there was none.
        """
        previous = self._entries.get(key)
        self._store(key, value, self._state.count_write())
        return None if previous is None else previous[0]

    def delete(self, key: Key) -> Value | None:
        """Delete a key. Deleting a missing key changes nothing.

        Returns:
            The value it had; None when there was none.
        """
        previous = self._entries.pop(key, None)
        if previous is None:
            return None
        self._deletions[key] = self._state.count_write()
        if len(self._deletions) > KNOWN_DELETIONS:
            _, self._forgotten_deletion = self._deletions.popitem(last=False)
        return previous[0]

    def items(self) -> tuple[tuple[Key, Value], ...]:
        """Return the current keys and values, in the order in which the keys were added."""
        self._state.reads += 1
        return tuple((key, value) for key, (value, _) in self._entries.items())

    def snapshot(self, key: Key) -> Snapshot[Value | None]:
        """Return the value of a key with its version, for `compare_and_set`. A missing key has one too."""
        self._state.reads += 1
        entry = self._entries.get(key)
        return Snapshot(
            value=None if entry is None else entry[0],
            version=self._version(key),
            is_present=entry is not None,
            origin=(self, key),
        )

    def compare_and_set(self, key: Key, expected: Snapshot[Value | None] | Value, value: Value) -> bool:
        """Set the value of a key if it is still the expected one.

        Args:
            key: The key.
            expected: A snapshot of this key, valid until the key is set or deleted; or a value, which matches
                if it is, or equals, the current one. Only a snapshot can expect a missing key.
            value: The new value.

        Returns:
            Whether it was set.

        Raises:
            ValueError: The snapshot is of another key or object.
        """
        is_snapshot = isinstance(expected, Snapshot)
        if is_snapshot:
            is_expected = self._is_current(key, cast("Snapshot[object]", expected))
        else:
            entry = self._entries.get(key)
            is_expected = entry is not None and (entry[0] is expected or entry[0] == expected)
        if not is_expected:
            self._state.count_failure(is_stale=is_snapshot)
            return False
        self._store(key, value, self._state.count_success())
        return True

    def update(self, key: Key, function: Callable[[Value], Value], *, default: Value) -> Value:
        """Set a value to the result of a function. A function that changes the key itself is called again.

        Args:
            key: The key.
            function: Takes the value and returns the new one. It is not async.
            default: The argument of the function when there is no value.

        Returns:
            The new value.

        Raises:
            TypeError: The function is async.
            UpdateConflictError: The function changed the key 100 times in a row.
        """
        for _ in range(UPDATE_ATTEMPTS):
            snapshot = self.snapshot(key)
            present = cast("Value", snapshot.value) if snapshot.is_present else default
            value = refuse_coroutine(function(present))
            if self.compare_and_set(key, snapshot, value):
                return value
        raise UpdateConflictError(f"the function of the update changes the key {key!r} that it updates")

    async def changed(self, *, since: int) -> int:
        """Wait for a change of any key. To observe a single value, use a `SharedCell`.

        Args:
            since: The version after which a change counts: that of a snapshot, or of the statistics.

        Returns:
            The version of the latest change.

        Raises:
            ValueError: The map has not had this version yet.
        """
        await self._state.wait_changed(since)
        return self._state.version

    def statistics(self) -> SharedStatistics:
        """Return the current statistics, of all keys together."""
        return self._state.statistics()

    def __repr__(self) -> str:
        return f"<SharedMap of {len(self._entries)} keys, version {self._state.version}>"

    def _is_current(self, key: Key, snapshot: Snapshot[object]) -> bool:
        if snapshot.origin != (self, key):
            raise ValueError(f"the snapshot was not taken of the key {key!r} of this map")
        return snapshot.version == self._version(key)

    def _version(self, key: Key) -> int:
        entry = self._entries.get(key)
        return self._deletions.get(key, self._forgotten_deletion) if entry is None else entry[1]

    def _store(self, key: Key, value: Value, version: int) -> None:
        self._entries[key] = (value, version)
        self._deletions.pop(key, None)


_MAPS: Family[SharedMap[Any, Any]] = Family(title="shared map")


def shared_map(
    name: str, *, initial: Mapping[Key, Value] | None = None, scope: NamespaceKind | None = None
) -> SharedMap[Key, Value]:
    """Return the shared map of a name; make it when there is none.

    Args:
        name: The name.
        initial: The first entries of a new map, copied; ignored if the map exists.
        scope: The map belongs to the innermost scope of this kind around the caller and ends with it. None:
            to the run around the caller, or to the process outside a run.

    Raises:
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: No such scope encloses the caller.
    """
    return find_shared_namespace(scope).get_or_add(_MAPS, name, lambda: SharedMap(initial))
