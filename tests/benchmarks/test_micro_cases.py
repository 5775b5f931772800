"""The micro benchmarks carry out what they count; the values and streams they use are what they say.

Most of them assert by themselves that nothing went wrong.
"""

import pytest

from benchmarks.cases import (
    decoding,
    decorating,
    importing,
    installing,
    journal,
    long_steps,
    memory,
    rendering,
    steps,
)
from benchmarks.measure import Benchmark
from benchmarks.metrics import METRICS
from benchmarks.streams import anthropic, events, google, openai_chat, openai_responses
from nighthawk_async.models.providers import create_codec
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.types.model import ModelEvent, ReasoningDelta, TextDelta, ToolCallCompleted
from tests.property.splitting import decode_with

CASES = (decoding, decorating, installing, journal, long_steps, memory, rendering, steps)
PROTOCOLS = {
    "anthropic": anthropic,
    "google": google,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
}


@pytest.mark.parametrize(
    "benchmark_",
    [benchmark for module in CASES for benchmark in module.BENCHMARKS],
    ids=lambda benchmark: benchmark.name,
)
def test_a_case_gives_figures_of_known_metrics(benchmark_: Benchmark) -> None:
    figures = benchmark_.run(10)
    assert isinstance(figures, dict)
    assert figures
    assert figures.keys() <= METRICS.keys()
    assert all(value >= 0 for name, value in figures.items() if name != "memory_growth")


def test_a_program_that_starts_is_awaited_until_its_first_request() -> None:
    benchmark = next(each for each in importing.BENCHMARKS if each.name == "ready-http-trio")
    figures = benchmark.run(1)
    assert isinstance(figures, dict)
    assert figures["ready"] > 0


def test_a_program_that_never_sends_a_request_is_told_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "PROGRAM", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="exit status is 3"):
        importing.send_first_request("http", "trio", 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_says_what_it_is_made_of(protocol: str) -> None:
    module = PROTOCOLS[protocol]
    said = "".join(events.pieces(events.PROSE, 500))
    assert text_in(protocol, module.text(500), TextDelta) == said
    assert text_in(protocol, module.reasoning(500), ReasoningDelta) == said
    told = events_in(protocol, module.tool_calls(500))
    calls = [each.call for each in told if isinstance(each, ToolCallCompleted)]
    assert len(calls) >= 4
    assert {call.name for call in calls} == {"nh_assign"}


def events_in(protocol: str, stream: bytes) -> list[ModelEvent]:
    return decode_with(create_codec(protocol), stream)


def text_in(protocol: str, stream: bytes, kind: type[TextDelta | ReasoningDelta]) -> str:
    return "".join(each.text for each in events_in(protocol, stream) if isinstance(each, kind))


def test_the_text_at_the_budget_leaves_no_room() -> None:
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    (text,) = rendering.text_at_the_budget().values()
    assert isinstance(text, str)
    section = rendering.render_once({"text": text}, counter)
    assert section.parts == (f'text: str = "{text}"',)
    assert rendering.render_once({"text": f"{text} and one"}, counter).parts != (
        f'text: str = "{text} and one"',
    )


def test_a_plain_installation_has_what_the_package_requires_and_no_extras() -> None:
    found = installing.plain_installation("nighthawk-async")
    assert {"nighthawk-async", "anyio", "httpx", "msgspec"} <= found.keys()
    assert not {"xllamacpp", "pytest", "bpe-openai"} & found.keys()
    assert all(installing.bytes_of(each) > 0 for each in found.values())
