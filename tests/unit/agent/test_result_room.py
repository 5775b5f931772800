"""Tool results within what the context of a model has left."""

import json

import pytest

from nighthawk_async.agent.task import Conversation
from nighthawk_async.agent.toolbox import ResultRoom
from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.kernel.tool_calls import ToolOutcome, ToolResultRenderingPolicy
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.types.messages import AssistantMessage, ImageUrl, UserMessage
from nighthawk_async.types.usage import Usage

_COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")


def _room(context_window: int | None, max_tokens: int = 1_000) -> ResultRoom:
    policy = ToolResultRenderingPolicy(counter=_COUNTER, tool_result_max_tokens=max_tokens)
    return ResultRoom(policy, Conversation(context_window=context_window))


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
        room.conversation.begin("", UserMessage(content=("word " * 10_000,)))
        assert room.max_tokens == 1_000


def test_result_has_a_quarter_of_what_the_conversation_leaves() -> None:
    room = _room(4_000)
    conversation = room.conversation
    program = UserMessage(content=("x" * 2_400, ImageUrl(url="https://example.com/a.png")))
    conversation.begin("x" * 600, program)
    assert room.max_tokens == (4_000 - 1_000 - 512) // 4
    conversation.add_response(AssistantMessage(), Usage(input_tokens=2_000, output_tokens=400), 0)
    assert room.max_tokens == 400
    conversation.add_response(AssistantMessage(), Usage(input_tokens=10), 0)  # this cannot be true
    assert room.max_tokens == 400
    conversation.add_response(AssistantMessage(), Usage(input_tokens=1_000), 0)
    assert room.max_tokens == 750


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
