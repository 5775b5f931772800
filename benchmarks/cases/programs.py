"""Programs that share their state with blocks, on scripted answers; see `benchmarks.programs`."""

from collections.abc import Mapping

import anyio

from ..measure import Benchmark

__all__ = ["BENCHMARKS"]


def run_programs(operations: int) -> Mapping[str, float]:
    """Run every program once, however many operations are asked for: nothing in it varies."""
    from ..programs.scripted import solving  # here: listing benchmarks need not wait for the decorations

    report = anyio.run(solving("natural").run)
    blocks = sum(each.scores["blocks"].value for each in report.trials if each.has_passed)
    return {
        "round_trips": sum(each.usage.requests for each in report.trials if each.has_passed) / max(blocks, 1),
        "errors": sum(not each.has_passed for each in report.trials),
    }


BENCHMARKS = (
    Benchmark(
        name="programs",
        what="one of the programs that share their state with blocks, on the average of twenty-five",
        run=run_programs,
        operations=1,
        quick_operations=1,
        rounds=1,
        is_warmed_up=False,
    ),
)
