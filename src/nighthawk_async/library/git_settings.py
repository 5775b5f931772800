"""Files that the settings of Git repositories name: `git status` runs them, or reads settings there."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator

_SECONDS = 10
_PROGRAMS = frozenset(
    {"alternaterefscommand", "clean", "cmd", "command", "defaultkeycommand", "difffilter", "driver", "editor"}
    | {"external", "fsmonitor", "gitproxy", "helper", "packobjectshook", "pager", "process", "program"}
    | {"receivepack", "smudge", "sshcommand", "textconv", "update", "uploadpack"}
)
"""The last words of settings whose values are commands."""
_PATHS = frozenset({"askpass", "attributesfile", "hookspath", "path", "templatedir"})
"""The last words of settings whose values are paths."""
_WORD = re.compile(r"[^\s'\"`$();&|<>=!]+")


def files_of_settings(root: str, repositories: Iterable[str]) -> list[str]:
    """The paths below a folder that the settings of repositories name; they need not exist.

    Args:
        root: The folder.
        repositories: The folders of repositories, and their files or links `.git`.
    """
    git = shutil.which("git")
    found: dict[str, None] = {}
    for repository in repositories if git is not None else ():
        is_inside = os.path.basename(repository).casefold() == ".git"
        worktree = os.path.dirname(repository) if is_inside else repository
        assert git is not None, "there are no repositories without it"
        for path in _named_by(git, worktree):
            path = os.path.normpath(path)
            if path.startswith(root.rstrip("/") + "/") and ".git" not in path.casefold().split("/"):
                found[path] = None
    return list(found)


def _named_by(git: str, worktree: str) -> Iterator[str]:
    """Yield the paths in the settings of a repository, those of its user and of the system included."""
    command = [git, "-C", worktree, "config", "--list", "--includes", "--show-origin", "--null"]
    try:
        listed = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return
    parts = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    for origin, setting in zip(parts[::2], parts[1::2], strict=False):
        source = os.path.join(worktree, origin.removeprefix("file:"))
        yield source
        key, _, value = setting.partition("\n")
        section, _, last = key.lower().partition(".")[0], *key.lower().rpartition(".")[1:]
        if section in ("include", "includeif"):
            yield _joined(os.path.dirname(source), value)
        elif last in _PATHS:
            yield _joined(worktree, value)
        elif last in _PROGRAMS or section == "pager" or (section == "alias" and value.startswith("!")):
            yield from _paths_in(value, worktree)


def _paths_in(command: str, worktree: str) -> Iterator[str]:
    """Yield the paths that a command may name: a program of the search path is none."""
    for word in dict.fromkeys([command, *_WORD.findall(command)]):
        path = _joined(worktree, word)
        if "/" in word or "." in word.strip(".") or os.path.isfile(path):
            yield path


def _joined(folder: str, path: str) -> str:
    return os.path.join(folder, os.path.expanduser(path))
