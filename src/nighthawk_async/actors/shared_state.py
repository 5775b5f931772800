"""Shared cells, and the parts that they share with maps: versions, statistics, waits for a change.

A cell is a value that tasks share on purpose, with versioned snapshots and compare-and-set:

    budget = shared_cell("tokens", initial=0)
    budget.update(lambda tokens: tokens + 1)                # atomic: no other task runs in between

    while True:                                             # with an await between reading and writing
        snapshot = budget.snapshot()
        planned = await plan(snapshot.value)
        if budget.compare_and_set(snapshot, planned):
            break

Versions distinguish a value that stayed from one that was changed and changed back (the ABA problem).

Values are not copied, so use immutable ones: any code that holds a list from a cell can change it without the
cell noticing. Everything happens on one event loop: other threads call in through
`anyio.from_thread`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint

from .errors import UpdateConflictError, check_whole_number
from .namespaces import Family, Namespace, NamespaceKind, find_namespace

Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")

UPDATE_ATTEMPTS = 100
"""The number of attempts for an update whose function changes the value that it updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[Value_co]):
    """A value and the version it had when it was read.

    Args:
        value: The value itself, not a copy. None when there was none.
        version: Grows with every change, even with one that sets an equal value. Versions may be compared;
            their differences mean nothing.
        is_present: Whether there was a value. A cell always has one; a key of a map may have none.
        origin: The cell or map that was read.
    """

    value: Value_co
    version: int
    is_present: bool = True
    origin: object = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatistics:
    """Statistics of a shared cell or map at one moment.

    Args:
        reads: The number of reads.
        writes: The number of changes (sets and deletions) without a comparison.
        compare_and_set_successes: Comparisons that succeeded, so that the value was set.
        compare_and_set_failures: Comparisons that failed, so that nothing was set.
        stale_reads: The number of those that failed because a snapshot was out of date, whatever the value.
        version: The version of the latest change: the sum of `writes` and `compare_and_set_successes`.
    """

    reads: int
    writes: int
    compare_and_set_successes: int
    compare_and_set_failures: int
    stale_reads: int
    version: int


class SharedState:
    """The version of a cell or map, and its counters. Not thread-safe."""

    def __init__(self) -> None:
        self.reads = 0
        self._writes = 0
        self._successes = 0
        self._failures = 0
        self._stale_reads = 0
        self._changed: anyio.Event | None = None

    @property
    def version(self) -> int:
        """The version of the latest change; 0 before the first."""
        return self._writes + self._successes

    def count_write(self) -> int:
        """Record a change without a comparison, and wake the waiting tasks; return its version."""
        self._writes += 1
        self._announce()
        return self.version

    def count_success(self) -> int:
        """Record a change after a comparison, and wake the waiting tasks; return its version."""
        self._successes += 1
        self._announce()
        return self.version

    def count_failure(self, *, is_stale: bool) -> None:
        """Record a comparison that failed."""
        self._failures += 1
        self._stale_reads += is_stale

    async def wait_changed(self, since: int) -> None:
        """Wait until the version is greater than the given one.

        Raises:
            ValueError: The given version does not exist yet.
        """
        check_whole_number("since", since, least=0)
        if since > self.version:
            raise ValueError(f"the version is {self.version} and has never been {since}")
        await checkpoint()
        while self.version <= since:
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()

    def statistics(self) -> SharedStatistics:
        """Return the current statistics."""
        return SharedStatistics(
            reads=self.reads,
            writes=self._writes,
            compare_and_set_successes=self._successes,
            compare_and_set_failures=self._failures,
            stale_reads=self._stale_reads,
            version=self.version,
        )

    def _announce(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def refuse_coroutine(result: Result) -> Result:
    """Return the result of an update function, unless the function was async.

    Raises:
        TypeError: The function returned a coroutine.
    """
    if isinstance(result, Coroutine):
        cast("Coroutine[Any, Any, Any]", result).close()
        raise TypeError("an update takes a plain function: take a snapshot, await, then compare and set")
    return result


def find_shared_namespace(scope: NamespaceKind | None) -> Namespace:
    """Find the namespace of a shared cell or map.

    Args:
        scope: The innermost scope of this kind. None: the run around the caller, or the process outside a
            run.

    Raises:
        UnknownNamespaceError: No such scope encloses the caller.
    """
    if scope is not None:
        return find_namespace(scope)
    return next(each for each in find_namespace().outward() if each.kind in ("run", "process"))


Value = TypeVar("Value")


class SharedCell(Generic[Value]):
    """One shared value. Made directly to be passed around, or with a name by `shared_cell`.

    Args:
        initial: The first value.
    """

    def __init__(self, initial: Value) -> None:
        self._value = initial
        self._state = SharedState()

    def __deepcopy__(self, memo: object) -> "SharedCell[Value]":
        """Return itself: everything that holds it shares it, even as a task-local value."""
        return self

    def get(self) -> Value:
        """Return the value."""
        self._state.reads += 1
        return self._value

    def set(self, value: Value) -> Value:
        """Set the value, whatever its current value.

        Returns:
            The previous value.
        """
        previous, self._value = self._value, value
        self._state.count_write()
        return previous

    def snapshot(self) -> Snapshot[Value]:
        """Return the value with its version, for `compare_and_set`."""
        self._state.reads += 1
        return Snapshot(value=self._value, version=self._state.version, origin=self)

    def compare_and_set(self, expected: Snapshot[Value] | Value, value: Value) -> bool:
        """Set the value if it is still the expected one.

        Args:
            expected: A snapshot of this cell, valid until the cell is set; or a value, which matches if it
                is, or equals, the current one.
            value: The new value.

        Returns:
            Whether it was set.

        Raises:
            ValueError: The snapshot is of another object.
        """
        is_snapshot = isinstance(expected, Snapshot)
        if is_snapshot:
            snapshot = cast("Snapshot[Value]", expected)
            if snapshot.origin is not self:
                raise ValueError("the snapshot was not taken of this cell")
            is_expected = snapshot.version == self._state.version
        else:
            is_expected = self._value is expected or self._value == expected
        if not is_expected:
            self._state.count_failure(is_stale=is_snapshot)
            return False
        self._value = value
        self._state.count_success()
        return True

    def update(self, function: Callable[[Value], Value]) -> Value:
        """Set the value to the result of a function. A function that changes the cell itself is called again.

        Args:
            function: Takes the value and returns the new one. It is not async.

        Returns:
            The new value.

        Raises:
            TypeError: The function is async.
            UpdateConflictError: The function changed the cell 100 times in a row.
        """
        for _ in range(UPDATE_ATTEMPTS):
            snapshot = self.snapshot()
            value = refuse_coroutine(function(snapshot.value))
            if self.compare_and_set(snapshot, value):
                return value
        raise UpdateConflictError("the function of the update changes the cell that it updates")

    async def changed(self, *, since: int) -> Snapshot[Value]:
        """Wait for a change. If there were several changes since then, only the latest is seen.

        Args:
            since: The version after which a change counts, usually that of a snapshot.

        Returns:
            A newer snapshot.

        Raises:
            ValueError: The cell has not had this version yet.
        """
        await self._state.wait_changed(since)
        return self.snapshot()

    def statistics(self) -> SharedStatistics:
        """Return the current statistics."""
        return self._state.statistics()

    def __repr__(self) -> str:
        return f"<SharedCell {self._value!r}, version {self._state.version}>"


_CELLS: Family[SharedCell[Any]] = Family(title="shared cell")


def shared_cell(name: str, *, initial: Value, scope: NamespaceKind | None = None) -> SharedCell[Value]:
    """Return the shared cell of a name; make it when there is none.

    Args:
        name: The name.
        initial: The first value of a new cell; ignored if the cell exists.
        scope: The cell belongs to the innermost scope of this kind around the caller and ends with it. None:
            to the run around the caller, or to the process outside a run.

    Raises:
        NamespaceLeftError: The scope has ended.
        UnknownNamespaceError: No such scope encloses the caller.
    """
    return find_shared_namespace(scope).get_or_add(_CELLS, name, lambda: SharedCell(initial))
