"""Images, sounds, citations, refusals and the server's own calls in answers of each protocol, and back."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.errors import ModelProtocolError
from nighthawk_async.models.protocols import create_codec
from nighthawk_async.recording.exchange import RecordedExchange, record_events, replay_events
from nighthawk_async.types.messages import AssistantMessage, BinaryContent, ImageUrl, UserMessage
from nighthawk_async.types.model import ModelEvent, ModelRequest, ResponseFinished, TextDelta, UsageReported
from nighthawk_async.types.model_output import CitationAdded, MediaCompleted
from nighthawk_async.types.native_tools import NativeCallFinished
from nighthawk_async.wire.sse import ServerSentEventDecoder

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
DATA = base64.b64encode(PNG).decode()
IMAGE = BinaryContent(data=PNG, media_type="image/png")
DRAWN = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": DATA}
PAGE = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 4, "end_index": 7}
CITED = ("https://a.example", "A", "owl", 4, 7)
TEXT = "The owl flies."


def whole(protocol: str, document: Any) -> list[ModelEvent]:
    return create_codec(protocol).decode_response(json.dumps(document).encode())


def streamed(protocol: str, *events: Any) -> list[ModelEvent]:
    text = "".join(each if isinstance(each, str) else f"data: {json.dumps(each)}\n\n" for each in events)
    decoder, lines = create_codec(protocol).decoder(), ServerSentEventDecoder()
    found: list[ModelEvent] = []
    for event in [*lines.feed(text.encode()), *lines.finish()]:
        found += decoder.feed(event)
    return found + decoder.finish()


def message_of(events: Sequence[ModelEvent]) -> AssistantMessage:
    finished = events[-1]
    assert isinstance(finished, ResponseFinished)
    return AssistantMessage(
        text="".join(each.text for each in events if isinstance(each, TextDelta)),
        media=tuple(each.content for each in events if isinstance(each, MediaCompleted)),
        citations=tuple(each.citation for each in events if isinstance(each, CitationAdded)),
        provider_content=finished.provider_content,
    )


def sent_back(provider: str, message: AssistantMessage) -> dict[str, Any]:
    codec = create_codec(PROVIDERS[provider].protocol)
    messages = (UserMessage(content=("hi",)), message, UserMessage(content=("again",)))
    return json.loads(codec.encode(ModelRequest(messages=messages), model_name="m").body)


def chat(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "r", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}, **more}


def delta(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, **more}]}


def claude(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "m", "type": "message", "content": list(blocks), "stop_reason": "end_turn", **more}


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "status": "completed", "output": list(items)}


def said(*annotations: dict[str, Any], kind: str = "output_text") -> dict[str, Any]:
    part = {"type": kind, "text": TEXT, "annotations": list(annotations)}
    return {"type": "message", "id": "m", "role": "assistant", "content": [part]}


def gemini(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP", **more}]}


OPENROUTER = {
    "content": "Here.",
    "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}],
}
INLINE = {"inlineData": {"mimeType": "image/png", "data": DATA}, "thoughtSignature": "sig"}
MEDIA: dict[str, tuple[str, list[ModelEvent]]] = {
    "Gemini": ("google", whole("google", gemini({"text": "Here."}, INLINE))),
    "Gemini in a stream": (
        "google",
        streamed("google", {"candidates": [{"content": {"parts": [{"text": "Here."}]}}]}, gemini(INLINE)),
    ),
    "Responses": ("openai-responses", whole("openai-responses", responses(DRAWN, said()))),
    "Responses in a stream": (
        "openai-responses",
        streamed(
            "openai-responses",
            {"type": "response.output_item.added", "output_index": 0, "item": {**DRAWN, "result": None}},
            {"type": "response.image_generation_call.partial_image", "partial_image_b64": "AAAA"},
            {"type": "response.output_item.done", "output_index": 0, "item": DRAWN},
            {"type": "response.completed", "response": responses(DRAWN)},
        ),
    ),
    "OpenRouter": ("openai-chat", whole("openai-chat", chat(OPENROUTER))),
    "OpenRouter in a stream": (
        "openai-chat",
        streamed("openai-chat", delta(OPENROUTER), delta({}, finish_reason="stop"), "data: [DONE]\n\n"),
    ),
}


@pytest.mark.parametrize("name", MEDIA)
def test_an_image_comes_once_and_goes_back_byte_for_byte_or_in_words(name: str) -> None:
    protocol, events = MEDIA[name]
    message = message_of(events)
    assert message.media == (IMAGE,)
    assert DATA not in repr(message.provider_content)  # the bytes are kept once
    assert json.dumps(sent_back(protocol, message)).count(DATA) == 1
    for other in {"google", "openai-responses", "openai-chat", "anthropic"} - {protocol}:
        body = json.dumps(sent_back(other, message))
        assert (DATA if other == "google" else "[you made this image image/png, 48 bytes") in body, other
    replayed = replay_events(_exchange(events))
    assert message_of(replayed) == message


def _exchange(events: Sequence[ModelEvent]) -> RecordedExchange:
    exchange = RecordedExchange(step=(), model="m", digest="d", request={}, **record_events(events))
    return msgspec.json.decode(msgspec.json.encode(exchange), type=RecordedExchange)


def test_a_signature_stays_with_its_image() -> None:
    _, events = MEDIA["Gemini"]
    assert sent_back("google", message_of(events))["contents"][1]["parts"] == [{"text": "Here."}, INLINE]


def test_base64_of_another_form_goes_back_as_it_came_and_none_is_an_error() -> None:
    broken = {"inlineData": {"mimeType": "image/png", "data": DATA.rstrip("=") + "\n"}}
    message = message_of(whole("google", gemini(broken)))
    assert message.media == (IMAGE,)
    assert sent_back("google", message)["contents"][1]["parts"] == [broken]
    with pytest.raises(ModelProtocolError, match="not base64"):
        whole("google", gemini({"inlineData": {"mimeType": "image/png", "data": "%%%"}}))


def test_an_image_that_is_thought_is_no_answer_and_an_address_is_kept() -> None:
    assert message_of(whole("google", gemini({**INLINE, "thought": True}, {"text": "a"}))).media == ()
    url = "https://images.example/1.png"
    images = [{"type": "image_url", "image_url": {"url": url}}]
    message = message_of(whole("openai-chat", chat({"content": "", "images": images})))
    assert message.media == (ImageUrl(url=url),)
    assert sent_back("openai-chat", message)["messages"][1]["images"] == images


@pytest.mark.parametrize("expires_at", [1, 4_000_000_000])
def test_a_sound_goes_back_by_its_id_as_long_as_it_is_kept_and_then_in_its_words(expires_at: int) -> None:
    sound = b"RIFF\x00\x00\x00\x00WAVE" + bytes(20)
    pieces = [base64.b64encode(each).decode() for each in (sound[:15], sound[15:])]
    events = streamed(
        "openai-chat",
        delta({"audio": {"id": "audio_1", "transcript": "Hel"}}),
        delta({"audio": {"data": pieces[0], "transcript": "lo"}}),
        delta({"audio": {"data": pieces[1], "expires_at": expires_at}}, finish_reason="stop"),
        "data: [DONE]\n\n",
    )
    message = message_of(events)
    assert (message.text, message.media) == ("Hello", (BinaryContent(data=sound, media_type="audio/wav"),))
    back = sent_back("openai-chat", message)["messages"][1]
    assert (back.get("audio"), back["content"]) == (
        (None, "Hello") if expires_at == 1 else ({"id": "audio_1"}, None)
    )


SUPPORT = {"segment": {"startIndex": 5, "endIndex": 8, "text": "owl"}, "groundingChunkIndices": [0]}
GROUNDED = {
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [SUPPORT],
}
LOCATION = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "cited_text": "q"}
CITATIONS: dict[str, tuple[list[ModelEvent], tuple[Any, ...]]] = {
    "Chat": (
        whole(
            "openai-chat",
            chat({"content": TEXT, "annotations": [{"type": "url_citation", "url_citation": PAGE}]}),
        ),
        CITED,
    ),
    "Responses": (whole("openai-responses", responses(said(PAGE))), CITED),
    "Responses in a stream": (
        streamed(
            "openai-responses",
            {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": TEXT},
            {"type": "response.output_item.done", "output_index": 0, "item": said(PAGE)},
            {"type": "response.completed", "response": responses(said(PAGE))},
        ),
        CITED,
    ),
    "Claude": (
        whole(
            "anthropic",
            claude(
                {"type": "text", "text": "The "}, {"type": "text", "text": "owl", "citations": [LOCATION]}
            ),
        ),
        CITED,
    ),
    "Claude in a stream": (
        streamed(
            "anthropic",
            {"type": "message_start", "message": {"id": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "The "}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "citations_delta", "citation": LOCATION},
            },
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "owl"}},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ),
        CITED,
    ),
    "Gemini": (whole("google", gemini({"text": "Thé owl flies."}, groundingMetadata=GROUNDED)), CITED),
    "Perplexity": (
        streamed(
            "openai-chat",
            {**delta({"content": TEXT}), "citations": ["https://a.example"]},
            {
                **delta({}, finish_reason="stop"),
                "citations": ["https://a.example"],
                "search_results": [{"url": "https://a.example", "title": "A"}],
            },
            "data: [DONE]\n\n",
        ),
        ("https://a.example", "A", "", None, None),
    ),
}


@pytest.mark.parametrize("name", CITATIONS)
def test_a_citation_has_its_source_and_the_words_that_it_supports(name: str) -> None:
    events, expected = CITATIONS[name]
    (found,) = message_of(events).citations
    assert (found.url, found.title, found.text, found.start, found.end) == expected
    assert message_of(replay_events(_exchange(events))).citations == (found,)


@pytest.mark.parametrize("metadata", [{"groundingChunks": 3}, {"groundingSupports": [{"segment": "x"}]}, {}])
def test_no_answer_is_bad_for_its_sources(metadata: dict[str, Any]) -> None:
    assert message_of(whole("google", gemini({"text": "a"}, groundingMetadata=metadata))).citations == ()
    odd = [{"type": "url_citation"}, 3, {"type": "url_citation", "start_index": "x"}]
    assert len(message_of(whole("openai-chat", chat({"content": "a", "annotations": odd}))).citations) == 2


REFUSALS: dict[str, tuple[list[ModelEvent], tuple[str | None, str | None]]] = {
    "Chat": (whole("openai-chat", chat({"content": None, "refusal": "I cannot."})), (None, "I cannot.")),
    "Azure": (
        streamed(
            "openai-chat",
            delta(
                {},
                finish_reason="content_filter",
                content_filter_results={"hate": {"filtered": False}, "violence": {"filtered": True}},
            ),
            "data: [DONE]\n\n",
        ),
        ("violence", None),
    ),
    "Responses": (
        whole("openai-responses", responses({**said(), "content": [{"type": "refusal", "refusal": "No."}]})),
        (None, "No."),
    ),
    "Claude": (
        whole(
            "anthropic",
            claude(
                stop_reason="refusal",
                stop_details={"type": "refusal", "category": "bio", "explanation": "why"},
            ),
        ),
        ("bio", "why"),
    ),
    "Claude in a stream": (
        streamed(
            "anthropic",
            {"type": "message_start", "message": {"id": "m"}},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}},
            },
            {"type": "message_stop"},
        ),
        ("cyber", None),
    ),
    "Gemini": (
        whole("google", {"candidates": [{"finishReason": "SAFETY", "finishMessage": "no"}]}),
        ("SAFETY", "no"),
    ),
    "a prompt of Gemini": (
        whole(
            "google",
            {
                "promptFeedback": {
                    "blockReason": "OTHER",
                    "safetyRatings": [{"category": "C", "blocked": True}],
                }
            },
        ),
        ("C", None),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_has_its_category_and_explanation(name: str) -> None:
    events, expected = REFUSALS[name]
    for each in (events, replay_events(_exchange(events))):
        finished = each[-1]
        assert isinstance(finished, ResponseFinished)
        assert finished.reason == "content_filter"
        assert finished.refusal is not None
        assert (finished.refusal.category, finished.refusal.explanation) == expected


def test_tools_of_groq_are_shown_counted_and_not_sent_back() -> None:
    began = {"index": 0, "type": "search", "arguments": '{"query": "owl"}'}
    done = {"index": 0, "output": "found", "type": "search"}
    code = {"index": 1, "type": "python", "arguments": "{}", "code_results": [{"png": DATA}]}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    events = streamed(
        "openai-chat",
        delta({"executed_tools": [began]}),
        delta({"executed_tools": [done, code]}),
        {**delta({"content": "a"}, finish_reason="stop"), "usage": usage},
        "data: [DONE]\n\n",
    )
    calls = [
        (each.name, each.arguments, each.result) for each in events if isinstance(each, NativeCallFinished)
    ]
    assert calls[0] == ("web_search", '{"query": "owl"}', '"found"')
    assert [name for name, _, _ in calls] == ["web_search", "code_execution"]
    (reported,) = [each.usage for each in events if isinstance(each, UsageReported)]
    assert (reported.web_searches, reported.code_executions) == (1, 1)
    message = message_of(events)
    assert message.media == (IMAGE,)
    assert "executed_tools" not in sent_back("openai-chat", message)["messages"][1]


def test_two_objects_in_one_event_are_two_events() -> None:
    chunk = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
    started = {"type": "message_start", "message": {"id": "m"}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}}
    pairs = {
        "google": ([chunk, gemini({"text": "b"})], []),
        "anthropic": (
            [started, text],
            [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}],
        ),
        "openai-responses": (
            [
                {"type": "response.output_text.delta", "item_id": "m", "delta": "ab"},
                {"type": "response.completed", "response": {"status": "completed"}},
            ],
            [],
        ),
        "openai-chat": ([delta({"content": "a"}), delta({"content": "b"}, finish_reason="stop")], []),
    }
    for protocol, (pair, rest) in pairs.items():
        joined = "data: " + "".join(map(json.dumps, pair)) + "\n\n"
        assert message_of(streamed(protocol, joined, *rest)).text == "ab", protocol


def test_images_are_counted_apart() -> None:
    details = {
        "candidatesTokenCount": 1300,
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
    }
    (reported,) = [
        each.usage
        for each in whole("google", {**gemini({"text": "a"}), "usageMetadata": details})
        if isinstance(each, UsageReported)
    ]
    assert (reported.output_tokens, reported.image_output_tokens) == (1300, 1290)
