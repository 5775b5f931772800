"""The mark beside a SQLite file: how many commits the file has to have.

A process that is killed leaves what it has committed in the write-ahead log beside the file. Whoever removes
the log, or puts an older copy of the file there, removes records without a trace in the file itself, and
effects would be made again without a word. So each commit counts up in the file, and then here.

The mark is for processes that end, not for power that fails: nothing waits for the disk. It is written after
its commit is durable, so on a disk that keeps what it has confirmed it is never ahead of the file.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout

from .errors import JournalStoreError

MIGRATION = ("CREATE TABLE store_commits (store TEXT NOT NULL, number BIGINT NOT NULL)",)
"""One row: the random id of the store, and the number of its commits."""

_MAGIC = b"nh-mark1"
_HEADER = Layout("<8s32s")
_NUMBER = Layout("<q")
_SLOTS = 256
_SIZE = _HEADER.size + _SLOTS * _NUMBER.size


class StoreMark:
    """The mark of one file, for one connection; used by the thread of its store alone.

    Each connection counts in a slot of its own, so that none takes back what another one has counted. The
    greatest number is the mark.

    Args:
        database: The file of the database.
        store: The id of the store.
    """

    def __init__(self, database: Path, store: str) -> None:
        self._database = database
        self._path = mark_path(database)
        self._store = store
        self._slot = secrets.randbelow(_SLOTS)
        self._file: int | None = None

    def note(self, number: int) -> None:
        """Note that the file has a commit. Where there is no room for a mark, there is none."""
        with suppress(OSError):
            if self._file is None:
                self._file = self._opened()
            offset = _HEADER.size + self._slot * _NUMBER.size
            if hasattr(os, "pwrite"):
                os.pwrite(self._file, _NUMBER.pack(number), offset)
            else:
                os.lseek(self._file, offset, os.SEEK_SET)
                os.write(self._file, _NUMBER.pack(number))

    def close(self) -> None:
        """Close the file; the mark stays."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _opened(self) -> int:
        """Open the mark of this store, or make it."""
        with suppress(FileNotFoundError):
            file = os.open(self._path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            if _store_of(os.read(file, _SIZE)) == self._store:
                return file
            os.close(file)
            self._path.unlink()  # it is one of another file that was there
        made = self._path.with_name(f"{self._path.name}-{secrets.token_hex(8)}")
        try:
            self._write_new(made)
            try:
                os.link(made, self._path)
            except FileExistsError:
                pass  # another process was faster
            except OSError:  # the file system has no links
                os.replace(made, self._path)
        finally:
            made.unlink(missing_ok=True)
        return os.open(self._path, os.O_RDWR | getattr(os, "O_BINARY", 0))

    def _write_new(self, path: Path) -> None:
        """Write an empty mark, whole: a file with holes could end the process on a full disk."""
        owned = os.stat(self._database)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            os.write(file, _HEADER.pack(_MAGIC, self._store.encode()).ljust(_SIZE, b"\0"))
            if hasattr(os, "fchmod"):
                os.fchmod(file, owned.st_mode & 0o777)
            if hasattr(os, "fchown") and os.geteuid() == 0:
                os.fchown(file, owned.st_uid, owned.st_gid)
        finally:
            os.close(file)


def mark_path(database: Path) -> Path:
    """The file of the mark of a database."""
    real = Path(os.path.realpath(database))  # where SQLite has the log
    return real.with_name(f"{real.name}-mark")


def read_mark(database: Path) -> tuple[str, int]:
    """Return the store that the mark beside a file belongs to, and its number; empty and 0 without one.

    Raises:
        JournalStoreError: There is a mark, and it cannot be read.
    """
    path = mark_path(database)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return "", 0
    except OSError as error:
        raise JournalStoreError(
            f"{path} cannot be read ({error}): it says how many commits {database.name} has to have. Give it "
            "the owner and the mode of that file."
        ) from error
    store = _store_of(content)
    if not store:
        return "", 0
    return store, max(number for (number,) in _NUMBER.iter_unpack(content[_HEADER.size : _SIZE]))


def _store_of(content: bytes) -> str:
    """The id of the store of a mark; empty for what is none, as after a loss of power."""
    if len(content) < _SIZE:
        return ""
    magic, store = _HEADER.unpack_from(content)
    return store.decode("ascii", "replace") if magic == _MAGIC else ""


def check_mark(database: Path, store: str, number: int, mark: tuple[str, int]) -> None:
    """Check that a file has all commits that its mark knows.

    Args:
        database: The file.
        store: The id of its store.
        number: The number of its commits, read after the mark.
        mark: The mark.

    Raises:
        JournalStoreError: Some are missing.
    """
    marked_store, expected = mark
    if marked_store != store or number >= expected:
        return
    raise JournalStoreError(
        f"{database} lacks its last {expected - number} commits: it has {number}, and {mark_path(database)} "
        f"knows of {expected}. Its log, {database.name}-wal, was removed or replaced, or an older copy of "
        "the file was put there. Nothing was done. Put the log or the file back. To go on from what is left, "
        "delete the mark: what is missing is then done again, effects too."
    )
