"""Images that a model makes, from a server into a variable: in every life of a run, and from a cassette."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, cassette

from .websocket_support import LANES

pytestmark = pytest.mark.anyio

PICTURE = nh.BinaryContent(data=b"\x89PNG\r\n\x1a\n" + bytes(range(256)), media_type="image/png")
BASE64 = base64.b64encode(PICTURE.data).decode()
SOUND = nh.BinaryContent(data=b"RIFF____WAVEfmt " + b"\x01" * 80, media_type="audio/wav")
URL = f"data:image/png;base64,{BASE64}"

BLOCKS: Mapping[str, tuple[Any, nh.BinaryContent]] = {
    "openai-responses": (
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": BASE64},
        PICTURE,
    ),
    "openrouter": ({"images": [{"type": "image_url", "image_url": {"url": URL}}]}, PICTURE),
    "google": ({"inlineData": {"mimeType": "image/png", "data": BASE64}}, PICTURE),
    "google, sound": (
        {"inlineData": {"mimeType": "audio/wav", "data": base64.b64encode(SOUND.data).decode()}},
        SOUND,
    ),
}
"""The media of each protocol in its own form, and what a variable gets; Anthropic's models make none."""


@nh.natural_function
async def draw(subject: str) -> nh.BinaryContent:
    image: nh.BinaryContent
    """natural
    Draw <subject>: <:image>.
    """
    return image


def executor_at(name: str, base_url: str, **more: Any) -> nh.AgentStepExecutor:
    provider = name.partition(",")[0]
    settings = {"base_url": base_url, "api_key": "k", "max_retries": 0, **more}
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:painter", model_settings={**settings, "capabilities": {"images": True}}
    )
    return nh.AgentStepExecutor.from_configuration(configuration)


def settings_of(name: str) -> list[dict[str, Any]]:
    forms: list[dict[str, Any]] = [{"stream": True}, {"stream": False}]
    return [*forms, {"transport": "websocket", **LANES}] if name == "openai-responses" else forms


@pytest.mark.parametrize("name", BLOCKS)
async def test_a_variable_takes_what_the_model_made_in_each_life_and_from_a_cassette(
    name: str, tmp_path: Path
) -> None:
    block, expected = BLOCKS[name]
    for number, settings in enumerate(settings_of(name)):
        path, store = tmp_path / f"{number}.json", f"sqlite:///{tmp_path}/{number}.db"
        async with ModelServer([ModelReply(text="Here.", blocks=(block,))] * 2) as server:
            executor = executor_at(name, server.base_url, **settings)
            for life in range(2):
                with nh.journal.open(store) as journal:
                    async with nh.run(executor, journal=journal, run_id="painted"):
                        assert await draw("a heron") == expected, (settings, life)
            assert len(server.requests) == 1
            with cassette(path, mode="once"):
                async with nh.run(executor):
                    assert await draw("a heron") == expected
            assert len(server.requests) == 2
        with cassette(path, mode="none") as tape:
            async with nh.run(executor):
                assert await draw("a heron") == expected
        assert tape.unused == ()
