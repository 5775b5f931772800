"""The default loop at every preset, against a server that refuses as the provider does.

One run has all that puts messages where an endpoint may not want them: tools, steering, media in results,
a conversation that began with another model, compaction, and the note of a budget's last turn.
"""

from dataclasses import replace
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.endpoint_rules import ENDPOINT_RULES
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from nighthawk_async.types.usage import Usage

pytestmark = pytest.mark.anyio

PROTOCOLS = sorted({facts.protocol for facts in PROVIDERS.values()})
LONG_ID = "chatcmpl-tool-" + "0" * 60
PICTURE = nh.BinaryContent(data=b"\x89PNG\r\n\x1a\n" + b"0" * 40, media_type="image/png")


def look(word: str) -> nh.BinaryContent:
    """A picture of a word."""
    nh.get_current_step_actor().steer(f"Think of {word}, too.")
    return PICTURE


@nh.natural_function
async def pictures(words: list[str]) -> int:
    """natural
    Set <:total> to the number of pictures that <look> has of <words>.
    """
    total: int
    return total


def answer(request: RecordedRequest) -> ModelReply:
    """The next turn: two calls of tools at a time, and the outcome once the note of the budget has come."""
    content = request.content
    if not request.body.get("tools"):
        return ModelReply(text="Pictures were looked at.")  # the summary of a compaction
    if b"budget for this work" in content:
        binding = {"total": 4}
        return ModelReply(
            reasoning="Enough.", tool_calls=(tool_call("nh_outcome", kind="pass", bindings=binding),)
        )
    calls = tuple(tool_call("nh_eval", expression=f"look({word!r})") for word in ("owl", "bat"))
    full = Usage(requests=1, input_tokens=190_000, output_tokens=5)
    return ModelReply(reasoning="I look.", text="Looking.", tool_calls=calls, usage=full)


async def foreign_past() -> nh.Transcript:
    """A conversation of another model, with ids that few endpoints take."""
    call = replace(tool_call("nh_eval", expression="1 + 1"), id=LONG_ID)
    ended = replace(tool_call("nh_outcome", kind="pass", bindings={"total": 2}), id=f"{LONG_ID}1")
    replies = [ModelReply(tool_calls=(call,)), ModelReply(tool_calls=(ended,))]
    async with ModelServer(replies) as server, nh.run(executor_at(server, "vllm")):
        assert await pictures(["owl"]) == 2
        return nh.transcript()


def executor_at(server: ModelServer, provider: str, **more: Any) -> nh.AgentStepExecutor:
    settings = {"base_url": server.base_url, "api_key": "k", "max_retries": 0, **more}
    configuration = nh.StepExecutorConfiguration(model=f"{provider}:of-tomorrow", model_settings=settings)
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_default_loop_passes_at_every_preset(protocol: str, stream: bool) -> None:
    past = await foreign_past()
    failures: dict[str, object] = {}
    for provider in [name for name, facts in PROVIDERS.items() if facts.protocol == protocol]:
        try:
            await check_preset(provider, past, stream=stream)
        except Exception as error:
            failures[provider] = error
    assert failures == {}


async def check_preset(provider: str, past: nh.Transcript, **settings: Any) -> None:
    async with ModelServer(answer, rules=provider) as server:
        settings |= {"endpoint_rules": provider, "max_tokens": 2_000}
        executor = executor_at(
            server, provider, **settings, capabilities={"images": True, "context_window": 200_000}
        )
        async with nh.run(executor, budget=nh.budget(turns=4, on_exceeded="conclude")):
            with nh.scope(past=past):
                assert await pictures(["owl", "bat"]) == 4
        assert len(server.requests) == 4  # one of them for the summary
        are_on_sockets = "WEBSOCKET" in {request.method for request in server.requests}
        assert are_on_sockets is (settings.get("transport") is not None)


async def test_a_refusal_is_that_of_the_provider_and_uses_no_reply() -> None:
    """With the words of the provider, and in its form."""
    wanted = {
        "deepseek": (400, "Thinking mode does not support this tool_choice"),
        "mistral": (422, "Extra inputs are not permitted"),
    }
    for provider, (status, words) in wanted.items():
        async with ModelServer([ModelReply()], rules=provider) as server:
            extra = {"tool_choice": "required", "stream_options": {"include_usage": True}}
            async with nh.run(executor_at(server, provider, extra_body=extra)):
                with pytest.raises(ModelStatusError, match=words) as raised:
                    await pictures(["owl"])
            assert raised.value.status == status
            assert len(server.requests) == 1


async def test_the_default_loop_passes_over_the_sockets_of_each_preset_that_has_them() -> None:
    """What is steered goes into the running response where that is offered, and is refused nowhere."""
    past = await foreign_past()
    failures: dict[str, object] = {}
    having = [
        name for name in PROVIDERS if (rules := ENDPOINT_RULES.get(name)) is not None and rules.websocket
    ]
    assert len(having) >= 3
    for provider in having:
        for transport in ("websocket", "auto"):
            try:
                await check_preset(provider, past, transport=transport)
            except Exception as error:
                failures[f"{provider} {transport}"] = error
    assert failures == {}


TRAVELS = (
    (
        "vllm",
        "mistral",
        "anthropic",
        "openai-responses",
        "google",
        "deepseek",
        "groq",
        "mistral",
        "openai-chat",
    ),
    ("google", "anthropic", "mistral", "google", "deepseek-responses", "openrouter", "xai", "anthropic"),
)


@pytest.mark.parametrize("providers", TRAVELS, ids=["there", "and back"])
async def test_a_conversation_changes_its_model_again_and_again(providers: tuple[str, ...]) -> None:
    """Ids, reasoning, media in results, words of the user: each endpoint takes those of the others."""
    past: nh.Transcript | None = None
    for place, provider in enumerate(providers):
        turns = iter(
            [
                ModelReply(
                    reasoning="hm",
                    tool_calls=tuple(
                        replace(
                            tool_call("nh_eval", expression=f"look('{word} {place}')"),
                            id=f"{word}_{provider}_{place}",
                        )
                        for word in ("owl", "bat")
                    ),
                ),
                ModelReply(
                    tool_calls=(
                        replace(
                            tool_call("nh_outcome", kind="pass", bindings={"total": 2}), id=f"end_{place}"
                        ),
                    )
                ),
            ]
        )
        async with ModelServer(turns, rules=provider) as server:
            more = {"endpoint_rules": provider, "max_tokens": 2_000, "capabilities": {"images": True}}
            async with nh.run(executor_at(server, provider, **more)), nh.scope(past=past):
                assert await pictures(["owl", "bat"]) == 2, provider
                past = nh.transcript()
            assert len(server.requests) == 2, provider
    assert past is not None
    assert len(past) >= 2 * len(providers)
