"""A value that tasks share on purpose: snapshots with versions, and compare-and-set.

    budget = shared_cell("tokens", initial=0)
    budget.update(lambda tokens: tokens + 1)                # at once: no other task comes between

    while True:                                             # with an await between reading and writing
        snapshot = budget.snapshot()
        planned = await plan(snapshot.value)
        if budget.compare_and_set(snapshot, planned):
            break

Versions tell a value that stayed from one that was changed and changed back (the ABA case).

Values are held as they are, not copied: put immutable ones in. A list inside a cell is changed by whoever
holds it, and the cell does not notice. Everything happens on one event loop: other threads come in through
`anyio.from_thread`.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

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

__all__ = ["SharedCell", "shared_cell"]

Value = TypeVar("Value")


class SharedCell(Generic[Value]):
    """One shared value. Made by hand for those it is handed to, or with a name by `shared_cell`.

    Args:
        initial: The first value.
    """

    def __init__(self, initial: Value) -> None:
        self._value = initial
        self._state = SharedState()

    def __deepcopy__(self, memo: object) -> "SharedCell[Value]":
        """Itself: it is shared by those who hold it, also as a task-local value."""
        return self

    def get(self) -> Value:
        """The value."""
        self._state.reads += 1
        return self._value

    def set(self, value: Value) -> Value:
        """Set the value, whatever it is now.

        Returns:
            The previous value.
        """
        previous, self._value = self._value, value
        self._state.count_write()
        return previous

    def snapshot(self) -> Snapshot[Value]:
        """The value with its version, for `compare_and_set`."""
        self._state.reads += 1
        return Snapshot(value=self._value, version=self._state.version, origin=self)

    def compare_and_set(self, expected: Snapshot[Value] | Value, value: Value) -> bool:
        """Set the value if it is still the expected one.

        Args:
            expected: A snapshot of this cell, which holds until anything is set; or a value, which holds
                when it is, or equals, the present one.
            value: The new value.

        Returns:
            Whether it was set.

        Raises:
            ValueError: The snapshot was taken of something else.
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
        """Set what a function makes of the value. A function that changes the cell itself is asked again.

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
        """Wait for a change. Of several changes since then, only the latest is seen.

        Args:
            since: The version after which a change counts, usually that of a snapshot.

        Returns:
            A snapshot that is newer.

        Raises:
            ValueError: The cell has not had this version yet.
        """
        await self._state.wait_changed(since)
        return self.snapshot()

    def statistics(self) -> SharedStatistics:
        """Figures at this moment."""
        return self._state.statistics()

    def __repr__(self) -> str:
        return f"<SharedCell {self._value!r}, version {self._state.version}>"


_CELLS: Family[SharedCell[Any]] = Family(title="shared cell")


def shared_cell(name: str, *, initial: Value, scope: NamespaceKind | None = None) -> SharedCell[Value]:
    """The shared cell of a name, made when there is none.

    Args:
        name: The name.
        initial: The first value of a new cell; a cell that exists keeps its own.
        scope: The cell belongs to the innermost extent of this kind around the caller and ends with it. None:
            to the run around the caller, without one to the process.

    Raises:
        NamespaceLeftError: The extent has ended.
        UnknownNamespaceError: No such extent surrounds the caller.
    """
    return find_shared_namespace(scope).get_or_add(_CELLS, name, lambda: SharedCell(initial))
