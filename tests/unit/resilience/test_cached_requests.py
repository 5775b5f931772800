"""Which requests are equal: those of which everything that reaches the model is."""

from dataclasses import replace
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.models import (
    AssistantMessage,
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.models.providers import create_model
from nighthawk_async.policies.attempts.samples import using_sample
from nighthawk_async.resilience import cached
from nighthawk_async.resilience.request_digests import digest_of
from nighthawk_async.types.model import NamedToolChoice, ResponseFormat

TOOL = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {"a": {}, "b": {}}}
)
REQUEST = ModelRequest(
    system_prompt="Be brief.",
    messages=(UserMessage(content=("Look.", BinaryContent(data=b"abc", media_type="image/png"))),),
    tools=(TOOL,),
    settings={"temperature": 0.5},
)


def digest(name: str = "openai-chat:gpt", request: ModelRequest = REQUEST, **settings: Any) -> bytes:
    own = {"base_url": "https://one.example/v1", "api_key": "k", **settings}
    found = digest_of(create_model(name, settings=own), request)
    assert found is not None
    return found


def changed(**fields: Any) -> ModelRequest:
    return replace(REQUEST, **fields)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(changed(system_prompt="Be long."), id="system prompt"),
        pytest.param(changed(messages=(UserMessage(content=("Look.",)),)), id="messages"),
        pytest.param(
            changed(
                messages=(UserMessage(content=("Look.", BinaryContent(data=b"abd", media_type="image/png"))),)
            ),
            id="bytes",
        ),
        pytest.param(changed(messages=(UserMessage(content=(ImageUrl(url="data:a"),)),)), id="URL"),
        pytest.param(changed(tools=()), id="no tools"),
        pytest.param(changed(tools=(replace(TOOL, description="Sees."),)), id="description of a tool"),
        pytest.param(
            changed(tools=(replace(TOOL, parameters={"type": "object"}),)), id="parameters of a tool"
        ),
        pytest.param(changed(tools=(replace(TOOL, is_deferred=True),)), id="deferred tool"),
        pytest.param(changed(tool_choice="required"), id="tool choice"),
        pytest.param(changed(tool_choice=NamedToolChoice(name="look")), id="named tool"),
        pytest.param(
            changed(response_format=ResponseFormat(name="x", schema={"type": "object"})), id="format"
        ),
        pytest.param(changed(settings={"temperature": 0.6}), id="temperature"),
        pytest.param(changed(settings={"temperature": 0.5, "seed": 1}), id="seed"),
        pytest.param(changed(settings={"temperature": 0.5, "other": 1}), id="unknown setting"),
    ],
)
def test_a_request_that_differs_in_what_reaches_the_model_is_another_one(request_: ModelRequest) -> None:
    assert digest(request=request_) != digest()


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "https://two.example/v1"},
        {"extra_body": {"x": 1}},
        {"extra_headers": {"x-feature": "on"}},
        {"seed": 1},
        {"capabilities": {"structured_output": True}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_of_the_model_count(settings: dict[str, Any]) -> None:
    assert digest(**settings) != digest()


def test_the_model_counts() -> None:
    assert digest("openai-chat:other") != digest()
    assert digest("openai-responses:gpt") != digest()


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": "another"},
        {"timeout": 3},
        {"max_retries": 7},
        {"stream": False},
        {"requests_per_minute": 3},
        {"extra_headers": {"Authorization": "Bearer b"}},
        {"capabilities": {"price": nh.models.ModelPrice(input=1, output=2)}},  # type: ignore[arg-type]
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_keys_limits_and_prices_do_not_count(settings: dict[str, Any]) -> None:
    assert digest(**settings) == digest()


def test_neither_the_block_nor_a_capability_that_is_not_used_counts() -> None:
    assert digest(request=changed(site="module:function:1")) == digest(request=changed(site="other:f:2"))
    by_default = {"native_tools": (), "reasoning_efforts": None}
    assert digest(capabilities=by_default) == digest()
    assert digest(capabilities={"native_tools": ["web_search"]}) != digest()


def test_a_digest_is_the_same_in_every_process_and_version() -> None:
    """Files of responses are kept; a change here needs another `_FORM`."""
    request = ModelRequest(messages=(UserMessage(content=("Look.",)),), site="module:function:1")
    efforts = {"reasoning": True, "reasoning_efforts": ("low", "high")}
    assert digest(request=request, capabilities=efforts).hex()[:16] == "ea3aadce2b6e90db"


def test_secrets_in_prompts_count_although_they_are_never_written() -> None:
    def asked(secret: str) -> bytes:
        return digest(
            request=changed(messages=(UserMessage(content=(f"My key is {secret}.",)),)), api_key=secret
        )

    assert asked("sk-0123456789abcdefghij-one") != asked("sk-0123456789abcdefghij-two")
    extra = [digest(extra_body={"password": word}) for word in ("one", "two")]
    assert extra[0] != extra[1]


def test_ids_of_calls_do_not_count() -> None:
    def asked(call_id: str) -> bytes:
        call = ToolCall(id=call_id, name="look", arguments="{}")
        result = ToolResult(call_id=call_id, name="look", content=("It rains.",))
        answered = (AssistantMessage(tool_calls=(call,)), ToolResultsMessage(results=(result,)))
        return digest(request=changed(messages=(*REQUEST.messages, *answered)))

    assert asked("call_1") == asked("call_2")


def test_samples_have_answers_of_their_own_and_the_first_is_that_of_a_plain_call() -> None:
    plain, found = digest(), list[bytes]()
    for outer in range(3):
        for inner in range(3):
            with using_sample(outer), using_sample(inner):
                found.append(digest())
    assert found[0] == plain
    assert len(set(found)) == 9


@pytest.mark.anyio
async def test_a_cached_response_has_the_events_of_the_first_in_their_order() -> None:
    finish = nh.models.ResponseFinished(
        reason="tool_calls",
        provider_content=ProviderContent(protocol="p", items=({"type": "thinking", "signature": "s"},)),
        provider_reason="tool_use",
        response_id="r",
        model_name="m",
    )
    events: list[nh.models.ModelEvent] = [
        nh.models.ReasoningDelta(text="Hm."),
        nh.models.TextDelta(text="Well"),
        *(event for index in range(2) for event in _call_events(index)),
        nh.models.UsageReported(usage=nh.Usage(requests=1, input_tokens=9, output_tokens=5)),
        finish,
    ]
    model = nh.testing.ScriptedModel([nh.testing.ModelResponse(events=tuple(events))])

    async def received() -> list[nh.models.ModelEvent]:
        async with open_stream(model, REQUEST) as stream:
            return [event async for event in stream]

    with cached():
        assert await received() == events
        again = await received()
    assert again == [*events[:-2], nh.models.UsageReported(usage=nh.Usage(cached_requests=1)), finish]
    last = again[-1]
    assert isinstance(last, nh.models.ResponseFinished)
    assert (last.provider_reason, last.response_id, last.model_name) == ("tool_use", "r", "m")


def _call_events(index: int) -> list[nh.models.ModelEvent]:
    call = ToolCall(id=f"call_{index}", name="look", arguments='{"a": 1}')
    return [
        nh.models.ToolCallStarted(index=index, id=call.id, name=call.name),
        nh.models.ToolCallArgumentsDelta(index=index, fragment=call.arguments),
        nh.models.ToolCallCompleted(index=index, call=call),
    ]
