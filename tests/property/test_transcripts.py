"""Transcripts: what is saved is loaded unchanged, and what is damaged is refused with its place."""

import json
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.errors import TranscriptError
from nighthawk_async.models import (
    AssistantMessage,
    AudioUrl,
    DocumentUrl,
    FileUrl,
    Message,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserMessage,
    VideoUrl,
)

texts = st.text(st.characters(), max_size=20)  # lone surrogates included
names = st.none() | texts

urls = st.builds(
    lambda kind, url, media_type: kind(url=url, media_type=media_type),
    st.sampled_from([FileUrl, nh.ImageUrl, AudioUrl, VideoUrl, DocumentUrl]),
    texts,
    names,
)
media = (
    st.builds(nh.BinaryContent, data=st.binary(max_size=50), media_type=texts, identifier=names)
    | urls
    | st.builds(UploadedFile, file_id=texts, provider_name=texts, media_type=names)
)
content = st.lists(texts | media, max_size=3).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
provider_content = st.builds(
    ProviderContent,
    protocol=texts,
    items=st.lists(st.dictionaries(texts, plain, max_size=3), max_size=2).map(tuple),
)
users = st.builds(UserMessage, content=content).map(lambda message: [message])


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A response, with the results of its calls."""
    calls = draw(st.lists(st.builds(ToolCall, id=texts, name=texts, arguments=texts), max_size=3))
    response = AssistantMessage(
        text=draw(texts),
        reasoning=draw(texts),
        tool_calls=tuple(calls),
        provider_content=draw(st.none() | provider_content),
    )
    if not calls:
        return [response]
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, content=draw(content), is_error=draw(st.booleans()))
        for call in calls
    )
    return [response, ToolResultsMessage(results=results)]


transcripts = st.builds(
    nh.Transcript,
    step_id=texts,
    model=texts,
    system_prompt=texts,
    messages=st.lists(users | turns(), max_size=6).map(lambda parts: tuple(chain.from_iterable(parts))),
    tools=st.lists(texts, max_size=3).map(tuple),
    usage=st.builds(
        nh.Usage,
        requests=st.integers(0, 9),
        input_tokens=st.integers(0, 10**9),
        cost=st.just(Decimal("0.01")),
    ),
    outcome=st.sampled_from([None, "pass", "return", "break", "continue", "raise"]),
    error=names,
)


@given(transcripts)
def test_what_is_saved_is_loaded_unchanged(transcript: nh.Transcript) -> None:
    assert nh.Transcript.from_json(transcript.to_json(show_secrets=True)) == transcript


@given(transcripts, st.integers(-7, 7), st.integers(-7, 7))
def test_every_slice_is_a_whole_transcript(transcript: nh.Transcript, start: int, stop: int) -> None:
    part = transcript[start:stop]
    responses = [each for each in transcript.messages if isinstance(each, AssistantMessage)]
    kept = [each for each in part.messages if isinstance(each, AssistantMessage)]
    assert kept == responses[start:stop]
    assert transcript[:] == transcript
    assert part.messages[: len(transcript[:0].messages)] == transcript[:0].messages
    assert transcript.trimmed(turns=len(kept)).messages == transcript[len(transcript) - len(kept) :].messages


@given(transcripts)
def test_every_transcript_can_be_shown_and_saved_without_secrets(transcript: nh.Transcript) -> None:
    str(transcript).encode()
    nh.Transcript.from_json(transcript.to_json().encode())


SAVED: dict[str, Any] = json.loads(
    nh.Transcript(
        step_id="shop:1",
        model="scripted:model",
        system_prompt="Work.",
        messages=(
            UserMessage(content=("the program", nh.BinaryContent(data=b"123", media_type="image/png"))),
            AssistantMessage(tool_calls=(ToolCall(id="call", name="look", arguments="{}"),)),
            ToolResultsMessage(results=(ToolResult(call_id="call", name="look", content=("seen",)),)),
        ),
    ).to_json()
)


def changed(**changes: Any) -> str:
    return json.dumps({**SAVED, **changes})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "line 1 column 1", id="empty"),
        pytest.param("{", "line 1 column 2", id="cut off"),
        pytest.param("[" * 100_000, "no transcript", id="nested too deeply"),
        pytest.param("\udcff", "byte 0xff in position 0", id="no text"),
        pytest.param("[]", "its transcript_version is None, not 1", id="a list"),
        pytest.param("{}", "its transcript_version is None, not 1", id="an object"),
        pytest.param(changed(transcript_version=2), "its transcript_version is 2, not 1", id="newer"),
        pytest.param(changed(more=1), "unknown field `more`", id="another field"),
        pytest.param(changed(model=7), r"Expected `str`, got `int` - at `\$.model`", id="a wrong type"),
        pytest.param(
            changed(outcome="leave"), r"Invalid enum value 'leave' - at `\$.outcome`", id="no outcome"
        ),
        pytest.param(
            changed(messages=[{"role": "admin"}]), r"'admin' - at `\$.messages\[0\].role`", id="another role"
        ),
        pytest.param(
            changed(messages=[{"role": "user", "content": ["a", {"type": "bytes", "data": "§"}]}]),
            r"at `\$.messages\[0\].content\[1\]",
            id="no base64",
        ),
        pytest.param(changed(messages=SAVED["messages"][:2]), "calls without results", id="torn"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(TranscriptError, match=problem) as caught:
        nh.Transcript.load(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        nh.Transcript.load(tmp_path / "missing.json")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "transcript.json"
    transcript = nh.Transcript.from_json(json.dumps(SAVED))
    transcript.save(file)
    transcript[:0].save(file)
    assert nh.Transcript.load(file) == transcript[:0]
    assert [each.name for each in file.parent.iterdir()] == ["transcript.json"]


def test_keys_of_providers_are_neither_saved_nor_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "correct-horse-battery")
    said = "the keys are correct-horse-battery and sk-abcdefghijklmnopqrstuvwx"
    transcript = nh.Transcript(
        step_id="shop:1", model="scripted:model", system_prompt="", messages=(UserMessage(content=(said,)),)
    )
    (message,) = nh.Transcript.from_json(transcript.to_json()).messages
    assert message.content == ("the keys are [redacted] and [redacted]",)
    assert "[redacted] and [redacted]" in str(transcript)
    assert nh.Transcript.from_json(transcript.to_json(show_secrets=True)) == transcript
    assert said in transcript.show(show_secrets=True)
