"""Copies of a repository: workers change one of them, and the repository stays as it is."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from nighthawk_async import library
from nighthawk_async.library import Sandbox

IGNORED = shutil.ignore_patterns(
    *(".git", ".venv", "venv", "node_modules", "__pycache__", ".*_cache", "*.untrusted*")
)
"""Files that are neither copied nor part of the diff; the last are repositories that a shell has made."""

ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the workers have changed so far.

    Args:
        diff: The difference, for `git apply`.
        tests: The files in it that have to stay as they are.
    """

    diff: str
    tests: list[str]


class Checkout:
    """Three copies of a repository in a temporary folder.

    `a` stays as the repository was. Workers change `work`. `freeze` copies that to `b`, which is what the
    tests run in and what others look at: no process that a worker has left can change it.

    Args:
        repository: The repository.
        folder: The temporary folder.
        kept: Patterns of files that have to stay as they are.
        sandbox: Whether shells are confined; see `library.Workspace`.
    """

    def __init__(self, repository: Path, folder: Path, kept: Sequence[str], sandbox: Sandbox) -> None:
        self._folder = folder = folder.resolve()
        self._kept = kept
        self._sandbox: Sandbox = sandbox
        self._old = count(1)
        for name in ("a", "work", "b"):
            _copy(repository, folder / name)

    def workspace(self) -> library.Workspace:
        """Return the files that a worker changes, with a shell of its own."""
        return self._workspace("work", writable=True)

    def frozen(self) -> library.Workspace:
        """Return the files as they were when they were frozen, to look at."""
        return self._workspace("b", writable=False)

    async def freeze(self) -> Change:
        """Copy what the workers have made, and compare it with the beginning."""
        await anyio.to_thread.run_sync(self._freeze)
        names = await self._compare("--name-only", "-z")
        paths = {name.partition("/")[2] for name in names.split("\0") if name}
        tests = sorted(path for path in paths if any(fnmatch(path, pattern) for pattern in self._kept))
        return Change(diff=await self._compare("--binary"), tests=tests)

    async def run_tests(self, command: str, seconds: float) -> library.ShellResult:
        """Run the tests in what was frozen, in a new shell."""
        return await self._workspace("b", writable=True).shell(command, timeout=seconds, max_characters=8_000)

    def _workspace(self, name: str, *, writable: bool) -> library.Workspace:
        return library.Workspace(
            self._folder / name, writable=writable, sandbox=self._sandbox, environment=ENVIRONMENT
        )

    def _freeze(self) -> None:
        (self._folder / "b").rename(self._folder / f"old-{next(self._old)}")
        _copy(self._folder / "work", self._folder / "b")

    async def _compare(self, *options: str) -> str:
        """Compare `a` with `b`, without the settings of git that they or the user may have."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        command = [
            "git",
            "diff",
            "--no-index",
            "--no-prefix",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
        ]
        ended = await anyio.run_process(
            [*command, *options, "a", "b"], cwd=self._folder, env=environment, check=False
        )
        if ended.returncode not in (0, 1):  # 1: they differ
            raise RuntimeError(f"git diff fails: {ended.stderr.decode(errors='replace').strip()}")
        return ended.stdout.decode("utf-8", "surrogateescape")


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=IGNORED)
