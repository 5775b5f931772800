"""The agent executor in an ensemble: what of its configuration goes to which model, and what is counted."""

from collections.abc import Iterator
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import EnsembleError, ensemble
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from nighthawk_async.testing.model_reply import RecordedRequest

anyio_test = pytest.mark.anyio

CHAT, RESPONSES, ANTHROPIC = "openai-chat:one", "openai-responses:two", "anthropic:three"
KEY = "key-of-the-first-provider"


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


def reply_with(count: int) -> ModelReply:
    calls = (tool_call("nh_exec", statements=f"count = {count}"), tool_call("nh_outcome", kind="pass"))
    return ModelReply(tool_calls=calls)


def executor(model: str, **settings: Any) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(model=model, model_settings={"max_retries": 0, **settings})
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


def model_of(request: RecordedRequest) -> str:
    return request.body["model"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that is every provider's."""
    counts = {"one": 4, "two": 5, "three": 5}
    with ModelServer.in_thread(lambda request: reply_with(counts[model_of(request)])) as server:
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            monkeypatch.setenv(variable, server.base_url)
        for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.delenv(variable, raising=False)
        yield server


@anyio_test
async def test_models_of_several_providers_answer_one_question(server: ModelServer) -> None:
    every = {CHAT: 1, RESPONSES: 1, ANTHROPIC: 1}
    async with nh.run(executor(CHAT)) as run:
        answers: Any = await ensemble(stars, every, reconcile=lambda answers: answers)("Good")
        assert await ensemble(stars, every)("Good") == 5
    assert [(answer.model, answer.value) for answer in answers] == [(CHAT, 4), (RESPONSES, 5), (ANTHROPIC, 5)]
    assert set(run.usage_meter.usage_by_model) == set(every)
    assert run.usage_meter.usage.requests == len(server.requests)


@anyio_test
async def test_a_key_stays_with_its_provider_and_other_settings_go_everywhere(server: ModelServer) -> None:
    settings = {
        "api_key": KEY,
        "base_url": server.base_url,
        "extra_headers": {"x-own": KEY},
        "extra_body": {"user": "somebody"},
        "temperature": 0.5,
    }
    async with nh.run(executor(CHAT, **settings)):
        await ensemble(stars, {CHAT: 1, RESPONSES: 1, ANTHROPIC: 1}, reconcile=len)("Good")
    requests = {model_of(request): request for request in server.requests}
    has_key = {name: KEY in repr(dict(request.headers)) for name, request in requests.items()}
    assert has_key == {"one": True, "two": True, "three": False}
    assert {name: "user" in request.body for name, request in requests.items()} == {
        "one": True,
        "two": False,
        "three": False,
    }
    assert {request.body["temperature"] for request in requests.values()} == {0.5}


@anyio_test
async def test_compaction_by_one_provider_is_not_asked_of_another(server: ModelServer) -> None:
    settings = {
        "base_url": server.base_url,
        "capabilities": {"context_management": True},
        "context_management": [{"type": "compaction", "compact_threshold": 200_000}],
    }
    async with nh.run(executor(RESPONSES, **settings)):
        await ensemble(stars, {RESPONSES: 1, ANTHROPIC: 1}, reconcile=len)("Good")
    asked = {model_of(request): "context_management" in request.body for request in server.requests}
    assert asked == {"two": True, "three": False}


@anyio_test
async def test_credentials_stay_with_their_provider(server: ModelServer) -> None:
    settings = {"credentials": nh.credentials.bearer(lambda: KEY), "base_url": server.base_url}
    async with nh.run(executor(CHAT, **settings)):
        await ensemble(stars, {CHAT: 1, RESPONSES: 1, ANTHROPIC: 1}, reconcile=len)("Good")
    has_token = {model_of(each): KEY in repr(dict(each.headers)) for each in server.requests}
    assert has_token == {"one": True, "two": True, "three": False}


@anyio_test
async def test_a_missing_key_fails_before_anything_is_sent(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    async with nh.run(executor(CHAT)):
        with pytest.raises(nh.errors.MissingCredentialError, match="anthropic:three needs an API key"):
            await ensemble(stars, {CHAT: 2, ANTHROPIC: 1}, allow_fail=2)("Good")
    assert server.requests == []


@anyio_test
async def test_a_model_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> None:
    def reply(request: RecordedRequest) -> ModelReply:
        return ModelReply(status=500, text="down") if model_of(request) == "three" else reply_with(4)

    with ModelServer.in_thread(reply) as broken:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", broken.base_url)
        async with nh.run(executor(CHAT)):
            assert await ensemble(stars, {CHAT: 2, ANTHROPIC: 1}, allow_fail=1)("Good") == 4
            with pytest.raises(EnsembleError, match="on anthropic:three: ") as caught:
                await ensemble(stars, {CHAT: 2, ANTHROPIC: 1})("Good")
    assert caught.value.models == (ANTHROPIC,)
    assert isinstance(caught.value.errors[0], nh.ModelError)
