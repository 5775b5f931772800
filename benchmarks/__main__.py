"""`python -m benchmarks`: measure, show a table, and keep the figures when asked.

python -m benchmarks                      everything
python -m benchmarks mailbox              the benchmarks whose name contains "mailbox"
python -m benchmarks --quick              few operations: does everything still work?
python -m benchmarks --json results.json  the figures as data, with the machine they were taken on
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import cases
from .measure import Benchmark, Measurement, measure

__all__ = ["find_benchmarks", "main"]


def find_benchmarks() -> list[Benchmark]:
    """Every benchmark of every module in `benchmarks.cases`."""
    names = sorted(module.name for module in pkgutil.iter_modules(cases.__path__))
    modules = [importlib.import_module(f"{cases.__name__}.{name}") for name in names]
    return [benchmark for module in modules for benchmark in module.BENCHMARKS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments choose.

    Args:
        arguments: The arguments; None for the command line's.

    Returns:
        The exit status: 2 when no benchmark has such a name.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of nighthawk-async."
    )
    parser.add_argument("names", nargs="*", help="measure only benchmarks whose name contains one of these")
    parser.add_argument("--quick", action="store_true", help="few operations")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    chosen = parser.parse_args(arguments)
    benchmarks = [
        each
        for each in find_benchmarks()
        if not chosen.names or any(name in each.name for name in chosen.names)
    ]
    if not benchmarks:
        print(f"no benchmark is called {' or '.join(chosen.names)}", file=sys.stderr)
        return 2
    measurements: list[Measurement] = []
    console = Console()
    for benchmark in benchmarks:
        with console.status(benchmark.name):
            measurements.append(measure(benchmark, is_quick=chosen.quick))
    console.print(as_table(measurements))
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(as_report(measurements, is_quick=chosen.quick), indent=2) + "\n")
    return 0


def as_table(measurements: Sequence[Measurement]) -> Table:
    """The measurements for people."""
    table = Table(title="per operation", title_justify="left")
    for heading in ("benchmark", "one operation is"):
        table.add_column(heading)
    for heading in ("best", "median", "worst", "per second"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in measurements:
        times = [as_time(seconds) for seconds in (each.best_seconds, each.median_seconds, each.worst_seconds)]
        table.add_row(each.name, each.what, *times, f"{each.operations_per_second:,.0f}")
    return table


def as_time(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def as_report(measurements: Sequence[Measurement], *, is_quick: bool) -> dict[str, object]:
    """The measurements as data, with what they depend on."""
    return {
        "version": importlib.metadata.version("nighthawk-async"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "is_quick": is_quick,
        "measurements": [each.as_json() for each in measurements],
    }


if __name__ == "__main__":
    sys.exit(main())
