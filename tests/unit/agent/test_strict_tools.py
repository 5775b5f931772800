"""Schemas of tools that OpenAI's endpoints enforce, from the step to the body of the request and back."""

import json
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

CHAT = "openai-chat:gpt-4.1"


def stock_of(article: str) -> int:
    """How many are in stock."""
    return len(article)


def search(words: str, limit: int = 5) -> str:
    """Finds articles."""
    return words[:limit]


@nh.natural_function
async def describe(text: str) -> str:
    label = "old"
    note = "kept"
    """natural
    Look up <text>, then set <:label> and <:note>.
    """
    return f"{label}, {note}"


def answer(**arguments: Any) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(id="", name="nh_outcome", arguments=json.dumps(arguments)),))


LOOKED = ModelReply(
    tool_calls=tuple(
        ToolCall(id="", name="stock_of", arguments=json.dumps({"article": each})) for each in ("ab", "abc")
    )
)


def ending(request: RecordedRequest) -> ModelReply:
    """The end of the block, with null for whatever else the request's schema requires."""
    functions = [tool.get("function", tool) for tool in request.body["tools"]]
    schema = next(each["parameters"] for each in functions if each["name"] == "nh_outcome")
    bindings = schema["properties"]["bindings"]
    enforced = bindings.get("anyOf", [bindings])[0]
    nulls = dict.fromkeys(schema["required"])
    set_bindings = {**dict.fromkeys(enforced.get("required", ())), "label": "new"}
    return answer(**{**nulls, "kind": "pass", "bindings": set_bindings})


def executor_of(server: ModelServer, model: str, **settings: Any) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_configuration(
        nh.StepExecutorConfiguration(
            model=model,
            model_settings={"base_url": server.base_url, "api_key": "k", **settings},
            outcome_transport="tool",
        )
    )


async def bodies_of(model: str, **settings: Any) -> list[dict[str, Any]]:
    """The bodies of the two requests of a step that answers as an endpoint that enforces schemas does."""
    first = iter([LOOKED])
    async with (
        ModelServer(lambda request: next(first, None) or ending(request)) as server,
        nh.run(executor_of(server, model, **settings), tools=[stock_of, search]),
    ):
        assert await describe("a") == "new, kept"
    return [request.body for request in server.requests]


def claims_in(body: dict[str, Any]) -> dict[str, Any]:
    """The claims of the tools, by name; None for a tool without one."""
    functions = [tool.get("function", tool) for tool in body["tools"]]
    return {each["name"]: each.get("strict") for each in functions}


async def test_chat_completions_of_openai_enforces_the_tools_in_the_subset_and_calls_stay_parallel() -> None:
    for body in await bodies_of(CHAT):
        assert claims_in(body) == {
            "nh_eval": True,
            "nh_assign": None,  # it takes any value
            "nh_exec": None,  # its text may be left out
            "stock_of": True,
            "search": None,  # its limit may be left out
            "nh_outcome": True,
        }
        outcome = body["tools"][-1]["function"]["parameters"]
        assert outcome["properties"]["bindings"]["anyOf"][0]["required"] == ["label", "note"]
        assert "parallel_tool_calls" not in body
        assert "strict_tools" not in body


async def test_both_protocols_of_openai_enforce_the_same_tools() -> None:
    (chat, _), (responses, _) = await bodies_of(CHAT), await bodies_of("openai-responses:gpt-4.1")
    claimed = {name: bool(claim) for name, claim in claims_in(chat).items()}
    assert claimed == claims_in(responses)


@pytest.mark.parametrize(
    "model",
    [
        "openai-chat:a-model-of-another-server",
        "openai-chat:gpt-oss-120b",
        "openai-chat:gpt-audio",
        "openai-chat:ft:gpt-4.1:own",
        *("azure-chat:gpt-4.1", "deepseek:deepseek-v4-pro", "fireworks:any", "groq:openai/gpt-oss-120b"),
        *("llama-cpp:any", "mistral:mistral-large-latest", "ollama:qwen3", "openrouter:openai/gpt-4.1"),
        *("together:any", "vllm:any", "xai-chat:grok-4.7"),
    ],
)
async def test_no_other_server_of_chat_completions_sees_the_field(model: str) -> None:
    for body in await bodies_of(model):
        assert set(claims_in(body).values()) == {None}
        assert "strict" not in json.dumps(body)


@pytest.mark.parametrize("setting", [False, None])
async def test_the_setting_turns_it_off(setting: bool | None) -> None:
    for body in await bodies_of(CHAT, strict_tools=setting):
        assert set(claims_in(body).values()) == {None}
        assert "strict" not in json.dumps(body)


async def test_the_setting_turns_it_on_at_servers_that_take_it() -> None:
    body, _ = await bodies_of("vllm:any", strict_tools=True)
    assert claims_in(body)["stock_of"] is True
    assert claims_in(body)["search"] is None


async def test_answers_that_leave_out_what_should_be_null_are_taken_too() -> None:
    """Models of a user's own training do not enforce the schemas of several calls in one response."""
    async with (
        ModelServer([answer(kind="pass", bindings={"label": "new"})]) as server,
        nh.run(executor_of(server, CHAT)),
    ):
        assert await describe("a") == "new, kept"


LOOSE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        (LOOSE, "'additionalProperties' is required to be supplied and to be false"),
        ({**LOOSE, "additionalProperties": False, "required": ["a"]}, "Missing 'b'"),
        (
            {
                "type": "object",
                "properties": {"c": {"type": "array", "items": LOOSE}},
                "required": ["c"],
                "additionalProperties": False,
            },
            r"\('properties', 'c', 'items'\)",
        ),
    ],
)
async def test_the_model_server_refuses_claims_that_openai_refuses(
    protocol: str, parameters: dict[str, Any], complaint: str
) -> None:
    function = {"name": "own", "parameters": parameters, "strict": True}
    tool = {"type": "function", "function": function} if protocol == "openai-chat" else function
    added = {"tools": [{"type": "function", **tool}]}
    async with (
        ModelServer([]) as server,
        nh.run(executor_of(server, f"{protocol}:gpt-4.1", extra_body=added)),
    ):
        with pytest.raises(nh.errors.ModelStatusError, match=complaint):
            await describe("a")
