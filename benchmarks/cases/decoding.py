"""How fast what providers stream becomes model events: each protocol, each kind of output."""

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

from nighthawk_async.models.providers import create_codec
from nighthawk_async.types.model import ResponseFinished
from nighthawk_async.wire.sse import ServerSentEventDecoder

from ..measure import Benchmark
from ..stopwatch import Stopwatch
from ..streams import anthropic, google, openai_chat, openai_responses

__all__ = ["BENCHMARKS"]

DELTAS = 2_000
"""About how many deltas one stream has."""

CHUNK_BYTES = 1_400
"""Bytes that arrive at once: what one packet carries."""


def decode(protocol: str, make_stream: Callable[[int], bytes], streams: int) -> Mapping[str, float]:
    """Decode a stream again and again; each time it must come to a good end."""
    stream, codec = make_stream(DELTAS), create_codec(protocol)
    chunks = [stream[start : start + CHUNK_BYTES] for start in range(0, len(stream), CHUNK_BYTES)]
    stopwatch = Stopwatch()
    for _ in range(streams):
        lines, decoder = ServerSentEventDecoder(), codec.decoder()
        events = [event for chunk in chunks for sse in lines.feed(chunk) for event in decoder.feed(sse)]
        events += decoder.finish()
        assert isinstance(events[-1], ResponseFinished)
        assert len(events) > DELTAS // 20
    figures = stopwatch.figures(streams)
    return {**figures, "throughput": len(stream) / figures["wall"]}


PROTOCOLS: Mapping[str, ModuleType] = {
    "anthropic": anthropic,
    "google": google,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
}

BENCHMARKS = tuple(
    Benchmark(
        name=f"decode-{protocol}-{kind.replace('_', '-')}",
        what=f"one {protocol} stream of {kind.replace('_', ' ')}, from bytes to events",
        run=partial(decode, protocol, getattr(streams, kind)),
        operations=20,
        quick_operations=1,
        smallest_suite="default" if kind == "reasoning" else "quick",
    )
    for protocol, streams in PROTOCOLS.items()
    for kind in ("text", "tool_calls", "reasoning")
)
