import json
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import ModelCapabilities, ModelRequest
from nighthawk_async.wire.anthropic.codec import AnthropicCodec

WORDED = ModelCapabilities(reasoning=True, reasoning_control="effort", max_output_tokens=128_000)
NUMBERED = ModelCapabilities(reasoning=True, reasoning_control="budget", max_output_tokens=64_000)
NAMES = ("max_tokens", "thinking", "output_config")


def encode(capabilities: ModelCapabilities, **settings: Any) -> dict[str, Any]:
    """What the body says about thinking."""
    request = ModelRequest(messages=(UserMessage(content=("hello",)),), settings=settings)
    encoded = AnthropicCodec().encode(request, model_name="m", capabilities=capabilities)
    return {name: value for name, value in json.loads(encoded.body).items() if name in NAMES}


@pytest.mark.parametrize(
    ("limit", "max_tokens"), [(None, 4_096), (2_000, 2_000), (16_384, 16_384), (128_000, 16_384)]
)
def test_an_answer_has_room_as_far_as_the_model_can(limit: int | None, max_tokens: int) -> None:
    assert encode(ModelCapabilities(max_output_tokens=limit)) == {"max_tokens": max_tokens}


@pytest.mark.parametrize("max_tokens", [0, 1, 100_000])
def test_the_set_limit_holds(max_tokens: int) -> None:
    assert encode(WORDED, max_tokens=max_tokens) == {"max_tokens": max_tokens}


@pytest.mark.parametrize(
    ("effort", "word", "room"),
    [
        ("minimal", "low", 1_024),
        ("low", "low", 2_048),
        ("medium", "medium", 8_192),
        ("high", "high", 16_384),
        ("xhigh", "xhigh", 32_768),
        ("max", "max", 32_768),
    ],
)
def test_an_effort_is_a_word_beside_adaptive_thinking(effort: str, word: str, room: int) -> None:
    assert encode(WORDED, reasoning_effort=effort) == {
        "max_tokens": 16_384 + room,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": word},
    }


@pytest.mark.parametrize(
    ("effort", "budget"),
    [
        ("minimal", 1_024),
        ("low", 2_048),
        ("medium", 8_192),
        ("high", 16_384),
        ("xhigh", 32_768),
        ("max", 32_768),
    ],
)
def test_an_effort_is_a_budget_for_models_that_are_told_a_number(effort: str, budget: int) -> None:
    assert encode(NUMBERED, reasoning_effort=effort) == {
        "max_tokens": 16_384 + budget,
        "thinking": {"type": "enabled", "budget_tokens": budget},
    }


@pytest.mark.parametrize("capabilities", [WORDED, NUMBERED])
def test_no_effort_turns_thinking_off(capabilities: ModelCapabilities) -> None:
    assert encode(capabilities, reasoning_effort="none") == {
        "max_tokens": 16_384,
        "thinking": {"type": "disabled"},
    }


@pytest.mark.parametrize(
    ("max_tokens", "budget"), [(1_025, 1_024), (2_048, 1_024), (5_000, 2_500), (10_000, 5_904)]
)
def test_the_budget_of_a_word_leaves_room_for_the_answer(max_tokens: int, budget: int) -> None:
    body = encode(NUMBERED, reasoning_effort="high", max_tokens=max_tokens)
    assert body == {
        "max_tokens": max_tokens,
        "thinking": {"type": "enabled", "budget_tokens": budget},
    }


def test_the_budget_of_a_word_stays_below_what_the_model_can_write() -> None:
    small = ModelCapabilities(reasoning=True, reasoning_control="budget", max_output_tokens=8_192)
    body = encode(small, reasoning_effort="max")
    assert body == {"max_tokens": 8_192, "thinking": {"type": "enabled", "budget_tokens": 4_096}}


def test_a_word_that_cannot_be_a_budget_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'max_tokens' is 1024; thinking takes at least 1024"):
        encode(NUMBERED, reasoning_effort="low", max_tokens=1_024)


def test_a_budget_in_tokens_is_sent_as_it_is_and_before_an_effort() -> None:
    body = encode(NUMBERED, thinking_budget_tokens=5_000, reasoning_effort="max")
    assert body == {
        "max_tokens": 21_384,
        "thinking": {"type": "enabled", "budget_tokens": 5_000},
    }


def test_a_budget_of_nothing_turns_thinking_off() -> None:
    assert encode(NUMBERED, thinking_budget_tokens=0)["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("settings", [{"thinking_budget_tokens": 1_023}, {"thinking_budget_tokens": 64_000}])
def test_a_budget_that_does_not_fit_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="thinking_budget_tokens"):
        encode(NUMBERED, **settings)
    with pytest.raises(ConfigurationError, match="less than 'max_tokens', which is 2000"):
        encode(NUMBERED, thinking_budget_tokens=2_000, max_tokens=2_000)


@pytest.mark.parametrize("budget", [1, 2_000])
def test_a_model_that_is_told_a_word_takes_no_budget(budget: int) -> None:
    with pytest.raises(ConfigurationError, match="takes no 'thinking_budget_tokens'"):
        encode(WORDED, thinking_budget_tokens=budget)
    assert encode(WORDED, thinking_budget_tokens=0)["thinking"] == {"type": "disabled"}
    own = {"type": "enabled", "budget_tokens": 2_000}
    assert encode(WORDED, thinking=own, thinking_budget_tokens=budget)["thinking"] == own


def test_a_model_of_which_nothing_is_known_takes_the_budget_it_is_given() -> None:
    body = encode(ModelCapabilities(), thinking_budget_tokens=2_000)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_000}


def test_the_budget_of_the_protocols_own_object_must_leave_room_too() -> None:
    own = {"type": "enabled", "budget_tokens": 2_000}
    with pytest.raises(ConfigurationError, match=r"'thinking\.budget_tokens' is 2000; it must be less than"):
        encode(NUMBERED, thinking=own, max_tokens=2_000)
    assert encode(NUMBERED, thinking=own, max_tokens=2_001)["max_tokens"] == 2_001


@pytest.mark.parametrize(
    "settings",
    [{"thinking_budget_tokens": 5_000}, {"thinking": {"type": "enabled", "budget_tokens": 5_000}}],
)
def test_a_budget_for_thinking_between_calls_may_exceed_one_response(settings: dict[str, Any]) -> None:
    betas = ["other", "interleaved-thinking-2025-05-14"]
    body = encode(NUMBERED, max_tokens=2_000, betas=betas, **settings)
    assert body["thinking"]["budget_tokens"] == 5_000


def test_the_protocols_own_object_wins_and_its_budget_is_added_to_the_answer() -> None:
    own = {"type": "enabled", "budget_tokens": 3_000, "display": "omitted"}
    body = encode(NUMBERED, thinking=own, thinking_budget_tokens=5_000, reasoning_effort="max")
    assert body == {"max_tokens": 19_384, "thinking": own}


def test_the_protocols_own_object_goes_together_with_a_word() -> None:
    own = {"type": "adaptive", "display": "summarized"}
    body = encode(WORDED, thinking=own, reasoning_effort="low", max_tokens=100)
    assert body == {"max_tokens": 100, "thinking": own, "output_config": {"effort": "low"}}


def test_an_effort_that_the_protocol_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="reasoning_effort"):
        encode(WORDED, reasoning_effort="huge")


CALL = ToolCall(id="call", name="look", arguments="{}")
USE = {"type": "tool_use", "id": "call", "name": "look", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "Look.", "signature": "sig"}
OF_OTHERS = AssistantMessage(tool_calls=(CALL,))
OWN = AssistantMessage(
    tool_calls=(CALL,), provider_content=ProviderContent(protocol="anthropic", items=(THOUGHT, USE))
)
RESULTS = ToolResultsMessage(results=(ToolResult(call_id="call", name="look", content=("seen",)),))


def said(text: str) -> UserMessage:
    return UserMessage(content=(text,))


def roles(*messages: Message, **settings: Any) -> list[str]:
    """The roles and the types of the blocks of the messages in the body."""
    request = ModelRequest(messages=messages, settings={"prompt_caching": False, **settings})
    encoded = AnthropicCodec().encode(request, model_name="m", capabilities=NUMBERED)
    return [
        f"{message['role']} {' '.join(block['type'] for block in message['content'])}"
        for message in json.loads(encoded.body)["messages"]
    ]


def test_calls_of_others_are_closed_before_a_question_to_a_model_that_always_thinks() -> None:
    conversation = (said("first"), OF_OTHERS, RESULTS, said("second"), OWN, RESULTS)
    assert roles(*conversation, thinking_budget_tokens=2_000) == [
        "user text",
        "assistant tool_use",
        "user tool_result",
        "assistant text",
        "user text",
        "assistant thinking tool_use",
        "user tool_result",
    ]
    unchanged = [
        "user text",
        "assistant tool_use",
        "user tool_result text",
        "assistant thinking tool_use",
        "user tool_result",
    ]
    assert roles(*conversation) == unchanged
    assert roles(*conversation, thinking={"type": "adaptive"}) == unchanged


def test_a_message_during_calls_of_its_own_leaves_them_open() -> None:
    conversation = (said("first"), OWN, RESULTS, OF_OTHERS, RESULTS, said("heed this"))
    assert roles(*conversation, thinking_budget_tokens=2_000) == [
        "user text",
        "assistant thinking tool_use",
        "user tool_result",
        "assistant tool_use",
        "user tool_result text",
    ]
