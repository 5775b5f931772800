"""Tool results within what the context of a model has left."""

import json

import pytest

from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.executors.toolbox import ResultRoom
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.runtime.tool_calls import ToolOutcome, ToolResultRenderingPolicy
from nighthawk_async.types.messages import ImageUrl
from nighthawk_async.types.usage import Usage

_COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")


def _room(context_window: int | None, max_tokens: int = 1_000) -> ResultRoom:
    policy = ToolResultRenderingPolicy(counter=_COUNTER, tool_result_max_tokens=max_tokens)
    return ResultRoom(policy, context_window)


@pytest.mark.parametrize(
    ("given", "context_window", "tokens"),
    [
        (None, None, 8_000),
        (None, 200_000, 8_000),
        (None, 4_096, 512),
        (300, 4_096, 300),
        (9_000, None, 9_000),
    ],
)
def test_results_have_eight_thousand_tokens_or_an_eighth_of_the_context(
    given: int | None, context_window: int | None, tokens: int
) -> None:
    limits = StepContextLimits(tool_result_max_tokens=given)
    assert limits.tokens_of_tool_result(context_window) == tokens


def test_result_has_all_that_it_may_where_the_context_is_unknown_or_has_room() -> None:
    for room in (_room(None), _room(100_000)):
        room.hold(("word " * 10_000,))
        assert room.max_tokens == 1_000


def test_result_has_a_quarter_of_what_the_conversation_leaves() -> None:
    room = _room(4_000)
    room.hold(("x" * 3_000, ImageUrl(url="https://example.com/a.png")))
    assert room.max_tokens == (4_000 - 1_000 - 512) // 4
    room.measure(Usage(input_tokens=2_000, output_tokens=400))
    assert room.max_tokens == 400
    room.measure(Usage(input_tokens=10))
    assert room.max_tokens == 400


def test_results_take_room_from_each_other_and_always_say_something() -> None:
    room = _room(4_000)
    shown = [room.render(ToolOutcome(payload="word " * 100_000))[0] for _ in range(40)]
    lengths = [_COUNTER.count(str(text)) for text in shown]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 900
    assert lengths[-1] < 150
    assert all(" of 500,000 characters" in str(text) for text in shown)


def test_result_that_fits_is_whole() -> None:
    (text,) = _room(100_000).render(ToolOutcome(payload=list(range(200))))
    assert json.loads(str(text)) == {"value": list(range(200)), "error": None}
