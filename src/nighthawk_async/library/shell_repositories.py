"""Git repositories in a folder that a shell can write: those that were there, and those that it has made.

A repository is a program: its settings name programs that `git status` runs. So the shell can only read the
repositories that it finds, and those that it makes are put out of use: `.git` and `HEAD` get another name.

The keeper of a shell loads this file by its path, so it imports nothing of the library. Each folder is opened
below the one before it, without following links: processes of the shell may be running.
"""

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_GIT = ".git"
_HEAD = "head"
if sys.platform != "win32":  # where no workspace is made, and so none of this is called
    _FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    _FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    _PATH = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_DEPTH = 200
_MOST_LINKS = 40
_ABSENT = -1
_VALID_HEAD = re.compile(rb"\s*ref:|\s*[0-9a-fA-F]{40}")
_SUFFIX = ".untrusted"


class Repository(NamedTuple):
    """A repository that was there before the shell.

    Args:
        path: The path of its folder, or of the file or link `.git`, below the folder of the shell.
        device: The number of its device.
        inode: The number of its inode.
        target: The target, if it is a link.
    """

    path: str
    device: int
    inode: int
    target: str | None


class _Folder(NamedTuple):
    """An opened folder, its path below the root, and the names in it."""

    descriptor: int
    path: str
    names: list[str]
    folders: list[str]


class Repositories:
    """The repositories below a folder that were there before a shell.

    Args:
        root: The folder.
        known: The repositories.
        skipped: Paths of folders that the shell cannot write.
        named: The files that settings of Git name; without an inode where there is none.
    """

    def __init__(
        self,
        root: str,
        known: Iterable[Repository],
        skipped: Iterable[str] = (),
        named: Iterable[Repository] = (),
    ) -> None:
        self.root = root
        self.known = list(known)
        self.skipped = frozenset(skipped)
        self.named = list(named)
        self._inodes = {(each.device, each.inode) for each in self.known if each.target is None}
        self._links = {each.path: each.target for each in self.known if each.target is not None}

    @classmethod
    def find(cls, root: str, skipped: Iterable[str] = ()) -> "Repositories":
        """Find the repositories below a folder; what is inside of one belongs to it.

        Args:
            root: The folder.
            skipped: Paths of folders that the shell cannot write.
        """
        known: list[Repository] = []
        for folder in _walk(os.open(root, _FOLDER), "", frozenset(skipped)):
            if _is_repository(folder):
                facts = os.fstat(folder.descriptor)
                known.append(Repository(folder.path, facts.st_dev, facts.st_ino, None))
                folder.folders.clear()
                continue
            for name in filter(_is_git, folder.names):
                with suppress(OSError):
                    facts, target = _facts_of(folder, name)
                    known.append(Repository(_joined(folder.path, name), facts.st_dev, facts.st_ino, target))
            folder.folders[:] = [name for name in folder.folders if not _is_git(name)]
        return cls(root, known, skipped)

    @classmethod
    def from_json(cls, text: str) -> "Repositories":
        """Read what `to_json` has written."""
        root, known, skipped, named = json.loads(text)
        return cls(
            root, [Repository(*each) for each in known], skipped, [Repository(*each) for each in named]
        )

    def to_json(self) -> str:
        """Write it, for the keeper of the shell."""
        return json.dumps([self.root, self.known, sorted(self.skipped), self.named])

    @property
    def paths(self) -> list[str]:
        """The paths that the shell must only read; links cannot be kept from it."""
        known = [each for each in (*self.known, *self.named) if each.target is None and each.inode != _ABSENT]
        return [os.path.join(self.root, each.path).rstrip("/") for each in known]

    def add_named(self, paths: Iterable[str]) -> None:
        """Add files that settings of Git name.

        Args:
            paths: Their paths, below the folder; they need not exist.
        """
        found = (each for path in paths for each in _steps(self.root, os.path.relpath(path, self.root)))
        self.named += dict.fromkeys(found)

    def disable_others(self) -> list[str]:
        """Put all other repositories out of use, and put back links that are gone; return what was done."""
        done: list[str] = []
        for folder in _walk(os.open(self.root, _FOLDER), "", self.skipped):
            facts = os.fstat(folder.descriptor)
            if (facts.st_dev, facts.st_ino) in self._inodes:
                folder.folders.clear()
                continue
            if folder.path.count("/") >= _MOST_DEPTH - 1 and folder.folders:
                done.append(f"the folders in {folder.path} are too deep to be looked at")
            if _is_repository(folder):
                for name in [name for name in folder.names if name.lower() == _HEAD]:
                    done += _rename(folder, name)
            for name in filter(_is_git, folder.names):
                if not self._is_known(folder, name):
                    done += _rename(folder, name)
        for each in self.named:
            done += self._disable_other(each)
        return done + self._restored_links()

    def _disable_other(self, named: Repository) -> list[str]:
        """Put what is now in the place of a named file, or a link on the way to it, out of use."""
        *folders, last = named.path.split("/")
        parent = ""
        for name in folders:
            try:
                with _opened(self.root, _joined(parent, name)):
                    parent = _joined(parent, name)
            except FileNotFoundError:
                return []
            except OSError:  # a link, or no folder
                return self._rename(parent, name)
        try:
            with _opened(self.root, parent) as opened:
                facts = os.stat(last, dir_fd=opened, follow_symlinks=False)
                target = os.readlink(last, dir_fd=opened) if stat.S_ISLNK(facts.st_mode) else None
        except OSError:
            return []
        is_same = (facts.st_dev, facts.st_ino) == (named.device, named.inode)
        return [] if target == named.target and (is_same or target) else self._rename(parent, last)

    def _rename(self, parent: str, name: str) -> list[str]:
        with _opened(self.root, parent) as opened:
            return _rename(_listed(opened, parent), name)

    def _is_known(self, folder: _Folder, name: str) -> bool:
        try:
            facts, target = _facts_of(folder, name)
        except OSError:  # it is gone, or cannot be looked at, and is renamed if it is there
            return False
        if target is not None:
            return self._links.get(_joined(folder.path, name)) == target
        return (facts.st_dev, facts.st_ino) in self._inodes

    def _restored_links(self) -> list[str]:
        done: list[str] = []
        for path, target in self._links.items():
            parent, name = os.path.split(path)
            with suppress(OSError), _opened(self.root, parent) as folder:
                os.symlink(target or "", name, dir_fd=folder)  # fails where it is still there
                done.append(f"{path} was put back")
        return done


def _steps(root: str, path: str) -> Iterator[Repository]:
    """Yield a file, and each link on the way to it, by paths without links."""
    waiting, at, links = path.split("/"), "", 0
    while waiting:
        name = waiting.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        below = _joined(at, name)
        try:
            facts = os.lstat(os.path.join(root, below))
            target = os.readlink(os.path.join(root, below)) if stat.S_ISLNK(facts.st_mode) else None
        except OSError:
            yield Repository("/".join([below, *waiting]), 0, _ABSENT, None)
            return
        if target is None and waiting:
            at = below
            continue
        yield Repository(below, facts.st_dev, facts.st_ino, target)
        links += 1
        whole = os.path.normpath(os.path.join(root, at, target or ""))
        if target is None or links > _MOST_LINKS or not whole.startswith(root.rstrip("/") + "/"):
            return
        waiting, at = [*os.path.relpath(whole, root).split("/"), *waiting], ""


def _is_git(name: str) -> bool:
    return name.casefold() == _GIT


def _is_repository(folder: _Folder) -> bool:
    """Whether Git would take a folder for a repository, as `is_git_directory` of its `setup.c` does."""
    names = {name.lower(): name for name in folder.names if len(name) <= len("commondir")}
    if _HEAD not in names or not (names.keys() >= {"objects", "refs"} or "commondir" in names):
        return False
    try:
        opened = os.open(names[_HEAD], _FILE, dir_fd=folder.descriptor)
    except OSError:  # a link, which is valid too
        return True
    try:
        return stat.S_ISREG(os.fstat(opened).st_mode) and bool(_VALID_HEAD.match(os.read(opened, 256)))
    except OSError:
        return True
    finally:
        os.close(opened)


def _facts_of(folder: _Folder, name: str) -> tuple[os.stat_result, str | None]:
    """The facts of something in a folder, also in one that nobody may enter, and the target of a link."""
    with _writable(folder.descriptor):
        facts = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
        is_link = stat.S_ISLNK(facts.st_mode)
        return facts, os.readlink(name, dir_fd=folder.descriptor) if is_link else None


def _rename(folder: _Folder, name: str) -> list[str]:
    """Give something in a folder another name; the folders in it are walked next."""
    new = name + _SUFFIX
    if new in folder.names:
        new = f"{new}-{secrets.token_hex(4)}"
    try:
        with _writable(folder.descriptor):
            os.rename(name, new, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{_joined(folder.path, name)} cannot be renamed: {error.strerror}"]
    if name in folder.folders:
        folder.folders[folder.folders.index(name)] = new
    return [f"{_joined(folder.path, name)} is now {new}"]


@contextmanager
def _writable(descriptor: int) -> Generator[None, None, None]:
    """Let an own folder be entered and written during the `with` statement; others stay as they are."""
    facts = os.fstat(descriptor)
    mode = stat.S_IMODE(facts.st_mode)
    if mode & 0o300 == 0o300 or facts.st_uid != os.geteuid():
        yield
        return
    os.fchmod(descriptor, mode | 0o300)
    try:
        yield
    finally:
        os.fchmod(descriptor, mode)


def _walk(opened: int, path: str, skipped: frozenset[str], depth: int = 0) -> Iterator[_Folder]:
    """All folders, each before those in it; who reads them may remove or rename the folders that follow."""
    try:
        folder = _listed(opened, path)
        yield folder
        for name in folder.folders if depth < _MOST_DEPTH else ():
            below = _joined(path, name)
            inner = None if below in skipped else _open_folder(opened, name)
            if inner is not None:
                yield from _walk(inner, below, skipped, depth + 1)
    finally:
        os.close(opened)


def _listed(descriptor: int, path: str) -> _Folder:
    names: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    except OSError:  # it cannot be read, or is gone
        pass
    return _Folder(descriptor, path, names, folders)


def _open_folder(parent: int, name: str) -> int | None:
    """Open a folder, also an own one that nobody may read; None if it is gone, or somebody else's."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        pass
    except OSError:
        return None
    with suppress(OSError), _writable(parent):
        found = os.open(name, _PATH | os.O_DIRECTORY, dir_fd=parent)
        try:
            itself = f"/proc/self/fd/{found}"
            mode = stat.S_IMODE(os.fstat(found).st_mode)
            os.chmod(itself, mode | 0o700)
            try:
                return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            finally:
                os.chmod(itself, mode)
        finally:
            os.close(found)
    return None


@contextmanager
def _opened(root: str, path: str) -> Generator[int, None, None]:
    """Open a folder below the root, without following links."""
    opened = os.open(root, _FOLDER)
    try:
        for name in filter(None, path.split("/")):
            inner = os.open(name, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
