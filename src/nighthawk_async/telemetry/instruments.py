"""The metrics that the conventions define, and the library's own.

Instruments are created at their first value: those created before a provider exists cost time at every value.
"""

from collections.abc import Mapping, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, MeterProvider

from ..catalog.telemetry_names import (
    CALLS,
    CORRECTION_CAUSE,
    CORRECTIONS,
    QUEUE_END,
    QUEUE_FUNCTION,
    QUEUE_LIVES,
    QUEUE_NAME,
    READING,
    READINGS,
    SECONDS,
    TOKENS,
    Names,
)
from ..errors import CorrectionCause
from ..types.outcomes import Reading
from .attributes import Attributes
from .spans import LIBRARY, library_version


def record_correction(cause: CorrectionCause) -> None:
    """Count a correction that was sent to a model.

    Args:
        cause: The cause of the correction.
    """
    counter = _counter(metrics.get_meter_provider(), CORRECTIONS, "{correction}")
    counter.add(1, {CORRECTION_CAUSE: cause})


def record_reading(reading: Reading) -> None:
    """Count an answer or a call that was read although it was not as it should be.

    Args:
        reading: The form in which it was read.
    """
    counter = _counter(metrics.get_meter_provider(), READINGS, "{reading}")
    counter.add(1, {READING: reading})


def record_queue_life(queue: str, function: str, end: str) -> None:
    """Count a life of a run of a queue.

    Args:
        queue: The queue.
        function: The function that the run calls.
        end: How the life ended.
    """
    counter = _counter(metrics.get_meter_provider(), QUEUE_LIVES, "{life}")
    counter.add(1, {QUEUE_NAME: queue, QUEUE_FUNCTION: function, QUEUE_END: end})


def record_duration(
    name: str | None, seconds: float, attributes: Attributes, *, bounds: Sequence[float] = SECONDS
) -> None:
    """Record a duration.

    Args:
        name: The metric; None for one that the active conventions lack.
        seconds: The duration, in seconds.
        attributes: Its attributes.
        bounds: The bounds of its buckets.
    """
    if name is not None:
        _histogram(metrics.get_meter_provider(), name, "s", bounds).record(seconds, attributes)


def record_calls(names: Names, inferences: int, tool_calls: int, attributes: Attributes) -> None:
    """Record how often an agent called its model and its tools for one step.

    Args:
        names: The names to use.
        inferences: The number of requests, including failed ones; a request with all its retries counts once.
        tool_calls: The number of tool calls that ran here.
        attributes: The attributes of the agent.
    """
    provider = metrics.get_meter_provider()
    if names.agent_inferences_metric is not None:
        histogram = _histogram(provider, names.agent_inferences_metric, "{inference_call}", CALLS)
        histogram.record(inferences, attributes)
    if names.agent_tool_calls_metric is not None:
        histogram = _histogram(provider, names.agent_tool_calls_metric, "{tool_call}", CALLS)
        histogram.record(tool_calls, attributes)


def record_chunk(names: Names, seconds: float, attributes: Attributes, *, is_first: bool) -> None:
    """Record the time that was spent waiting for a chunk of a streamed response.

    Args:
        names: The names to use.
        seconds: The seconds since the request was made, or since the previous chunk.
        attributes: The attributes of the request.
        is_first: Whether it is the first chunk.
    """
    record_duration(names.first_chunk_metric if is_first else names.next_chunk_metric, seconds, attributes)


def record_tokens(
    names: Names, tokens: Mapping[str, int], attributes: Attributes, outcome: Attributes
) -> None:
    """Record the tokens that a request consumed.

    Args:
        names: The names to use.
        tokens: The numbers of tokens, by the span attribute that reports them.
        attributes: The attributes of the request.
        outcome: The `error.type` of a failed request.
    """
    provider = metrics.get_meter_provider()
    if names.token_metric is not None:
        histogram = _histogram(provider, names.token_metric, "{token}", TOKENS)
        for attribute, kind in ((names.input_tokens, "input"), (names.output_tokens, "output")):
            if attribute in tokens:
                histogram.record(tokens[attribute], {**attributes, names.token_type: kind})
    reported = {
        names.input_tokens: 0,
        names.output_tokens: 0,
        **tokens,
    }  # also for a request that reported no usage
    for attribute, counter in names.token_counters.items():
        if attribute in reported:
            _counter(provider, counter, "{token}").add(
                reported[attribute], {**attributes, **names.unknown_modality}
            )
    for attribute, metric in names.token_histograms.items():
        _histogram(provider, metric, "{token}", TOKENS).record(reported[attribute], {**attributes, **outcome})


class _Instruments:
    """The instruments of one provider, by name. A provider need not have a hash: that of Logfire has none."""

    __slots__ = ("counters", "histograms", "meter", "provider")

    def __init__(self, provider: MeterProvider) -> None:
        self.provider = provider
        self.meter = provider.get_meter(LIBRARY, library_version())
        self.counters: dict[str, Counter] = {}
        self.histograms: dict[str, Histogram] = {}


_last: _Instruments | None = None
"""Those of the last provider; a program has one."""


def _instruments(provider: MeterProvider) -> _Instruments:
    global _last
    instruments = _last
    if instruments is None or instruments.provider is not provider:
        instruments = _last = _Instruments(provider)
    return instruments


def _histogram(provider: MeterProvider, name: str, unit: str, bounds: Sequence[float]) -> Histogram:
    instruments = _instruments(provider)
    histogram = instruments.histograms.get(name)
    if histogram is None:
        histogram = instruments.meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)
        instruments.histograms[name] = histogram
    return histogram


def _counter(provider: MeterProvider, name: str, unit: str) -> Counter:
    instruments = _instruments(provider)
    counter = instruments.counters.get(name)
    if counter is None:
        counter = instruments.counters[name] = instruments.meter.create_counter(name, unit)
    return counter
