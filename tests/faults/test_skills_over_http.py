"""Skills in every protocol: the same bytes in every request of a step and in every run, and images."""

import base64
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from tests.unit.skills.folders import write_skill

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)

TURNS = (
    ModelReply(tool_calls=(tool_call("nh_skill", name="tidy-up"),)),
    ModelReply(tool_calls=(tool_call("nh_skill", name="tidy-up", file="plan.png"),)),
    ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass"),)),
)


async def requests_of(provider: str, skills: nh.skills.Skills | None) -> list[RecordedRequest]:
    """The requests of one step, in a run of its own."""
    async with ModelServer([*TURNS] if skills else [TURNS[-1]]) as server:
        settings = {"base_url": server.base_url, "capabilities": {"images": True}}
        configuration = nh.StepExecutorConfiguration(model=f"{provider}:tested", model_settings=settings)
        async with nh.run(configuration, skills=skills):
            await nh.step("Follow <tidy_up>." if skills else "Work.")
    return server.requests


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_model_reads_a_skill_and_an_image(provider: str, tmp_path: Path) -> None:
    write_skill(tmp_path, "tidy-up", files={"plan.png": PNG})
    skills = nh.skills.load(tmp_path)
    first, again = [await requests_of(provider, skills) for _ in range(2)]
    assert [each.content for each in first] == [each.content for each in again]
    assert len(first) == 3
    assert base64.b64encode(PNG) in first[2].content
    assert b"Files of the skill tidy-up" in first[0].content
    plain = await requests_of(provider, None)
    assert b"skill" not in plain[0].content.lower()
