"""Scatter plots as SVG, without a library for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..prompt.plain_text import single_line

_WIDTH, _HEIGHT = 640, 400
_NAME_CHARACTERS = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 160, 20, 50
_STYLE = (
    "text{font:12px sans-serif;fill:#333}line,polyline{stroke:#999;fill:none}circle{fill:#3366cc}"
    ".front{stroke:#3366cc;stroke-dasharray:4 3}.off{fill:#999}.faint{opacity:.45}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point with an interval.

    Args:
        name: Its label.
        across: Its place on the horizontal axis, 0 or more.
        up: Its place on the vertical axis, from 0 to 1.
        low: The lower end of its interval.
        high: The upper end of its interval.
        is_on_front: Whether the line of the Pareto front goes through it.
        is_faint: Whether it is drawn faintly.
    """

    name: str
    across: float
    up: float
    low: float
    high: float
    is_on_front: bool
    is_faint: bool


def scatter_plot(points: Sequence[Point], *, across: str, up: str) -> str:
    """Return the plot of points as a whole SVG document.

    Args:
        points: The points; at least one.
        across: The title of the horizontal axis.
        up: The title of the vertical axis.
    """
    right = max(point.across for point in points) * 1.05 or 1.0
    bottom, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x(value: float) -> float:
        return round(_LEFT + value / right * (end - _LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - value * (bottom - _TOP), 1)

    parts = [
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{end}" y2="{bottom}"/>',
        f'<line x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>',
        *(svg_text(_LEFT - 8, y(part / 4) + 4, f"{part / 4:.2f}", "end") for part in range(5)),
        *(
            svg_text(x(right * part / 4), bottom + 18, f"{right * part / 4:.3g}", "middle")
            for part in range(5)
        ),
        svg_text((_LEFT + end) / 2, _HEIGHT - 10, across, "middle"),
        svg_text(8, 14, up, "start"),
    ]
    front = sorted((point for point in points if point.is_on_front), key=lambda each: each.across)
    if len(front) > 1:
        places = " ".join(f"{x(point.across)},{y(point.up)}" for point in front)
        parts.append(f'<polyline class="front" points="{places}"/>')
    for point in points:
        place = x(point.across)
        kind = " ".join(
            name for name, is_so in (("off", not point.is_on_front), ("faint", point.is_faint)) if is_so
        )
        parts += [
            f'<g class="{kind}">'
            f'<line x1="{place}" y1="{y(point.low)}" x2="{place}" y2="{y(point.high)}"/>'
            f'<circle class="{kind}" cx="{place}" cy="{y(point.up)}" r="5"/>'
            f"<title>{svg_escaped(point.name)}: {point.up:.3f}, {point.across:.4g}</title>"
            f"{svg_text(place + 9, y(point.up) + 4, point.name, 'start')}</g>"
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escape(up)} by {escape(across)}</title><style>{_STYLE}</style>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def svg_text(x: float, y: float, text: str, anchor: str, *, is_turned: bool = False) -> str:
    """Return a text of a plot.

    Args:
        x: The place of its anchor.
        y: The same.
        text: The text.
        anchor: `start`, `middle` or `end`.
        is_turned: Whether it is written upwards to the right, where others stand beside it.
    """
    turn = f' transform="rotate(-45 {x} {y})"' if is_turned else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{turn}>{svg_escaped(text)}</text>'


def svg_escaped(text: str) -> str:
    """Return a text for XML, which has no control characters."""
    return escape(single_line(text, _NAME_CHARACTERS).translate({0xFFFE: " ", 0xFFFF: " "}))
