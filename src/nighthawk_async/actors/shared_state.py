"""Common parts of shared cells and maps: versions, statistics, waits for a change.

It knows nothing of the values.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint

from .argument_checks import check_whole_number
from .namespaces import Namespace, NamespaceKind, find_namespace

__all__ = [
    "UPDATE_ATTEMPTS",
    "SharedState",
    "SharedStatistics",
    "Snapshot",
    "find_shared_namespace",
    "refuse_coroutine",
]

Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")

UPDATE_ATTEMPTS = 100
"""How often an update is tried whose function changes what it updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[Value_co]):
    """A value and the version it had when it was read.

    Args:
        value: The value itself, not a copy. None when there was none.
        version: Grows with every change, also with one that sets an equal value. Versions may be compared;
            their differences mean nothing.
        is_present: Whether there was a value. A cell always has one; a key of a map may have none.
        origin: What was read.
    """

    value: Value_co
    version: int
    is_present: bool = True
    origin: object = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatistics:
    """Figures of a shared cell or map at one moment.

    Args:
        reads: How often something was read.
        writes: How often something was set or deleted without a comparison.
        compare_and_set_successes: Comparisons that held, so that something was set.
        compare_and_set_failures: Comparisons that did not hold, so that nothing was set.
        stale_reads: How many of these failed because a snapshot was out of date, whatever the value.
        version: The version of the latest change: the sum of `writes` and `compare_and_set_successes`.
    """

    reads: int
    writes: int
    compare_and_set_successes: int
    compare_and_set_failures: int
    stale_reads: int
    version: int


class SharedState:
    """The version of a cell or map, and what is counted. Not for several threads."""

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
        """Note a change without a comparison, and wake those who wait; gives its version."""
        self._writes += 1
        self._announce()
        return self.version

    def count_success(self) -> int:
        """Note a change after a comparison, and wake those who wait; gives its version."""
        self._successes += 1
        self._announce()
        return self.version

    def count_failure(self, *, is_stale: bool) -> None:
        """Note a comparison that did not hold."""
        self._failures += 1
        self._stale_reads += is_stale

    async def wait_changed(self, since: int) -> None:
        """Wait until the version is greater than a given one.

        Raises:
            ValueError: The given version has never been.
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
        """Figures at this moment."""
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
        TypeError: It gave a coroutine.
    """
    if isinstance(result, Coroutine):
        cast("Coroutine[Any, Any, Any]", result).close()
        raise TypeError("an update takes a plain function: take a snapshot, await, then compare and set")
    return result


def find_shared_namespace(scope: NamespaceKind | None) -> Namespace:
    """The namespace of a shared cell or map.

    Args:
        scope: The innermost extent of this kind. None: the run around the caller, without one the process.

    Raises:
        UnknownNamespaceError: No such extent surrounds the caller.
    """
    if scope is not None:
        return find_namespace(scope)
    return next(each for each in find_namespace().outward() if each.kind in ("run", "process"))
