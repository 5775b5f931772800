"""Where a request marks what the provider should cache, and that the marks change nothing else."""

import json
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import ModelCapabilities, ModelRequest
from nighthawk_async.wire.anthropic.codec import AnthropicCodec

CACHING = ModelCapabilities(prompt_caching=True)
TOOLS = tuple(ToolDefinition(name=name, description="", parameters={"type": "object"}) for name in ("a", "b"))
MARK = {"type": "ephemeral"}


def turn(number: int) -> tuple[Message, ...]:
    """A response with thinking and a call, and the result of the call."""
    call = ToolCall(id=f"t{number}", name="a", arguments='{"x": 1}')
    items = (
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": call.id, "name": "a", "input": {"x": 1}},
    )
    content = ProviderContent(protocol="anthropic", items=items)
    result = ToolResult(call_id=call.id, name="a", content=(f"result {number}",))
    return (
        AssistantMessage(tool_calls=(call,), provider_content=content if number % 2 else None),
        ToolResultsMessage(results=(result,)),
    )


def conversation(turns: int) -> tuple[Message, ...]:
    return (
        UserMessage(content=("hello", "there")),
        *(message for number in range(turns) for message in turn(number)),
    )


def encode(
    turns: int, *, capabilities: ModelCapabilities = CACHING, more: tuple[Message, ...] = (), **settings: Any
) -> bytes:
    request = ModelRequest(
        system_prompt="be brief",
        messages=(*conversation(turns), *more),
        tools=TOOLS,
        settings=settings,
    )
    return AnthropicCodec().encode(request, model_name="m", capabilities=capabilities).body


def blocks_of(body: bytes) -> list[dict[str, Any]]:
    """All blocks in the order in which the provider reads them."""
    decoded = json.loads(body)
    content = [block for message in decoded["messages"] for block in message["content"]]
    return [*decoded["tools"], *decoded["system"], *content]


def marked(body: bytes) -> list[Any]:
    return [
        block.get("name", block.get("text", block.get("tool_use_id")))
        for block in blocks_of(body)
        if "cache_control" in block
    ]


@pytest.mark.parametrize(
    ("turns", "places"),
    [
        (0, ["b", "be brief"]),
        (1, ["b", "be brief", "there", "t0"]),
        (2, ["b", "be brief", "t0", "t1"]),
        (3, ["b", "be brief", "t1", "t2"]),
    ],
)
def test_the_tools_the_system_prompt_and_from_the_second_turn_on_the_conversation_are_marked(
    turns: int, places: list[str]
) -> None:
    assert marked(encode(turns)) == places


@pytest.mark.parametrize("turns", range(6))
def test_there_are_never_more_marks_than_the_endpoint_takes(turns: int) -> None:
    assert 1 <= len(marked(encode(turns))) <= 4


@pytest.mark.parametrize("turns", range(1, 4))
def test_the_next_request_marks_the_end_that_this_one_wrote(turns: int) -> None:
    assert marked(encode(turns))[-1] in marked(encode(turns + 1))


@pytest.mark.parametrize("turns", range(4))
def test_the_marked_prefix_is_the_same_in_the_next_request_byte_for_byte(turns: int) -> None:
    def unmarked(body: bytes) -> bytes:
        return body.replace(b',"cache_control":{"type":"ephemeral"}', b"")

    this, following = encode(turns), encode(turns + 1)
    assert unmarked(this) == encode(turns, prompt_caching=False)
    assert unmarked(following).startswith(unmarked(this).removesuffix(b"]}"))


def test_a_mark_is_the_last_entry_of_its_block() -> None:
    assert {tuple(block)[-1] for block in blocks_of(encode(2)) if "cache_control" in block} == {
        "cache_control"
    }


def test_a_steered_message_moves_the_last_mark_to_the_end() -> None:
    assert marked(encode(1, more=(UserMessage(content=("steered",)),))) == [
        "b",
        "be brief",
        "there",
        "steered",
    ]


def test_thinking_is_never_marked() -> None:
    items = ({"type": "thinking", "thinking": "hm", "signature": "s"},)
    thinking = AssistantMessage(provider_content=ProviderContent(protocol="anthropic", items=items))
    assert marked(encode(0, more=(thinking,))) == ["b", "be brief", "there"]


def test_marking_leaves_the_content_of_the_conversation_alone() -> None:
    items = ({"type": "text", "text": "so"},)
    content = ProviderContent(protocol="anthropic", items=items)
    encode(0, more=(AssistantMessage(provider_content=content),))
    assert items == ({"type": "text", "text": "so"},)


@pytest.mark.parametrize(
    ("setting", "can", "mark"),
    [
        (None, True, MARK),
        (None, False, None),
        (True, False, MARK),
        (False, True, None),
        ("5m", False, MARK),
        ("1h", True, {**MARK, "ttl": "1h"}),
    ],
)
def test_the_setting_decides_and_else_what_the_model_can(
    setting: Any, can: bool, mark: dict[str, str] | None
) -> None:
    body = encode(0, capabilities=ModelCapabilities(prompt_caching=can), prompt_caching=setting)
    marks = [block.get("cache_control") for block in blocks_of(body)]
    assert marks == [None, mark, mark, None, None]
    assert b"prompt_caching" not in body


def test_another_lifetime_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prompt_caching"):
        encode(0, prompt_caching="1d")


@pytest.mark.parametrize("lifetime", [None, True, "1h"])
def test_a_first_message_is_not_marked_and_is_as_soon_as_it_was_answered(lifetime: Any) -> None:
    first = UserMessage(content=("hello",))
    said = AssistantMessage(text="hi")

    def marks(*messages: Message) -> list[bool]:
        request = ModelRequest(messages=messages, settings={"prompt_caching": lifetime})
        body = AnthropicCodec().encode(request, model_name="m", capabilities=CACHING).body
        return ["cache_control" in each["content"][-1] for each in json.loads(body)["messages"]]

    assert marks(first) == [False]
    assert marks(first, first) == [False]  # one message of the provider
    assert marks(first, said, first) == [True, False, True]
