"""`view_as_text`: a view as plain text."""

import time
from collections.abc import Iterator

from ..types.usage import cost_text
from .node_words import (
    label_of,
    seconds_of,
    seconds_text,
    tokens_text,
)
from .tree_rows import ASCII, UNICODE, Lines, Row, guide_of, rows_of
from .views import NodeView

_LEAST_WIDTH = 40


def view_as_text(
    view: NodeView, *, width: int = 110, is_ascii: bool = False, now: float | None = None
) -> str:
    """Return a node and everything below it as plain text, one line for each.

    Each line has the state, the name, the inputs, the duration, the tokens and the cost of a node, as in the
    terminal. The function and the step of one call share a line. Errors, and what a model says at the moment,
    stand on lines of their own. Control characters and line ends in texts are replaced.

        with observe.recording() as tree:
            ...
        print(observe.view_as_text(tree.snapshot()))

    Args:
        view: The view.
        width: The maximum number of characters of a line, at least 40.
        is_ascii: Whether the text has ASCII characters alone.
        now: The time up to which the durations of nodes count that have not ended, in Unix seconds; None for
            the current time.

    Raises:
        ValueError: The width is too small.
    """
    if width < _LEAST_WIDTH:
        raise ValueError(f"width must be at least {_LEAST_WIDTH} characters, not {width!r}")
    text = "\n".join(_lines(view, ASCII if is_ascii else UNICODE, width, time.time() if now is None else now))
    return text.encode("ascii", "replace").decode() if is_ascii else text


def _lines(view: NodeView, lines: Lines, width: int, now: float) -> Iterator[str]:
    for row in rows_of(view):
        guide = guide_of(row, lines, width=width)
        if row.kind == "node":
            figures = _figures(row.view, now)
            yield _cut(guide + _label(row, lines), width - len(figures), lines) + figures
        else:
            yield _cut(guide + row.text, width, lines)


def _label(row: Row, lines: Lines) -> str:
    label = label_of(row.view, row.step)
    inputs = f"({label.inputs})" if label.inputs else ""
    return f"{lines.marks[row.state]} {label.kind}{' ' if label.kind else ''}{label.name}{inputs}"


def _figures(view: NodeView, now: float) -> str:
    usage = view.subtree_usage
    figures = (seconds_text(seconds_of(view, now)), tokens_text(usage), cost_text(usage))
    return "".join(f"  {figure}" for figure in figures if figure)


def _cut(text: str, width: int, lines: Lines) -> str:
    return text if len(text) <= width else text[: width - len(lines.ellipsis)] + lines.ellipsis
