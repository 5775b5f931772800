"""The model server of the testing package, as its users use it."""

import errno
import json
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from nighthawk_async.errors import ModelStatusError
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer, ModelServerConnections
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.usage import Usage

from .http_support import collect, model_at, text_of

ASKED = {"model": "m", "messages": []}


def post(base_url: str, body: Any, *, path: str = "/chat/completions", **headers: str) -> Any:
    """A request by another client than the library's."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(base_url + path, data=content, headers=headers)
    with urllib.request.urlopen(request, timeout=240) as response:
        return response.read()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_without_an_event_loop_has_the_server_in_a_thread(backend: Any) -> None:
    threads = threading.active_count()
    usage = Usage(requests=1, input_tokens=7, output_tokens=3, cache_read_tokens=2, reasoning_tokens=1)
    with ModelServer.in_thread([ModelReply(text="Hello", usage=usage)], backend=backend) as server:
        answer = json.loads(post(server.base_url, ASKED))
        assert server.requests[0].body == ASKED
    assert answer["choices"][0]["message"]["content"] == "Hello"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert answer["usage"]["total_tokens"] == 10
    assert threading.active_count() == threads


def test_another_client_reads_the_stream() -> None:
    reply = ModelReply(
        text="Hello", reasoning="hm", tool_calls=(ToolCall(id="", name="look", arguments="{}"),)
    )
    with ModelServer.in_thread([reply]) as server:
        lines = post(server.base_url, {**ASKED, "stream": True}).decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[1] == {"reasoning_content": "hm"}
    assert deltas[2] == {"content": "Hello"}
    assert deltas[3]["tool_calls"][0]["function"] == {"name": "look", "arguments": ""}
    assert deltas[3]["tool_calls"][0]["id"].startswith("call_")
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert all("usage" not in chunk for chunk in chunks)


@pytest.mark.parametrize(
    ("body", "path", "status", "message"),
    [
        (ASKED, "/other", 404, "nothing here speaks POST /v1/other"),
        (b"oops", "/chat/completions", 400, "no JSON object"),
        ([1], "/chat/completions", 400, "no JSON object"),
        (ASKED, "/chat/completions?x=1", 400, "no reply for request 1"),
    ],
)
def test_a_request_that_is_not_scripted_gets_an_error_status(
    body: Any, path: str, status: int, message: str
) -> None:
    with ModelServer.in_thread([]) as server, pytest.raises(urllib.error.HTTPError) as raised:
        post(server.base_url, body, path=path)
    with raised.value as error:
        assert error.code == status
        assert message in json.loads(error.read())["error"]["message"]


@pytest.mark.anyio
async def test_a_function_decides_the_reply() -> None:
    def reply(request: RecordedRequest) -> ModelReply:
        return ModelReply(text=request.body["messages"][0]["content"].upper())

    async def reply_later(request: RecordedRequest) -> ModelReply:
        await anyio.lowlevel.checkpoint()
        return reply(request)

    for handler in (reply, reply_later):
        async with ModelServer(handler) as server:
            assert text_of(await collect(model_at(server.base_url))) == "HELLO"


@pytest.mark.anyio
async def test_an_error_of_that_function_is_shown_and_not_retried() -> None:
    def fail(request: RecordedRequest) -> ModelReply:
        raise KeyError("oops")

    async with ModelServer(fail) as server:
        with pytest.raises(ModelStatusError, match="the reply handler raised KeyError: 'oops'"):
            await collect(model_at(server.base_url, max_retries=3))
        assert len(server.requests) == 1


@pytest.mark.anyio
async def test_a_script_that_runs_out_says_so() -> None:
    async with ModelServer([ModelReply(text="Hello")]) as server:
        await collect(model_at(server.base_url))
        with pytest.raises(ModelStatusError, match="the script has no reply for request 2"):
            await collect(model_at(server.base_url))


@pytest.mark.anyio
async def test_the_programs_error_leaves_the_server_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with ModelServer([]):
            _ = 1 / 0


@pytest.mark.anyio
async def test_leaving_the_server_ends_connections_that_hang() -> None:
    async with anyio.create_task_group() as task_group:
        with anyio.fail_after(240):
            async with ModelServer([ModelReply(ending="hang", ending_after="request")]) as server:
                task_group.start_soon(fails, model_at(server.base_url))
                while not server.requests:
                    await anyio.lowlevel.checkpoint()
                assert server.connections == ModelServerConnections(open=1, total=1)
    assert server.connections.open == 0


async def fails(model: Any) -> None:
    with pytest.raises(Exception, match="broke"):
        await collect(model)


@pytest.mark.anyio
async def test_a_client_that_speaks_no_http_is_let_go() -> None:
    async with ModelServer([]) as server:
        port = int(server.base_url.rpartition(":")[2].partition("/")[0])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"oops\r\n\r\n")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
        with anyio.fail_after(240):
            await server.wait_until_open(at_most=0)


def json_post(
    server: ModelServer, body: Any, path: str = "/chat/completions", **headers: str
) -> tuple[int, str]:
    """The status and the error message, or the text, of the answer to a request; never raises for either."""
    try:
        answer = post(server.base_url, body, path=path, **headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]["message"]
    return 200, answer.decode()


BROKEN_REPLIES = [
    pytest.param(None, "None is no ModelReply", id="none"),
    pytest.param("Hello", "'Hello' is no ModelReply", id="text"),
    pytest.param(ModelReply(headers={"x-note": "\u2028"}), "UnicodeEncodeError", id="header"),
    pytest.param(ModelReply(headers={"x-note": 1, 2: "x"}), "AttributeError", id="header-name"),  # type: ignore
    pytest.param(ModelReply(text="\ud800"), "UnicodeEncodeError", id="half-character"),
    pytest.param(ModelReply(body="Hello"), "TypeError", id="body"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("broken", "message"), BROKEN_REPLIES)
@pytest.mark.parametrize("is_scripted", [True, False], ids=["scripted", "decided"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_reply_that_cannot_be_written_becomes_an_error_and_the_server_goes_on(
    broken: Any, message: str, is_scripted: bool, stream: bool
) -> None:
    replies = [broken, ModelReply(text="Fine")]
    script = iter(replies)
    handler = replies if is_scripted else lambda _: next(script)
    with ModelServer.in_thread(handler) as server:
        status, told = json_post(server, {**ASKED, "stream": stream})
        assert (status, message in told) == (500, True), told
        assert "Fine" in json_post(server, ASKED)[1]


@pytest.mark.anyio
async def test_a_reply_that_cannot_be_written_is_not_retried() -> None:
    async with ModelServer(lambda request: None) as server:  # type: ignore[arg-type]
        with pytest.raises(ModelStatusError, match="None is no ModelReply"):
            await collect(model_at(server.base_url, max_retries=3))
        assert len(server.requests) == 1


def test_an_error_whose_text_cannot_be_sent_is_told_in_other_letters() -> None:
    def fail(request: RecordedRequest) -> ModelReply:
        raise ValueError("half \ud800 of it")

    with ModelServer.in_thread(fail) as server:
        status, message = json_post(server, ASKED)
    assert (status, message) == (500, "the reply handler raised ValueError: half \\ud800 of it")


def test_an_error_of_a_script_that_is_a_generator_is_told() -> None:
    def replies() -> Iterator[ModelReply]:
        yield ModelReply(text="Fine")
        raise KeyError("oops")

    with ModelServer.in_thread(replies()) as server:
        assert json_post(server, ASKED)[0] == 200
        assert json_post(server, ASKED) == (500, "the script of replies raised KeyError: 'oops'")
        assert json_post(server, ASKED) == (400, "the script has no reply for request 3")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fragment_characters": 0}, "fragment_characters must be at least 1, not 0"),
        ({"write_bytes": 0}, "write_bytes must be at least 1 or None, not 0"),
        ({"first_byte_seconds": -0.1}, "first_byte_seconds must be at least 0, not -0.1"),
        ({"between_writes_seconds": float("nan")}, "between_writes_seconds must be at least 0, not nan"),
    ],
)
def test_a_pacing_that_makes_no_sense_is_refused_where_it_is_made(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ReplyPacing(**fields)


ODD_BODIES = [
    pytest.param(b"[" * 100_000, 400, "/chat/completions", id="deep"),
    pytest.param(b'{"a":' * 100_000, 400, "/responses", id="deep-objects"),
    pytest.param(b"\xff", 400, "/messages", id="no-text"),
    pytest.param(b"1" * 10_000, 400, "/models/m:generateContent", id="long-number"),
    pytest.param({"messages": 1}, 200, "/chat/completions", id="messages"),
]


@pytest.mark.parametrize(("body", "status", "path"), ODD_BODIES)
@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_an_odd_request_is_answered_and_the_server_goes_on(
    body: Any, status: int, path: str, checks: bool
) -> None:
    replies = [ModelReply(text="Fine", reasoning="Hm.")] * 2
    with ModelServer.in_thread(replies, checks_requests=checks) as server:
        answered, message = json_post(server, body, path)
        assert answered == status, message
        assert "Fine" in json_post(server, ASKED)[1]


ID_LIST_CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": [1], "name": "x", "input": {}}]}
ID_LIST_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": [1]}]}


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("/chat/completions", {"stream_options": 1}, "Invalid type for 'stream_options'"),
        ("/responses", {"include": 1}, "Invalid type for 'include'"),
        ("/messages", {"messages": [ID_LIST_CALL, ID_LIST_RESULT]}, "the request cannot be understood"),
    ],
)
def test_fields_of_wrong_types_are_refused_or_passed_over(
    path: str, fields: dict[str, Any], message: str
) -> None:
    asked: dict[str, Any] = {"model": "m", "max_tokens": 9, "stream": True, **fields}
    replies = [ModelReply(text="Fine", reasoning="Hm.")]
    with ModelServer.in_thread(replies, checks_requests=False) as server:
        assert "Fine" in json_post(server, asked, path)[1]
    with ModelServer.in_thread(replies) as server:
        status, told = json_post(server, asked, path, **{"anthropic-version": "2023-06-01"})
        assert (status, message in told) == (400, True), told


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_a_server_without_file_descriptors_waits_for_some(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([OSError(number, os.strerror(number))] * 3)
    accept = socket.socket.accept

    def accept_later(listener: socket.socket) -> Any:
        error = next(errors, None)
        if error is not None:
            raise error
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", accept_later)
    with ModelServer.in_thread([ModelReply(text="Fine")]) as server:
        assert "Fine" in json_post(server, ASKED)[1]
    assert next(errors, None) is None
