"""Compiles sources once for all processes of a run of the tests, each process a share of them.

In a fresh clone nothing is compiled yet, and processes that collect the same tests at the same time would
each compile all of them, which takes longer than the collection itself.
"""

import compileall
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

__all__ = ["compile_share"]

_ROOT = Path(__file__).parents[1]


def compile_share(config: pytest.Config) -> None:
    """Compile what falls to this process, if it is one of several; the others do the same with the rest.

    The bytecode is what imports write themselves, and those check whether it is up to date: what is missing
    here costs time alone.
    """
    process: dict[str, object] | None = getattr(config, "workerinput", None)
    if process is None or sys.dont_write_bytecode:
        return
    number, count = int(str(process["workerid"]).removeprefix("gw")), int(str(process["workercount"]))
    for path in (*_below(_ROOT / "src"), *_below(_ROOT / "tests"))[number::count]:
        if not path.name.startswith(("test_", "conftest")):
            compileall.compile_file(path, quiet=2)
    for path in list(_chosen(config.args, config.invocation_params.dir))[number::count]:
        compile_test(path, config)


def compile_test(path: Path, config: pytest.Config) -> None:
    """Compile a file of tests as pytest does before it imports one, unless it did so before.

    The functions are pytest's own, without a promise: where there are others, nothing is compiled.
    """
    compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if compiled.exists():
        return
    try:
        source, code = rewrite._rewrite_test(path, config)  # pyright: ignore[reportPrivateUsage]
        compiled.parent.mkdir(parents=True, exist_ok=True)
        state = config.stash[rewrite.assertstate_key]
        rewrite._write_pyc(state, code, source, compiled)  # pyright: ignore[reportPrivateUsage]
    except (AttributeError, TypeError, ValueError, OSError, SyntaxError):
        return


def _below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _chosen(arguments: Iterable[str], folder: Path) -> Iterable[Path]:
    """The files of tests that a command line names."""
    for argument in arguments:
        path = folder / argument.partition("::")[0]
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
