"""How the server misbehaves, byte for byte, as a client sees it that expects nothing."""

import gzip
import http.client
import json
import socket
import tracemalloc
from typing import Any

import pytest

from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.providers import create_model
from nighthawk_async.testing.model_reply import ModelReply, ReplyFault, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.usage import Usage

from .http_support import collect, from_pool, text_of

CHAT = ("/chat/completions", {"model": "m", "messages": [], "stream": True})
RESPONSES = ("/responses", {"model": "m", "input": "?", "stream": True})
ANTHROPIC = (
    "/messages",
    {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], "stream": True},
)
GOOGLE = ("/models/m:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": "?"}]}]})
EVERY_PROTOCOL = [
    pytest.param(CHAT, id="chat"),
    pytest.param(RESPONSES, id="responses"),
    pytest.param(ANTHROPIC, id="anthropic"),
    pytest.param(GOOGLE, id="google"),
]
HELLO_REPLY = ModelReply(text="Hello, world", pacing=ReplyPacing(fragment_characters=5))


def spoilt(fault: ReplyFault, **fields: Any) -> ModelReply:
    return ModelReply(text="Hello, world", pacing=HELLO_REPLY.pacing, fault=fault, **fields)


def raw_answer(reply: ModelReply, asked: tuple[str, Any] = CHAT, **changes: Any) -> bytes:
    """All bytes that the server sends until it closes the connection; raises when it resets it."""
    path, body = asked
    content = json.dumps({**body, **changes}).encode()
    head = (
        f"POST /v1{path} HTTP/1.1\r\nhost: x\r\nanthropic-version: 1\r\nconnection: close\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    with ModelServer.in_thread([reply]) as server:
        host, _, port = server.base_url.removeprefix("http://").removesuffix("/v1").partition(":")
        with socket.create_connection((host, int(port)), timeout=240) as connection:
            connection.sendall(head.encode() + content)
            received = bytearray()
            while data := connection.recv(65_536):
                received += data
            return bytes(received)


def events_of(answer: bytes) -> list[bytes]:
    """The events of a chunked answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    body = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return [event for event in bytes(body).replace(b"\r\n", b"\n").split(b"\n\n") if event]


def data_of(event: bytes) -> Any:
    return json.loads(event.partition(b"data: ")[2])


@pytest.mark.parametrize(
    ("fault", "inserted"),
    [
        ("comment", b": this is a comment"),
        ("empty_event", b"data:"),
        ("unknown_event", b'event: nobody.knows\ndata: {"type":"nobody.knows"}'),
        ("garbage", b"\x00\xff\xfe this is no field"),
    ],
)
def test_a_fault_stands_between_two_events(fault: ReplyFault, inserted: bytes) -> None:
    good = events_of(raw_answer(HELLO_REPLY))
    assert events_of(raw_answer(spoilt(fault, fault_after=2))) == [*good[:2], inserted, *good[2:]]


@pytest.mark.parametrize("asked", EVERY_PROTOCOL)
def test_one_event_breaks_off_in_its_json(asked: tuple[str, Any]) -> None:
    good = events_of(raw_answer(HELLO_REPLY, asked))
    broken = events_of(raw_answer(spoilt("broken_json", fault_after=1), asked))
    assert broken[:1] + broken[2:] == good[:1] + good[2:]
    assert good[1].startswith(broken[1])
    with pytest.raises(json.JSONDecodeError):
        data_of(broken[1])


@pytest.mark.parametrize("asked", EVERY_PROTOCOL)
def test_a_text_holds_a_byte_that_is_no_utf8(asked: tuple[str, Any]) -> None:
    answer = raw_answer(spoilt("invalid_utf8"), asked)
    assert b'ld\xff"' in answer
    assert answer.replace(b"\xff", b"").decode()


@pytest.mark.parametrize("asked", EVERY_PROTOCOL)
def test_the_terminal_event_is_missing_and_nothing_else(asked: tuple[str, Any]) -> None:
    good = events_of(raw_answer(HELLO_REPLY, asked))
    cut = events_of(raw_answer(spoilt("no_terminal"), asked))
    assert b"".join(cut).count(b"Hello") == b"".join(good).count(b"Hello") - (asked is RESPONSES)
    words = (b'"finish_reason":"stop"', b"response.completed", b"message_stop", b"finishReason")
    assert any(word in b"".join(good) for word in words)
    assert not any(word in b"".join(cut) for word in words)


def test_a_flood_is_one_event_again_and_again() -> None:
    good = events_of(raw_answer(HELLO_REPLY))
    events = events_of(raw_answer(spoilt("flood", fault_after=1, fault_bytes=10 * (len(good[1]) + 2))))
    assert events == [good[0], *[good[1]] * 10, *good[1:]]


def test_a_huge_event_has_the_size_that_was_asked_for() -> None:
    events = events_of(raw_answer(spoilt("huge_event", fault_bytes=150_000)))
    assert len(data_of(events[1])["padding"]) == 150_000


@pytest.mark.parametrize("changes", [{}, {"stream": False}])
def test_a_web_page_stands_in_place_of_everything(changes: dict[str, Any]) -> None:
    head, _, body = raw_answer(spoilt("html"), **changes).partition(b"\r\n\r\n")
    assert b"content-type: text/html" in head
    assert b"<!DOCTYPE html>" in body
    assert b"Hello" not in body


def test_http_faults_are_in_the_head() -> None:
    assert raw_answer(spoilt("informational")).startswith(b"HTTP/1.1 103 Early Hints\r\n")
    answer = raw_answer(spoilt("http_1_0"))
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def test_a_compressed_body_says_so() -> None:
    head, _, body = raw_answer(spoilt("compressed"), stream=False).partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head
    assert b"Hello, world" in gzip.decompress(body)


@pytest.mark.parametrize(
    ("fault", "missing"), [("content_length_too_long", 100), ("content_length_too_short", -40)]
)
def test_the_head_tells_a_wrong_length(fault: ReplyFault, missing: int) -> None:
    head, _, body = raw_answer(spoilt(fault)).partition(b"\r\n\r\n")
    told = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert told - len(body) == missing


def test_chunks_break_off() -> None:
    answer = raw_answer(spoilt("broken_chunks", fault_after=1))
    assert b"oops\r\n" in answer
    assert not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("asked", EVERY_PROTOCOL)
def test_a_reply_ends_within_an_event(asked: tuple[str, Any]) -> None:
    answer = raw_answer(ModelReply(text="Hello", ending="close", ending_after=1.5), asked)
    good = events_of(raw_answer(ModelReply(text="Hello"), asked))
    events = events_of(answer)
    assert events[0] == good[0]
    assert len(events) == 2
    assert good[1].startswith(events[1])
    assert len(events[1]) < len(good[1])


def test_a_reply_ends_before_its_head_or_after_it() -> None:
    assert raw_answer(ModelReply(ending="close", ending_after="request")) == b""
    answer = raw_answer(ModelReply(ending="close", ending_after=0))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("ending_after", ["request", 0, 1, None])
def test_a_reset_is_a_reset(ending_after: Any) -> None:
    with pytest.raises(ConnectionResetError):
        raw_answer(ModelReply(text="Hello", ending="reset", ending_after=ending_after))


@pytest.mark.parametrize(
    ("asked", "usage"),
    [
        (CHAT, {"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79}),
        (RESPONSES, {"input_tokens": 70, "output_tokens": 9, "total_tokens": 79}),
        (ANTHROPIC, {"input_tokens": 45, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5}),
        (GOOGLE, {"promptTokenCount": 70, "candidatesTokenCount": 6, "thoughtsTokenCount": 3}),
    ],
)
def test_usage_is_told_in_the_protocols_own_way(asked: tuple[str, Any], usage: dict[str, int]) -> None:
    told = Usage(
        requests=1,
        input_tokens=70,
        cache_read_tokens=20,
        cache_write_tokens=5,
        output_tokens=9,
        reasoning_tokens=3,
    )
    path = "/models/m:generateContent" if asked is GOOGLE else asked[0]
    with ModelServer.in_thread([ModelReply(text="Hello", usage=told)]) as server:
        answer = post(server, path, {**asked[1], "stream": False})
    found = answer.get("usage") or answer["usageMetadata"]
    assert {name: found[name] for name in usage} == usage


def test_a_gemini_stream_without_events_is_one_list() -> None:
    with ModelServer.in_thread([HELLO_REPLY]) as server:
        chunks = post(server, "/models/m:streamGenerateContent", GOOGLE[1])
    texts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in chunks]
    assert "".join(texts) == "Hello, world"
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert chunks[-1]["modelVersion"] == "m"


def test_gemini_has_no_words_for_a_call_that_was_cut_off() -> None:
    call = ToolCall(id="", name="look", arguments='{"at":')
    with ModelServer.in_thread([ModelReply(tool_calls=(call,))]) as server:
        answer = post(server, "/models/m:generateContent", GOOGLE[1])
    assert answer["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert answer["candidates"][0]["content"]["parts"] == []


@pytest.mark.parametrize("asked", EVERY_PROTOCOL)
def test_an_error_status_has_the_protocols_own_body(asked: tuple[str, Any]) -> None:
    with ModelServer.in_thread([ModelReply(status=429, text="slow down")]) as server:
        status, answer = exchange(server, *asked)
    assert status == 429
    assert answer["error"]["message"] == "slow down"
    names = {"/messages": ("type", "rate_limit_error"), GOOGLE[0]: ("status", "RESOURCE_EXHAUSTED")}
    name, value = names.get(asked[0], ("type", "scripted_error"))
    assert answer["error"][name] == value


def test_a_failed_response_says_so_itself() -> None:
    reply = ModelReply(finish_reason="failed", error={"code": "server_error", "message": "kaputt"})
    last = events_of(raw_answer(reply, RESPONSES))[-1]
    assert last.startswith(b"event: response.failed\n")
    assert data_of(last)["response"]["error"] == {"code": "server_error", "message": "kaputt"}


def post(server: ModelServer, path: str, body: Any) -> Any:
    """The answer to a request that succeeds."""
    status, answer = exchange(server, path, body)
    assert status == 200
    return answer


def exchange(server: ModelServer, path: str, body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://").removesuffix("/v1"))
    try:
        connection.request("POST", "/v1" + path, json.dumps(body), {"anthropic-version": "2023-06-01"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_connection_serves_one_request_after_another() -> None:
    with ModelServer.in_thread([ModelReply(text=str(number)) for number in range(5)]) as server:
        connection = http.client.HTTPConnection(server.base_url.removeprefix("http://").removesuffix("/v1"))
        for number in range(5):
            connection.request("POST", "/v1" + CHAT[0], json.dumps({**CHAT[1], "stream": bool(number % 2)}))
            assert str(number).encode() in connection.getresponse().read()
        connection.close()
        assert server.connections.total == 1


@pytest.mark.anyio
async def test_a_flood_of_small_events_is_read_with_little_memory() -> None:
    size = 8_000_000
    flood = ModelReply(text="Hello", fault="flood", fault_after=0, fault_bytes=size)
    async with ModelServer([HELLO_REPLY, flood]) as server, open_http_pool() as pool:
        # Every event says the model's name: with a long one, there are not quite so many to decode.
        model = create_model(
            "openai-chat:" + "m" * 2_000,
            settings={"base_url": server.base_url},
            environment={},
            pool_source=from_pool(pool),
        )
        await collect(model)  # what is loaded on first use is not counted
        tracemalloc.start()
        try:
            assert text_of(await collect(model)) == "Hello"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < size / 4
