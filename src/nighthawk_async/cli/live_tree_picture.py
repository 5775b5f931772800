"""Picture of the tree in a terminal: one line of text per row, and a line of figures below. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from ..observe.node_words import (
    STYLES,
    label_of,
    seconds_of,
    seconds_text,
    tokens_text,
)
from ..observe.tree_rows import ASCII, UNICODE, Row, guide_of
from ..types.usage import cost_text

_LEAST_WIDTH = 20
_WIDTHS = (7, 12, 11)  # of the columns: seconds, tokens, cost
_WIDTH_WITH_TOKENS = 44
_WIDTH_WITH_COST = 60
_MIN_INPUTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The overall figures.

    Args:
        seconds: The elapsed time, in seconds.
        states: The number of steps by state, in the order of the line.
        tokens: Tokens sent and received; empty for none.
        cost: The cost; empty when it is unknown.
        retries: The number of retries.
    """

    seconds: float
    states: Mapping[str, int]
    tokens: str
    cost: str
    retries: int


class Picture:
    """Draws rows.

    Args:
        width: The number of columns.
        is_ascii: Whether only ASCII can be shown.
    """

    def __init__(self, *, width: int, is_ascii: bool) -> None:
        self._width = max(width, _LEAST_WIDTH)
        self._lines = ASCII if is_ascii else UNICODE
        self._is_ascii = is_ascii

    def draw(self, rows: Sequence[Row], now: float) -> list[Text]:
        """A line for each row.

        Args:
            rows: The rows.
            now: The time, in Unix seconds.
        """
        return [self._node(row, now) if row.kind == "node" else self._remark(row) for row in rows]

    def _node(self, row: Row, now: float) -> Text:
        view, figures = row.view, self._figures(row, now)
        room = self._width - figures.cell_len
        label = label_of(view, row.step)
        line = self._guide(row)
        line.append(f"{self._lines.marks[row.state]} ", STYLES[row.state])
        if label.kind:
            line.append(f"{label.kind} ", "dim")
        line.append(self._shown(label.name), "bold" if not view.is_ended else "")
        if row.hidden:
            line.append(f" +{row.hidden:,}", "dim")
        left = room - line.cell_len - 3
        if label.inputs and left >= _MIN_INPUTS:
            inputs = Text(f" {self._shown(label.inputs)}", "dim")
            inputs.truncate(left, overflow="crop" if self._is_ascii else "ellipsis")
            line.append_text(inputs)
        return self._fitted(line, room).append_text(figures)

    def _figures(self, row: Row, now: float) -> Text:
        """The columns at the right."""
        view = row.view
        usage = view.subtree_usage
        columns = [seconds_text(seconds_of(view, now)), tokens_text(usage), cost_text(usage)]
        count = 1 + (self._width >= _WIDTH_WITH_TOKENS) + (self._width >= _WIDTH_WITH_COST)
        widths = zip(columns[:count], _WIDTHS, strict=False)
        text = "".join(f" {text}".rjust(width) for text, width in widths)
        return Text(text, "dim" if view.is_ended else "")

    def _remark(self, row: Row) -> Text:
        """Return the text of a model, the error of a node, or a note on rows that are not shown."""
        style = {"said": "italic dim", "error": "red"}.get(row.kind, "dim")
        line = self._guide(row)
        line.append(self._shown(row.text), style)
        return self._fitted(line, self._width)

    def _guide(self, row: Row) -> Text:
        return Text(guide_of(row, self._lines, width=self._width), "dim")

    def _fitted(self, line: Text, width: int) -> Text:
        line.truncate(width, overflow="crop" if self._is_ascii else "ellipsis", pad=True)
        return line

    def _shown(self, text: str) -> str:
        return text.encode("ascii", "replace").decode() if self._is_ascii else text


def figures_line(figures: Figures, *, remark: str = "") -> str:
    """The overall figures on one line.

    Args:
        figures: The figures.
        remark: A remark at the end.
    """
    states = ", ".join(f"{count:,} {state}" for state, count in figures.states.items() if count)
    parts = [
        seconds_text(figures.seconds),
        f"steps: {states}" if states else "no steps",
        f"{figures.retries:,} retries" if figures.retries else "",
        figures.tokens,
        figures.cost,
        remark,
    ]
    return "  ".join(part for part in parts if part)
