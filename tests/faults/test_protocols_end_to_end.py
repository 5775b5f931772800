"""A natural function in every protocol: tools are called, outcomes arrive, reasoning goes back unchanged.

The server refuses a conversation as the real endpoints do; that it can, is tested with the server.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")


def weigh(word: str) -> int:
    """The weight of a word."""
    return len(word)


@nh.natural_function
async def total_weight(words: list[str]) -> int:
    """natural
    Set <:total> to the sum of <weigh> over <words>.
    """
    total: int
    return total


TOOL_TURNS = (
    ModelReply(
        reasoning="Weigh both words first.",
        text="I weigh the words.",
        tool_calls=(
            tool_call("nh_eval", expression="weigh(words[0])"),
            tool_call("nh_eval", expression="weigh(words[1])"),
        ),
    ),
    ModelReply(
        reasoning="Four and six are ten.",
        tool_calls=(tool_call("nh_assign", target_path="total", expression="4 + 6"),),
    ),
)
END_BY_CALL = ModelReply(reasoning="That is all.", tool_calls=(tool_call("nh_outcome", kind="pass"),))
END_BY_TEXT = ModelReply(reasoning="That is all.", text='{"result": {"kind": "pass"}}')
DIRECT_ANSWER = ModelReply(
    reasoning="Four and six are ten.", text='{"result": {"kind": "pass", "bindings": {"total": 10}}}'
)


def executor_at(server: ModelServer, provider: str, **fields: Any) -> nh.AgentStepExecutor:
    settings = {"base_url": server.base_url, **fields.pop("settings", {})}
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:tested", model_settings=settings, **fields
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def check_total(replies: list[ModelReply], provider: str, **fields: Any) -> list[RecordedRequest]:
    """Run the function over the replies and return the requests."""
    async with ModelServer(replies) as server:
        async with nh.run(executor_at(server, provider, **fields)) as run:
            assert await total_weight(["four", "sixsix"]) == 10
        assert run.usage_meter.usage.requests == len(replies)
        assert run.usage_meter.usage.input_tokens == 10 * len(replies)
        assert run.usage_meter.usage.is_complete
    return server.requests


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tools_are_called_and_the_outcome_comes_as_a_call(provider: str, stream: bool) -> None:
    settings = {"stream": stream}
    requests = await check_total(
        [*TOOL_TURNS, END_BY_CALL], provider, settings=settings, outcome_transport="tool"
    )
    assert all(offers_tools(request) for request in requests)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tools_are_called_and_the_outcome_comes_as_text(provider: str) -> None:
    settings = {"capabilities": {"structured_output": True}}
    requests = await check_total(
        [*TOOL_TURNS, END_BY_TEXT], provider, settings=settings, outcome_transport="native"
    )
    assert all(offers_tools(request) for request in requests)
    assert all(b"raise_error_type" not in request.content for request in requests)
    assert all(b'"kind"' in request.content for request in requests)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_values_come_as_text_where_no_tools_are_used(provider: str) -> None:
    settings = {"capabilities": {"structured_output": True, "tools": False}}
    requests = await check_total([DIRECT_ANSWER], provider, settings=settings, outcome_transport="direct")
    assert not offers_tools(requests[0])
    assert b"bindings" in requests[0].content


# ---- answers as data


class Parcel(BaseModel):
    total: int
    words: list[str]
    sender: str | None = None


@nh.natural_function
async def pack(words: list[str]) -> Parcel:
    parcel: Parcel
    count: int
    pair: tuple[int, str] = (0, "")
    """natural
    Pack <words>: set <:parcel>, <:count> and <:pair>.
    """
    return parcel.model_copy(update={"total": parcel.total + count + pair[0]})


PACKED = {"kind": "pass", "bindings": {"parcel": {"total": 4, "words": ['\U0001f4e6 "four"']}, "count": 6}}


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_as_data_is_one_request_in_every_protocol_and_transport(
    provider: str, transport: str
) -> None:
    by_call = ModelReply(reasoning="Pack.", tool_calls=(tool_call("nh_outcome", **PACKED),))
    bindings = PACKED["bindings"]
    assert isinstance(bindings, dict)
    whole = PACKED | {"bindings": bindings | {"pair": [0, ""]}}
    by_text = ModelReply(reasoning="Pack.", text=json.dumps({"result": whole}))
    settings = {"capabilities": {"structured_output": True, "tools": transport != "direct"}}
    reply = by_call if transport == "tool" else by_text
    async with ModelServer([reply]) as server:
        executor = executor_at(server, provider, settings=settings, outcome_transport=transport)
        async with nh.run(executor):
            assert await pack(["four"]) == Parcel(total=10, words=['\U0001f4e6 "four"'])
    assert len(server.requests) == 1
    assert b"bindings" in server.requests[0].content


def offers_tools(request: RecordedRequest) -> bool:
    return bool(request.body.get("tools"))


def thoughts_of_responses(body: Any) -> list[Any]:
    return [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"]


def thoughts_of_anthropic(body: Any) -> list[Any]:
    blocks = [
        block for message in body["messages"] for block in message["content"] if isinstance(block, dict)
    ]
    return [(block["thinking"], block["signature"]) for block in blocks if block["type"] == "thinking"]


def thoughts_of_google(body: Any) -> list[Any]:
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("provider", "thoughts"),
    [
        ("openai-responses", thoughts_of_responses),
        ("anthropic", thoughts_of_anthropic),
        ("google", thoughts_of_google),
    ],
)
async def test_reasoning_goes_back_with_every_later_request(
    provider: str, thoughts: Callable[[Any], list[Any]], stream: bool
) -> None:
    replies = [*TOOL_TURNS, END_BY_CALL]
    # The settings say that the model reasons; endpoints give back sealed reasoning only when asked for it.
    settings = {"capabilities": {"reasoning": True}, "stream": stream}
    requests = await check_total(replies, provider, settings=settings, outcome_transport="tool")
    told = [thoughts(request.body) for request in requests]
    assert [len(each) for each in told] == [0, 1, 2]
    assert told[2][:1] == told[1]
    assert told[2][0] != told[2][1]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_failed_call_is_told_and_mended(provider: str) -> None:
    replies = [
        ModelReply(
            reasoning="Guess.",
            tool_calls=(
                tool_call("nh_assign", target_path="total", expression="'ten'"),
                tool_call("nh_outcome", kind="pass"),
            ),
        ),
        ModelReply(
            reasoning="A number, then.",
            tool_calls=(
                tool_call("nh_assign", target_path="total", expression="10"),
                tool_call("nh_outcome", kind="pass"),
            ),
        ),
    ]
    requests = await check_total(replies, provider, outcome_transport="tool")
    assert b"not accepted" in requests[1].content


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_calls_without_ids_are_answered_all_the_same(provider: str) -> None:
    replies = [
        ModelReply(tool_calls=TOOL_TURNS[0].tool_calls, fault="no_call_ids"),
        ModelReply(tool_calls=TOOL_TURNS[0].tool_calls, fault="duplicate_call_ids"),
        *TOOL_TURNS[1:],
        END_BY_CALL,
    ]
    await check_total(replies, provider, outcome_transport="tool")
