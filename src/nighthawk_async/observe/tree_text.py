"""`view_as_text`: a view as plain text."""

import time
from collections.abc import Iterator

from ..types.usage import cost_text
from .node_words import (
    cached_text,
    inputs_text,
    label_of,
    seconds_of,
    seconds_text,
    tokens_text,
)
from .tree_rows import ASCII, UNICODE, Lines, Row, guide_of, rows_of
from .views import NodeView

_LEAST_WIDTH = 40


def view_as_text(
    view: NodeView,
    *,
    width: int = 110,
    is_ascii: bool = False,
    now: float | None = None,
    outputs: bool = False,
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
        outputs: Whether the outputs of nodes are shown too, after an arrow.

    Raises:
        ValueError: The width is too small.
    """
    if width < _LEAST_WIDTH:
        raise ValueError(f"width must be at least {_LEAST_WIDTH} characters, not {width!r}")
    until = time.time() if now is None else now
    text = "\n".join(_lines(view, ASCII if is_ascii else UNICODE, width, until, outputs=outputs))
    return text.encode("ascii", "replace").decode() if is_ascii else text


def _lines(view: NodeView, lines: Lines, width: int, now: float, *, outputs: bool) -> Iterator[str]:
    for row in rows_of(view):
        guide = guide_of(row, lines, width=width)
        if row.kind == "node":
            figures = _figures(row.view, now)
            label = _label(row, lines) + (_outputs(row) if outputs else "")
            yield _cut(guide + label, width - len(figures), lines) + figures
        else:
            yield _cut(guide + row.text, width, lines)


def _label(row: Row, lines: Lines) -> str:
    label = label_of(row.view, row.step)
    inputs = f"({label.inputs})" if label.inputs else ""
    return f"{lines.marks[row.state]} {label.kind}{' ' if label.kind else ''}{label.name}{inputs}"


def _outputs(row: Row) -> str:
    shown = (row.step or row.view).outputs or row.view.outputs
    return f" -> {inputs_text(shown)}" if shown else ""


def _figures(view: NodeView, now: float) -> str:
    usage = view.subtree_usage
    figures = (seconds_text(seconds_of(view, now)), tokens_text(usage), cost_text(usage), cached_text(usage))
    return "".join(f"  {figure}" for figure in figures if figure)


def _cut(text: str, width: int, lines: Lines) -> str:
    return text if len(text) <= width else text[: width - len(lines.ellipsis)] + lines.ellipsis
