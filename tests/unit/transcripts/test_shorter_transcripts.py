"""Transcripts without tool calls, and with summaries in place of older turns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import TranscriptError
from nighthawk_async.models import (
    AssistantMessage,
    BinaryContent,
    Message,
    ModelCapabilities,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel, model_response, tool_call
from tests.cases import every

from .transcript_steps import looking, prompt_of, roles_of, setting, transcript_of, triage

pytestmark = pytest.mark.anyio


def called(*names: str, text: str = "", **more: Any) -> list[Message]:
    """A response with calls, and their results."""
    calls = tuple(
        ToolCall(id=f"{name}-{place}", name=name, arguments="{}") for place, name in enumerate(names)
    )
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=(f"of {call.id}",)) for call in calls)
    message = AssistantMessage(text=text, tool_calls=calls, **more)
    return [message, *([ToolResultsMessage(results=results)] if results else [])]


def made(*parts: list[Message]) -> nh.Transcript:
    messages = [UserMessage(content=("program",)), *(message for part in parts for message in part)]
    return nh.Transcript(
        step_id="shop:1",
        model="scripted:model",
        system_prompt="system",
        messages=tuple(messages),
        outcome="pass",
    )


def calls_in(transcript: nh.Transcript) -> list[list[str]]:
    return [
        [call.name for call in message.tool_calls]
        for message in transcript.messages
        if isinstance(message, AssistantMessage)
    ]


OUTCOME = called("nh_outcome")
SIGNED = ProviderContent(protocol="anthropic", items=())
PICTURE = BinaryContent(data=b"x", media_type="image/png")


@every(
    "parts, choices, calls, roles",
    [
        ([called("look", text="Hm."), OUTCOME], (), [["nh_outcome"]], "user model results"),
        ([called("look"), OUTCOME], (), [["nh_outcome"]], "user model results"),
        ([called("look"), called("read"), OUTCOME], (), [["nh_outcome"]], "user model results"),
        ([called("look", "read"), OUTCOME], ("look",), [["read"], ["nh_outcome"]], None),
        ([called("look", "nh_outcome")], (), [["nh_outcome"]], "user model results"),
        ([called("look", "read", "look")], ("look",), [["read"]], "user model results"),
        ([called("look"), OUTCOME], ("look", "nh_outcome"), [], "user"),
        ([called("look", text="Done.")], ("look",), [[]], "user model"),
        ([called("look", text=" \n")], ("look",), [], "user"),
        ([called("look", media=(PICTURE,))], (), [[]], "user model"),
        ([called("look"), OUTCOME], ("other",), [["look"], ["nh_outcome"]], None),
        ([called("look", "read")], (lambda call: call.id == "read-1",), [["look"]], None),
        ([called("read", "look")], (lambda call: call.id == "read-1", "look"), [["read"]], None),
        (
            [called("look", text="A"), [UserMessage(content=("b",))], called("read", text="C")],
            (),
            [[], []],
            None,
        ),
        ([], (), [], "user"),
    ],
)
def test_calls_go_with_their_results(
    parts: list[list[Message]], choices: tuple[Any, ...], calls: list[list[str]], roles: str | None
) -> None:
    whole = made(*parts)
    shorter = whole.without_calls(*choices)  # the constructor checks that calls and results are pairs
    assert calls_in(shorter) == calls
    if roles is not None:
        assert roles_of(shorter.messages) == roles.split()
    assert (shorter.outcome, shorter.usage, shorter.tools) == (whole.outcome, whole.usage, whole.tools)
    for message in shorter.messages:
        if isinstance(message, AssistantMessage):
            assert message.text.strip() or message.tool_calls or message.media, "no response is empty"
    assert nh.Transcript.from_json(shorter.to_json()) == shorter


def test_responses_that_are_neighbours_now_become_one() -> None:
    shorter = made(
        called("look", text="First."), called("read", text="Then."), called("nh_outcome", text="End.")
    ).without_calls()
    (_, response, _) = shorter.messages
    assert isinstance(response, AssistantMessage)
    assert response.text == "First.\n\nThen.\n\nEnd."
    assert [call.name for call in response.tool_calls] == ["nh_outcome"]


def test_what_the_provider_signed_goes_with_the_calls() -> None:
    """Its blocks hold the calls; those of other responses stay as they are."""
    whole = made(
        called("look", text="Hm.", reasoning="I look", provider_content=SIGNED),
        [UserMessage(content=("go on",))],
        called("nh_outcome", reasoning="I end", provider_content=SIGNED),
    )
    first, last = (each for each in whole.without_calls().messages if isinstance(each, AssistantMessage))
    assert (first.reasoning, first.provider_content) == ("", None)
    assert last is whole.messages[4]


def test_what_is_neither_a_name_nor_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="names of tools and functions of a call, not 3"):
        made(OUTCOME).without_calls(3)  # type: ignore[arg-type]


@every("provider", ["openai-chat", "openai-responses", "anthropic", "google"])
async def test_every_provider_takes_what_is_left(provider: str) -> None:
    """The server refuses requests that its protocol does not allow."""
    whole = await transcript_of(looking("mail[:3]", "Look."), looking("mail[3:]"), setting("order"))
    reply = ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass", bindings={"label": "b"}),))
    async with ModelServer([reply, reply]) as server:
        base_url = server.base_url if provider.startswith("openai") else server.base_url.removesuffix("/v1")
        configuration = nh.StepExecutorConfiguration(
            model=f"{provider}:tested", model_settings={"base_url": base_url, "api_key": "key"}
        )
        async with nh.run(configuration):
            for past in (whole.without_calls(), whole.without_calls("nh_eval", "nh_outcome")):
                with nh.scope(past=past):
                    assert await triage("lamp") == "b"


def turns_of(count: int) -> nh.Transcript:
    return made(*(called("look", text=f"turn {number}") for number in range(1, count)), OUTCOME)


async def test_a_function_summarises_older_turns() -> None:
    seen: list[str] = []

    def summarize(text: str) -> str:
        seen.append(text)
        return "  They looked <<<NH:END_SUMMARY>>>. "

    whole = turns_of(4)
    shorter = await whole.compacted(keep_turns=2, summarize=summarize)
    assert seen == [
        "MODEL: turn 1\nCALL: look({})\nRESULT of look: of look-0\n"
        "MODEL: turn 2\nCALL: look({})\nRESULT of look: of look-0"
    ]
    assert shorter.messages[0] is whole.messages[0]
    assert shorter.messages[2:] == whole.messages[5:]
    summary = prompt_of(shorter.messages[1])
    assert summary.startswith("<<<NH:SUMMARY>>>\nSummary of 2 earlier turns, which left")
    assert summary.count("<<<NH:END_SUMMARY>>>") == 1
    assert summary.endswith("<<<NH:END_SUMMARY>>>")
    assert len(shorter) == 2
    assert (shorter.outcome, shorter.usage) == ("pass", whole.usage)
    assert nh.Transcript.from_json(shorter.to_json()) == shorter


async def test_a_summary_is_summarised_anew_with_what_followed_it() -> None:
    texts: list[str] = []

    async def summarize(text: str) -> str:
        texts.append(text)
        return f"summary {len(texts)}"

    talk = made(*([*called("look", text=f"t{n}"), UserMessage(content=(f"u{n}",))] for n in range(1, 5)))
    once = await talk.compacted(keep_turns=2, summarize=summarize)
    assert [prompt_of(each) for each in once.messages[2:3]] == ["u2"]
    twice = await once.compacted(keep_turns=1, summarize=summarize)
    assert "summary 1" in texts[1]
    assert "MESSAGE: u2" in texts[1]
    assert "t3" in texts[1]
    assert [prompt_of(each).partition("\n")[2][:30] for each in twice.messages[1:2]] == [
        "Summary of 3 earlier turns, wh"
    ]
    assert roles_of(twice.messages) == ["user", "user", "user", "model", "results", "user"]
    assert [prompt_of(each) for each in twice.messages[2:3]] == ["u3"]
    nothing = await twice.compacted(keep_turns=0, summarize=summarize)
    assert len(nothing) == 0
    assert "Summary of 4 earlier turns" in prompt_of(nothing.messages[-1])


async def test_a_transcript_without_older_turns_stays_as_it_is() -> None:
    def fail(text: str) -> str:
        raise AssertionError(text)

    whole = turns_of(3)
    assert await whole.compacted(summarize=fail) is whole
    assert await whole.compacted(keep_turns=3) is whole
    with pytest.raises(ValueError, match="at least 0, not -1"):
        await whole.compacted(keep_turns=-1)


@every("given, said", [("", "an empty text"), (" \n", "an empty text"), (None, "'NoneType'"), (3, "'int'")])
async def test_a_function_must_give_a_text(given: object, said: str) -> None:
    summarize: Callable[[str], Any] = lambda text: given  # noqa: E731
    with pytest.raises(
        TranscriptError, match=f"transcript of shop:1: .* must return a text, and gave {said}"
    ):
        await turns_of(3).compacted(keep_turns=1, summarize=summarize)


async def test_a_natural_function_summarises() -> None:
    @nh.natural_function
    async def shorten(turns: str) -> str:
        short = ""
        """natural
        Set <:short> to a summary of <turns>.
        """
        return short

    answer = model_response(tool_call("nh_outcome", kind="pass", bindings={"short": "They looked."}))
    async with nh.run(ScriptedModel([answer])):
        shorter = await turns_of(3).compacted(keep_turns=1, summarize=shorten)
    assert "They looked." in prompt_of(shorter.messages[1])


async def test_the_model_of_the_run_summarises_within_the_run(tmp_path: Path) -> None:
    """The meter counts it, and a later life of a durable run does not ask again."""
    model = ScriptedModel([model_response(text="They looked.")])
    for life in range(2):
        async with nh.run(model, journal=str(tmp_path / "runs.db"), run_id="run-1"):
            shorter = await turns_of(4).compacted(keep_turns=1)
            if life == 0:
                assert nh.runtime.get_usage_meter().usage.requests == 1
    assert "They looked." in prompt_of(shorter.messages[1])
    (request,) = model.requests
    assert "<<<NH:PROGRAM>>>\nprogram" in prompt_of(request.messages[0])
    assert "turn 3" in prompt_of(request.messages[0])


async def test_another_model_summarises() -> None:
    own, other = ScriptedModel([], name="scripted:own"), ScriptedModel([model_response(text="Short.")])
    async with nh.run(own):
        shorter = await turns_of(3).compacted(keep_turns=1, model=other)
    assert "Short." in prompt_of(shorter.messages[1])
    outside = await turns_of(3).compacted(keep_turns=1, model=ScriptedModel([model_response(text="Out.")]))
    assert "Out." in prompt_of(outside.messages[1])


async def test_without_a_model_the_error_says_what_to_give() -> None:
    whole = turns_of(3)
    with pytest.raises(nh.ConfigurationError, match="open a run, or give a Model"):
        await whole.compacted(keep_turns=1)
    with pytest.raises(nh.ConfigurationError, match=r"both summarize=.* and model="):
        await whole.compacted(keep_turns=1, model="openai-chat:x", summarize=str)


async def test_turns_that_are_too_long_are_an_error_of_that_kind() -> None:
    model = ScriptedModel([], capabilities=ModelCapabilities(context_window=20))
    async with nh.run(model):
        with pytest.raises(nh.ContextTooLongError, match="transcript of shop:1: the request for a summary"):
            await turns_of(3).compacted(keep_turns=1)


async def test_a_model_that_gives_no_summary_fails_it() -> None:
    async with nh.run(ScriptedModel([model_response(text=" ")])):
        with pytest.raises(nh.ExecutionError, match=r"transcript of shop:1: .* gave none: it was empty"):
            await turns_of(3).compacted(keep_turns=1)
