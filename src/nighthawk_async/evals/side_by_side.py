"""Reports side by side: the figures that every evaluation has, for all cases and for those of each tag."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..types.usage import cost_text
from .errors import UndecidedError
from .report import Report

_HEAD = (
    *("cases", "evaluation", "passed", "pass rate", "interval"),
    *("requests", "tokens in", "tokens out", "cost", "time"),
)
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """A table of figures. The first two columns are text, the others numbers.

    Args:
        head: The headings.
        rows: The rows, grouped by their first cell.
        comparison: The comparison of two reports; empty for other numbers, and without cases in common.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    comparison: str


def side_by_side(reports: Sequence[Report]) -> FigureTable:
    """Return the figures of reports side by side: a group of rows for each tag, and one for all cases.

    Tags with more cases come first. Requests and time are means over decided trials; tokens and cost are sums
    over everything. Where a report has several scorers, the mean of each is a column.

    Args:
        reports: The reports.
    """
    scorers = tuple(dict.fromkeys(name for each in reports if len(each.scorers) > 1 for name in each.scorers))
    tags = Counter(tag for each in reports for case in each.cases for tag in dict.fromkeys(case.tags))
    named = list(zip(_short_names([each.subject for each in reports]), reports, strict=True))
    rows = [
        (tag, name, *_figures(part, scorers))
        for tag, _ in tags.most_common()
        for name, each in named
        if (part := each.part(lambda case, tag=tag: tag in case.tags)).cases
    ]
    rows += [(_ALL, name, *_figures(each, scorers)) for name, each in named]
    head = (*_HEAD, *(name.replace("_", " ") for name in scorers))
    return FigureTable(head=head, rows=tuple(rows), comparison=_comparison(named))


def _short_names(subjects: Sequence[str]) -> list[str]:
    """Return names without the module, where all have the same one."""
    modules = {subject.rpartition(":")[0] for subject in subjects}
    return [subject.rpartition(":")[2] if len(modules) == 1 else subject for subject in subjects]


def _figures(report: Report, scorers: Sequence[str]) -> tuple[str, ...]:
    decided = [trial for trial in report.trials if trial.is_decided]
    usage = report.usage
    return (
        f"{report.counts['passed']}/{len(decided)}",
        f"{report.pass_rate:.3f}" if decided else "",
        str(report.interval) if decided else "",
        f"{fmean(trial.usage.requests for trial in decided):.2f}" if decided else "",
        f"{usage.input_tokens:,}",
        f"{usage.output_tokens:,}",
        cost_text(usage) or ("unknown" if usage.unpriced_requests else ""),
        f"{report.seconds:.2f} s" if decided else "",
        *(_mean(report, name) for name in scorers),
    )


def _mean(report: Report, scorer: str) -> str:
    try:
        return f"{report.mean_score(scorer):.2f}"
    except (KeyError, UndecidedError):
        return ""


def _comparison(named: Sequence[tuple[str, Report]]) -> str:
    if len(named) != 2:
        return ""
    (name, report), (other, baseline) = named
    try:
        return f"{name} compared with {other}: {report.compare(baseline, any_subject=True)}"
    except UndecidedError:
        return ""
