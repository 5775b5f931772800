"""What is not for Windows says so, and everything can be imported there."""

import ast
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import library
from nighthawk_async.journal.holders import is_alive, process_name
from nighthawk_async.line_process import LineProcess
from nighthawk_async.policies.people.terminal import check_terminal
from nighthawk_async.testing.killing import ProgramKiller

from .imports import PROGRAMS
from .without_posix import HIDDEN_MODULES, HIDDEN_NAMES

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "nighthawk_async"
NAMES = {f"{module.__name__}.{name}" for module, names in HIDDEN_NAMES.items() for name in names}
POSIX = re.compile(
    rf"import (?:{'|'.join(HIDDEN_MODULES)})\b|(?:{'|'.join(map(re.escape, sorted(NAMES)))})\b"
)


def used_on_import(body: list[ast.stmt]) -> Iterator[str]:
    """What only POSIX has and a module uses when it is imported, guarded statements left out."""
    for statement in body:
        if isinstance(statement, ast.If) and re.search("sys.platform|hasattr", ast.unparse(statement.test)):
            continue
        if isinstance(statement, ast.ClassDef):
            yield from used_on_import(statement.body)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute | ast.Import):
                    yield from POSIX.findall(ast.unparse(node))


def test_no_module_uses_what_windows_lacks_when_it_is_imported() -> None:
    """The weekly test below imports them all."""
    files = [path for path in SOURCE.rglob("*.py") if path.stem not in PROGRAMS]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    used = {
        path.relative_to(SOURCE).as_posix(): found
        for path, text in texts.items()
        if POSIX.search(text) and (found := [*used_on_import(ast.parse(text).body)])
    }
    assert used == {}


@pytest.mark.weekly  # the test above reads the modules
def test_every_module_is_imported_where_the_means_of_posix_are_hidden() -> None:
    command = [sys.executable, "-m", "tests.packaging.without_posix"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=250)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_what_windows_cannot_do_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def start() -> None:
        logger = logging.getLogger("server")
        await LineProcess.start("server", ["server"], environment={}, folder=None, logger=logger)

    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(nh.ConfigurationError, match="which Windows cannot do"):
        ProgramKiller("program:main", {})
    with pytest.raises(nh.errors.NoHumanError, match=r"on Windows, give `input=`"):
        check_terminal()
    with pytest.raises(OSError, match="not on Windows"):
        anyio.run(start)
    monkeypatch.setattr(os, "supports_dir_fd", set[object]())
    with pytest.raises(nh.ConfigurationError, match="not win32"):
        library.Workspace(tmp_path)


def test_a_holder_of_a_lease_gets_no_signal_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal of 0 is Ctrl-C there. The lease ends when it is not renewed."""
    holder = process_name("store")
    assert is_alive(holder)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "kill")
    assert is_alive(holder)
