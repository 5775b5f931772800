"""View of the demonstration: live in a terminal, compact lines elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from .demo_record import Classification, DemoRecord

__all__ = ["DemoView", "live_view"]

_ROWS = 12
_BAR_CHARACTERS = 40
_PLAIN_LINE_CHARACTERS = 79
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
            get_renderable=lambda: live_view(record, self._console.width),
            console=self._console,
            refresh_per_second=_FRAMES_PER_SECOND,
        ):
            yield

    def classified(self, record: DemoRecord) -> None:
        """Note that one more review was classified."""
        if not self._console.is_terminal:
            classification = record.classifications[-1]
            counter = f"[{record.done:{len(str(record.total))}}/{record.total}]"
            head = f"   {counter} {_verdict(classification):<15} "
            self._line(head + _quote(classification.review.review, _PLAIN_LINE_CHARACTERS - len(head)))

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


def live_view(record: DemoRecord, width: int) -> RenderableType:
    """The latest verdicts above a bar and the running figures; nothing wraps, so that frames have one height.

    Args:
        record: What was counted so far.
        width: The number of columns.
    """
    usage = record.usage
    outcomes = ", ".join(f"{count} {kind}" for kind, count in sorted(record.outcomes.items()))
    bar = ProgressBar(total=record.total, completed=record.done, width=min(_BAR_CHARACTERS, width - 6))
    return Group(
        *(_live_line(classification, width) for classification in record.classifications[-_ROWS:]),
        Padding(bar, (0, 3)),
        _one_line(
            f"   {record.in_flight} steps in flight   {record.done}/{record.total} done"
            f"   {record.right} right"
        ),
        _one_line(
            f"   {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
            f"   outcomes: {outcomes or 'none yet'}"
        ),
    )


def _live_line(classification: Classification, width: int) -> Text:
    verdict = _verdict(classification)
    line = _one_line(f"   {verdict:<15} {classification.seconds:5.2f} s  ")
    line.stylize("green" if classification.is_right else "yellow", 3, 3 + len(verdict))
    return line.append(_quote(classification.review.review, width - 1 - len(line)))


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="crop")


def _verdict(classification: Classification) -> str:
    if classification.label is None:
        return "failed"
    return f"{classification.label} {'right' if classification.is_right else 'WRONG'}"


def _quote(review: str, characters: int) -> str:
    return review if len(review) <= characters else f"{review[: max(0, characters - 3)]}..."
