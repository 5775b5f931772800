"""What a benchmark can measure: one table of the metrics, with their units. It knows no benchmark."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["METRICS", "Direction", "Metric", "Unit", "metric_called"]

Unit: TypeAlias = Literal[
    "seconds", "bytes", "count", "bytes per second", "per second", "ratio", "instructions"
]
Direction: TypeAlias = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One kind of figure.

    Args:
        name: Its name, a few words joined by underscores.
        unit: What its values are counted in.
        better: Which values are better; None for a figure that is only told.
        what: One sentence that says what is measured.
        noise: A difference of the medians up to this is never called a regression; of instructions, a share.
    """

    name: str
    unit: Unit
    better: Direction | None
    what: str
    noise: float = 0.0


_ALL = (
    Metric(name="wall", unit="seconds", better="lower", what="Time by the clock for one operation."),
    Metric(name="cpu", unit="seconds", better="lower", what="Processor time for one operation."),
    Metric(
        name="cpu_per_kilobyte",
        unit="seconds",
        better="lower",
        what="Processor time for a thousand characters of what is shown.",
    ),
    *(
        Metric(
            name=f"{kind}_instructions",
            unit="instructions",
            better="lower",
            what=f"Instructions of a step {words}, as callgrind counts them.",
            noise=noise,
        )
        for kind, words, noise in (
            ("scripted_one", "with one response of a canned model", 0.02),
            ("scripted_two", "with two responses of a canned model", 0.02),
            ("scripted_budget", "with one response of a canned model, under a budget of tokens", 0.02),
            # A response arrives in more or fewer pieces, as the server gets the processor.
            ("http_one", "in one round trip over HTTP", 0.06),
            ("http_two", "in two round trips over HTTP", 0.06),
            ("raw_two", "of the raw floor, a socket and msgspec, in two round trips", 0.06),
        )
    ),
    Metric(
        name="longest_silence",
        unit="seconds",
        better="lower",
        what="Longest time for which a task of the event loop had no turn.",
        noise=0.02,
    ),
    Metric(
        name="burst_wall",
        unit="seconds",
        better="lower",
        what="Time by the clock from the start of the first step of a burst to the end of its last.",
    ),
    Metric(
        name="over_ideal",
        unit="ratio",
        better="lower",
        what="Time by the clock divided by the time that the server's delays alone take.",
    ),
    Metric(
        name="two_trips_cpu_ratio",
        unit="ratio",
        better="lower",
        what="Processor time of a step in two round trips by that of the floor, also in two.",
        noise=0.05,
    ),
    Metric(
        name="one_trip_cpu_ratio",
        unit="ratio",
        better="lower",
        what="Processor time of a step in one round trip by that of the floor, in two.",
        noise=0.05,
    ),
    Metric(
        name="two_trips_wall_ratio",
        unit="ratio",
        better="lower",
        what="Time by the clock in two round trips by that of the floor, also in two.",
        noise=0.05,
    ),
    Metric(
        name="one_trip_wall_ratio",
        unit="ratio",
        better="lower",
        what="Time by the clock in one round trip by that of the floor, in two.",
        noise=0.05,
    ),
    Metric(
        name="cpu_ratio",
        unit="ratio",
        better="lower",
        what="Processor time by that of what is measured beside it.",
        noise=0.05,
    ),
    Metric(
        name="wall_ratio",
        unit="ratio",
        better="lower",
        what="Time by the clock by that of what is measured beside it.",
        noise=0.05,
    ),
    Metric(
        name="tool_start",
        unit="seconds",
        better="lower",
        what="Time from the moment the arguments of a tool call are complete to the tool's start.",
        noise=0.5e-3,
    ),
    Metric(
        name="ready",
        unit="seconds",
        better="lower",
        what="Time from the start of the process until its first request is sent.",
    ),
    Metric(
        name="peak_memory",
        unit="bytes",
        better="lower",
        what="Peak resident memory of the process above what it had before the operations.",
        noise=1e6,
    ),
    Metric(
        name="memory_per_step",
        unit="bytes",
        better="lower",
        what="Peak memory of a burst divided by its steps.",
    ),
    Metric(
        name="memory_growth",
        unit="bytes",
        better="lower",
        what="Resident memory at the end above that after the first tenth of the operations.",
        noise=1e6,
    ),
    Metric(
        name="journal_cpu",
        unit="seconds",
        better="lower",
        what="Processor time that a journal adds to a step: with one, less the same without.",
    ),
    Metric(
        name="resume_wall",
        unit="seconds",
        better="lower",
        what="Time by the clock of a whole life of a run in which everything is recorded.",
    ),
    Metric(
        name="resume_cpu",
        unit="seconds",
        better="lower",
        what="Processor time of a whole life of a run in which everything is recorded.",
    ),
    Metric(name="records", unit="count", better="lower", what="Records in the journal for one step."),
    Metric(name="file_bytes", unit="bytes", better="lower", what="Bytes of a journal's file for one step."),
    Metric(name="errors", unit="count", better="lower", what="Operations of one round that failed."),
    Metric(
        name="values_right",
        unit="ratio",
        better="higher",
        what="The part of the values of write bindings that a person would have given as well.",
        noise=0.02,
    ),
    Metric(
        name="steps_right",
        unit="ratio",
        better="higher",
        what="The part of the steps whose values are all right.",
        noise=0.02,
    ),
    Metric(name="round_trips", unit="count", better="lower", what="Requests to the model for one step."),
    Metric(name="prompt_tokens", unit="count", better="lower", what="Tokens of a step's first request."),
    Metric(
        name="facts_missing",
        unit="count",
        better="lower",
        what="Facts that answers need and that first requests do not show, of all blocks together.",
    ),
    Metric(name="largest_request", unit="count", better="lower", what="Tokens of a step's largest request."),
    Metric(name="compactions", unit="count", better=None, what="Compactions of a step's conversation."),
    Metric(name="summaries", unit="count", better="lower", what="Requests for summaries in one step."),
    Metric(name="read_again", unit="count", better="lower", what="Tool results that a step asked for twice."),
    Metric(
        name="distributions",
        unit="count",
        better="lower",
        what="Distributions that a plain installation brings, the package's own among them.",
    ),
    Metric(name="installed_bytes", unit="bytes", better="lower", what="Bytes of all installed files."),
    Metric(
        name="throughput",
        unit="bytes per second",
        better="higher",
        what="Bytes that are worked off in one second by the clock.",
    ),
    Metric(
        name="rate",
        unit="per second",
        better="higher",
        what="Operations in one second by the clock.",
    ),
    Metric(
        name="speedup",
        unit="ratio",
        better="higher",
        what="Time by the clock with one worker process by that with two.",
        noise=0.05,
    ),
    Metric(
        name="recovery",
        unit="seconds",
        better="lower",
        what="Time from the loss of a worker until another one in its place has made a call.",
    ),
    Metric(
        name="server_cpu",
        unit="seconds",
        better=None,
        what="Processor time of the model server for one request; it must be far below the subject's.",
    ),
    Metric(
        name="server_busy",
        unit="ratio",
        better=None,
        what="Processor time of the model server by the clock's time; near 1 it is the bottleneck.",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def metric_called(name: str) -> Metric:
    """The metric of a name.

    Raises:
        LookupError: The table has no such metric.
    """
    try:
        return METRICS[name]
    except KeyError:
        raise LookupError(
            f"no metric is called {name!r}; benchmarks.metrics has {', '.join(METRICS)}"
        ) from None
