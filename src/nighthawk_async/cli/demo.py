"""The demonstration: natural functions on a real model, many at once, synchronous, and raising.

A terminal shows it live; elsewhere it is compact lines.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

import nighthawk_async as nh

from ..kernel.run import Run
from .demo_functions import AdvertisingError, Label, Review, classify, publish, stars_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The classification of one review.

    Args:
        review: The review.
        label: The label that the model gave; None when the step failed.
        error: The reason of the failure.
        seconds: The time that it took, in seconds.
    """

    review: Review
    label: Label | None
    error: str = ""
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the model and the person agree."""
        return self.label == self.review.label


@dataclass(slots=True, kw_only=True)
class DemoRecord:
    """The demonstration so far. Also the oversight that sees each outcome before it is committed.

    Args:
        total: The number of reviews to classify.
        done_before: The number of those that the journal has; None when nothing is continued.
        in_flight: The number of reviews that are being classified.
        classifications: The finished ones, in the order in which they finished.
        outcomes: The number of commits of each outcome kind.
        meters: The usage meters of the runs.
        seconds: The time of everything, in seconds.
    """

    total: int
    done_before: int | None = None
    in_flight: int = 0
    classifications: list[Classification] = field(default_factory=list[Classification])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    meters: list[nh.runtime.UsageMeter] = field(default_factory=list[nh.runtime.UsageMeter])
    seconds: float = 0.0

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        """Accept every tool call."""
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        """Count the outcome and accept it."""
        self.outcomes[commit.outcome.kind] += 1
        return nh.oversight.Accept()

    @property
    def done(self) -> int:
        """The number of reviews that were classified or failed."""
        return len(self.classifications)

    @property
    def right(self) -> int:
        """The number of reviews with the label that a person gave."""
        return sum(classification.is_right for classification in self.classifications)

    @property
    def failed(self) -> int:
        """The number of reviews without a label because the step failed."""
        return sum(classification.label is None for classification in self.classifications)

    @property
    def usage(self) -> nh.Usage:
        """The usage so far."""
        return sum((meter.usage for meter in self.meters), nh.Usage())

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return sum(meter.steps for meter in self.meters)


_ROWS = 12
_BAR_CHARACTERS = 40
_PLAIN_LINE_CHARACTERS = 79
_FRAMES_PER_SECOND = 10


class DemoView:
    """Shows the demonstration.

    Args:
        console: The console to write to.
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
        if record.done_before is not None:
            done = f"{record.done_before} of {record.total} reviews"
            self._line(f"   continues: {done} were done before, and are not asked again")
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
        """Count one more classified review."""
        if not self._console.is_terminal:
            classification = record.classifications[-1]
            counter = f"[{record.done:{len(str(record.total))}}/{record.total}]"
            head = f"   {counter} {_verdict(classification):<15} "
            self._line(head + _quote(classification.review.review, _PLAIN_LINE_CHARACTERS - len(head)))

    def begin(self, title: str) -> None:
        """Begin another section."""
        self._console.print(Text(title, style="bold"), soft_wrap=True)

    def called(self, function: Callable[[str], Any], argument: str, result: str) -> None:
        """Show one call of a synchronous natural function."""
        self._line(f"   {function.__name__}({argument!r})")
        self._line(f"   {result}")

    def summarize(self, record: DemoRecord, *, remark: str) -> None:
        """Show the figures of the whole demonstration.

        Args:
            record: The counts.
            remark: The meaning of the figures.
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
        record: The counts so far.
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


RATING = "Two stars, not more."
ADVERTISEMENT = "BUY CHEAP WATCHES AT MY SHOP!!! CLICK HERE!!!"


class DemoJournal:
    """The journal of a demonstration, which has two runs.

    Args:
        store: The store.
        name: The name of the demonstration: those of different models and reviews have different ones.
    """

    def __init__(self, store: nh.journal.JournalStore, name: str) -> None:
        self._store = store
        self._name = name

    def run(self, executor: nh.executors.StepExecutor, part: Literal["reviews", "functions"]) -> Run:
        """Return the run of a part."""
        return nh.run(executor, journal=self._store, run_id=self._run_id(part))

    def count_done(self) -> int | None:
        """Return the number of reviews that were done before; None if none was begun.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        records = self._store.records(self._run_id("reviews"))
        return sum(record.place.endswith(_CLASSIFIED) for record in records) if records else None

    def _run_id(self, part: str) -> str:
        return f"demo {self._name} {part}"


_CLASSIFIED = "/now()[0]"
"""The end of the place at which a review is done: that of the time."""


def run_demo(
    executor: nh.executors.StepExecutor,
    reviews: Sequence[Review],
    view: DemoView,
    *,
    max_concurrent: int,
    journal: DemoJournal | None = None,
) -> DemoRecord:
    """Run the demonstration, from plain synchronous code.

    Args:
        executor: The executor of the steps.
        reviews: The reviews to classify.
        view: Shows the progress.
        max_concurrent: The number of reviews that are classified at the same time.
        journal: The journal from which it continues; None for none.

    Returns:
        The counts.

    Raises:
        ConfigurationError: The model cannot be used as it is set up.
        ModelError: The model cannot be reached, or answers with an error.
        JournalError: The journal cannot be used, or another process continues from it.
    """
    done_before = None if journal is None else journal.count_done()
    record = DemoRecord(total=len(reviews), done_before=done_before)
    began = time.monotonic()
    with view.showing(record):
        run = nh.run(executor) if journal is None else journal.run(executor, "reviews")
        anyio.run(_classify_all, run, reviews, view, record, max_concurrent, backend="trio")
    run = nh.run(executor) if journal is None else journal.run(executor, "functions")
    _call_synchronous_functions(run, view, record)
    record.seconds = time.monotonic() - began
    return record


async def _classify_all(
    run: Run,
    reviews: Sequence[Review],
    view: DemoView,
    record: DemoRecord,
    max_concurrent: int,
) -> None:
    """A parallel map of an asynchronous natural function."""

    async def classify_one(review: Review) -> None:
        record.in_flight += 1
        began = time.monotonic()
        label, error = None, ""
        try:
            label = await classify(review.review)
        except nh.ExecutionError as failure:
            error = str(failure)
        finally:
            record.in_flight -= 1
        nh.journal.now()  # its record shows that the review is done
        seconds = time.monotonic() - began
        record.classifications.append(
            Classification(review=review, label=label, error=error, seconds=seconds)
        )
        view.classified(record)

    async with run, nh.scope(oversight=record):
        record.meters.append(run.usage_meter)
        await nh.parallel.map(classify_one, reviews, max_concurrent=max_concurrent)


def _call_synchronous_functions(run: Run, view: DemoView, record: DemoRecord) -> None:
    """Natural functions in code that knows nothing of event loops: one returns, one raises."""
    with run, nh.scope(oversight=record):
        record.meters.append(run.usage_meter)
        view.begin("2  a natural function, called from plain synchronous code")
        try:
            view.called(stars_in, RATING, f"returned {stars_in(RATING)!r}")
        except nh.ExecutionError as error:
            view.called(stars_in, RATING, f"failed: {error}")
        view.begin("3  a natural function that raises, caught by `except AdvertisingError`")
        try:
            publish(ADVERTISEMENT)
        except AdvertisingError as error:
            view.called(publish, ADVERTISEMENT, f"raised AdvertisingError: {error}")
        except nh.ExecutionError as error:
            view.called(publish, ADVERTISEMENT, f"raised without the type it was asked for: {error}")
