"""Results and reports made by hand, and the command line with benchmarks of a module made by hand."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.machine import Load, Machine
from benchmarks.measure import Benchmark, Result
from benchmarks.report.document import Report
from benchmarks.running import Outcome, State

MACHINE = Machine(
    python="3.11.9",
    implementation="CPython",
    platform="Linux 6.1",
    architecture="x86_64",
    processors=2,
    commit="0123456789ab",
    versions={"anyio": "4.14.0"},
)

HEAD = "from benchmarks.measure import Benchmark, CannotMeasureHereError\n"


def benchmark_of(run: Any, **changes: Any) -> Benchmark:
    """A benchmark that runs a function."""
    settings = {"name": "made-up", "what": "nothing", "operations": 10, "quick_operations": 2, "rounds": 3}
    return Benchmark(**{**settings, "run": run, **changes})


def result_of(*rounds: float, metric: str = "wall", benchmark: str = "made-up", **changes: Any) -> Result:
    """The result of a benchmark."""
    return Result(
        benchmark=benchmark,
        what="nothing",
        metric=metric,
        operations=changes.pop("operations", 10),
        rounds=rounds,
        **changes,
    )


def outcome_of(*results: Result, state: State = "measured", **changes: Any) -> Outcome:
    """The outcome of the results' benchmark."""
    name = changes.pop("benchmark", None) or results[0].benchmark
    return Outcome(benchmark=name, state=state, seconds=1.0, results=results, **changes)


def report_of(*outcomes: Outcome, **changes: Any) -> Report:
    """The report of a run."""
    settings = {"taken_at": "2026-01-02T03:04:05+00:00", "suite": "default", "load_before": 0.1}
    return Report(**{**settings, "machine": MACHINE, "outcomes": outcomes, **changes})


def busy(share: float) -> Load:
    """A load that is all of others' making."""
    return Load(others_share=share, load_average=1.0)


class CommandLine:
    """`python -m benchmarks` on a module written for one test.

    Args:
        folder: An empty folder.
        monkeypatch: Lets child processes find the module.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.modules = 0
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))

    def module(self, source: str) -> str:
        """Write a module, and give its name."""
        self.modules += 1
        name = f"made_up_for_{self.folder.name}_{self.modules}".replace("-", "_")
        (self.folder / f"{name}.py").write_text(HEAD + source)
        return name

    def results(self, name: str) -> Path:
        """The folder of a run's results."""
        return self.folder / name

    def figures(self, name: str) -> Path:
        """The file of a run's figures."""
        return self.results(name) / "results.json"

    def run(self, source: str, *arguments: str, results: str = "results") -> int:
        """Run the command line on a module of this source; give the exit status."""
        folder = str(self.results(results))
        return main(["--from", self.module(source), "--results", folder, *arguments])
