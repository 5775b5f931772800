"""A server over HTTP: its lifespan, its path, its token, and requests that nobody should send."""

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError, NighthawkError
from tests.unit.asgi.asgi_client import Connection, http_scope, open_connection, open_lifespan

from .serving_support import CLIENT_WARNINGS, ERAS, Era, Steps, connected, count_run, serving, stars, text_of

pytestmark = [pytest.mark.anyio, CLIENT_WARNINGS]

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stars", "arguments": {}}}


async def exchange(
    app: Any, body: bytes | object = b"{}", *, path: str = "/mcp", method: str = "POST", **headers: str
) -> Connection:
    """A whole exchange."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "host": "localhost",
        **ACCEPT,
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    message = {"type": "http.request", "body": content, "more_body": False}
    async with open_connection(app, http_scope(path, method=method, headers=given), message) as connection:
        pass
    return connection


def error_of(connection: Connection) -> Mapping[str, Any]:
    return json.loads(connection.body)["error"]


async def test_a_server_without_its_lifespan_says_what_to_do() -> None:
    app = nh.mcp.serve([stars], run=count_run)
    connection = await exchange(app)
    assert isinstance(connection.error, ConfigurationError)
    assert "application.lifespan()" in str(connection.error)
    assert connection.sent == []


async def test_a_server_of_asgi_runs_the_lifespan() -> None:
    app = nh.mcp.serve([stars], run=count_run)
    for _ in range(2):  # a server may do it again
        async with open_lifespan(app) as lifespan:
            assert app.run is not None
            await lifespan.stop()
            assert lifespan.types == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert app.run is None


async def test_a_run_that_cannot_be_made_fails_the_startup(caplog: pytest.LogCaptureFixture) -> None:
    app = nh.mcp.serve([stars], run=lambda: None)  # type: ignore[arg-type, return-value]
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "run must be a function that returns a new run" in sent[0]["message"]
    assert [record.levelno for record in caplog.records if record.name == "nighthawk"] == [logging.ERROR]


async def test_a_lifespan_is_active_once_at_a_time() -> None:
    app = nh.mcp.serve([stars], run=count_run)
    async with app.lifespan():
        with pytest.raises(NighthawkError, match="active already"):
            async with app.lifespan():
                pytest.fail("it is active already")
        assert app.run is not None


@pytest.mark.parametrize("era", ERAS)
async def test_it_can_be_mounted_under_a_path(era: Era) -> None:
    tools = nh.mcp.serve([stars], run=count_run)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with tools.lifespan():
            yield

    async def hello(request: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    routes = [Route("/", hello), Mount("/tools", app=tools)]
    async with (
        serving(Starlette(routes=routes, lifespan=lifespan)) as url,
        Client(url.replace("/mcp", "/tools/mcp"), mode=era) as client,
    ):
        assert text_of(await client.call_tool("stars", {"review": "***"})) == "3"


async def test_another_path_is_not_found() -> None:
    app = nh.mcp.serve([stars], run=count_run, path="/tools/")
    async with app.lifespan():
        connection = await exchange(app, path="/mcp")
        assert connection.status == 404
        assert error_of(connection)["message"] == "There is no such path; the MCP endpoint is /tools."
        assert (await exchange(app, path="/tools/")).status != 404


@pytest.mark.parametrize("path", ["/", "/mcp"])
async def test_a_token_is_required_when_there_is_one(path: str) -> None:
    app = nh.mcp.serve([stars], run=count_run, token="sesame", path=path)
    async with app.lifespan():
        missing = await exchange(app, path=path)
        assert (missing.status, missing.headers["www-authenticate"]) == (401, 'Bearer realm="mcp"')
        for given in ("Bearer sesam", "Bearer sesame2", "Basic sesame", "sesame", "Bearer", "Bearer é"):
            wrong = await exchange(app, path=path, authorization=given)
            assert wrong.status == 401, given
            assert wrong.headers["www-authenticate"] == 'Bearer realm="mcp", error="invalid_token"'
            assert b"sesame" not in wrong.body
        right = await exchange(app, b"{", path=path, authorization="bearer sesame")
        assert right.status == 400


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_pages_of_other_sites_are_refused(version: str) -> None:
    app = nh.mcp.serve([stars], run=count_run)
    async with app.lifespan():
        foreign = await exchange(app, host="evil.example:8000", mcp_protocol_version=version)
        assert foreign.status == 421
        origin = await exchange(app, origin="https://evil.example", mcp_protocol_version=version)
        assert origin.status == 403
        for host in ("127.0.0.1:8000", "localhost", "[::1]:80"):
            local = await exchange(app, b"{", host=host, origin="http://localhost:3000")
            assert local.status == 400, host


async def test_hosts_and_origins_can_be_allowed() -> None:
    app = nh.mcp.serve(
        [stars], run=count_run, allowed_hosts=["mcp.example"], allowed_origins=["https://page.example"]
    )
    async with app.lifespan():
        assert (await exchange(app, b"{", host="mcp.example:443")).status == 400
        assert (await exchange(app, b"{", host="localhost")).status == 421
        page = await exchange(app, b"{", host="mcp.example", origin="https://page.example")
        assert page.status == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{bad", 400, id="no JSON"),
        pytest.param(b"\xff\xfe", 400, id="no UTF-8"),
        pytest.param([CALL, CALL], 400, id="batch"),
        pytest.param({"jsonrpc": "1.0"}, 400, id="no JSON-RPC"),
        pytest.param(b"[" * 100_000, 400, id="deep"),
        pytest.param(CALL, 400, id="no session"),
        pytest.param(b" " * 5_000_000, 413, id="huge"),
    ],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_bad_requests_get_a_status(body: Any, status: int, version: str) -> None:
    app = nh.mcp.serve([stars], run=count_run)
    async with app.lifespan():
        connection = await exchange(app, body, mcp_protocol_version=version)
    assert (connection.status, connection.error) == (status, None)


async def test_a_websocket_is_refused() -> None:
    app = nh.mcp.serve([stars], run=count_run)
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async with app.lifespan():
        await app({"type": "websocket", "path": "/mcp"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_cancelled_by_its_client(era: Era) -> None:
    steps = Steps()
    async with connected(nh.mcp.serve([steps.wait, stars], run=count_run), era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "wait", {})
            await steps.until(lambda: steps.begun == 1)
            tasks.cancel_scope.cancel()
        await steps.until(lambda: steps.cancelled == 1)
        assert text_of(await client.call_tool("stars", {"review": "*"})) == "1"
    assert steps.finished == 0


@pytest.mark.parametrize("era", ERAS)
async def test_calls_are_cancelled_when_their_client_leaves(era: Era) -> None:
    steps = Steps()
    app = nh.mcp.serve([steps.wait], run=count_run)
    async with serving(app) as url, anyio.create_task_group() as tasks:

        async def call_and_leave() -> None:
            async with Client(url, mode=era) as client, anyio.create_task_group() as calls:
                for _ in range(5):
                    calls.start_soon(client.call_tool, "wait", {})
                await steps.until(lambda: steps.begun == 5)
                tasks.cancel_scope.cancel()

        tasks.start_soon(call_and_leave)
        await steps.until(lambda: steps.cancelled == 5)
        assert app.calls_in_progress == 0


async def test_a_connection_that_breaks_cancels_its_call() -> None:
    steps = Steps()
    app = nh.mcp.serve([steps.wait], run=count_run)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {**CALL, "params": {"name": "wait", "arguments": {}, "_meta": meta}}
    headers = {"host": "localhost", **ACCEPT, "mcp-protocol-version": "2026-07-28"}
    headers |= {"mcp-method": "tools/call", "mcp-name": "wait"}
    message = {"type": "http.request", "body": json.dumps(call).encode(), "more_body": False}
    async with app.lifespan():
        async with open_connection(
            app, http_scope("/mcp", method="POST", headers=headers), message
        ) as connection:
            await steps.until(lambda: steps.begun == 1)
            connection.disconnect()
        assert (steps.cancelled, app.calls_in_progress, connection.error) == (1, 0, None)


@pytest.mark.parametrize("era", ERAS)
async def test_the_end_of_the_server_waits_for_calls_and_then_cancels_them(era: Era) -> None:
    quick, slow = Steps(), Steps()
    app = nh.mcp.serve(
        [nh.mcp.Served(quick.wait, name="quick"), nh.mcp.Served(slow.wait, name="slow")],
        run=count_run,
        grace_seconds=0.5,
    )
    results: dict[str, str] = {}
    async with connected(app, era) as client, anyio.create_task_group() as tasks:

        async def call(name: str) -> None:
            results[name] = text_of(await client.call_tool(name, {}))

        tasks.start_soon(call, "quick")
        tasks.start_soon(call, "slow")
        await quick.until(lambda: quick.begun == 1)
        await slow.until(lambda: slow.begun == 1)
        async with anyio.create_task_group() as ending:
            ending.start_soon(app.drain)
            quick.release.set()
    assert results == {
        "quick": "waited",
        "slow": "The service is shutting down. The service takes no further requests and ends those in "
        "progress. Try again in 1 second.",
    }
    assert (slow.cancelled, quick.finished) == (1, 1)
