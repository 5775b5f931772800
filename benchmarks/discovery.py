"""Where the benchmarks are: it finds them by their modules, and measures none."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from . import cases
from .measure import Benchmark, Suite

__all__ = ["FoundBenchmark", "choose", "find_benchmarks", "find_in_module", "suite_modules"]

SUITES: tuple[Suite, ...] = ("quick", "default", "full")
WORKLOAD_MODULES = ("benchmarks.workloads", "benchmarks.peers", "benchmarks.ratios")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBenchmark:
    """A benchmark, and where a process of its own finds it.

    Args:
        module: The full name of its module.
        benchmark: The benchmark.
    """

    module: str
    benchmark: Benchmark


def suite_modules() -> list[str]:
    """The modules that hold the suite: `benchmarks.cases`, then workloads, peers and ratios."""
    topics = sorted(module.name for module in pkgutil.iter_modules(cases.__path__))
    return [
        *(f"{cases.__name__}.{topic}" for topic in topics),
        *(name for name in WORKLOAD_MODULES if importlib.util.find_spec(name)),
    ]


def find_benchmarks(modules: Iterable[str] | None = None) -> list[FoundBenchmark]:
    """Every benchmark of the modules.

    Args:
        modules: Full names of modules; None for those of the suite.

    Raises:
        ImportError: A module cannot be imported.
        ValueError: Two benchmarks have the same name.
    """
    found: dict[str, FoundBenchmark] = {}
    for name in suite_modules() if modules is None else modules:
        for benchmark in find_in_module(importlib.import_module(name)):
            earlier = found.setdefault(benchmark.name, FoundBenchmark(module=name, benchmark=benchmark))
            if earlier.benchmark is not benchmark:
                raise ValueError(f"{earlier.module} and {name} both have a benchmark {benchmark.name!r}")
    return list(found.values())


def find_in_module(module: ModuleType) -> list[Benchmark]:
    """The benchmarks of a module: those in each of its tables whose name ends in `BENCHMARKS`."""
    tables = [value for name, value in vars(module).items() if name.endswith("BENCHMARKS")]
    return [benchmark for table in tables for benchmark in table]


def choose(
    found: Iterable[FoundBenchmark], *, names: Sequence[str], suite: Suite, with_peers: bool
) -> list[FoundBenchmark]:
    """The benchmarks that are to be measured.

    Args:
        found: The benchmarks there are.
        names: Only those whose name contains one of these; empty for all.
        suite: Only those of this suite and the smaller ones.
        with_peers: Whether peers are measured too.
    """
    return [
        each
        for each in found
        if (with_peers or not each.benchmark.is_peer)
        and SUITES.index(each.benchmark.smallest_suite) <= SUITES.index(suite)
        and (not names or any(name in each.benchmark.name for name in names))
    ]
