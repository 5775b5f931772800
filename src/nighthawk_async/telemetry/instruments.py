"""The metrics that the conventions define, and the library's own.

Made when the first value is there, because what is made before there is a provider costs at every value.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, MeterProvider

from ..catalog.telemetry_names import CALLS, CORRECTION_CAUSE, CORRECTIONS, SECONDS, TOKENS, Names
from ..errors import CorrectionCause
from .attributes import Attributes
from .spans import LIBRARY, library_version


def record_correction(cause: CorrectionCause) -> None:
    """Count that a model was told that something was wrong.

    Args:
        cause: The cause of the correction.
    """
    counter = _counter(metrics.get_meter_provider(), CORRECTIONS, "{correction}")
    counter.add(1, {CORRECTION_CAUSE: cause})


def record_duration(
    name: str | None, seconds: float, attributes: Attributes, *, bounds: Sequence[float] = SECONDS
) -> None:
    """Record how long something took.

    Args:
        name: The metric; None for one that the conventions in force lack.
        seconds: The duration, in seconds.
        attributes: Its attributes.
        bounds: The bounds of its buckets.
    """
    if name is not None:
        _histogram(metrics.get_meter_provider(), name, "s", bounds).record(seconds, attributes)


def record_calls(names: Names, inferences: int, tool_calls: int, attributes: Attributes) -> None:
    """Record how often an agent asked its model and called tools for one step.

    Args:
        names: The names to use.
        inferences: The number of requests, those included that failed; one that was sent again is one.
        tool_calls: The number of tool calls that were carried out here.
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
    """Record how long a piece of a streamed response was waited for.

    Args:
        names: The names to use.
        seconds: Since the request was made, or since the piece before.
        attributes: The attributes of the request.
        is_first: Whether it is the first one.
    """
    record_duration(names.first_chunk_metric if is_first else names.next_chunk_metric, seconds, attributes)


def record_tokens(
    names: Names, tokens: Mapping[str, int], attributes: Attributes, outcome: Attributes
) -> None:
    """Record what a request consumed.

    Args:
        names: The names to use.
        tokens: The numbers of tokens, by the attribute of the span that tells them.
        attributes: The attributes of the request.
        outcome: The `error.type` of one that failed.
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
    }  # of a request that told nothing as well
    for attribute, counter in names.token_counters.items():
        if attribute in reported:
            _counter(provider, counter, "{token}").add(
                reported[attribute], {**attributes, **names.unknown_modality}
            )
    for attribute, metric in names.token_histograms.items():
        _histogram(provider, metric, "{token}", TOKENS).record(reported[attribute], {**attributes, **outcome})


@lru_cache(maxsize=64)
def _histogram(provider: MeterProvider, name: str, unit: str, bounds: Sequence[float]) -> Histogram:
    meter = provider.get_meter(LIBRARY, library_version())
    return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)


@lru_cache(maxsize=64)
def _counter(provider: MeterProvider, name: str, unit: str) -> Counter:
    return provider.get_meter(LIBRARY, library_version()).create_counter(name, unit)
