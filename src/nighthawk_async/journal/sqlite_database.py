"""Journals in a SQLite file."""

import os
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar

from .database import Database
from .errors import JournalStoreError
from .sqlite_files import begin_log, network_type
from .store_mark import StoreMark, check_mark, read_mark
from .tables import migrate

_BUSY_SECONDS = 30.0
_RELEASED_PAGES = 1_000  # at a time
_INCREMENTAL = 2


class _Transaction:
    """A transaction; no generator, because each step of a run comes here."""

    __slots__ = ("_begin", "_changes", "_commit", "_roll_back")

    def __init__(
        self, begin: Callable[[], int], commit: Callable[[int], None], roll_back: Callable[[], None]
    ) -> None:
        self._begin = begin
        self._commit = commit
        self._roll_back = roll_back

    def __enter__(self) -> None:
        self._changes = self._begin()

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        if exc_type is not None:
            self._roll_back()
            return
        try:
            self._commit(self._changes)
        except BaseException:
            self._roll_back()
            raise


class SqliteDatabase(Database):
    """A connection to a SQLite file with a write-ahead log.

    Args:
        path: The file. It is created for its owner alone if it is not there; otherwise it keeps its mode.
    """

    NOW = "((julianday('now') - 2440587.5) * 86400.0)"
    FOR_UPDATE = FOR_UPDATE_OF_FREE = ""  # a transaction has the file for itself
    SCHEMA_WORDS: ClassVar[Mapping[str, str]] = {
        "real": "REAL",
        "bytes": "BLOB",
        "blob_mark": "x'c102'",
        "table_options": " WITHOUT ROWID",
        "place": "place",
    }

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._name = os.fspath(path)  # for each transaction, which would make it anew
        _create_for_owner(path)
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._file = self._find_file()
        self._mark: StoreMark | None = None
        self._commits = self._noted = 0

    def prepare(self) -> None:
        """Make commits durable, and bring the schema up to date.

        Raises:
            JournalStoreError: Commits cannot be durable there, the schema is one of a newer version, or
                commits are missing.
        """
        mark = read_mark(self._path)  # before the number of the file, which other processes raise
        if not self._connection.execute("PRAGMA page_count").fetchone()[0]:
            # Of a new file only, and before it gets its write-ahead log: in another one this is a change.
            self._connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        mode = begin_log(self._connection, _BUSY_SECONDS)
        self._connection.execute("PRAGMA synchronous = FULL")
        if mode != "wal":
            raise JournalStoreError(
                f"{self._path} cannot have a write-ahead log there (its journal mode is {mode!r}): use a "
                "file on a disk of this machine, not in memory and not on a network file system."
            )
        migrate(self, str(self._path))
        self._begin_counting(mark)

    def _begin_counting(self, mark: tuple[str, int]) -> None:
        """Check the mark of the file, and count its commits from now on."""
        if not self.query("SELECT 1 FROM sqlite_master WHERE name = 'store_commits'"):
            return  # it is kept in an earlier version, as by tests of migrations
        rows = self.query("SELECT store, number FROM store_commits")
        if not rows:
            with self.transaction():
                rows = self.query("SELECT store, number FROM store_commits")
                if not rows:
                    rows = [(uuid.uuid4().hex, 0)]
                    self.change("INSERT INTO store_commits (store, number) VALUES (?, ?)", *rows[0])
            # Into the file itself: without its log it has to be known as the file that the mark belongs to.
            self._empty_log()
        ((store, number),) = rows
        check_mark(self._path, store, number, mark)
        self._commits = self._noted = number
        self._mark = StoreMark(self._path, store)

    def query(self, statement: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query. Damaged texts have other characters than any that were stored."""
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.OperationalError as error:
            if "Could not decode to UTF-8" not in str(error):
                raise
        self._connection.text_factory = _readable
        try:
            return self._connection.execute(statement, parameters).fetchall()
        finally:
            self._connection.text_factory = str

    def change(self, statement: str, *parameters: object) -> int:
        """Carry a statement out; see `Database`."""
        return self._connection.execute(statement, parameters).rowcount

    def change_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Carry a statement out for each row of parameters."""
        self._connection.executemany(statement, rows)

    def transaction(self) -> AbstractContextManager[None]:
        """Make the `with` statement one transaction.

        Raises:
            JournalStoreError: The file is not there any more: nobody would find what is written to it.
        """
        return _Transaction(self._begin, self._commit, self._roll_back)

    def _begin(self) -> int:
        """Begin a transaction, and return the number of changes before it."""
        if self._find_file() != self._file:
            raise JournalStoreError(f"{self._path} was moved, replaced or deleted while it was in use.")
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection.total_changes

    def _commit(self, changes: int) -> None:
        commits = self._commits
        if self._mark is not None and self._connection.total_changes != changes:
            commits = self._count_commit()
        self._connection.execute("COMMIT")
        self._commits = commits

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _count_commit(self) -> int:
        """Count the commit of the transaction in progress; return its number."""
        count = "UPDATE store_commits SET number = ? WHERE number = ?"
        if self.change(count, self._commits + 1, self._commits) != 1:  # another process has committed, too
            ((self._commits,),) = self.query("SELECT number FROM store_commits")
            self.change(count, self._commits + 1, self._commits)
        return self._commits + 1

    def note_commits(self) -> None:
        """Note in the mark beside the file how many commits there are; see `store_mark`."""
        if self._mark is not None and self._commits != self._noted:
            self._mark.note(self._commits)
            self._noted = self._commits

    def limit_transactions(self, seconds: float) -> None:
        """Without effect: there is no server."""

    def lock(self, table: str) -> None:
        """Nothing: a transaction has the file for itself."""

    def release_space(self) -> bool:
        """Give some unused pages back; at the end, the write-ahead log is emptied, too."""
        if not self.releases_space:
            return False
        self._connection.execute(f"PRAGMA incremental_vacuum({_RELEASED_PAGES})").fetchall()
        if self._connection.execute("PRAGMA freelist_count").fetchone()[0]:
            return True
        self._empty_log()
        return False

    def purge(self, tables: Sequence[str]) -> bool:
        """Write the whole file anew, and empty its write-ahead log; see `Database`."""
        try:
            self._connection.execute("VACUUM")
            ((is_busy, *_),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return False
        return not is_busy

    def _empty_log(self) -> None:
        self._connection.execute("PRAGMA busy_timeout = 0")  # while others read, the log stays as it is
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1_000:.0f}")

    @property
    def releases_space(self) -> bool:
        """Whether the file was made with `auto_vacuum`, which cannot be changed later without `VACUUM`."""
        return self._connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL

    def _find_file(self) -> tuple[int, int] | None:
        """The identity of the file at the path; None for none."""
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def read_schema_version(self) -> int:
        """Return the version of the schema; see `Database`."""
        return self._connection.execute("PRAGMA user_version").fetchone()[0]

    def write_schema_version(self, version: int) -> None:
        """Set the version of the schema."""
        self._connection.execute(f"PRAGMA user_version = {version}")

    @property
    def is_broken(self) -> bool:
        """False: a later attempt may succeed."""
        return False

    def close(self) -> None:
        """Close the connection."""
        self.note_commits()
        if self._mark is not None:
            self._mark.close()
        self._connection.close()


def _create_for_owner(path: Path) -> None:
    """Create a file that its owner alone can read, if there is none; SQLite makes its other files like it."""
    with suppress(OSError):  # it is there, or cannot be made, which the connection says
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _readable(text: bytes) -> str:
    return text.decode(errors="replace")


def open_sqlite(path: Path) -> SqliteDatabase:
    """Open the file of a store, or create it.

    Raises:
        JournalStoreError: It is no such file, is one of a newer version, or cannot be written durably there.
    """
    network = network_type(path)
    if network is not None:
        raise JournalStoreError(
            f"{path} is on a network file system ({network}), where SQLite cannot keep it safe: put the "
            "journal on a disk of this machine, or in PostgreSQL."
        )
    try:
        database = SqliteDatabase(path)
        try:
            database.prepare()
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise JournalStoreError(f"{path} cannot be opened as a journal: {error}") from error
    return database
