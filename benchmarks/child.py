"""`python -m benchmarks.child MODULE FILE NAME...`: measure benchmarks of a module in a process of their own.

What it measured, or why it could not, is written to the file after each of them. A crash is told by the exit
status and a traceback.
"""

import argparse
import importlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .discovery import find_in_module
from .measure import Benchmark, CannotMeasureHereError, Result, measure

__all__ = ["Answer", "main"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process tells of one benchmark to the process that started it.

    Args:
        benchmark: The benchmark's name.
        seconds: How long it took.
        results: What was measured.
        cannot: Why nothing could be measured on this machine.
    """

    benchmark: str
    seconds: float
    results: tuple[Result, ...] = ()
    cannot: str | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the benchmarks that the arguments name, one after the other.

    Args:
        arguments: The arguments; None for the command line's.

    Raises:
        LookupError: The module has no such benchmark.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.child")
    parser.add_argument("module", help="the module that holds the benchmarks")
    parser.add_argument("file", type=Path, help="where to write the results")
    parser.add_argument("names", nargs="+", metavar="name", help="the name of a benchmark")
    parser.add_argument("--quick", action="store_true", help="few operations")
    chosen = parser.parse_args(arguments)
    benchmarks = {each.name: each for each in find_in_module(importlib.import_module(chosen.module))}
    answers: list[Answer] = []
    for name in chosen.names:
        if name not in benchmarks:
            raise LookupError(f"{chosen.module} has no benchmark {name!r}")
        answers.append(answer_of(benchmarks[name], is_quick=chosen.quick))
        chosen.file.write_bytes(msgspec.json.encode(answers))


def answer_of(benchmark: Benchmark, *, is_quick: bool) -> Answer:
    """Measure one benchmark.

    Args:
        benchmark: The benchmark.
        is_quick: Whether to do few operations.
    """
    began = time.monotonic()
    results: tuple[Result, ...] = ()
    cannot: str | None = None
    try:
        results = tuple(measure(benchmark, is_quick=is_quick))
    except CannotMeasureHereError as reason:
        cannot = str(reason)
    seconds = time.monotonic() - began
    return Answer(benchmark=benchmark.name, seconds=seconds, results=results, cannot=cannot)


if __name__ == "__main__":
    main()
