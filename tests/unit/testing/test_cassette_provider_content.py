"""What only the provider can read goes back to it on a replay as well, and fits, whatever is redacted."""

import json
import re
from pathlib import Path

import pytest

from nighthawk_async.testing import CassetteMissError, ModelResponse, ScriptedModel, cassette, model_response
from nighthawk_async.types.messages import AssistantMessage, ProviderContent, UserMessage
from nighthawk_async.types.model import ModelRequest, ResponseFinished

from .cassette_support import collect, content_of, no_model, request_of, write

pytestmark = pytest.mark.anyio

KEY = "plain-words-of-a-key"
ITEMS = (
    {"type": "thinking", "thinking": f"It was 2026-01-01, half \ud83d, and {KEY}", "signature": "opaque"},
    {"type": "text", "text": "Well"},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


def thoughtful_response() -> ModelResponse:
    response = model_response(text="Well")
    content = ProviderContent(protocol="anthropic", items=ITEMS)
    finish = ResponseFinished(reason="stop", provider_content=content)
    return ModelResponse(events=(*response.events[:-1], finish))


async def converse(model: ScriptedModel, **settings: object) -> ProviderContent:
    """Ask, and ask again with the answer; gives what the second request sent back."""
    first = request_of("Hello")
    finish = (await collect(model, first))[-1]
    assert isinstance(finish, ResponseFinished)
    assert finish.provider_content is not None
    answer = AssistantMessage(text="Well", provider_content=finish.provider_content)
    messages = (*first.messages, answer, UserMessage(content=("And?",)))
    await collect(model, ModelRequest(messages=messages, settings=settings))
    return finish.provider_content


def without_date(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", "(date)", text)


async def test_what_is_redacted_in_it_does_not_keep_the_next_request_from_its_recording(path: Path) -> None:
    with cassette(path, redact=[without_date, KEY]):
        told = await converse(ScriptedModel([thoughtful_response(), model_response()]))
    assert told.items == ITEMS
    with cassette(path, redact=[without_date, KEY]) as tape:
        told = await converse(no_model())
    assert tape.unused == ()
    assert told.items[0]["thinking"] == "It was (date), half ?, and [redacted]"
    assert told.items[0]["signature"] == "opaque"


async def test_neither_does_a_secret_that_becomes_known_late(path: Path) -> None:
    with cassette(path):
        await converse(ScriptedModel([thoughtful_response(), model_response()]))
        await collect(ScriptedModel([model_response()]), request_of("Bye", api_key=KEY))
    assert KEY not in content_of(path)
    with cassette(path) as tape:
        told = await converse(no_model())
        await collect(no_model(), request_of("Bye", api_key=KEY))
    assert tape.unused == ()
    assert KEY not in json.dumps(told.items)


async def test_changes_of_it_make_another_request(path: Path) -> None:
    with cassette(path):
        await converse(ScriptedModel([thoughtful_response(), model_response()]))
    text = content_of(path)
    assert text.count("signature: opaque") == 1
    write(path, text.replace("signature: opaque", "signature: other"))
    with pytest.raises(CassetteMissError, match="sha256"), cassette(path):
        await converse(no_model())
