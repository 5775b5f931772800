"""Files below a folder, and nothing outside of it.

Each part of a path is opened below the folder before it, without following links, and links are followed by
hand. So a link that is put in place between a check and its use leads nowhere: there is no such time between.

Source: the rules of `openat2(2)` with RESOLVE_BENEATH, which Python does not offer.
"""

import errno
import os
import stat
import sys
import threading
import unicodedata
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .errors import ConfigurationError, NighthawkError
from .pickling import set_public_module
from .sealed_attributes import Sealed, SealedState

_MOST_LINKS = 40
_MOST_DEPTH = 100
_FOLDER = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FILE = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TEMPORARY = ".nighthawk-"
PROTECTED = ".git"
"""The name of folders and files that are never changed, nor are repositories that have another name."""


class LibraryError(NighthawkError):
    """A function of the library was used in a way that it refuses."""


class WorkspaceError(LibraryError):
    """A file of a workspace cannot be read or written. Nothing was changed."""


class OutsideWorkspaceError(WorkspaceError):
    """A path leads out of the workspace, directly or over a symbolic link."""


set_public_module("library", globals())


class FoundFile(NamedTuple):
    """A file below the folder.

    Args:
        path: Its path below the folder, without links.
        size: Its size, in bytes.
    """

    path: str
    size: int


class _Place(NamedTuple):
    """An opened folder, and the name of something in it, which is no link."""

    folder: int
    name: str
    path: str
    folders: list[int]
    """The opened folders of its path, from the root on."""


class ConfinedFiles(SealedState):
    """The files below a folder.

    Args:
        root: The folder. Links in its own path are followed once, here.
        find_refusal: Returns the reason why a file, given by its path below the folder, is neither read,
            written nor listed; None for other files. The path of a folder ends with a slash.

    Raises:
        ConfigurationError: It is no folder, or the system cannot confine paths.
    """

    root = Sealed[Path]()
    _find_refusal = Sealed[Callable[[str], str | None] | None](default=None)

    def __init__(
        self, root: str | os.PathLike[str], find_refusal: Callable[[str], str | None] | None = None
    ) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ConfigurationError(
                f"a workspace needs a system that can open files below a folder, not {sys.platform}"
            )
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ConfigurationError(f"the folder of a workspace does not exist: {self.root}")
        self._find_refusal = find_refusal

    def read(self, path: str, most_bytes: int) -> bytes:
        """Read a file.

        Raises:
            OutsideWorkspaceError: The path leads out of the folder.
            WorkspaceError: There is no such file, it is no regular file, or too large.
        """
        with self._place(path) as place:
            return _read(place, most_bytes)

    def write(self, path: str, content: bytes, *, makes: bool, mode: int | None = None) -> str:
        """Write a file at once: readers see all of the old content or all of the new one.

        Args:
            path: The file.
            content: The content.
            makes: Whether the file must not exist yet; folders that are missing are made. Else it must exist.
            mode: The mode of a new file; None for that of the system. An existing file keeps its own.

        Returns:
            Its path below the folder, without links.

        Raises:
            OutsideWorkspaceError: The path leads out of the folder.
            WorkspaceError: It cannot be written.
        """
        with self._place(path, makes_folders=makes) as place:
            _check_unprotected(place)
            existing = _mode_of(place)
            if makes and existing is not None:
                raise WorkspaceError(f"{path} exists")
            if not makes and existing is None:
                raise WorkspaceError(f"{path}: no such file")
            _replace(place, content, mode if makes else existing, must_be_new=makes)
            return place.path

    def delete(self, path: str) -> None:
        """Remove a file.

        Raises:
            OutsideWorkspaceError: The path leads out of the folder.
            WorkspaceError: There is no such file, or it is no regular file.
        """
        with self._place(path) as place:
            _check_unprotected(place)
            if _mode_of(place) is None:
                raise WorkspaceError(f"{path}: no such file")
            with _system_errors(path):
                os.unlink(place.name, dir_fd=place.folder)

    def mode(self, path: str) -> int | None:
        """The mode of a regular file; None where there is nothing.

        Raises:
            OutsideWorkspaceError: The path leads out of the folder.
            WorkspaceError: There is something else.
        """
        try:
            with self._place(path) as place:
                return _mode_of(place)
        except _MissingFolderError:
            return None

    def real_path(self, path: str) -> str:
        """The path of a file below the folder, without links; it need not exist, nor its folders."""
        try:
            with self._place(path) as place:
                return place.path
        except _MissingFolderError:
            return str(PurePosixPath(path))

    def names(self, path: str, skipped: frozenset[str]) -> list[str]:
        """The names in a folder, sorted; those of folders end with a slash.

        Args:
            path: The folder.
            skipped: The names that are left out.

        Raises:
            OutsideWorkspaceError: The path leads out of the folder.
            WorkspaceError: There is no such folder.
        """
        walker = _Walker(self.root, path, makes_folders=False)
        try:
            self._check_allowed(path, f"{walker.named_path}/")
            opened = walker.walk_to_folder()
            folder = walker.path
            self._check_allowed(path, f"{folder}/")
            with _system_errors(path), os.scandir(opened) as entries:
                names = [
                    f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                    for entry in entries
                    if entry.name not in skipped and not entry.name.startswith(_TEMPORARY)
                ]
        finally:
            walker.close()
        return sorted(name for name in names if not self._hides(f"{folder}/{name}"))

    def walk(self, skipped: frozenset[str]) -> Iterator[FoundFile]:
        """All regular files below the folder, in the order of their paths.

        Links are not followed, nor more than 100 folders within each other.

        Args:
            skipped: The names of folders that are left out.
        """
        for folder, folders, files, opened in os.fwalk(self.root, follow_symlinks=False):
            relative = os.path.relpath(folder, self.root)
            folders[:] = sorted(
                name for name in folders if name not in skipped and not self._hides(f"{relative}/{name}/")
            )
            if relative.count("/") >= _MOST_DEPTH:  # each open folder takes a descriptor, and a frame
                folders.clear()
            for name in sorted(files):
                if name.startswith(_TEMPORARY) or self._hides(f"{relative}/{name}"):
                    continue
                with suppress(OSError):
                    facts = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode):
                        path = name if relative == "." else f"{relative}/{name}"
                        yield FoundFile(path, facts.st_size)

    @contextmanager
    def locked(self, *paths: str) -> Generator[None, None, None]:
        """Let nobody else of this process change some files during the `with` statement."""
        keys = sorted({str(self.root / self.real_path(path)) for path in paths})
        with ExitStack() as stack:
            for lock in [_lock_of(key) for key in keys]:  # in one order, so that nobody waits for each other
                stack.enter_context(lock)
            yield

    @contextmanager
    def _place(self, path: str, *, makes_folders: bool = False) -> Generator[_Place, None, None]:
        """Open the folder of a path, and follow all links."""
        walker = _Walker(self.root, path, makes_folders=makes_folders)
        try:
            self._check_allowed(path, walker.named_path)
            place = walker.walk()
            self._check_allowed(path, place.path)
            yield place
        finally:
            walker.close()

    def _hides(self, path: str) -> bool:
        return self._find_refusal is not None and self._find_refusal(path) is not None

    def _check_allowed(self, given: str, path: str) -> None:
        """Refuse a file by the path that was given, before it is looked at, or by that without links."""
        refusal = None if self._find_refusal is None else self._find_refusal(path)
        if refusal is not None:
            raise WorkspaceError(f"{given} {refusal}")


class _MissingFolderError(WorkspaceError):
    """A folder of a path does not exist."""


class _Walker:
    """Walks a path from the folder on, one part at a time.

    Args:
        root: The folder.
        path: The path, relative to it, or absolute below it.
        makes_folders: Whether to make folders that are missing.
    """

    def __init__(self, root: Path, path: str, *, makes_folders: bool) -> None:
        self._root = root
        self._path = path
        self._makes_folders = makes_folders
        self._opened: list[int] = []
        self._names: list[str] = []
        self._links = 0

    @property
    def named_path(self) -> str:
        """The path below the folder as it was given, with links."""
        return os.path.normpath("/".join(self._parts_below(self._path)))

    @property
    def path(self) -> str:
        """The path below the folder so far, without links."""
        return "/".join(self._names)

    def close(self) -> None:
        for opened in self._opened:
            os.close(opened)
        self._opened.clear()

    def walk(self) -> _Place:
        """Open the folder of a file."""
        last = self._walk(enters_last=False)
        if last is None:
            raise WorkspaceError(f"{self._path} is a folder")
        path = "/".join([*self._names, last])
        return _Place(self._opened[-1], last, path, self._opened)

    def walk_to_folder(self) -> int:
        """Open a folder, and return its descriptor."""
        self._walk(enters_last=True)
        return self._opened[-1]

    def _walk(self, *, enters_last: bool) -> str | None:
        """Enter the folders of the path; return the name after them, None if the path ends with a folder."""
        if not self._path or "\0" in self._path or not _is_encodable(self._path):
            raise WorkspaceError(f"this is no path: {self._path!r}")
        parts = self._parts_below(self._path)
        with _system_errors(str(self._root)):
            self._opened.append(os.open(self._root, _FOLDER))
        while parts:
            part = parts.pop(0)
            if part == "..":
                self._go_up()
            elif (target := self._link(part)) is not None:
                parts = [*self._target_parts(target), *parts]
            elif parts or enters_last:
                self._enter(part)
            else:
                return part
        return None

    def _parts_below(self, path: str) -> list[str]:
        """The parts of a path. An absolute one has to begin with the folder."""
        if path.startswith("/"):
            root = f"{self._root}".rstrip("/")
            if path != root and not path.startswith(f"{root}/"):
                raise self._outside()
            path = path[len(root) :]
        return [part for part in path.split("/") if part not in ("", ".")]

    def _go_up(self) -> None:
        if not self._names:
            raise self._outside()
        self._names.pop()
        os.close(self._opened.pop())

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._opened[-1])
        except OSError:  # no link, or nothing at all
            return None

    def _target_parts(self, target: str) -> list[str]:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise WorkspaceError(f"{self._path}: its links lead in a circle")
        parts = self._parts_below(target)
        if target.startswith("/"):
            while self._names:
                self._go_up()
        return parts

    def _enter(self, name: str) -> None:
        while True:
            try:
                self._opened.append(os.open(name, _FOLDER, dir_fd=self._opened[-1]))
            except FileNotFoundError:
                if not self._makes_folders:
                    raise _MissingFolderError(f"{self._path}: no such file") from None
                if _is_protected(name) or _is_of_repository(self._opened[-1], name):
                    raise WorkspaceError(f"{self._path} belongs to Git, and can only be read") from None
                with _system_errors(self._path), suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self._opened[-1])
                continue
            except NotADirectoryError:
                raise WorkspaceError(f"{self._path}: {'/'.join([*self._names, name])} is no folder") from None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EMLINK):  # it has become a link since
                    raise self._outside() from None
                raise WorkspaceError(f"{self._path}: {error.strerror}") from error
            self._names.append(name)
            return

    def _outside(self) -> OutsideWorkspaceError:
        return OutsideWorkspaceError(f"{self._path} leads out of the workspace")


def _check_unprotected(place: _Place) -> None:
    """Refuse to change what Git keeps: its settings and hooks are programs that its next command runs."""
    names = place.path.split("/")
    if any(map(_is_protected, names)) or any(map(_is_of_repository, place.folders, names)):
        raise WorkspaceError(f"{place.path} belongs to Git, and can only be read")


def _is_protected(name: str) -> bool:
    """Whether some file system takes a name for `.git`: HFS+ ignores case, and characters of no width."""
    shown = name if name.isascii() else "".join(each for each in name if unicodedata.category(each) != "Cf")
    return shown.casefold() == PROTECTED


def _is_of_repository(folder: int, name: str) -> bool:
    """Whether a folder is a repository without `.git`, or would be one with a name in it."""

    def has(part: str) -> bool:
        if name.casefold() == part.casefold():
            return True
        try:
            os.stat(part, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))


def _is_encodable(path: str) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def _read(place: _Place, most_bytes: int) -> bytes:
    with _system_errors(place.path):
        opened = os.open(place.name, _FILE, dir_fd=place.folder)
    try:
        facts = os.fstat(opened)
        if stat.S_ISDIR(facts.st_mode):
            raise WorkspaceError(f"{place.path} is a folder")
        if not stat.S_ISREG(facts.st_mode):
            raise WorkspaceError(f"{place.path} is no regular file")
        with open(opened, "rb", closefd=False) as file:
            content = file.read(most_bytes + 1)
    finally:
        os.close(opened)
    if len(content) > most_bytes:
        raise WorkspaceError(f"{place.path} has {facts.st_size:,} bytes; the most is {most_bytes:,}")
    return content


def _mode_of(place: _Place) -> int | None:
    """The mode of a regular file; None where there is nothing."""
    try:
        facts = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{place.path}: {error.strerror}") from error
    if not stat.S_ISREG(facts.st_mode):
        kind = "a folder" if stat.S_ISDIR(facts.st_mode) else "no regular file"
        raise WorkspaceError(f"{place.path} is {kind}")
    return stat.S_IMODE(facts.st_mode)


def _replace(place: _Place, content: bytes, mode: int | None, *, must_be_new: bool) -> None:
    temporary = f"{_TEMPORARY}{uuid.uuid4().hex}"
    with _system_errors(place.path):
        opened = os.open(temporary, _NEW, 0o666 if mode is None else mode, dir_fd=place.folder)
        try:
            with open(opened, "wb", closefd=True) as file:
                if mode is not None:
                    os.fchmod(opened, mode)
                file.write(content)
            if must_be_new:  # unlike a rename, a link never replaces a file that was made meanwhile
                os.link(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                os.unlink(temporary, dir_fd=place.folder)
            else:
                os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=place.folder)
            raise


@contextmanager
def _system_errors(path: str) -> Generator[None, None, None]:
    """Name the file in the errors of the system."""
    try:
        yield
    except FileNotFoundError:
        raise WorkspaceError(f"{path}: no such file") from None
    except FileExistsError:
        raise WorkspaceError(f"{path} exists") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise OutsideWorkspaceError(f"{path} has become a link; links are not followed here") from None
        raise WorkspaceError(f"{path}: {error.strerror or error}") from error


_locks: "weakref.WeakValueDictionary[str, threading.RLock]" = weakref.WeakValueDictionary()
_locks_lock = threading.Lock()


def _lock_of(key: str) -> threading.RLock:
    """The lock of a file, for all workspaces of the process."""
    with _locks_lock:
        lock = _locks.get(key)
        if lock is None:
            lock = _locks[key] = threading.RLock()
        return lock
