"""How the demonstration looks: live in a terminal, compact lines elsewhere. Floor 5."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .demo_record import Classification, DemoRecord

__all__ = ["DemoView"]

_ROWS = 12
_QUOTE_CHARACTERS = 60
_FRAMES_PER_SECOND = 10


class DemoView:
    """Shows the demonstration.

    Args:
        console: Where.
        model: The model's id.
    """

    def __init__(self, console: Console, model: str) -> None:
        self._console = console
        self._model = model

    @contextmanager
    def showing(self, record: DemoRecord) -> Generator[None]:
        """Show the reviews while they are classified."""
        self.begin(f"Natural functions on {self._model}")
        self.begin(f"1  {record.total} reviews, classified in parallel by an async natural function")
        if not self._console.is_terminal:
            yield
            return
        with Live(
            get_renderable=lambda: _live(record), console=self._console, refresh_per_second=_FRAMES_PER_SECOND
        ):
            yield

    def classified(self, record: DemoRecord) -> None:
        """Note that one more review was classified."""
        if not self._console.is_terminal:
            classification = record.classifications[-1]
            counter = f"[{record.done:{len(str(record.total))}}/{record.total}]"
            self._line(f"   {counter} {_verdict(classification):<15} {_quote(classification.review.review)}")

    def begin(self, title: str) -> None:
        """Begin another part."""
        self._console.print(Text(title, style="bold"), soft_wrap=True)

    def called(self, function: Callable[[str], Any], argument: str, result: str) -> None:
        """Show one call of a synchronous natural function."""
        self._line(f"   {function.__name__}({argument!r})")
        self._line(f"   {result}")

    def summarize(self, record: DemoRecord, *, remark: str) -> None:
        """Show the figures of the whole demonstration.

        Args:
            record: What was counted.
            remark: What to make of the figures.
        """
        usage = record.usage
        outcomes = [f"{count} {kind}" for kind, count in sorted(record.outcomes.items())]
        if record.failed:
            outcomes.append(f"{record.failed} failed")
        self.begin("Summary")
        figures = (
            ("steps", f"{record.steps}"),
            ("outcomes", ", ".join(outcomes)),
            ("model round trips", f"{usage.requests}"),
            ("tokens", f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"),
            ("wall time", f"{record.seconds:.1f} s"),
            (
                "accuracy",
                f"{record.right} of {record.total} labels right ({record.right / record.total:.0%})",
            ),
        )
        for name, figure in figures:
            self._line(f"   {name:<18} {figure}")
        self._line("")
        self._console.print(Padding(Text(remark), (0, 0, 0, 3)))

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _live(record: DemoRecord) -> RenderableType:
    """The latest verdicts above a bar and the running figures."""
    table = Table.grid(padding=(0, 1))
    for classification in record.classifications[-_ROWS:]:
        style = "green" if classification.is_right else "yellow"
        seconds = f"{classification.seconds:5.2f} s"
        table.add_row(
            " ", Text(_verdict(classification), style), seconds, _quote(classification.review.review)
        )
    usage = record.usage
    outcomes = ", ".join(f"{count} {kind}" for kind, count in sorted(record.outcomes.items()))
    figures = Text(
        f"   {record.in_flight} steps in flight   {record.done}/{record.total} done   {record.right} right   "
        f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out   outcomes: {outcomes or 'none yet'}"
    )
    return Group(
        table, Padding(ProgressBar(total=record.total, completed=record.done, width=40), (0, 3)), figures
    )


def _verdict(classification: Classification) -> str:
    if classification.label is None:
        return "failed"
    return f"{classification.label} {'right' if classification.is_right else 'WRONG'}"


def _quote(review: str) -> str:
    return review if len(review) <= _QUOTE_CHARACTERS else f"{review[: _QUOTE_CHARACTERS - 3]}..."
