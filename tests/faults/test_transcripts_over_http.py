"""A past in every protocol: carried on, forked, read by the models of other providers, and after failures.

The server refuses a conversation as the real endpoints do; that it can, is tested with the server.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette, tool_call

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")


@nh.natural_function
async def triage(mail: str) -> str:
    label = ""
    """natural
    Set <:label> to the kind of <mail>.
    """
    return label


LOOKING = ModelReply(
    reasoning="Look at both ends.",
    text="I look.",
    tool_calls=(tool_call("nh_eval", expression="mail[0]"), tool_call("nh_eval", expression="mail[-1]")),
)


def setting(label: str) -> ModelReply:
    outcome = tool_call("nh_outcome", kind="pass", bindings={"label": label})
    return ModelReply(reasoning="That is all.", tool_calls=(outcome,))


def executor_at(server: ModelServer, provider: str, **fields: Any) -> nh.AgentStepExecutor:
    settings = {"base_url": server.base_url, "max_retries": 0, **fields.pop("settings", {})}
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:tested", model_settings=settings, **fields
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


def conversation_of(request: RecordedRequest) -> list[Any]:
    """The conversation in a body, without the marks of the prompt cache."""
    body = json.loads(request.content)
    conversation: list[Any] = next(body[key] for key in ("messages", "input", "contents") if key in body)
    return [without_marks(each) for each in conversation]


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


async def transcript_at(server: ModelServer, provider: str) -> nh.Transcript:
    async with nh.run(executor_at(server, provider)):
        await triage("a broken lamp")
        return nh.transcript()


@pytest.mark.parametrize("is_loaded", [False, True], ids=["kept", "saved and loaded"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_conversation_is_carried_on_with_its_reasoning(
    provider: str, is_loaded: bool, tmp_path: Path
) -> None:
    async with ModelServer([LOOKING, setting("complaint"), LOOKING, setting("order")]) as server:
        past = await transcript_at(server, provider)
        if is_loaded:
            past.save(tmp_path / "past.json")
            past = nh.Transcript.load(tmp_path / "past.json")
        async with nh.run(executor_at(server, provider)):
            with nh.scope(past=past):
                assert await triage("another lamp") == "order"
    second, third, fourth = (conversation_of(each) for each in server.requests[1:])
    assert third[: len(second)] == second  # what the provider has in its cache
    assert fourth[: len(third) - 1] == third[:-1]
    assert "another lamp" in json.dumps(third[-1])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_two_steps_fork_from_one_transcript(provider: str) -> None:
    replies = [LOOKING, setting("complaint"), setting("order"), setting("other")]
    async with ModelServer(replies) as server:
        past = await transcript_at(server, provider)
        async with nh.run(executor_at(server, provider)), nh.scope(past=past):
            labels = [await triage(mail) for mail in ("same", "same")]
    assert labels == ["order", "other"]
    assert conversation_of(server.requests[2]) == conversation_of(server.requests[3])


@pytest.mark.parametrize("second", PROVIDERS)
@pytest.mark.parametrize("first", PROVIDERS)
async def test_the_model_of_another_provider_gives_its_opinion(first: str, second: str) -> None:
    async with ModelServer([LOOKING, setting("complaint")]) as server:
        past = await transcript_at(server, first)
    async with ModelServer([LOOKING, setting("order")]) as server:
        settings = {"capabilities": {"reasoning": True}}  # Gemini then signs its calls
        async with nh.run(executor_at(server, second, settings=settings)):
            with nh.scope(past=past):
                assert await triage("a broken lamp") == "order"
            assert len(nh.transcript()) == 4
    body = json.dumps(conversation_of(server.requests[0]))
    assert "mail[-1]" in body
    assert "accepted" in body


@pytest.mark.parametrize("first", PROVIDERS)
async def test_a_step_without_tools_takes_a_past_with_calls(first: str) -> None:
    async with ModelServer([LOOKING, setting("complaint")]) as server:
        past = await transcript_at(server, first)
    answer = ModelReply(text='{"result": {"kind": "pass", "bindings": {"label": "order"}}}')
    for second in PROVIDERS:
        async with ModelServer([answer]) as server:
            settings = {"capabilities": {"structured_output": True}}
            executor = executor_at(server, second, outcome_transport="direct", settings=settings)
            async with nh.run(executor):
                with nh.scope(past=past):
                    assert await triage("a broken lamp") == "order"
        (request,) = server.requests
        assert "[called nh_eval with" in json.dumps(conversation_of(request))
        assert "tools" not in json.loads(request.content)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_response_that_broke_off_is_carried_on_as_text(provider: str) -> None:
    broken = ModelReply(
        reasoning="Look once more.",
        tool_calls=(tool_call("nh_eval", expression="mail.upper()"),),
        fault="no_terminal",
        sends_done=False,  # behind a complete call it would be an end
    )
    replies = [LOOKING, broken, LOOKING, setting("order")]
    async with ModelServer(replies) as server, nh.run(executor_at(server, provider)):
        with pytest.raises(nh.ModelError):
            await triage("a lamp")
        failed = nh.transcript()
        assert failed.error is not None
        with nh.scope(past=failed):
            assert await triage("a lamp") == "order"
    assert "[called nh_eval with" in json.dumps(conversation_of(server.requests[-1]))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cancelled_step_is_carried_on(provider: str) -> None:
    async def wait() -> None:
        """Wait."""
        scope.cancel()
        await anyio.sleep_forever()

    waiting = ModelReply(reasoning="Wait.", text="I wait.", tool_calls=(tool_call("wait"),))
    replies = [LOOKING, waiting, LOOKING, setting("order")]
    async with ModelServer(replies) as server, nh.run(executor_at(server, provider)):
        with anyio.CancelScope() as scope, nh.scope(tools=[wait]):
            await triage("a lamp")
        assert scope.cancelled_caught
        assert nh.transcript().error == "cancelled"
        with nh.scope(past=nh.transcript()):
            assert await triage("a lamp") == "order"
        assert len(nh.transcript()) == 4


async def test_a_model_that_always_thinks_first_takes_calls_without_thinking() -> None:
    replies = [LOOKING, setting("complaint")]
    async with ModelServer(replies) as server:
        past = await transcript_at(server, "openai-chat")
    async with ModelServer([LOOKING, setting("order")]) as server:
        settings = {
            "thinking_budget_tokens": 2_000,
            "capabilities": {"reasoning": True, "reasoning_control": "budget"},
        }
        async with nh.run(executor_at(server, "anthropic", settings=settings)):
            with nh.scope(past=past):
                assert await triage("a lamp") == "order"
    for request in server.requests:
        messages = conversation_of(request)
        closing = messages[5]
        assert [message["role"] for message in messages[:7]] == ["user", "assistant"] * 3 + ["user"]
        assert closing == {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]}
        assert {block["type"] for block in messages[6]["content"]} == {"text"}


@pytest.mark.parametrize("second", PROVIDERS)
async def test_a_fallback_model_begins_with_the_same_past(second: str) -> None:
    async with ModelServer([LOOKING, setting("complaint")]) as server:
        past = await transcript_at(server, "openai-chat")
    failure = ModelReply(status=500)
    async with ModelServer([failure, setting("order")]) as server:
        settings = {"base_url": server.base_url, "capabilities": {"reasoning": True}}
        fallback = nh.StepExecutorConfiguration(model=f"{second}:other", model_settings=settings)
        baseline = nh.resilience.Baseline(fallback_models=[fallback])
        async with nh.run(executor_at(server, "openai-chat"), resilience=baseline):
            with nh.scope(past=past):
                assert await triage("a lamp") == "order"
            assert nh.transcript().model == f"{second}:other"
    assert all("mail[-1]" in json.dumps(conversation_of(each)) for each in server.requests)


async def test_a_cassette_replays_a_step_with_a_past(tmp_path: Path) -> None:
    file = tmp_path / "cassette.yaml"
    transcripts: list[nh.Transcript] = []
    async with ModelServer([LOOKING, setting("complaint"), setting("order")]) as server:
        for _ in range(2):
            with cassette(file):
                past = await transcript_at(server, "openai-responses")
                async with nh.run(executor_at(server, "openai-responses")):
                    with nh.scope(past=past):
                        assert await triage("another lamp") == "order"
                    transcripts.append(nh.transcript())
        assert len(server.requests) == 3
    assert len(transcripts[0]) == len(transcripts[1]) == 3
