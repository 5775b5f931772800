"""Markdown of evaluations, for pull requests and summaries of jobs; figures of reports side by side."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ...types.usage import Usage, cost_text
from ..comparison import CaseDifference
from ..errors import UndecidedError
from ..gates import GateResult
from ..report import Report, escaped, reliability_lines, solved_cost_text
from ..results import CaseResult

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
        (tag, name, *_row_of(part, scorers))
        for tag, _ in tags.most_common()
        for name, each in named
        if (part := each.part(lambda case, tag=tag: tag in case.tags)).cases
    ]
    rows += [(_ALL, name, *_row_of(each, scorers)) for name, each in named]
    head = (*_HEAD, *(name.replace("_", " ") for name in scorers))
    return FigureTable(head=head, rows=tuple(rows), comparison=_compared(named))


def _short_names(subjects: Sequence[str]) -> list[str]:
    """Return names without the module, where all have the same one."""
    modules = {subject.rpartition(":")[0] for subject in subjects}
    return [subject.rpartition(":")[2] if len(modules) == 1 else subject for subject in subjects]


def _row_of(report: Report, scorers: Sequence[str]) -> tuple[str, ...]:
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


def _compared(named: Sequence[tuple[str, Report]]) -> str:
    if len(named) != 2:
        return ""
    (name, report), (other, baseline) = named
    try:
        return f"{name} compared with {other}: {report.compare(baseline, any_subject=True)}"
    except UndecidedError:
        return ""


_MOST_ROWS = 50
_MOST_FAILED_ROWS = 200

_CASE_WORDS: Mapping[str, str] = {
    "passed": "passed",
    "tolerated": "below, tolerated",
    "failed": "**failed**",
    "warned": "failed, a warning",
    "noted": "failed, informational",
    "undecided": "not decided",
}


def markdown_table(results: Iterable[GateResult]) -> str:
    """Return the figures of reports as Markdown: a summary and a table of the cases of each.

    Several reports are also shown side by side, for all cases and for those of each tag.
    Cases that failed come first. Of more than 50, those that passed are left out; of more than 200, all.

    Args:
        results: The reports, judged.
    """
    given = list(results)
    sections = [_section(result) for result in given]
    if len(given) > 1:
        sections.append(_side_by_side(given))
    return "\n".join(sections)


def _section(result: GateResult) -> str:
    report = result.report
    lines = [f"### {escaped(report.subject)}: {result.verdict}", "", _figures(result), ""]
    reasons = (*result.reasons, *result.warnings)
    lines += [f"- {escaped(line)}" for reason in reasons for line in reason.splitlines()]
    if result.comparison is not None and not any("pass rate" in each for each in result.reasons):
        lines += [f"- {escaped(line)}" for line in str(result.comparison).splitlines()]
    if lines[-1]:
        lines.append("")
    differences = {} if result.comparison is None else {each.name: each for each in result.comparison.cases}
    has_baseline = result.comparison is not None
    headings = ["case", "result", "passed", *(["baseline"] if has_baseline else []), "time", "cost", "reason"]
    lines.append(f"| {' | '.join(headings)} |")
    lines.append(f"|{'|'.join('---' for _ in headings)}|")
    ordered = sorted(report.cases, key=lambda case: _rank(result, case, differences.get(case.name)))
    shown = [
        case
        for index, case in enumerate(ordered[:_MOST_FAILED_ROWS])
        if index < _MOST_ROWS or result.case_verdict(case) != "passed"
    ]
    for case in shown:
        cells = [escaped(case.name), _CASE_WORDS[result.case_verdict(case)], f"{case.passed}/{case.decided}"]
        if has_baseline:
            cells.append(_change(differences.get(case.name)))
        cells += [_time(case), _cost(case), escaped(_reason(case))]
        lines.append(f"| {' | '.join(cells)} |")
    if len(shown) < len(ordered):
        left_out = [result.case_verdict(case) for case in ordered[len(shown) :]]
        lines += ["", f"{len(left_out)} more cases, {left_out.count('failed')} of them failed."]
    return "\n".join(lines) + "\n"


def _side_by_side(results: Sequence[GateResult]) -> str:
    figures = side_by_side([result.report for result in results])
    lines = ["### Side by side", "", f"| {' | '.join(map(escaped, figures.head))} |"]
    lines.append(f"|---|---|{'---:|' * (len(figures.head) - 2)}")
    lines += [f"| {' | '.join(map(escaped, row))} |" for row in figures.rows]
    if figures.comparison:
        lines += ["", *(f"- {escaped(line)}" for line in figures.comparison.splitlines())]
    return "\n".join(lines) + "\n"


def _figures(result: GateResult) -> str:
    report = result.report
    parts: list[str] = []
    if report.decided:
        asked = "" if result.at_least is None else f", at least {result.at_least:g} asked"
        low, high = report.interval.low, report.interval.high
        parts.append(f"**pass rate {report.pass_rate:.3f}** ({low:.3f} to {high:.3f}){asked}")
    counts = [f"{count} {status.replace('_', ' ')}" for status, count in report.counts.items() if count]
    parts.append(f"{len(report.cases)} cases, {report.trials_per_case} trials each: {', '.join(counts)}")
    parts += map(escaped, reliability_lines(report))
    solved = f", {cost} for each solved case" if (cost := solved_cost_text(report)) else ""
    parts.append(f"{report.usage.requests} requests, {escaped(str(report.usage))}{solved}")
    if report.model:
        parts.append(f"model {escaped(report.model)}")
    return " · ".join(parts)


def _rank(result: GateResult, case: CaseResult, difference: CaseDifference | None) -> tuple[int, bool, float]:
    """The place of a case: by its verdict, flaky ones before others, then those that became worse."""
    order = ("failed", "undecided", "warned", "tolerated", "noted", "passed")
    fell = 0.0 if difference is None else difference.difference
    return order.index(result.case_verdict(case)), case.reliability != "flaky", fell


def _change(difference: CaseDifference | None) -> str:
    if difference is None:
        return "not compared"
    if not difference.difference:
        return "same"
    return f"{difference.baseline:.2f} → {difference.current:.2f}"


def _time(case: CaseResult) -> str:
    times = [trial.seconds for trial in case.trials if trial.is_decided]
    return f"{fmean(times):.2f} s" if times else ""


def _cost(case: CaseResult) -> str:
    return cost_text(sum((trial.usage + trial.scoring_usage for trial in case.trials), Usage()))


def _reason(case: CaseResult) -> str:
    """Return the reason of the first trial that did not pass."""
    for trial in case.trials:
        if trial.has_passed:
            continue
        if trial.error:
            return trial.error
        reasons = [
            f"{name}: {score.reason or f'{score.value:g}'}"
            for name, score in trial.scores.items()
            if not score.passed
        ]
        return "; ".join(reasons) or trial.output
    return ""
