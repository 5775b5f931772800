"""The figures of one evaluation over the commits of a program: as lines of text, and as a plot."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..errors import ReportError
from ..grid_report import svg_escaped, svg_text
from ..report import Report, loaded_report, solved_cost_text

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 20, 24, 96
_MOST_LABELS = 24
_COMMIT_CHARACTERS = 8
_STYLE = (
    "text{font:12px sans-serif;fill:#333}line{stroke:#999}polyline{fill:none;stroke:#3366cc;stroke-width:2}"
    "circle{fill:#3366cc}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The reports of one subject, the earliest first.

        print(history(Path("reports").glob("*.jsonl")))

    Args:
        reports: The reports. Those without a decided trial are left out.
    """

    reports: tuple[Report, ...]

    def __str__(self) -> str:
        """The figures of each report on a line, the pass rates also as bars."""
        lines = [f"{self.reports[0].subject}: {len(self.reports)} reports"]
        width = max(len(_label(report)) for report in self.reports)
        for report in self.reports:
            bar = "█" * round(report.pass_rate * 20)
            cost = solved_cost_text(report)
            figures = [f"{report.pass_rate:.3f} ({report.interval})"]
            if cost:
                figures.append(f"{cost} for each solved case")
            lines.append(f"{_label(report):<{width}}  {bar:<20}  {', '.join(figures)}")
        return "\n".join(lines)

    def svg(self) -> str:
        """Return a plot of the pass rates with their intervals as a whole SVG document."""
        count = len(self.reports)
        bottom, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        across = [round(_LEFT + (end - _LEFT) * (index + 0.5) / count, 1) for index in range(count)]

        def up(rate: float) -> float:
            return round(bottom - rate * (bottom - _TOP), 1)

        parts = [f'<line x1="{_LEFT}" y1="{bottom}" x2="{end}" y2="{bottom}"/>']
        parts += [svg_text(_LEFT - 8, up(part / 4) + 4, f"{part / 4:.2f}", "end") for part in range(5)]
        places = " ".join(
            f"{x},{up(report.pass_rate)}" for x, report in zip(across, self.reports, strict=True)
        )
        parts.append(f'<polyline points="{places}"/>')
        every = -(-count // _MOST_LABELS)
        for index, (x, report) in enumerate(zip(across, self.reports, strict=True)):
            low, high = up(report.interval.low), up(report.interval.high)
            parts.append(
                f'<g><line x1="{x}" y1="{low}" x2="{x}" y2="{high}"/>'
                f'<circle cx="{x}" cy="{up(report.pass_rate)}" r="4"/>'
                f"<title>{svg_escaped(_label(report))}: {report.pass_rate:.3f}</title></g>"
            )
            if index % every == 0:
                parts.append(svg_text(x, bottom + 12, _label(report), "end", is_turned=True))
        title = f"Pass rate of {self.reports[0].subject}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
            f"<title>{svg_escaped(title)}</title><style>{_STYLE}</style>"
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>{svg_text(8, 14, title, "start")}'
            f"{''.join(parts)}</svg>"
        )


def history(reports: Iterable[Report | str | os.PathLike[str]]) -> History:
    """Put the reports of one subject into the order of time.

    Args:
        reports: The reports, or the paths of their files; a folder stands for all `.jsonl` files in it.

    Raises:
        ReportError: A file cannot be read, there is no report with a decided trial, or they are of several
            subjects.
    """
    loaded = [report for each in reports for report in _loaded(each)]
    decided = sorted((each for each in loaded if each.decided), key=lambda each: each.created_at)
    subjects = list(dict.fromkeys(each.subject for each in decided))
    if not subjects:
        raise ReportError("There is no report in which a trial was decided.")
    if len(subjects) > 1:
        raise ReportError(f"A history is of one subject, and these are several: {', '.join(subjects)}.")
    return History(reports=tuple(decided))


def _loaded(report: Report | str | os.PathLike[str]) -> Sequence[Report]:
    if not isinstance(report, Report) and Path(report).is_dir():
        return [loaded_report(path) for path in sorted(Path(report).glob("*.jsonl"))]
    return [loaded_report(report)]


def _label(report: Report) -> str:
    """The commit and the day of a report."""
    day = datetime.fromtimestamp(report.created_at, UTC).strftime("%Y-%m-%d")
    return f"{report.commit[:_COMMIT_CHARACTERS]} {day}" if report.commit else day
