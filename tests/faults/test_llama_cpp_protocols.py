"""Three codecs against a server that no one here wrote: llama.cpp speaks their protocols, each a little odd.

One server serves all tests of an event loop. What it does differently from the protocols' own providers, as
seen at its build 11549, is said where a test allows for it.
"""

import importlib.util
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.models.endpoint import Endpoint, parse_base_url
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.local import open_local_server
from nighthawk_async.models.local_process import LocalServerLaunch, ServerAccess
from nighthawk_async.models.weights import are_weights_whole, weights_path
from nighthawk_async.types.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.types.model import (
    FinishReason,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

CODECS: Mapping[str, Callable[[], Codec]] = {
    "openai-chat": OpenAIChatCodec,
    "openai-responses": OpenAIResponsesCodec,
    "anthropic": AnthropicCodec,
}
PROGRAM = Path(__file__).with_name("llama_with_tools.py")
CAPABILITIES = ModelCapabilities(structured_output=True)
LOOK = ToolDefinition(
    name="look",
    description="Looks at a place.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}


def _why_not() -> str:
    weights = LOCAL_MODELS["smollm2-135m"].weights
    if importlib.util.find_spec("xllamacpp") is None:
        return "the extra 'local' is not installed"
    if weights is None or not are_weights_whole(weights, weights_path(weights)):
        return "the weights are not here: nighthawk-async models pull smollm2-135m"
    return ""


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "everything is here"),
    pytest.mark.turns("stream"),
]
each_protocol = pytest.mark.parametrize("protocol", list(CODECS))
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
async def access(anyio_backend: object) -> AsyncIterator[ServerAccess]:
    """How to reach the server, which runs as long as the tests of one event loop."""
    weights = LOCAL_MODELS["smollm2-135m"].weights
    assert weights is not None
    launch = LocalServerLaunch(
        gguf=weights_path(weights),
        context_tokens=512,
        parallel_requests=2,
        threads=1,
        start_timeout=60,
    )
    async with open_local_server(launch, program=PROGRAM) as server, server.admit() as its_access:
        yield its_access


def model_at(access: ServerAccess, protocol: str, **settings: Any) -> HttpModel:
    headers = {"authorization": f"Bearer {access.key}"}
    endpoint = Endpoint(
        model_id=f"{protocol}:llama", base_url=parse_base_url(f"{access.address}/v1"), headers=headers
    )
    return HttpModel(
        codec=CODECS[protocol](),
        endpoint=endpoint,
        model_name="llama",
        capabilities=CAPABILITIES,
        settings={"temperature": 0, "max_tokens": 40, "max_retries": 0, **settings},
    )


async def ask(model: HttpModel, *messages: Message | str, **fields: Any) -> list[ModelEvent]:
    asked = tuple(UserMessage(content=(each,)) if isinstance(each, str) else each for each in messages)
    with anyio.fail_after(240):
        async with model.stream(ModelRequest(messages=asked, **fields)) as events:
            return [event async for event in events]


def finish(events: list[ModelEvent]) -> ResponseFinished:
    assert [each for each in events if isinstance(each, ResponseFinished)] == events[-1:]
    assert isinstance(events[-1], ResponseFinished)
    return events[-1]


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def usage(events: list[ModelEvent]) -> Usage:
    return [event.usage for event in events if isinstance(event, UsageReported)][-1]


@each_protocol
@streamed_or_not
async def test_a_text_comes_with_its_end_and_its_usage(
    access: ServerAccess, protocol: str, stream: bool
) -> None:
    events = await ask(model_at(access, protocol, stream=stream), "What is the capital of France?")
    assert "Paris" in "".join(texts(events))
    assert len(texts(events)) > 1 if stream else len(texts(events)) == 1
    finished = finish(events)
    assert finished.reason == "stop"
    assert finished.provider_content is None
    assert finished.response_id
    assert finished.model_name
    used = usage(events)
    assert used.requests == 1
    assert used.is_complete
    assert used.input_tokens >= used.cache_read_tokens
    assert used.output_tokens > 1


async def test_all_protocols_count_the_same_tokens_of_the_same_prompt(access: ServerAccess) -> None:
    """Anthropic Messages counts cached tokens apart; together they are what the others count."""
    counted = [
        usage(await ask(model_at(access, protocol, max_tokens=3), "Say hello to the people of Lima."))
        for protocol in CODECS
        for _ in range(2)
    ]
    assert len({each.input_tokens for each in counted}) == 1
    assert all(each.cache_read_tokens > 0 for each in counted[1:])
    assert [each.output_tokens for each in counted] == [3] * 6


# The server calls a response complete in Responses even where it cut it off.
CUT_OFF: Mapping[str, FinishReason] = {
    "openai-chat": "length",
    "openai-responses": "stop",
    "anthropic": "length",
}


@each_protocol
@streamed_or_not
async def test_a_response_that_is_cut_off_says_so(access: ServerAccess, protocol: str, stream: bool) -> None:
    events = await ask(model_at(access, protocol, stream=stream, max_tokens=4), "Tell a long story.")
    assert finish(events).reason == CUT_OFF[protocol]
    assert usage(events).output_tokens == 4


@each_protocol
async def test_a_schema_holds_where_the_server_takes_it(access: ServerAccess, protocol: str) -> None:
    """It takes schemas in Chat Completions alone, and ignores them elsewhere without a word."""
    events = await ask(
        model_at(access, protocol),
        "How many legs has a cat?",
        response_format=ResponseFormat(name="answer", schema=NUMBER),
    )
    assert finish(events).reason == "stop"
    if protocol == "openai-chat":
        answer = json.loads("".join(texts(events)))
        assert list(answer) == ["number"]
        assert isinstance(answer["number"], int)


def looks_at(
    place: str, call: ToolCall | None = None, answer: AssistantMessage | None = None
) -> list[Message]:
    """A finished look at a place."""
    call = call or ToolCall(id=f"call_{place}", name="look", arguments=json.dumps({"at": place}))
    return [
        UserMessage(content=(f"Look at {place}.",)),
        answer or AssistantMessage(tool_calls=(call,)),
        ToolResultsMessage(results=(ToolResult(call_id=call.id, name="look", content=("fine",)),)),
    ]


def calls(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, ToolCallCompleted)]


@each_protocol
@streamed_or_not
async def test_a_tool_is_called_and_its_result_goes_back(
    access: ServerAccess, protocol: str, stream: bool
) -> None:
    model = model_at(access, protocol, stream=stream)
    events = await ask(model, *looks_at("Rome"), "Look at Paris.", tools=(LOOK,))
    (call,) = calls(events)
    assert call.name == "look"
    assert list(json.loads(call.arguments)) == ["at"]
    assert call.id
    assert finish(events).reason == "tool_calls"

    answer = AssistantMessage(
        text="".join(texts(events)), tool_calls=(call,), provider_content=finish(events).provider_content
    )
    past = [*looks_at("Rome"), *looks_at("Paris", call, answer)]
    (second,) = calls(await ask(model, *past, "Look at Lima.", tools=(LOOK,)))
    assert list(json.loads(second.arguments)) == ["at"]
    assert second.id != call.id


@each_protocol
@streamed_or_not
async def test_a_call_that_is_cut_off_can_never_be_carried_out(
    access: ServerAccess, protocol: str, stream: bool
) -> None:
    """In Responses the server calls it complete, so it comes, but with the torn arguments that it has."""
    model = model_at(access, protocol, stream=stream, max_tokens=16)
    events = await ask(model, *looks_at("Rome"), "Look at Paris.", tools=(LOOK,))
    if protocol == "openai-responses":
        assert [is_json(call.arguments) for call in calls(events)] == [False]
    else:
        assert calls(events) == []
        assert finish(events).reason == "length"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@each_protocol
async def test_a_conversation_that_exceeds_the_context_is_refused_with_the_servers_words(
    access: ServerAccess, protocol: str
) -> None:
    with pytest.raises(ModelStatusError, match="exceeds the available context size") as raised:
        await ask(model_at(access, protocol), "word " * 600)
    assert raised.value.status == 400
    assert not raised.value.is_transient


async def test_requests_of_all_protocols_at_once_do_not_mix(access: ServerAccess) -> None:
    found: dict[str, str] = {}

    async def look(protocol: str, place: str) -> None:
        past = [*looks_at("Rome"), *looks_at("Oslo")]
        (call,) = calls(await ask(model_at(access, protocol), *past, f"Look at {place}.", tools=(LOOK,)))
        found[protocol] = json.loads(call.arguments)["at"]

    places = dict(zip(CODECS, ("Paris", "Lima", "Madrid"), strict=True))
    async with anyio.create_task_group() as tasks:
        for protocol, place in places.items():
            tasks.start_soon(look, protocol, place)
    assert found == places


@each_protocol
async def test_cancelled_responses_free_the_servers_slots(access: ServerAccess, protocol: str) -> None:
    """Twelve long answers would hold both slots for many seconds; cancelled, they must not."""
    model = model_at(access, protocol, max_tokens=450)
    request = ModelRequest(messages=(UserMessage(content=("Count from one to one thousand.",)),))

    async def never_ends() -> None:
        async with model.stream(request) as events:
            async for _ in events:
                answering.set()

    answering = anyio.Event()
    with anyio.fail_after(240):
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(never_ends)
            await answering.wait()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(240):
        assert texts(await ask(model_at(access, protocol, max_tokens=3), "Say hello."))


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
async def test_models_check_finds_what_the_server_can_do(
    access: ServerAccess, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether so small a model calls a tool when asked is luck; all else is the doing of the server."""
    settings = ["--setting", f"api_key={access.key}", "--setting", "max_tokens=24"]
    options = ["--base-url", f"{access.address}/v1", *settings, "--capabilities", "--json"]
    arguments = ["models", "check", f"{protocol}:llama", *options]
    await anyio.to_thread.run_sync(run_command_line, arguments)
    output = capsys.readouterr().out
    assert access.key not in output
    found = json.loads(output)
    assert found["server"]["name"] == "llama.cpp"
    values = {each["name"]: each["value"] for each in found["abilities"]}
    assert values["context_window"] == 512
    assert (values["images"], values["audio"], values["reasoning"]) == (False, False, False)
    assert (values["sampling"], values["is_small"]) == (True, True)
    # It takes schemas in Chat Completions alone.
    assert values["structured_output"] is (protocol == "openai-chat")
