"""No secret is written, and requests find their recordings all the same."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, cassette, model_response, tool_call
from nighthawk_async.types.messages import (
    AssistantMessage,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
)
from nighthawk_async.types.model import ModelRequest, ResponseFinished, TextDelta
from nighthawk_async.types.tools import ToolDefinition

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
    "extra_headers": {"x-gate": f"Token {HEADER}"},
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
    error = nh.ModelStatusError(f"no {text}", status=401)
    model = ScriptedModel([response, error])
    with cassette(path):
        await collect(model, full_request())
        with pytest.raises(nh.ModelStatusError):
            await collect(model, full_request())
    written = content_of(path)
    assert [secret for secret in PLANTED if secret in written] == []
    assert written.count("[redacted]") > 20
    with cassette(path) as tape:
        assert "[redacted]" in await ask(no_model(), full_request())
        with pytest.raises(nh.ModelStatusError, match=re.escape("[redacted]")):
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
