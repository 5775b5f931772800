"""The model server of the testing package, as its users use it."""

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import anyio
import pytest

from nighthawk_async.errors import ModelStatusError
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest
from nighthawk_async.testing.model_server import ModelServer, ModelServerConnections
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.usage import Usage

from .http_support import collect, model_at, text_of

ASKED = {"model": "m", "messages": []}


def post(base_url: str, body: Any, *, path: str = "/chat/completions") -> Any:
    """A request by another client than the library's."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(base_url + path, data=content)
    with urllib.request.urlopen(request, timeout=10) as response:
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
        with anyio.fail_after(5):
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
        with anyio.fail_after(5):
            await server.wait_until_open(at_most=0)
