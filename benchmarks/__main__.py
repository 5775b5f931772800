"""`python -m benchmarks`: measure, each benchmark in a process of its own, and tell what was found.

python -m benchmarks                       the suite of a few minutes
python -m benchmarks mailbox burst         the benchmarks whose name contains "mailbox" or "burst"
python -m benchmarks --quick               few operations of each: did it break? Times are not judged
python -m benchmarks --full                everything, the largest bursts included
python -m benchmarks --peers               what others offer for the same work, side by side
python -m benchmarks --against FILE        flag what is slower than in an earlier run's results.json
python -m benchmarks --list                the names
python -m benchmarks prompts               what a model is shown of blocks that users write (prompts --help)

What is above its bound by more than noise explains is measured once more. The exit status is 1 when it still
is, when a benchmark failed or became worse, and 2 when the arguments make no sense. A quick run judges no
time: its exit status is 1 when a benchmark or one of its operations failed.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from .discovery import FoundBenchmark, choose, find_benchmarks
from .machine import load_average, this_machine
from .measure import Suite
from .report.compare import Comparison, compare
from .report.console import tell_bounds, tell_comparison, tell_errors, tell_outcome, tell_report
from .report.document import BadReportError, Report, read_report, write_report
from .report.files import write_results
from .report.goal_table import GOALS
from .report.goals import judge
from .running import Outcome, run_all

__all__ = ["main"]

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments choose.

    Args:
        arguments: The arguments; None for the command line's.

    Returns:
        The exit status: 0 when all is well, 1 when a benchmark failed, became worse or is above its bound, 2
        for arguments that make no sense.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["prompts"]:
        from .prompts.command import (
            main as measure_prompts,  # here: its blocks are decorated when it is loaded
        )

        return measure_prompts(arguments[1:])
    options = _parser().parse_args(arguments)
    # Where nobody's window limits it, a row stays on its line.
    console = Console() if sys.stdout.isatty() else Console(width=160)
    try:
        before = read_report(options.against) if options.against is not None else None
        found = choose(
            find_benchmarks(options.modules),
            names=options.names,
            suite=options.suite,
            with_peers=options.peers,
        )
    except (BadReportError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and not _is_asked_for(error, options):
            raise
        print(error, file=sys.stderr)
        return 2
    if not found:
        print(_nothing_chosen(options), file=sys.stderr)
        return 2
    if options.list:
        for each in found:
            console.print(f"{each.benchmark.name}: {each.benchmark.what}", highlight=False, soft_wrap=True)
        return 0
    report = run(found, suite=options.suite, console=console)
    if options.suite == "quick":
        tell_report(console, report)
        peers = {each.benchmark.name for each in found if each.benchmark.is_peer}
        is_within_bounds = tell_errors(console, report, peers)
    else:
        report = measure_doubtful_again(report, found, console)
        tell_report(console, report)
        is_within_bounds = tell_bounds(console, judge(report, GOALS))
    names = {each.benchmark.name for each in found}
    comparison = compare(before, report, chosen=names) if before is not None else None
    if comparison is not None:
        tell_comparison(console, comparison)
    keep(report, comparison, options, console)
    is_good = is_within_bounds and not report.failures and (comparison is None or comparison.is_good)
    return 0 if is_good else 1


def run(found: Sequence[FoundBenchmark], *, suite: Suite, console: Console) -> Report:
    """Carry out benchmarks and tell of each as it ends.

    Args:
        found: The benchmarks.
        suite: How much is measured.
        console: Where to tell.
    """
    taken_at = datetime.now(UTC).isoformat(timespec="seconds")
    load_before = load_average()
    outcomes: list[Outcome] = []
    for number, outcome in enumerate(run_all(found, is_quick=suite == "quick"), 1):
        tell_outcome(console, outcome, f"[{number}/{len(found)}]")
        outcomes.append(outcome)
    return Report(
        taken_at=taken_at,
        suite=suite,
        machine=this_machine(),
        load_before=load_before,
        outcomes=tuple(outcomes),
    )


def measure_doubtful_again(report: Report, found: Sequence[FoundBenchmark], console: Console) -> Report:
    """Measure what is above its bound once more: what a few rounds say by chance, twice as many do not."""
    doubtful = {each.result.benchmark for each in judge(report, GOALS) if each.exceeds_bound and each.result}
    if not doubtful:
        return report
    console.print(f"above a bound, so measured once more: {', '.join(sorted(doubtful))}", highlight=False)
    chosen = [each for each in found if each.benchmark.name in doubtful]
    again = {outcome.benchmark: outcome for outcome in run_all(chosen, is_quick=False)}
    for outcome in again.values():
        tell_outcome(console, outcome, "[again]")
    outcomes = [
        outcome.with_rounds_of(again[outcome.benchmark]) if outcome.benchmark in again else outcome
        for outcome in report.outcomes
    ]
    return replace(report, outcomes=tuple(outcomes))


def keep(
    report: Report, comparison: Comparison | None, options: argparse.Namespace, console: Console
) -> None:
    """Write the files of a run, and say where they are."""
    stamp = datetime.fromisoformat(report.taken_at).strftime("%Y-%m-%d-%H%M%S")
    folder = options.results or RESULTS / f"{stamp}-{report.suite}"
    trouble = write_results(report, folder, comparison=comparison)
    if options.json is not None:
        write_report(report, options.json)
    if trouble is not None:
        console.print(trouble, highlight=False)
    console.print(f"results: {folder}", highlight=False, soft_wrap=True, markup=False)


def _is_asked_for(error: ModuleNotFoundError, options: argparse.Namespace) -> bool:
    """Whether the module that is missing is one that the arguments name, or a package above it."""
    return any(f"{module}.".startswith(f"{error.name}.") for module in options.modules or ())


def _nothing_chosen(options: argparse.Namespace) -> str:
    """Why there is nothing to measure."""
    if not options.names:
        return "there is nothing to measure"
    suite = "" if options.suite == "full" and options.peers else "; --full --peers has more"
    return f"no benchmark of this suite is called {' or '.join(options.names)}{suite}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of nighthawk-async."
    )
    parser.add_argument("names", nargs="*", help="measure only benchmarks whose name contains one of these")
    suite = parser.add_mutually_exclusive_group()
    suite.add_argument(
        "--quick",
        dest="suite",
        action="store_const",
        const="quick",
        help="few operations, to see crashes and failed operations; no time and no ratio is judged",
    )
    suite.add_argument("--full", dest="suite", action="store_const", const="full", help="everything")
    parser.set_defaults(suite="default")
    parser.add_argument("--peers", action="store_true", help="measure what others offer too")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with an earlier results.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="the folder for results (benchmarks/results/DATE-SUITE)"
    )
    parser.add_argument(
        "--from", dest="modules", action="append", metavar="MODULE", help="measure a module of your own"
    )
    parser.add_argument("--list", action="store_true", help="name the benchmarks and measure nothing")
    return parser


if __name__ == "__main__":
    # Whoever ends the suite ends the processes that it measures too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
