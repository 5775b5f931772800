"""A run as a page of Markdown. It writes no file and measures nothing."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..machine import BUSY_SHARE
from .compare import Comparison, Difference
from .document import Report
from .figures import as_figure
from .goal_table import GOALS
from .goals import Judgement, judge
from .plots import Plot
from .side_by_side import Grid, full_grid, grids_of_workloads

__all__ = ["as_markdown", "bound_in_words", "busy_warning", "difference_in_words"]


def as_markdown(report: Report, *, plots: Sequence[Plot] = (), comparison: Comparison | None = None) -> str:
    """The page of a run.

    Args:
        report: The run.
        plots: The plots that lie beside the page.
        comparison: How the run stands to an earlier one, if it was compared.
    """
    parts = [
        "# Benchmarks\n",
        *_circumstances(report),
        *_troubles(report),
        "## Goals\n",
        *_goals(report),
        *(_comparison(comparison) if comparison is not None else ()),
        *_plots(plots),
        *(["## Side by side\n"] if any(result.workload for result in report.results) else []),
        *(
            part
            for grid in grids_of_workloads(report.results)
            for part in (f"### {grid.title}\n", _table(grid))
        ),
        "## Every figure\n",
        _table(full_grid(report.results)),
    ]
    return "\n".join(parts)


def busy_warning(report: Report) -> str | None:
    """One line that says that other processes made the figures doubtful; None when they did not."""
    shares = [
        (outcome.load.others_share, outcome.benchmark)
        for outcome in report.outcomes
        if outcome.load is not None and outcome.load.is_busy and outcome.load.others_share is not None
    ]
    if shares:
        most, benchmark = max(shares)
        return (
            f"The machine was busy: other processes took more than {BUSY_SHARE:.0%} of it during "
            f"{len(shares)} of {len(report.outcomes)} benchmarks, at most {most:.0%} ({benchmark}). "
            "Do not trust these times."
        )
    processors = report.machine.processors or 1
    if report.load_before is not None and report.load_before > processors / 2:
        return (
            f"The machine was busy when this run began: its load average was {report.load_before:.1f} on "
            f"{processors} processors."
        )
    return None


def difference_in_words(difference: Difference) -> str:
    """What became of one line."""
    before, after = difference.before, difference.after
    unit = after.kind.unit
    if after.metric == "errors":
        return f"{after.benchmark} (errors): {before.worst:g} -> {after.worst:g}"
    change = f", {after.median / before.median - 1:+.0%}" if before.median > 0 else ""
    return (
        f"{after.benchmark} ({after.metric}): {as_figure(before.median, unit)} -> "
        f"{as_figure(after.median, unit)}{change} (noise: {as_figure(difference.noise, unit)})"
    )


def bound_in_words(judgement: Judgement) -> str:
    """One line that says how a figure stands to the bound above which it fails a run."""
    assert judgement.result is not None
    assert judgement.value is not None
    assert judgement.check.bound is not None
    unit = judgement.check.line.kind.unit
    figures = {
        "bound": judgement.check.bound,
        "spread": judgement.result.spread,
        "noise": judgement.noise,
    }
    told = ", ".join(f"{name} {as_figure(value, unit)}" for name, value in figures.items())
    return (
        f"{judgement.goal.title}, {judgement.check.name}: {as_figure(judgement.value, unit)} ({told}; goal "
        f"{judgement.check.limit.words}, {judgement.verdict})"
    )


def _circumstances(report: Report) -> Iterator[str]:
    machine = report.machine
    commit = f", revision {machine.commit}" if machine.commit else ""
    load = "" if report.load_before is None else f"; load average {report.load_before:.2f} before"
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield f"Taken {report.taken_at}{commit}, suite: {report.suite}.\n"
    yield (
        f"{machine.implementation} {machine.python} on {machine.platform} ({machine.architecture}), "
        f"{machine.processors} processors{load}.\n"
    )
    yield f"{versions}.\n"
    if report.suite == "quick":
        yield "**A quick run looks for crashes and failed operations: its figures say nothing.**\n"
    warning = busy_warning(report)
    if warning is not None:
        yield f"**{warning}**\n"


def _troubles(report: Report) -> Iterator[str]:
    for outcome in report.outcomes:
        if outcome.state == "failed":
            yield f"**{outcome.benchmark} failed:**\n\n```text\n{outcome.reason}\n```\n"
        elif outcome.state == "not here":
            yield f"{outcome.benchmark} could not be measured here: {outcome.reason}\n"
        elif outcome.said is not None:
            yield f"{outcome.benchmark} said:\n\n```text\n{outcome.said}\n```\n"


def _goals(report: Report) -> Iterator[str]:
    """The table of goals, a row for each figure that has a limit."""
    if report.suite == "quick":
        yield "A quick run judges no goal.\n"
        return
    judgements = judge(report, GOALS)
    rows: list[tuple[str, ...]] = []
    for _, group in groupby(judgements, key=lambda each: each.goal.title):
        for place, each in enumerate(group):
            title = each.goal.title if place == 0 else ""
            rows.append((title, each.check.name, _limit(each), _measured(each), each.verdict, _bound(each)))
    headings = ("goal", "of", "at most", "measured", "verdict", "fails above")
    yield _table(Grid(title="goals", headings=headings, rows=tuple(rows), words=6))


def _limit(judgement: Judgement) -> str:
    limit = judgement.check.limit
    if limit.of is None or judgement.limit is None:
        return limit.words
    return f"{limit.words} = {as_figure(judgement.limit, judgement.check.line.kind.unit)}"


def _bound(judgement: Judgement) -> str:
    bound = judgement.check.bound
    if bound is None:
        return ""
    return as_figure(bound, judgement.check.line.kind.unit) + (": failed" if judgement.exceeds_bound else "")


def _measured(judgement: Judgement) -> str:
    if judgement.value is None:
        return ""
    kind = judgement.check.line.kind
    failed = f", {judgement.errors:g} errors" if judgement.errors and kind.name != "errors" else ""
    return as_figure(judgement.value, kind.unit) + failed


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield "## Against the earlier run\n"
    groups = (
        ("Worse", [difference_in_words(each) for each in comparison.regressions]),
        ("Better", [difference_in_words(each) for each in comparison.improvements]),
        ("Not compared", comparison.not_compared),
        ("With caution", comparison.cautions),
    )
    yield f"{len(comparison.differences)} lines compared.\n"
    for title, lines in groups:
        if lines:
            yield "\n".join([f"{title}:\n", *(f"- {line}" for line in lines), ""])


def _plots(plots: Sequence[Plot]) -> Iterator[str]:
    if plots:
        yield "## Plots\n"
    yield from (f"![{plot.title}]({plot.file})\n" for plot in plots)


def _table(grid: Grid) -> str:
    rules = ["---" if column < grid.words else "---:" for column in range(len(grid.headings))]
    lines = (grid.headings, rules, *grid.rows)
    return "".join(f"| {' | '.join(map(_escaped, line))} |\n" for line in lines)


def _escaped(text: str) -> str:
    """A text that ends no cell of a table."""
    return text.replace("|", "\\|")
