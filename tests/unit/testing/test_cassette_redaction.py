"""No secret is written, and requests find their recordings all the same."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import nighthawk_async as nh
from nighthawk_async.testing import CassetteMissError, ScriptedModel, cassette, model_response, tool_call
from nighthawk_async.types.messages import (
    AssistantMessage,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
)
from nighthawk_async.types.model import ModelRequest, ResponseFinished, TextDelta

from .cassette_support import ask, collect, content_of, no_model, request_of

pytestmark = pytest.mark.anyio

KEY = "plain-words-of-a-key"
HEADER = "plain-words-of-a-header"
QUERY = "plain-words-of-a-query"
VARIABLE = "plain-words-of-a-variable"
SHAPED = "sk-proj-abcdefghijklmnop1234"
PLANTED = (KEY, HEADER, QUERY, VARIABLE, SHAPED)
SETTINGS: dict[str, Any] = {
    "api_key": KEY,
    "extra_headers": {"x-gate-token": f"Token {HEADER}"},
    "base_url": f"https://e.x/v1?api-key={QUERY}",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


def full_request(**settings: Any) -> ModelRequest:
    """A request with every secret in every place."""
    text = " and ".join(PLANTED)
    call = ToolCall(id="c1", name="look", arguments=text)
    result = ToolResult(call_id="c1", name="look", content=(text,))
    asked = request_of(text)
    return ModelRequest(
        system_prompt=text,
        messages=(
            *asked.messages,
            AssistantMessage(text=text, reasoning=text, tool_calls=(call,)),
            ToolResultsMessage(results=(result,)),
        ),
        tools=(ToolDefinition(name="look", description=text, parameters={"title": text, text: 1}),),
        settings={**SETTINGS, **settings, "user": text},
    )


async def test_secrets_are_in_no_part_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", VARIABLE)
    text = " and ".join(PLANTED)
    response = model_response(tool_call("look", text=text), text=text)
    content = ProviderContent(protocol="anthropic", items=({"type": "text", "text": text},))
    finish = ResponseFinished(reason="stop", provider_content=content, response_id=text)
    response = type(response)(events=(*response.events[:-1], finish))
    error = nh.errors.ModelStatusError(f"no {text}", status=401)
    model = ScriptedModel([response, error])
    with cassette(path):
        await collect(model, full_request())
        with pytest.raises(nh.errors.ModelStatusError):
            await collect(model, full_request())
    written = content_of(path)
    assert [secret for secret in PLANTED if secret in written] == []
    assert written.count("[redacted]") > 20
    with cassette(path) as tape:
        assert "[redacted]" in await ask(no_model(), full_request())
        with pytest.raises(nh.errors.ModelStatusError, match=re.escape("[redacted]")):
            await ask(no_model(), full_request())
    assert tape.unused == ()


async def test_a_key_that_comes_in_pieces_is_found(path: Path) -> None:
    pieces = tuple(TextDelta(text=character) for character in SHAPED)
    response = model_response()
    model = ScriptedModel([type(response)(events=(*pieces, *response.events))])
    with cassette(path):
        assert await ask(model, "Hello") == SHAPED
    assert SHAPED not in content_of(path)


async def test_another_key_or_none_replays_as_well(path: Path) -> None:
    with cassette(path):
        await ask(ScriptedModel([model_response(text="Hi")]), request_of("Hello", **SETTINGS))
    for settings in ({}, {"api_key": SecretStr("another-key-altogether")}):
        with cassette(path):
            assert await ask(no_model(), request_of("Hello", **settings)) == "Hi"


async def test_a_secret_that_becomes_known_late_is_not_written_either(path: Path) -> None:
    model = ScriptedModel([model_response(text=f"It is {KEY}"), model_response()])
    with cassette(path):
        await ask(model, f"What is {KEY}?")
        await ask(model, request_of("Hello", api_key=KEY))
    assert KEY not in content_of(path)
    with cassette(path):
        await ask(no_model(), request_of("Hello", api_key=KEY))


NESTED: dict[str, Any] = {
    "mcp_servers": [
        {"url": "https://x/mcp?a=1&token=words-of-a-url-token", "authorization_token": "words-of-a-token"}
    ],
    "tools": [{"headers": {"Authorization": "Bearer words-of-a-bearer"}, "authorization": "words-of-an-mcp"}],
    "gateway": {"url": "https://me:words-of-a-password@x/", "client_secret": {"value": "words-of-a-secret"}},
    "cookies": ["session=words-of-a-cookie"],
    "pin_password": 31_415_926,
}


@pytest.mark.parametrize("name", ["extra_body", "metadata", "gateway"])
async def test_credentials_below_a_setting_and_their_echoes_are_not_written(path: Path, name: str) -> None:
    settings = {name: NESTED, "user_token": "words-of-a-user", "session_token": SecretStr("words-of-session")}
    planted = re.findall(r"words-of-[a-z-]+", repr(settings))
    response = model_response(text=" and ".join([*planted, "words-of-session"]))
    with cassette(path):
        await ask(ScriptedModel([response]), request_of("Hello", **settings))
    written = content_of(path)
    assert len(planted) == 8
    assert re.findall("words-of-[a-z-]+", written) == []
    assert "31415926" not in written
    assert "https://x/mcp?a=1&token=[redacted]" in written
    with cassette(path):
        await ask(no_model(), request_of("Hello", **settings))


async def test_another_credential_below_a_setting_replays_as_well(path: Path) -> None:
    def request(secret: str) -> ModelRequest:
        servers = [{"url": f"https://x/?api-key={secret}", "authorization_token": secret}]
        return request_of("Hello", extra_body={"mcp_servers": servers})

    with cassette(path):
        await ask(ScriptedModel([model_response(text="Hi")]), request("one-of-the-secrets"))
    with cassette(path):
        assert await ask(no_model(), request("another-secret")) == "Hi"


async def test_settings_that_only_sound_like_secrets_are_written_and_compared(path: Path) -> None:
    settings: dict[str, Any] = {
        "max_tokens": 3,
        "prompt_cache_key": "greeting-prompts",
        "thinking_budget_tokens": 1_024,
        "metadata": {"author": "Somebody", "keywords": ["greeting-words"]},
        "extra_body": {"stop_token": "end-of-greeting", "callback": "https://x/?sort_key=greeting-name"},
    }
    with cassette(path):
        await ask(ScriptedModel([model_response(text="greeting-prompts")]), request_of("Hi", **settings))
    written = content_of(path)
    assert "[redacted]" not in written
    assert "greeting-name" in written
    other = settings | {"prompt_cache_key": "other-prompts"}
    with pytest.raises(CassetteMissError, match="other-prompts"), cassette(path):
        await ask(no_model(), request_of("Hi", **other))


@pytest.mark.parametrize("name", ["key", "api-key", "token", "access_token", "sig", "code"])
async def test_a_key_in_the_query_of_the_base_url_is_a_secret(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://e.x/v1?{name}=words/of+the%20variable")
    base_url = f"https://e.x/v1?{name}=words%2Fof-the-setting&api-version=2024-10-21"
    words = ["words/of-the-setting", "words%2Fof-the-setting", "words/of the variable"]
    model = ScriptedModel([model_response(text=" ".join(words))])
    with cassette(path):
        await ask(model, request_of("On 2024-10-21", base_url=base_url))
    written = content_of(path)
    assert "words" not in written
    assert "On 2024-10-21" in written


async def test_a_variable_that_is_set_late_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cassette(path):
        monkeypatch.setenv("ANTHROPIC_API_KEY", VARIABLE)
        await ask(ScriptedModel([model_response(text=VARIABLE)]), "Hello")
    assert VARIABLE not in content_of(path)


async def test_headers_that_are_no_credentials_are_no_secrets(path: Path) -> None:
    headers = {"X-Title": "Review analysis", "HTTP-Referer": "https://reviews.example"}
    answer = "An analysis, the Review analysis of https://reviews.example"
    with cassette(path):
        await ask(ScriptedModel([model_response(text=answer)]), request_of("?", extra_headers=headers))
    with cassette(path):
        assert await ask(no_model(), "?") == answer


async def test_only_what_follows_an_authorization_scheme_is_a_secret_of_its_own(path: Path) -> None:
    headers = {"Authorization": "Bearer words-of-a-key", "X-Api-Key": "the whole analysis"}
    answer = "words-of-a-key is no analysis, and neither is the whole analysis"
    with cassette(path):
        await ask(ScriptedModel([model_response(text=answer)]), request_of("?", extra_headers=headers))
    with cassette(path):
        assert await ask(no_model(), "?") == "[redacted] is no analysis, and neither is [redacted]"


async def test_short_words_are_no_secrets(path: Path) -> None:
    with cassette(path):
        await ask(ScriptedModel([model_response(text="a test")]), request_of("test", api_key="test"))
    assert "[redacted]" not in content_of(path)


async def test_users_name_more_texts_and_functions(path: Path) -> None:
    def without_date(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\d", "(date)", text)

    redact = ["Ada", without_date]
    model = ScriptedModel([model_response(text="Ada came on 2026-01-01")])
    with cassette(path, redact=redact):
        assert await ask(model, "Who came on 2026-01-01, Ada?") == "Ada came on 2026-01-01"
    assert "Ada" not in content_of(path)
    assert "2026" not in content_of(path)
    with cassette(path, redact=redact):
        answer = await ask(no_model(), "Who came on 2027-12-31, Ada?")
    assert answer == "[redacted] came on (date)"


@pytest.mark.parametrize("redact", ["Ada", lambda text: text.replace("Ada", "-")], ids=["text", "function"])
async def test_a_single_redaction_needs_no_list(path: Path, redact: Any) -> None:
    with cassette(path, redact=redact):
        await ask(ScriptedModel([model_response()]), "Ada")
    assert "Ada" not in content_of(path)


async def test_half_a_character_does_not_stop_a_recording(path: Path) -> None:
    for model in (ScriptedModel([model_response(text="\ud83d")]), no_model()):
        with cassette(path):
            await ask(model, "half \ud83d")
    assert "half ?" in content_of(path)
