"""Events that a protocol has got since this library was written: ignored, with one log line for each kind."""

import json
import logging
from collections.abc import Callable

import pytest

from nighthawk_async.types.model import ModelEvent, ResponseFinished, TextDelta
from nighthawk_async.wire import unknown_kinds
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec
from nighthawk_async.wire.sse import ServerSentEvent

from . import anthropic


@pytest.fixture(autouse=True)
def nothing_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_kinds, "_reported", set[tuple[str, str]]())


def sse(name: str, **fields: object) -> ServerSentEvent:
    return ServerSentEvent(event=name, data=json.dumps(fields).encode())


def chat(*, kind: str) -> list[ServerSentEvent]:
    def chunk(**choice: object) -> ServerSentEvent:
        return sse("", object="chat.completion.chunk", choices=[{"index": 0, **choice}])

    unknown = [sse("", object=kind, choices=None), sse(kind, note="x"), sse("", object=kind)]
    return [
        chunk(delta={"content": "Hi"}),
        *unknown,
        chunk(delta={}, finish_reason="stop"),
        ServerSentEvent(data=b"[DONE]"),
    ]


def responses(*, kind: str) -> list[ServerSentEvent]:
    unknown = [sse("", type=kind), sse(kind, delta={"another": "form"}), sse("", type=kind, item=3)]
    delta = sse(
        "", type="response.output_text.delta", item_id="m", output_index=0, content_index=0, delta="Hi"
    )
    return [
        sse("", type="response.created"),
        delta,
        *unknown,
        sse("", type="response.completed", response={}),
    ]


def messages(*, kind: str) -> list[ServerSentEvent]:
    def delta(**fields: object) -> ServerSentEvent:
        return sse("", type="content_block_delta", index=0, delta=fields)

    return [
        sse("", type="ping"),
        sse("", type="message_start", message={}),
        sse("", type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
        delta(type="text_delta", text="Hi"),
        delta(type=kind, text="no text"),
        sse("", type=kind, delta=[]),
        sse(kind, note="x"),
        sse("", type="content_block_stop", index=0),
        sse("", type="message_delta", delta={"stop_reason": "end_turn"}),
        sse("", type="message_stop"),
    ]


def gemini(*, kind: str) -> list[ServerSentEvent]:
    def chunk(*parts: object, **fields: object) -> ServerSentEvent:
        return sse("", candidates=[{"content": {"parts": list(parts)}, **fields}])

    return [
        chunk({"text": "Hi"}),
        chunk({kind: {"a": 1}}),
        chunk({kind: 2}, {"inlineData": {}}),
        chunk(finishReason="STOP"),
    ]


PROTOCOLS = pytest.mark.parametrize(
    ("codec", "stream_of"),
    [
        pytest.param(OpenAIChatCodec(), chat, id="openai-chat"),
        pytest.param(OpenAIResponsesCodec(), responses, id="openai-responses"),
        pytest.param(AnthropicCodec(), messages, id="anthropic"),
        pytest.param(GoogleCodec(), gemini, id="google"),
    ],
)
StreamOf = Callable[..., list[ServerSentEvent]]


def decoded(codec: Codec, stream: list[ServerSentEvent]) -> list[ModelEvent]:
    decoder = codec.decoder()
    events = [event for each in stream for event in decoder.feed(each)]
    return [*events, *(() if decoder.is_ended else decoder.finish())]


@PROTOCOLS
def test_unknown_events_are_ignored_with_one_line_for_each_kind(
    codec: Codec, stream_of: StreamOf, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("some_new_kind", "some_new_kind", "another_kind"):
        events = decoded(codec, stream_of(kind=kind))
        assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta(text="Hi")]
        assert isinstance(events[-1], ResponseFinished)
        assert events[-1].reason == "stop"
    assert caplog.messages == [
        f"{codec.name}: events of the unknown kind {kind!r} are ignored"
        for kind in ("some_new_kind", "another_kind")
    ]


@PROTOCOLS
def test_a_server_cannot_fill_the_log_nor_write_into_it(
    codec: Codec, stream_of: StreamOf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(300):
        decoded(codec, stream_of(kind=f"{number}\nline \x1b[2J" + "x" * 10_000))
    assert len(caplog.messages) == 100
    assert all("\n" not in each and "\x1b" not in each and len(each) < 250 for each in caplog.messages)


def test_known_events_without_use_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    for kind in ("response.in_progress", "response.web_search_call.searching", "keepalive"):
        decoded(OpenAIResponsesCodec(), responses(kind=kind))
    decoded(GoogleCodec(), gemini(kind="videoMetadata"))
    AnthropicCodec().decoder().feed(
        ServerSentEvent(data=anthropic.PING.splitlines()[1].removeprefix(b"data: "))
    )
    assert caplog.messages == []
