"""What an endpoint may answer, and what becomes of it."""

import json
import re
import traceback
from typing import Any

import anyio
import pytest

from nighthawk_async.errors import (
    ModelError,
    ModelProtocolError,
    ModelProviderError,
    ModelStatusError,
    UnsupportedContentError,
)
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.messages import ImageUrl, ToolCall, UserMessage
from nighthawk_async.types.model import (
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    ToolCallCompleted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage

from .http_support import HELLO, SECRET, collect, model_at, text_of

pytestmark = pytest.mark.anyio

CALLS = (
    ToolCall(id="1", name="look", arguments='{"at": "größe 🙂"}'),
    ToolCall(id="", name="end", arguments="{}"),
)
GOOD = ModelReply(text="Hello, world", reasoning="hm", tool_calls=CALLS)


async def collect_from(reply: ModelReply, **settings: Any) -> list[ModelEvent]:
    async with ModelServer([reply]) as server:
        return await collect(model_at(server.base_url, **settings))


async def error_from(*replies: ModelReply, **settings: Any) -> ModelError:
    async with ModelServer(replies) as server, open_http_pool() as pool:
        with pytest.raises(ModelError) as raised:
            await collect(model_at(server.base_url, pool, **settings))
        assert pool.statistics().in_flight == 0
    shown = "".join(traceback.format_exception(raised.value))
    assert SECRET not in shown
    assert str(raised.value).startswith("openai-chat:tested: ")
    return raised.value


def assert_good(events: list[ModelEvent]) -> None:
    assert text_of(events) == "Hello, world"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "hm"
    calls = [event.call for event in events if isinstance(event, ToolCallCompleted)]
    assert [(call.name, call.arguments) for call in calls] == [(call.name, call.arguments) for call in CALLS]
    assert calls[0].id == "1"
    assert calls[1].id != ""
    usage = Usage(requests=1, input_tokens=10, output_tokens=5, unpriced_requests=1)
    assert UsageReported(usage=usage) in events
    assert events[-1] == ResponseFinished(reason="tool_calls")


@pytest.mark.parametrize("write_bytes", [None, 1, 7])
async def test_a_streamed_response_gives_its_events_however_it_is_cut(write_bytes: int | None) -> None:
    reply = ModelReply(**fields_of(GOOD), pacing=ReplyPacing(write_bytes=write_bytes, fragment_characters=3))
    assert_good(await collect_from(reply))


async def test_a_response_that_is_not_streamed_gives_the_same_events() -> None:
    assert_good(await collect_from(GOOD, stream=False))


async def test_a_server_that_answers_with_json_though_asked_to_stream_is_understood() -> None:
    body = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    reply = ModelReply(body=body, headers={"content-type": "application/json; charset=utf-8"})
    assert text_of(await collect_from(reply)) == "Hi"


async def test_the_stream_is_over_after_its_last_event() -> None:
    async with ModelServer([GOOD]) as server, model_at(server.base_url).stream(HELLO) as events:
        assert [event async for event in events][-1] == ResponseFinished(reason="tool_calls")
        assert [event async for event in events] == []


async def test_events_are_handed_on_while_the_response_goes_on() -> None:
    reply = ModelReply(
        text="Hello", pacing=ReplyPacing(between_writes_seconds=0.01), ending="hang", ending_after=2
    )
    async with ModelServer([reply]) as server, model_at(server.base_url).stream(HELLO) as events:
        with anyio.fail_after(240):
            assert text_of([await anext(events)]) == "Hello"


async def test_the_request_carries_key_headers_and_body() -> None:
    async with ModelServer([GOOD]) as server:
        model = model_at(
            server.base_url, temperature=0, extra_headers={"X-Trace": "7"}, extra_body={"mine": 1}
        )
        await collect(model, ModelRequest(messages=HELLO.messages, settings={"seed": 5}))
        (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["x-trace"] == "7"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("nighthawk-async")
    assert {name: request.body[name] for name in ("model", "temperature", "seed", "mine")} == {
        "model": "tested",
        "temperature": 0,
        "seed": 5,
        "mine": 1,
    }


async def test_settings_are_called_what_the_endpoint_calls_them() -> None:
    async with ModelServer([GOOD]) as server:
        model = create_model(
            "openai-chat:gpt-5.4-nano", settings={"base_url": server.base_url, "max_tokens": 9}
        )
        await collect(model)
        assert server.requests[0].body["max_completion_tokens"] == 9
        assert "max_tokens" not in server.requests[0].body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_an_error_status_names_status_and_the_providers_message(status: int) -> None:
    error = await error_from(ModelReply(status=status, text=f"no such model for {SECRET}"), max_retries=5)
    assert isinstance(error, ModelStatusError)
    assert error.status == status
    assert not error.is_transient
    assert str(error) == f"openai-chat:tested: HTTP {status}: no such model for [redacted]"


async def test_a_status_that_may_pass_is_transient_and_says_when_to_come_back() -> None:
    error = await error_from(ModelReply(status=429, headers={"retry-after": "7"}))
    assert isinstance(error, ModelStatusError)
    assert error.is_transient
    assert error.retry_after_seconds == 7.0


async def test_a_redirect_is_not_followed() -> None:
    error = await error_from(
        ModelReply(status=307, body=b"", headers={"location": "http://elsewhere.example/v1"})
    )
    assert isinstance(error, ModelStatusError)
    assert error.status == 307
    assert "elsewhere.example" in str(error)


async def test_a_huge_error_body_is_read_in_part() -> None:
    error = await error_from(ModelReply(status=500, body=b"x" * 5_000_000))
    assert len(str(error)) < 600


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            ModelReply(body=b"<html>oops</html>", headers={"content-type": "text/html"}),
            "is text/html.*<html>oops",
        ),
        (ModelReply(body=b"\0\1", headers={"content-type": "image/png"}), "is image/png"),
        (ModelReply(body=b"<html>oops</html>\n\n"), "ended before.*It held: <html>oops"),
        (ModelReply(body=b"{", headers={"content-type": "application/json"}), "not a Chat Completions chunk"),
        (ModelReply(body=b'{"ok":1}', headers={"content-type": "application/json"}), "holds no choice"),
        (ModelReply(body=b""), "ended before the response was finished"),
        (ModelReply(body=b": ping\n\n: ping\n\n"), "ended before the response was finished"),
        (ModelReply(body=b"data: [DONE]\n\n"), r"\[DONE\] without a finish reason"),
        (ModelReply(body=b"data: {oops\n\n"), "not a Chat Completions chunk.*oops"),
        (ModelReply(text="x", headers={"content-encoding": "gzip"}), r"compressed \(gzip\)"),
        (ModelReply(body=b"data: " + b"x" * (33 << 20)), "over 33,554,432 bytes"),
    ],
)
async def test_what_is_no_event_stream_is_a_typed_error_that_quotes_it(
    reply: ModelReply, message: str
) -> None:
    error = await error_from(reply)
    assert isinstance(error, ModelProtocolError)
    assert re.search(message, str(error)), str(error)


@pytest.mark.parametrize(
    ("body", "message", "error_type", "is_transient"),
    [
        (b'{"error":{"message":"kaputt"}}', "kaputt", None, False),
        (b'{"error":{"message":"kaputt"}}\n\n', "kaputt", None, False),
        (
            b'{\n  "error": {\n    "message": "kaputt",\n    "type": "teapot"\n  }\n}\n',
            "kaputt",
            "teapot",
            False,
        ),
        (b'{"error":{"message":"later","code":503}}', "later", None, True),
        (b'{"error":"kaputt"}', "kaputt", None, False),
    ],
)
async def test_an_error_object_in_place_of_an_event_stream_is_the_providers_error(
    body: bytes, message: str, error_type: str | None, is_transient: bool
) -> None:
    error = await error_from(ModelReply(body=body), max_retries=0)
    assert isinstance(error, ModelProviderError)
    assert str(error).endswith(f": the provider reported an error: {message}")
    assert error.error_type == error_type
    assert error.is_transient is is_transient


@pytest.mark.parametrize("number", range(8))
async def test_a_stream_cut_short_is_an_error_after_the_events_before_it(number: int) -> None:
    reply = ModelReply(**fields_of(GOOD), ending="close", ending_after=number)
    seen: list[ModelEvent] = []

    async def read(model: Model) -> None:
        async with model.stream(HELLO) as events:
            async for event in events:
                seen.append(event)

    async with ModelServer([reply]) as server:
        with pytest.raises(ModelProtocolError, match="ended before the response was finished"):
            await read(model_at(server.base_url))
    whole = await collect_from(GOOD)
    assert [describe(event) for event in seen] == [describe(event) for event in whole[: len(seen)]]
    assert not any(isinstance(event, ResponseFinished) for event in seen)


async def test_a_connection_closed_after_the_finish_reason_is_no_error() -> None:
    reply = ModelReply(text="Hello", sends_done=False, ending="close")
    assert (await collect_from(reply))[-1] == ResponseFinished(reason="stop")


async def test_an_error_in_the_stream_is_raised_with_its_type() -> None:
    reply = ModelReply(text="Hello", error={"message": f"overloaded {SECRET}", "type": "overloaded_error"})
    error = await error_from(reply, max_retries=5)
    assert isinstance(error, ModelProviderError)
    assert error.error_type == "overloaded_error"
    assert error.is_transient
    assert "overloaded [redacted]" in str(error)


async def test_an_error_in_a_whole_answer_is_raised_too() -> None:
    error = await error_from(ModelReply(error={"message": "no", "type": "bad"}), stream=False)
    assert isinstance(error, ModelProviderError)
    assert error.error_type == "bad"


async def test_after_an_error_the_stream_is_over() -> None:
    reply = ModelReply(text="Hello", ending="close", ending_after=2)
    async with ModelServer([reply]) as server, model_at(server.base_url).stream(HELLO) as events:
        await anext(events)
        with pytest.raises(ModelProtocolError):
            await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_content_that_the_model_cannot_take_is_refused_before_anything_is_sent() -> None:
    request = ModelRequest(messages=(UserMessage(content=(ImageUrl(url="http://x/y.png"),)),))
    async with ModelServer([GOOD]) as server:
        with pytest.raises(UnsupportedContentError, match="image"):
            await collect(model_at(server.base_url), request)
        assert server.requests == []
        assert server.connections.total == 0


async def test_the_body_that_is_sent_is_json_whatever_the_prompt_holds() -> None:
    request = ModelRequest(messages=(UserMessage(content=("\ud800 \u2028 \0 🙂",)),))
    async with ModelServer([GOOD]) as server:
        await collect(model_at(server.base_url), request)
        assert json.loads(server.requests[0].content)["messages"][0]["content"] == "\ufffd \u2028 \0 🙂"


def fields_of(reply: ModelReply) -> dict[str, Any]:
    return {"text": reply.text, "reasoning": reply.reasoning, "tool_calls": reply.tool_calls}


def describe(event: ModelEvent) -> str:
    """The event without ids, which differ from server to server."""
    return type(event).__name__ + repr(getattr(event, "text", "")) + repr(getattr(event, "fragment", ""))
