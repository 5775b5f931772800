from dataclasses import replace
from typing import Any

import pytest

from nighthawk_async.catalog.models import find_model_facts
from nighthawk_async.errors import ConfigurationError, UnsupportedContentError
from nighthawk_async.models.fitting import fit_request
from nighthawk_async.models.time_limits import overridden_capabilities
from nighthawk_async.types.messages import (
    AssistantMessage,
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    MultimodalContent,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserMessage,
    VideoUrl,
)
from nighthawk_async.types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ResponseFormat

PLAIN = ModelCapabilities()
LIMITED = ModelCapabilities(parallel_tool_calls=False, reasoning_with_tools=False, sampling=False)
PNG = BinaryContent(data=b"123", media_type="image/png", identifier="photo")
TOOL = ToolDefinition(name="look", description="", parameters={"type": "object"})


def request(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=messages or (UserMessage(content=("hi",)),), **fields)


def fit(given: ModelRequest, capabilities: ModelCapabilities = PLAIN) -> ModelRequest:
    return fit_request(given, capabilities, model_id="p:m", find_refusal=lambda item: None)


def result(*content: Any) -> ToolResultsMessage:
    return ToolResultsMessage(results=(ToolResult(call_id="1", name="look", content=content),))


def test_a_request_that_fits_is_the_same_object() -> None:
    given = request(UserMessage(content=("hi",)), AssistantMessage(text="x"), result("a"), tools=(TOOL,))
    assert fit(given) is given


def test_tools_for_a_model_without_them_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="p:m: the model does not call tools, so offer none"):
        fit(request(tools=(TOOL,)), ModelCapabilities(tools=False))


def test_a_schema_for_a_model_without_structured_output_is_refused() -> None:
    given = request(response_format=ResponseFormat(name="x", schema={"type": "object"}))
    with pytest.raises(
        ConfigurationError, match=r"p:m: the model does not hold.*capabilities=\{'structured_output': True\}"
    ):
        fit(given)
    assert fit(given, ModelCapabilities(structured_output=True)) is given


@pytest.mark.parametrize(
    ("name", "value", "capability"),
    [
        ("reasoning_effort", "low", "reasoning"),
        ("reasoning_effort", "none", "reasoning"),
        ("reasoning_summary", "auto", "reasoning"),
        ("thinking", {"type": "adaptive"}, "reasoning"),
        ("thinking_budget_tokens", 0, "reasoning"),
        ("thinking_budget_tokens", 1_024, "reasoning"),
        ("include_thoughts", True, "reasoning"),
        ("prompt_caching", True, "prompt_caching"),
        ("prompt_caching", "5m", "prompt_caching"),
        ("prompt_caching", "1h", "prompt_caching"),
        ("parallel_tool_calls", True, "parallel_tool_calls"),
        ("temperature", 0.0, "sampling"),
        ("top_p", 0.9, "sampling"),
        ("top_k", 40, "sampling"),
    ],
)
def test_a_setting_for_what_the_model_lacks_is_refused_with_the_remedy(
    name: str, value: object, capability: str
) -> None:
    given = request(settings={name: value})
    with pytest.raises(ConfigurationError) as raised:
        fit(given, LIMITED)
    assert str(raised.value).startswith("p:m: the model")
    assert repr(name) in str(raised.value)
    assert f"capabilities={{{capability!r}: True}}" in str(raised.value)
    assert fit(given, replace(LIMITED, **{capability: True})) is given


@pytest.mark.parametrize(
    "name", ["reasoning_effort", "prompt_caching", "parallel_tool_calls", "temperature", "max_tokens"]
)
@pytest.mark.parametrize("value", [None, False])
def test_a_setting_that_asks_for_nothing_is_no_fault(name: str, value: object) -> None:
    given = request(tools=(TOOL,), settings={name: value})
    assert fit(given, replace(LIMITED, max_output_tokens=1, reasoning_efforts=("low",))) is given


def test_a_tool_that_must_be_called_is_refused_where_a_call_cannot_be_demanded() -> None:
    named = request(tools=(TOOL,), tool_choice=NamedToolChoice(name="look"))
    unforced = ModelCapabilities(forced_tool_choice=False)
    with pytest.raises(
        ConfigurationError, match=r"made to call a tool, here 'look'.*\{'forced_tool_choice': True\}"
    ):
        fit(named, unforced)
    assert fit(named) is named


def test_a_demand_for_some_call_is_left_to_a_model_that_cannot_be_made_to_call() -> None:
    some = request(tools=(TOOL,), tool_choice="required")
    assert fit(some) is some
    assert fit(some, ModelCapabilities(forced_tool_choice=False)) == replace(some, tool_choice="auto")


def test_a_demand_for_a_call_without_tools_stays_the_fault_that_it_is() -> None:
    given = request(tool_choice="required")
    assert fit(given, ModelCapabilities(forced_tool_choice=False)) is given


def test_a_schema_beside_tools_is_refused_where_one_excludes_the_other() -> None:
    either_or = ModelCapabilities(structured_output=True, structured_output_with_tools=False)
    schema = ResponseFormat(name="x", schema={"type": "object"})
    both = request(tools=(TOOL,), response_format=schema)
    with pytest.raises(
        ConfigurationError, match=r"request that offers tools.*\{'structured_output_with_tools': True\}"
    ):
        fit(both, either_or)
    assert fit(both, replace(either_or, structured_output_with_tools=True)) is both
    for one in (request(tools=(TOOL,)), request(response_format=schema)):
        assert fit(one, either_or) is one


@pytest.mark.parametrize(
    "settings",
    [
        {"reasoning_effort": "low"},
        {"thinking_budget_tokens": 1_024},
        {"thinking": {"type": "enabled"}},
        {"reasoning_summary": "auto"},
    ],
)
def test_reasoning_beside_tools_is_refused_where_one_excludes_the_other(settings: dict[str, Any]) -> None:
    either_or = ModelCapabilities(reasoning=True, reasoning_with_tools=False)
    with pytest.raises(ConfigurationError) as raised:
        fit(request(tools=(TOOL,), settings=settings), either_or)
    assert repr(next(iter(settings))) in str(raised.value)
    assert "capabilities={'reasoning_with_tools': True}" in str(raised.value)
    alone = request(settings=settings)
    assert fit(alone, either_or) is alone


@pytest.mark.parametrize(
    "settings",
    [{"reasoning_effort": "none"}, {"thinking_budget_tokens": 0}, {"thinking": {"type": "disabled"}}],
)
def test_no_reasoning_beside_tools_is_no_fault(settings: dict[str, Any]) -> None:
    given = request(tools=(TOOL,), settings=settings)
    assert fit(given, ModelCapabilities(reasoning=True, reasoning_with_tools=False)) is given


def test_a_word_that_the_model_does_not_know_is_refused_with_those_that_it_knows() -> None:
    capabilities = ModelCapabilities(reasoning=True, reasoning_efforts=("low", "medium", "high"))
    with pytest.raises(ConfigurationError) as raised:
        fit(request(settings={"reasoning_effort": "none"}), capabilities)
    assert str(raised.value) == (
        "p:m: the model setting 'reasoning_effort' is 'none', but the model knows only 'low', 'medium' and "
        "'high'. If that is wrong, correct it with the model setting "
        "capabilities={'reasoning_efforts': ['low', 'medium', 'high', 'none']}."
    )
    corrected = overridden_capabilities(
        capabilities, {"reasoning_efforts": ["low", "medium", "high", "none"]}
    )
    for effort, able in (
        ("low", capabilities),
        ("none", corrected),
        ("none", ModelCapabilities(reasoning=True)),
    ):
        given = request(settings={"reasoning_effort": effort})
        assert fit(given, able) is given


def test_a_model_that_knows_one_word_is_described_by_it() -> None:
    capabilities = ModelCapabilities(reasoning=True, reasoning_efforts=("high",))
    with pytest.raises(ConfigurationError, match="knows only 'high'"):
        fit(request(settings={"reasoning_effort": "low"}), capabilities)


@pytest.mark.parametrize("settings", [{"thinking_budget_tokens": 0}, {"thinking": {"type": "disabled"}}])
def test_thinking_that_cannot_be_turned_off_is_turned_off_by_no_other_setting(
    settings: dict[str, Any],
) -> None:
    thinking = ModelCapabilities(reasoning=True, reasoning_efforts=("low",))
    given = request(settings=settings)
    with pytest.raises(ConfigurationError, match="but the model always thinks") as raised:
        fit(given, thinking)
    assert repr(next(iter(settings))) in str(raised.value)
    assert fit(given, replace(thinking, reasoning_efforts=("none", "low"))) is given
    assert fit(given, replace(thinking, reasoning_efforts=None)) is given


@pytest.mark.parametrize(
    ("model_id", "fields", "capability"),
    [
        ("openai-chat:gpt-6.1-sol", {"tools": (TOOL,)}, "tools"),
        (
            "openai-chat:gpt-5.4",
            {"tools": (TOOL,), "settings": {"reasoning_effort": "low"}},
            "reasoning_with_tools",
        ),
    ],
)
def test_another_protocol_that_has_what_is_missing_is_named(
    model_id: str, fields: dict[str, Any], capability: str
) -> None:
    other = model_id.replace("openai-chat", "openai-responses")
    with pytest.raises(ConfigurationError, match=f": use {other}\\..*'{capability}'"):
        fit_request(
            request(**fields),
            find_model_facts(model_id).capabilities,
            model_id=model_id,
            find_refusal=lambda item: None,
        )


def test_another_protocol_that_lacks_it_too_is_not_named() -> None:
    with pytest.raises(UnsupportedContentError) as raised:
        fit_request(
            request(UserMessage(content=(AudioUrl(url="http://x/y.wav"),))),
            find_model_facts("openai-chat:gpt-5.4").capabilities,
            model_id="openai-chat:gpt-5.4",
            find_refusal=lambda item: None,
        )
    assert "openai-responses" not in str(raised.value)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_more_tokens_than_a_response_holds_are_refused_and_both_numbers_named(name: str) -> None:
    capabilities = ModelCapabilities(max_output_tokens=8_192)
    with pytest.raises(ConfigurationError, match=rf"'{name}' is 8,193, .* at most 8,192 tokens"):
        fit(request(settings={name: 8_193}), capabilities)
    for settings in ({name: 8_192}, {name: "many"}, {}):
        given = request(settings=settings)
        assert fit(given, capabilities) is given
    unbounded = request(settings={name: 10**9})
    assert fit(unbounded) is unbounded


@pytest.mark.parametrize(
    ("item", "capability"),
    [
        (PNG, "images"),
        (ImageUrl(url="http://x/y.png"), "images"),
        (BinaryContent(data=b"", media_type="audio/wav"), "audio"),
        (AudioUrl(url="http://x/y.wav"), "audio"),
        (BinaryContent(data=b"", media_type="application/pdf"), "documents"),
        (BinaryContent(data=b"", media_type="video/mp4"), "video"),
        (VideoUrl(url="http://x/y.mp4"), "video"),
        (DocumentUrl(url="http://x/y.pdf"), "documents"),
        (UploadedFile(file_id="f", provider_name="openai"), "documents"),
        (UploadedFile(file_id="f", provider_name="openai", media_type="image/png"), "images"),
    ],
)
def test_media_of_a_prompt_that_the_model_cannot_take_is_refused_by_name(
    item: MultimodalContent, capability: str
) -> None:
    given = request(UserMessage(content=("see", item)))
    with pytest.raises(UnsupportedContentError, match=f"^p:m: the model cannot take .*{capability}"):
        fit(given)
    assert fit(given, ModelCapabilities(**{capability: True})) is given


def test_media_of_a_tool_result_that_the_model_cannot_take_is_described_in_its_place() -> None:
    fitted = fit(request(result("before", PNG, "after"), result("plain")))
    assert fitted.messages == (
        result("before", "[image 'photo' image/png, 3 bytes; it cannot be shown to this model]", "after"),
        result("plain"),
    )


def test_media_of_a_tool_result_that_the_model_can_take_stays() -> None:
    given = request(result("before", PNG))
    assert fit(given, ModelCapabilities(images=True)).messages == given.messages


def test_what_the_protocol_cannot_carry_is_refused_first_and_without_recommending_a_setting() -> None:
    video = VideoUrl(url="http://x/y.mp4")
    given = request(UserMessage(content=(PNG,)), UserMessage(content=("see", video)))

    def refuse_video(item: MultimodalContent) -> str | None:
        return "the protocol carries no video" if item is video else None

    with pytest.raises(UnsupportedContentError) as raised:
        fit_request(given, PLAIN, model_id="p:m", find_refusal=refuse_video)
    assert str(raised.value) == "p:m: the protocol carries no video."
