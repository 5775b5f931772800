"""Stores by what a program has of one: a path, an address, or the store itself."""

import os
from types import TracebackType
from typing import TypeAlias

import anyio
from anyio import to_thread

from ..errors import NighthawkError
from ..journal_ports import OpenedJournal, RunJournal, RunOpener
from .addresses import read_address
from .store import JournalStore, open as open_store

StoreLocation: TypeAlias = str | os.PathLike[str]
"""The path of a SQLite file, or an address; see `nighthawk_async.journal.open`."""


def store_at(store: JournalStore | StoreLocation) -> JournalStore:
    """Return a store, which is opened if its path or address is given.

    It is then open until the process ends, or until it is closed.

    Args:
        store: The store, its path, or its address.

    Raises:
        ConfigurationError: It is no address of a store, or an extra is not installed.
        NighthawkError: It is none of these.
    """
    if isinstance(store, str | os.PathLike):
        return open_store(store)
    if not callable(getattr(store, "open_run", None)):
        raise NighthawkError(
            "journal must be a path, an address, or a store that nighthawk_async.journal.open made, "
            f"not {store!r}"
        )
    return store


class LocatedStore(RunOpener):
    """The store at a path or address, which is opened for each life of a run, and closed after it.

    Args:
        location: The path or address.

    Raises:
        ConfigurationError: It is no address of a store, or an extra is not installed.
    """

    def __init__(self, location: StoreLocation) -> None:
        read_address(location)
        self._location = location

    def open_run(self, run_id: str, park_after: float | None = None) -> OpenedJournal:
        """Open the store, and the journal of a run; see `journal_ports.RunOpener`."""
        store = open_store(self._location)
        return _OwnStoreRun(store, store.open_run(run_id, park_after))


class _OwnStoreRun(OpenedJournal):
    """The journal of a run in a store of its own."""

    def __init__(self, store: JournalStore, opened: OpenedJournal) -> None:
        self._store = store
        self._opened = opened

    def __enter__(self) -> RunJournal:
        try:
            return self._opened.__enter__()
        except BaseException:
            self._store.close()
            raise

    async def __aenter__(self) -> RunJournal:
        try:
            return await self._opened.__aenter__()
        except BaseException:
            await self._close()
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._opened.__exit__(exc_type, exc, traceback)
        finally:
            self._store.close()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._opened.__aexit__(exc_type, exc, traceback)
        finally:
            await self._close()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):  # bounded by the store
            await to_thread.run_sync(self._store.close)
