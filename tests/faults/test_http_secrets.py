"""A key is planted wherever one may stand, and searched for in everything that comes out."""

import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from opentelemetry import trace
from opentelemetry.sdk.trace import Span as SdkSpan, TracerProvider

from nighthawk_async.errors import ConfigurationError, ModelError
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest
from nighthawk_async.testing.model_server import ModelServer

from .http_support import HELLO, from_pool, raw_server, read_request

pytestmark = pytest.mark.anyio

KEY = "k9-planted/key+that=must-not-show"
"""No known form of a key, so that only knowing it helps."""

PROVIDER_MODELS = ("openai-chat:m", "openai-responses:m", "anthropic:m", "google:m")

PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "api_key": lambda url: {"base_url": url, "api_key": KEY},
    "a header of another name": lambda url: {"base_url": url, "extra_headers": {"X-Gate": KEY}},
    "basic authorization": lambda url: {"base_url": url, "extra_headers": {"Authorization": f"Basic {KEY}"}},
    "a field of the body": lambda url: {"base_url": url, "extra_body": {"gateway": {"api_key": KEY}}},
    "a setting": lambda url: {"base_url": url, "mcp_servers": [{"authorization_token": KEY}]},
    "the query of the base URL": lambda url: {"base_url": f"{url}?key={KEY.replace('+', '%2B')}"},
}

ECHOES: dict[str, Callable[[str], ModelReply]] = {
    "an error": lambda echo: ModelReply(status=401, text=f"bad key {echo}"),
    "an error that is no JSON": lambda echo: ModelReply(status=502, body=f"<html>{echo}".encode()),
    "an error cut in the middle of the key": lambda echo: ModelReply(
        status=400, body=("x" * 480 + echo).encode()
    ),
    "a redirect": lambda echo: ModelReply(status=302, headers={"location": f"http://x/{KEY}"}, body=b""),
    "headers": lambda echo: ModelReply(
        status=429, headers={"x-request-id": KEY, "retry-after-ms": "1", "server": KEY}
    ),
    "another content type": lambda echo: ModelReply(
        body=echo.encode(), headers={"content-type": "text/html"}
    ),
    "garbage in the stream": lambda echo: ModelReply(body=f"data: {echo}\n\n".encode()),
    "text outside the events": lambda echo: ModelReply(body=f"{echo}\n\n".encode()),
    "a bare error in place of the stream": lambda echo: ModelReply(
        body=b'{"error":{"message":"' + KEY.encode() + b'","type":"' + KEY.encode() + b'"}}'
    ),
    "an error in the stream": lambda echo: ModelReply(error={"message": echo, "type": KEY}),
    "a whole answer that is none": lambda echo: ModelReply(
        body=f'{{"no": "{KEY}"}}'.encode(), headers={"content-type": "application/json"}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Everything that comes out of the library on the side."""

    caplog: pytest.LogCaptureFixture
    span: SdkSpan

    def heard(self) -> Iterator[str]:
        assert self.caplog.records
        assert self.span.events
        for record in self.caplog.records:
            yield record.getMessage()
            yield repr(record.__dict__)
        yield self.span.to_json()


@pytest.fixture
def ears(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ears]:
    """Listens to logs, bodies included, and to traces."""
    monkeypatch.setenv("NIGHTHAWK_LOG_BODIES", "1")
    span = TracerProvider().get_tracer("test").start_span("step")
    assert isinstance(span, SdkSpan)
    with caplog.at_level(logging.DEBUG, "nighthawk"):
        yield Ears(caplog=caplog, span=span)
    span.end()


def assert_hidden(texts: Iterator[str] | list[str]) -> None:
    texts = list(texts)
    assert texts
    for text in texts:
        for part in (KEY, KEY[:12], KEY[-12:]):
            assert part not in text


def texts_of(error: BaseException) -> Iterator[str]:
    """Everything that an error says, the errors behind it included."""
    yield "".join(traceback.format_exception(error))
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield f"{each} {each!r} {getattr(each, '__dict__', {})}"
            waiting += [each.__cause__, each.__context__]


async def error_of(model: Model, ears: Ears) -> ModelError:
    with anyio.fail_after(240), trace.use_span(ears.span):
        try:
            async with model.stream(HELLO) as events:
                assert_hidden([repr(events)])
                async for _ in events:
                    pass
        except ModelError as error:
            return error
    raise AssertionError("there was no error")


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("place", PLACES)
async def test_whatever_the_server_echoes_the_key_is_shown_nowhere(place: str, echo: str, ears: Ears) -> None:
    def reply(request: RecordedRequest) -> ModelReply:
        return ECHOES[echo](f"{KEY} in {KEY}")

    async with ModelServer(reply) as server:
        settings = {**PLACES[place](server.base_url), "max_retries": 1}
        model = create_model("openai-chat:m", settings=settings, environment={})
        error = await error_of(model, ears)
    assert_hidden([*texts_of(error), repr(model), *ears.heard()])


@pytest.mark.parametrize("model_id", PROVIDER_MODELS)
async def test_the_key_of_every_provider_is_hidden(model_id: str, ears: Ears) -> None:
    async def serve(stream: SocketStream) -> None:
        request = await read_request(stream)
        assert KEY.encode() in request
        body = request[:2_000]
        head = f"HTTP/1.1 500 Oops\r\nContent-Length: {len(body)}\r\nx-request-id: {KEY}\r\n\r\n"
        await stream.send(head.encode() + body)

    async with raw_server(serve) as base_url:
        settings = {"base_url": base_url, "api_key": KEY, "max_retries": 0}
        error = await error_of(create_model(model_id, settings=settings, environment={}), ears)
    assert_hidden([*texts_of(error), *ears.heard()])


@pytest.mark.parametrize(
    "response", [b"HTTP/1.1 %s\r\n\r\n", b"%s: 7\r\n\r\n", b"HTTP/1.1 200 OK\r\n%s\r\n\r\n"]
)
async def test_a_response_that_is_no_http_and_echoes_the_key_does_not_show_it(
    response: bytes, ears: Ears
) -> None:
    async def serve(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(response.replace(b"%s", KEY.encode()))

    async with raw_server(serve) as base_url:
        settings = {"base_url": base_url, "api_key": KEY, "max_retries": 0}
        error = await error_of(create_model("openai-chat:m", settings=settings, environment={}), ears)
    assert_hidden([*texts_of(error), *ears.heard()])


async def test_no_object_on_the_way_shows_the_key() -> None:
    reply = ModelReply(text="Hello", ending="hang", ending_after=2)
    async with ModelServer([reply]) as server, open_http_pool() as pool:
        settings = {
            "base_url": f"{server.base_url}?key={KEY.replace('+', '%2B')}",
            "api_key": KEY,
            "extra_headers": {"x-gate": KEY},
            "extra_body": {"secret": KEY},
        }
        model = create_model("openai-chat:m", settings=settings, environment={}, pool_source=from_pool(pool))
        async with model.stream(HELLO) as events:
            await anext(events)
            assert_hidden([repr(each) for each in objects_below(model, events, pool)])


def objects_below(*roots: object) -> Iterator[object]:
    """The library's own objects that can be reached from others."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) in seen or not type(each).__module__.startswith("nighthawk_async"):
            continue
        seen.add(id(each))
        yield each
        names = [*getattr(each, "__dict__", {}), *getattr(type(each), "__slots__", ())]
        waiting += [getattr(each, name) for name in names if hasattr(each, name)]


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": [KEY]},
        {"base_url": f"http://user:{KEY}@localhost/v1"},
        {"base_url": f"ftp://user:{KEY}@localhost/v1"},
        {"base_url": f"ws://localhost/v1?api-key={KEY}"},
        {"base_url": f"localhost/{KEY}"},
        {"api_key": f"{KEY}\n{KEY}"},
        {"extra_headers": {"x-gate": [KEY]}},
        {"extra_headers": {"x-gate": f"{KEY}\0"}, "api_key": "x"},
    ],
)
def test_a_setting_that_is_refused_is_not_shown(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        create_model("openai-chat:m", settings=settings, environment={}).stream(HELLO)
    assert_hidden(texts_of(raised.value))
