"""A store of responses in a SQLite file that several processes of one machine share."""

import os
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..lazy_exports import LazyModule
from .errors import InvalidPolicyError, ResponseStoreError
from .response_stores import ResponseStore, ResponseStoreStatistics

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = LazyModule("sqlite3")  # most programs have no file of responses

_BUSY_SECONDS = 5.0
_APPLICATION_ID = 0x6E686163
_VERSION = 1


class SqliteStore(ResponseStore):
    """Responses in a SQLite file, which several processes of one machine may use at once.

    The file is opened when the cache is entered. It holds no requests, and no keys that the library knows.

    Args:
        path: The file; it is created if it is not there.
        max_entries: The greatest number of responses; None for any. Those used longest ago go first.
        max_bytes: The greatest size of all responses together, in bytes; None for any.
        max_age_seconds: The seconds for which a response is used; None for as long as it is kept.

    Raises:
        InvalidPolicyError: An argument is invalid.
    """

    blocks = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_entries: int | None = None,
        max_bytes: int | None = 1_000_000_000,
        max_age_seconds: float | None = None,
    ) -> None:
        super().__init__(max_entries=max_entries, max_bytes=max_bytes, max_age_seconds=max_age_seconds)
        self.path = checked_path(path)
        self._database_lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._inherited: list[sqlite3.Connection] = []  # of the process that this one was forked from

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file, and the limits."""
        limits = {
            "max_entries": self.max_entries,
            "max_bytes": self.max_bytes,
            "max_age_seconds": self.max_age_seconds,
        }
        return partial(SqliteStore, **limits), (self.path.absolute(),)

    def __repr__(self) -> str:
        return f"<response store {str(self.path)!r}>"

    def open(self) -> None:
        """Open the file, or create it.

        Raises:
            ResponseStoreError: It is no such file, is of another version, or lies where SQLite cannot keep
                it safe.
        """
        with self._database_lock:
            self._open()

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        with self._database_lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()

    def find(self, digest: bytes) -> bytes | None:
        """Return the body of a request; see `ResponseStore`."""
        found: bytes | None = None
        with self._using() as connection:
            query = "SELECT CAST(body AS BLOB), CAST(kept_at AS REAL) FROM responses WHERE digest = ?"
            row = connection.execute(query, (digest,)).fetchone()
            if row is not None and not self._is_fresh(row[1]):
                connection.execute("DELETE FROM responses WHERE digest = ?", (digest,))
            elif row is not None:
                found = row[0]
                if self.max_entries is not None or self.max_bytes is not None:
                    connection.execute(f"UPDATE responses SET used = {_NEXT_USE} WHERE digest = ?", (digest,))
        return found  # also when its use could not be written down

    def keep(self, digest: bytes, body: bytes) -> None:
        """Keep a body; see `ResponseStore`."""
        if self._is_too_large(body):
            return
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(
                    f"INSERT OR REPLACE INTO responses VALUES (?, ?, {_NEXT_USE}, ?, ?)",
                    (digest, time.time(), len(body), body),
                )
                self._make_room(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def remove(self, digest: bytes) -> None:
        """Remove the body of a request."""
        with self._using() as connection:
            connection.execute("DELETE FROM responses WHERE digest = ?", (digest,))

    def clear(self) -> None:
        """Remove all responses, for every process that uses the file.

        Raises:
            ResponseStoreError: The file cannot be used.
        """
        with self._database_lock, _explained(self.path):
            self._open().execute("DELETE FROM responses")

    def statistics(self) -> ResponseStoreStatistics:
        """Return a snapshot of the contents.

        Raises:
            ResponseStoreError: The file cannot be used.
        """
        with self._database_lock, _explained(self.path):
            entries, size = self._open().execute(_TOTALS).fetchone()
        return ResponseStoreStatistics(entries=entries, bytes=size)

    @contextmanager
    def _using(self) -> Generator["sqlite3.Connection", None, None]:
        """Use the file during the `with` statement, which ends early, with a warning, when it fails."""
        with self._database_lock:
            try:
                yield self._open()
            except (sqlite3.Error, ResponseStoreError) as error:
                self.warn(error)

    def _open(self) -> "sqlite3.Connection":
        if self._connection is not None and self._process != os.getpid():
            self._inherited.append(self._connection)  # closing it here would harm the other process
            self._connection = None
        if self._connection is None:
            self._connection, self._process = _connect(self.path), os.getpid()
            weakref.finalize(self, _close, self._connection, self._process)
        return self._connection

    def _make_room(self, connection: "sqlite3.Connection") -> None:
        if self.max_entries is None and self.max_bytes is None:
            return
        entries, size = connection.execute(_TOTALS).fetchone()
        oldest = connection.execute("SELECT digest, size FROM responses ORDER BY used")
        gone: list[tuple[bytes]] = []
        while (self.max_entries is not None and entries > self.max_entries) or (
            self.max_bytes is not None and size > self.max_bytes
        ):
            digest, freed = oldest.fetchone()
            gone.append((digest,))
            entries, size = entries - 1, size - freed
        oldest.close()
        connection.executemany("DELETE FROM responses WHERE digest = ?", gone)


_NEXT_USE = "(SELECT coalesce(max(used), 0) + 1 FROM responses)"
_TOTALS = "SELECT count(*), coalesce(sum(size), 0) FROM responses"
_SIGNS_OF_USE = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
_SCHEMA = """
CREATE TABLE responses (
    digest BLOB PRIMARY KEY, kept_at REAL NOT NULL, used INTEGER NOT NULL, size INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX responses_by_use ON responses (used, size, digest);
"""


def checked_path(path: object) -> Path:
    """Return the path of a file of responses; a URL `sqlite:///…` names one, too.

    Args:
        path: The path.

    Raises:
        InvalidPolicyError: It is none.
    """
    if not isinstance(path, str | Path) and not hasattr(path, "__fspath__"):
        raise InvalidPolicyError(f"the store of responses needs the path of a file, not {path!r}")
    text = os.fsdecode(cast("str | os.PathLike[str]", path))
    text = text.removeprefix("sqlite:///")
    if not text or "://" in text or text == ":memory:":
        raise InvalidPolicyError(
            f"the store of responses needs the path of a SQLite file, not {path!r}; in memory, use "
            "MemoryStore()"
        )
    return Path(text).absolute()


def _close(connection: "sqlite3.Connection", process: int) -> None:
    if process == os.getpid():
        connection.close()


@contextmanager
def _explained(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ResponseStoreError(f"{path} cannot be used as a store of responses: {error}") from error


def _connect(path: Path) -> "sqlite3.Connection":
    from ..journal.sqlite_files import begin_log, network_type  # here, because stores in memory have no file

    network = network_type(path)
    if network is not None:
        raise ResponseStoreError(
            f"{path} is on a network file system ({network}), where SQLite cannot keep it safe: put the "
            "responses on a disk of this machine."
        )
    with _explained(path):
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, path)
            if (mode := begin_log(connection, _BUSY_SECONDS)) != "wal":
                raise ResponseStoreError(
                    f"{path} cannot have a write-ahead log there (its journal mode is {mode!r}): use a file "
                    "on a disk of this machine."
                )
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: "sqlite3.Connection", path: Path) -> None:
    """Check a file, and make its table where it is new. Processes that create it wait for each other."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not any(connection.execute(query).fetchone()[0] for query in _SIGNS_OF_USE):
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if application != _APPLICATION_ID:
        raise ResponseStoreError(f"{path} is the file of something else: choose another path for responses.")
    if version != _VERSION:
        raise ResponseStoreError(
            f"{path} was written by another version of nighthawk-async (its form is {version}, here it is "
            f"{_VERSION}): delete it, or choose another path."
        )
