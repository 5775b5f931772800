"""`report_as_page`: a report as one file of HTML, which needs no script and no other file."""

import base64
import hashlib
import html
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...observe.node_words import seconds_text
from ...observe.page.files import read_file
from ...types.usage import Usage, cost_text, inexact_mark
from ..comparison import Comparison
from ..errors import UndecidedError
from ..gates import GateResult
from ..report import Report, loaded_report, solved_cost_text
from ..results import STATUSES, CaseResult, TrialResult, TrialStatus

_NONE = "\N{EN DASH}"

MARKS: Mapping[TrialStatus, str] = {
    "passed": "✓",
    "failed": "✕",
    "error": "!",
    "transport": "⇄",
    "unscored": "?",
    "not_run": _NONE,
}
"""The signs of the statuses: colours alone say nothing to some, and nothing on paper."""

_NAME_CHARACTERS = 200
_TEXT_CHARACTERS = 4_000
_LEAST_CHARACTERS = 200
_ALL_CHARACTERS = 4_000_000
"""The number of characters of all texts together, unless even the shortest are more."""

_MOST_OPEN = 20
"""The greatest number of trials that are open at first."""

_SIDES = ("Report", "Baseline")

_BIDIRECTIONAL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")

_STYLE = """\
html, body { height: auto; }
body { max-width: 1200px; margin: 0 auto; padding: 16px 20px 48px; }
h1 { font-size: 18px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 26px 0 8px; }
h3 { font-size: 13px; margin: 18px 0 4px; overflow-wrap: anywhere; }
section { break-inside: avoid-page; }
.scroll { overflow-x: auto; }
.verdict { margin: 12px 0; padding: 8px 12px; border-left: 3px solid; background: var(--raised); }
.verdict { white-space: pre-line; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 14px; }
.facts dt { color: var(--quiet); }
.facts dd, pre { overflow-wrap: anywhere; white-space: pre-wrap; }
.sides { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 24px; }
.sides h4 { margin: 6px 0 2px; font-size: 12px; font-weight: 400; color: var(--quiet); }
details { border-top: 1px solid var(--line); }
summary { padding: 3px 0; cursor: pointer; }
.result { padding: 0 0 10px 14px; }
.result:target { background: var(--note); }
pre { margin: 4px 0; padding: 6px 8px; background: var(--raised); font: 12px/1.4 var(--mono); }
@media (max-width: 700px) { .sides { grid-template-columns: minmax(0, 1fr); } }
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  .matrix .trials { max-width: none; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
}
"""


class _Html(str):
    """Markup. Every other text is escaped when it becomes part of an element."""

    __slots__ = ()


def report_as_page(
    report: Report,
    *,
    baseline: Report | str | os.PathLike[str] | None = None,
    any_subject: bool = False,
    gate: GateResult | None = None,
) -> str:
    """Return a report as one file of HTML: the figures, a matrix of cases and trials, and each trial.

        Path("report.html").write_text(report_as_page(report, baseline="old.jsonl"), encoding="utf-8")

    It opens from a disk, without a server, loads nothing and has no script. Texts of models stay text, and
    long ones are shortened.

    Args:
        report: The report.
        baseline: An earlier report, or the path of its file, to show beside it; None for none.
        any_subject: Whether the baseline may be the report of another subject.
        gate: The verdict on the report, from `check_gate`, to show above all else; None for none.

    Raises:
        ReportError: The baseline cannot be read, or is the report of another subject.
    """
    earlier = None if baseline is None else loaded_report(baseline)
    return _Page(report, earlier, any_subject=any_subject, gate=gate).text()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A case of the reports.

    Args:
        case: The case, as the report has it, or else the baseline.
        sides: The case in the report and, if there is one, in the baseline; None where it is not.
        number: Its number on the page.
    """

    case: CaseResult
    sides: tuple[CaseResult | None, ...]
    number: int = 0

    def trials(self) -> Iterator[list[tuple[str, TrialResult]]]:
        """The trials in each of the reports, with the names of their places on the page."""
        for side, case in zip(_SIDES, self.sides, strict=False):
            trials = () if case is None else case.trials
            yield [(f"{side.lower()}-{self.number}-{trial.number}", trial) for trial in trials]


class _Page:
    """The page of a report, and of its baseline.

    Raises:
        ReportError: The baseline is the report of another subject.
    """

    def __init__(
        self, report: Report, baseline: Report | None, *, any_subject: bool, gate: GateResult | None
    ) -> None:
        self._report = report
        self._gate = gate
        self._baseline = baseline
        self._reports = (report,) if baseline is None else (report, baseline)
        self._comparison: Comparison | None = None
        self._verdict = ""
        if baseline is not None:
            try:
                self._comparison = report.compare(baseline, any_subject=any_subject)
                self._verdict = str(self._comparison)
            except UndecidedError as error:
                self._verdict = str(error)
        self._rows = _rows_of(self._reports)
        trials = [trial for each in self._reports for trial in each.trials]
        texts = 2 * len(self._rows) + sum(2 + len(trial.scores) for trial in trials)
        self._limit = min(_TEXT_CHARACTERS, max(_LEAST_CHARACTERS, _ALL_CHARACTERS // max(1, texts)))
        others = sum(not trial.has_passed for trial in trials)
        self._opens_others = others <= _MOST_OPEN

    def text(self) -> str:
        """Return the page."""
        title = f"Evaluation of {_cut(self._report.subject, _NAME_CHARACTERS)}"
        style = read_file("theme.css").decode() + read_file("evaluation.css").decode() + _STYLE
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        head = (
            '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"{_tag('title', title)}\n<style>{style}</style>\n"
        )
        parts = [_tag("h1", title), self._facts(), *self._shown_verdict()]
        parts += [_tag("h2", "Figures"), self._figures(), _tag("h2", "Cases and trials"), self._matrix()]
        parts += [_legend(), _tag("h2", "Trials"), *map(self._case, self._rows)]
        body = "\n".join(parts)
        return f'<!doctype html>\n<html lang="en">\n<head>\n{head}</head>\n<body>\n{body}\n</body>\n</html>\n'

    def _facts(self) -> _Html:
        report = self._report
        facts = {
            "Cases": str(len(report.cases)),
            "Scorers": ", ".join(report.scorers),
            "Pass mark": f"{report.pass_mark:g}",
            "Seed": str(report.seed),
        }
        return _definitions({name: _cut(text, self._limit) for name, text in facts.items()})

    def _shown_verdict(self) -> Iterator[_Html]:
        if self._gate is not None and (
            self._gate.at_least is not None or self._gate.reasons or self._gate.warnings
        ):
            yield _tag(
                "p",
                _gate_text(self._gate),
                class_="verdict",
                data_change=_GATE_CHANGES.get(self._gate.verdict, "worse"),
            )
        if self._verdict:
            change = {"improved": "better", "regressed": "worse"}
            verdict = "" if self._comparison is None else self._comparison.verdict
            text = f"Compared with the baseline: {_cut(self._verdict, _TEXT_CHARACTERS)}"
            yield _tag("p", text, class_="verdict", data_change=change.get(verdict))

    def _figures(self) -> _Html:
        names = ["Figure", *_SIDES[: len(self._reports)]]
        head = _tag("tr", *(_tag("th", name, scope="col") for name in names))
        rows = [
            _tag(
                "tr",
                _tag("th", name, scope="row"),
                *(_tag("td", _figure(figure, each), class_="number") for each in self._reports),
            )
            for name, figure in self._named_figures().items()
        ]
        return _table("figures", "", head, rows)

    def _named_figures(self) -> Mapping[str, Callable[[Report], str]]:
        k = min(each.trials_per_case for each in self._reports)
        figures: dict[str, Callable[[Report], str]] = {
            "Evaluated": _evaluated,
            "Model": lambda report: _cut(report.model or _NONE, _NAME_CHARACTERS),
            "Trials of each case": lambda report: str(report.trials_per_case),
            "Pass rate (pass@1)": lambda report: f"{report.pass_rate:.3f}",
            f"{self._report.confidence:.0%} interval": lambda report: str(report.interval),
        }
        if k > 1:
            figures[f"pass@{k}: at least one of {k}"] = lambda report: f"{report.pass_at(k):.3f}"
            figures[f"pass^{k}: all of {k}"] = lambda report: f"{report.pass_all(k):.3f}"
            figures["Flaky / failed always / passed always"] = _reliability
        if any(each.pass_rate_by_tag for each in self._reports):
            figures["Worst tag"] = _worst_tag
        for status in STATUSES:
            if any(each.counts[status] for each in self._reports):
                figures[f"{MARKS[status]} {status.replace('_', ' ')}"] = lambda report, status=status: str(
                    report.counts[status]
                )
        for scorer in dict.fromkeys(name for each in self._reports for name in each.scorers):
            name = f"Mean score: {_cut(scorer, _NAME_CHARACTERS)}"
            figures[name] = lambda report, scorer=scorer: f"{report.mean_score(scorer):.3f}"
        figures["Cost"] = lambda report: cost_text(report.usage) or _NONE
        figures["Cost of a solved case"] = lambda report: solved_cost_text(report) or _NONE
        figures["Cost of scoring"] = lambda report: cost_text(report.scoring_usage) or _NONE
        figures["Tokens in / out"] = lambda report: _tokens(report.usage)
        figures["Requests"] = lambda report: f"{report.usage.requests:,}"
        figures["Mean time of a trial"] = lambda report: _seconds(report.seconds)
        return figures

    def _matrix(self) -> _Html:
        names = ["Case", "Trials", "Passed"]
        if self._baseline is not None:
            names += ["Baseline", "Passed", "Change"]
        head = _tag("tr", *(_tag("th", name, scope="col") for name in names))
        changes = _changes(self._comparison)
        rows = [self._row(row, changes) for row in self._rows]
        return _table("", "Each mark leads to its trial.", head, rows)

    def _row(self, row: _Row, changes: Mapping[str, tuple[str, str]]) -> _Html:
        cells = [_tag("th", _cut(row.case.name, _NAME_CHARACTERS), scope="row")]
        for case, trials in zip(row.sides, row.trials(), strict=True):
            marks = (_mark(trial, name) for name, trial in trials)
            cells += [_tag("td", *marks, class_="trials"), _tag("td", _rate(case), class_="number")]
        if self._baseline is not None:
            change, text = changes.get(row.case.name, ("", ""))
            cells.append(_tag("td", text, data_change=change or None))
        return _tag("tr", *cells)

    def _case(self, row: _Row) -> _Html:
        case, is_alone = row.case, self._baseline is None
        facts = {
            "Inputs": case.inputs,
            "Expected": case.expected,
            "Tags": ", ".join(case.tags),
            "Severity": "" if case.severity == "blocking" else case.severity,
        }
        sides = [
            _tag(
                "div",
                "" if is_alone else _tag("h4", side),
                *(self._trial(trial, name) for name, trial in trials),
            )
            for side, trials in zip(_SIDES, row.trials(), strict=False)
        ]
        return _tag(
            "section",
            _tag("h3", _cut(case.name, _NAME_CHARACTERS)),
            _definitions({name: _cut(text, self._limit) for name, text in facts.items()}),
            _tag("div", *sides, class_=None if is_alone else "sides"),
        )

    def _trial(self, trial: TrialResult, name: str) -> _Html:
        figures = [_seconds(trial.seconds) if trial.seconds else "", cost_text(trial.usage)]
        shown = ", ".join(
            [f" trial {trial.number}: {trial.status.replace('_', ' ')}", *filter(None, figures)]
        )
        scores = {
            f"Score: {_cut(scorer, _NAME_CHARACTERS)}": _cut(str(score), self._limit)
            for scorer, score in trial.scores.items()
        }
        usage = trial.usage + trial.scoring_usage
        further = {
            "Tokens in / out": _tokens(usage) if usage.requests else "",
            "Retries": str(trial.retries or ""),
            "Seed": str(trial.seed),
        }
        parts = [_definitions({**scores, **further})]
        if trial.error:
            parts.append(_tag("pre", f"Error: {_cut(trial.error, self._limit)}"))
        if trial.output:
            parts.append(_tag("pre", _cut(trial.output, self._limit)))
        is_open = self._opens_others and not trial.has_passed
        return _tag(
            "details",
            _tag("summary", _mark(trial, None), shown),
            _tag("div", *parts, class_="result", id=name),
            open="" if is_open else None,
        )


def _reliability(report: Report) -> str:
    counts = report.reliability
    return f"{counts['flaky']} / {counts['all_fail']} / {counts['all_pass']}"


def _worst_tag(report: Report) -> str:
    tag = report.worst_tag
    return _NONE if tag is None else f"{_cut(tag, _NAME_CHARACTERS)}: {report.pass_rate_by_tag[tag]:.3f}"


_GATE_CHANGES: Mapping[str, str | None] = {"passed": "better", "inconclusive": None}
"""How verdicts are shown that are not failures."""


def _gate_text(gate: GateResult) -> str:
    """Return the verdict of a gate with its reasons."""
    asked = "" if gate.at_least is None else f", at least {gate.at_least:g} asked"
    judged = gate.judged
    rate = f", pass rate {judged.pass_rate:.3f}{asked}" if judged.decided else ""
    lines = [f"The gate: {gate.verdict}{rate}", *gate.reasons, *gate.warnings]
    return _cut("\n".join(lines), _TEXT_CHARACTERS)


def _place(row: _Row) -> int:
    """The place of a case in the order of the page."""
    case = row.sides[0]
    if case is None or all(trial.has_passed for trial in case.trials):
        return 2
    return 0 if case.reliability == "flaky" else 1


def _rows_of(reports: tuple[Report, ...]) -> list[_Row]:
    """Return the cases: flaky ones first, then others with failures in the report."""
    sides = [{case.name: case for case in report.cases} for report in reports]
    names = dict.fromkeys(name for side in sides for name in side)
    rows = [
        _Row(
            case=next(side[name] for side in sides if name in side),
            sides=tuple(side.get(name) for side in sides),
        )
        for name in names
    ]
    ordered = sorted(rows, key=_place)
    return [replace(row, number=number) for number, row in enumerate(ordered, 1)]


def _changes(comparison: Comparison | None) -> dict[str, tuple[str, str]]:
    """Return the change of each case, and the words for it."""
    if comparison is None:
        return {}
    changes = {
        each.name: ("better", f"▲ better {each.difference:+.2f}")
        if each.difference > 0
        else ("worse", f"▼ worse {each.difference:+.2f}")
        if each.difference < 0
        else ("", "= same")
        for each in comparison.cases
    }
    for names, text in (
        (comparison.only_current, "only in the report"),
        (comparison.only_baseline, "only in the baseline"),
        (comparison.changed, "other inputs or expectation"),
        (comparison.undecided, "not decided in both"),
    ):
        changes.update((name, ("", text)) for name in names)
    return changes


def _mark(trial: TrialResult, target: str | None) -> _Html:
    text = f"trial {trial.number}: {trial.status.replace('_', ' ')}"
    if target is None:
        return _tag("span", MARKS[trial.status], class_="trial", data_status=trial.status, aria_hidden="true")
    link = {"href": f"#{target}", "title": text, "aria_label": text}
    return _tag("a", MARKS[trial.status], class_="trial", data_status=trial.status, **link)


def _legend() -> _Html:
    return _tag(
        "p",
        *(
            _tag(
                "span", _tag("span", mark, class_="trial", data_status=status), f" {status.replace('_', ' ')}"
            )
            for status, mark in MARKS.items()
        ),
        class_="legend",
    )


def _rate(case: CaseResult | None) -> str:
    return f"{case.passed} of {case.decided}" if case is not None and case.decided else _NONE


def _figure(figure: Callable[[Report], str], report: Report) -> str:
    try:
        return figure(report)
    except (UndecidedError, KeyError):  # a scorer of the other report
        return _NONE


def _evaluated(report: Report) -> str:
    if not report.created_at:
        return _NONE
    try:
        return datetime.fromtimestamp(report.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a file may say anything
        return _NONE


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else seconds_text(seconds)


def _tokens(usage: Usage) -> str:
    return f"{inexact_mark(usage)}{usage.input_tokens:,} / {usage.output_tokens:,}"


def _definitions(facts: Mapping[str, str]) -> _Html:
    shown = (part for name, text in facts.items() if text for part in (_tag("dt", name), _tag("dd", text)))
    return _tag("dl", *shown, class_="facts")


def _table(class_name: str, caption: str, head: _Html, rows: list[_Html]) -> _Html:
    parts = [_tag("caption", caption)] if caption else []
    table = _tag(
        "table", *parts, _tag("thead", head), _tag("tbody", *rows), class_=f"matrix {class_name}".strip()
    )
    return _tag("div", table, class_="scroll")


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters)"


def _tag(name: str, *content: str, **attributes: str | None) -> _Html:
    """Return an element. Content that is no markup is escaped, and so are the values of attributes."""
    shown = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(each if isinstance(each, _Html) else _escape(each) for each in content)
    return _Html(f"<{name}{shown}>{inner}</{name}>")


def _escape(text: str) -> str:
    """The text as HTML, with visible signs instead of characters that reverse the direction of reading."""
    if not text.isascii() or not text.isprintable():
        text = _NO_TEXT.sub("\ufffd", text)
        text = _BIDIRECTIONAL.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)
    return html.escape(text)
