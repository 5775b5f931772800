"""Stores of response caches: their base, and the one in memory. `sqlite_store` has the one in a file.

A store keeps bodies by the digest of their request, never the request itself. It forgets the entries that
were used longest ago first. A store that fails, or an entry that is damaged, costs a request to the model and
one warning, and never a run.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from .transforming import checked_count, checked_seconds

_LOGGER = logging.getLogger("nighthawk")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStoreStatistics:
    """A snapshot of the contents of a store of responses.

    Args:
        entries: The number of responses.
        bytes: Their size.
    """

    entries: int
    bytes: int


class ResponseStore(ABC):
    """A store of responses; any thread may use it.

    Args:
        max_entries: The greatest number of responses; None for any.
        max_bytes: The greatest size of all responses together, in bytes; None for any.
        max_age_seconds: The seconds for which a response is used; None for ever.

    Raises:
        InvalidPolicyError: An argument is invalid.
    """

    blocks: ClassVar[bool] = False
    """Whether it waits for a disk, so that it is used in worker threads."""

    def __init__(
        self, *, max_entries: int | None, max_bytes: int | None, max_age_seconds: float | None
    ) -> None:
        self.max_entries = None if max_entries is None else checked_count("max_entries", max_entries)
        self.max_bytes = None if max_bytes is None else checked_count("max_bytes", max_bytes)
        self.max_age_seconds = (
            None if max_age_seconds is None else checked_seconds("max_age_seconds", max_age_seconds)
        )
        self._lock = threading.Lock()
        self._has_warned = False

    @abstractmethod
    def open(self) -> None:
        """Get ready, so that mistakes are reported before the first request.

        Raises:
            ResponseStoreError: The store cannot be used.
        """

    @abstractmethod
    def find(self, digest: bytes) -> bytes | None:
        """Return the body of a request; None for none, and for one that is too old."""

    @abstractmethod
    def keep(self, digest: bytes, body: bytes) -> None:
        """Keep a body, and remove what there is no room for any more."""

    @abstractmethod
    def remove(self, digest: bytes) -> None:
        """Remove the body of a request."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all responses."""

    @abstractmethod
    def statistics(self) -> ResponseStoreStatistics:
        """Return a snapshot of the contents."""

    def warn(self, problem: object) -> None:
        """Report, once for each store, that it cannot be used as it should.

        Args:
            problem: The problem.
        """
        with self._lock:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            _LOGGER.warning("%r: %s; models are asked instead", self, problem)

    def _is_too_large(self, body: bytes) -> bool:
        return self.max_bytes is not None and len(body) > self.max_bytes

    def _is_fresh(self, kept_at: float) -> bool:
        return self.max_age_seconds is None or time.time() - kept_at < self.max_age_seconds


class _Kept(Struct, frozen=True):
    body: bytes
    kept_at: float


class MemoryStore(ResponseStore):
    """Responses in the memory of the process.

    Args:
        max_entries: The greatest number of responses; None for any. Those used longest ago go first.
        max_bytes: The greatest size of all responses together, in bytes; None for any.
        max_age_seconds: The seconds for which a response is used; None for as long as it is kept.

    Raises:
        InvalidPolicyError: An argument is invalid.
    """

    def __init__(
        self,
        *,
        max_entries: int | None = None,
        max_bytes: int | None = 100_000_000,
        max_age_seconds: float | None = None,
    ) -> None:
        super().__init__(max_entries=max_entries, max_bytes=max_bytes, max_age_seconds=max_age_seconds)
        self._entries: OrderedDict[bytes, _Kept] = OrderedDict()
        self._bytes = 0

    @property
    def local_only_reason(self) -> str:
        """The reason why workers cannot have it."""
        return (
            "it is in the memory of this process. Give it a file, as in "
            "resilience.cached(store='responses.db'), which processes of one machine share."
        )

    def __repr__(self) -> str:
        return "<response store in memory>"

    def open(self) -> None:
        """Do nothing."""

    def find(self, digest: bytes) -> bytes | None:
        """Return the body of a request; see `ResponseStore`."""
        with self._lock:
            kept = self._entries.get(digest)
            if kept is None:
                return None
            if not self._is_fresh(kept.kept_at):
                self._remove(digest)
                return None
            self._entries.move_to_end(digest)
            return kept.body

    def keep(self, digest: bytes, body: bytes) -> None:
        """Keep a body; see `ResponseStore`."""
        if self._is_too_large(body):
            return
        with self._lock:
            self._remove(digest)
            self._entries[digest] = _Kept(body, time.time())
            self._bytes += len(body)
            while self._is_over():
                self._remove(next(iter(self._entries)))

    def remove(self, digest: bytes) -> None:
        """Remove the body of a request."""
        with self._lock:
            self._remove(digest)

    def clear(self) -> None:
        """Remove all responses."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def statistics(self) -> ResponseStoreStatistics:
        """Return a snapshot of the contents."""
        with self._lock:
            return ResponseStoreStatistics(entries=len(self._entries), bytes=self._bytes)

    def _remove(self, digest: bytes) -> None:
        kept = self._entries.pop(digest, None)
        self._bytes -= 0 if kept is None else len(kept.body)

    def _is_over(self) -> bool:
        is_over = self.max_entries is not None and len(self._entries) > self.max_entries
        return is_over or (self.max_bytes is not None and self._bytes > self.max_bytes)
