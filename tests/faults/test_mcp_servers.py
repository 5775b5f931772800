"""Servers that are killed, and calls that are cancelled, at any moment; nothing is left behind."""

import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel
from tests.free_ports import free_port
from tests.unit.mcp.support import PlainServer, processes, wait_until
from tests.unit.mcp.test_sdk_servers import SDK_SERVER, VERSION_1, wait_for_port

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*was garbage collected before it had been exhausted:ResourceWarning"),
]


@pytest.fixture
def plain(tmp_path: Path) -> PlainServer:
    return PlainServer(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _loaded_package() -> None:
    from nighthawk_async.mcp import session  # noqa: F401


async def test_a_thousand_calls(plain: PlainServer, all_cases: bool) -> None:
    bursts = 10 if all_cases else 2
    async with nh.mcp.connect(plain.describe()) as tools:

        async def call(number: int) -> None:
            assert await tools.echo(text=str(number)) == str(number)

        for _ in range(bursts):
            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(call, number)
    assert plain.count("echo") == bursts * 100


async def test_calls_that_are_cancelled_at_random_leave_the_session_alive(
    plain: PlainServer, chance: random.Random
) -> None:
    async with (
        nh.run(ScriptedModel([]), servers={"tools": plain.describe()}),
        nh.mcp.connect(plain.describe()) as tools,
    ):

        async def call(number: int) -> None:
            with anyio.move_on_after(chance.random() * 0.02):
                if number % 3:
                    assert await tools.echo(text="a") == "a"
                else:
                    await tools.append(line=str(number))

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(call, number)
        assert await tools.append(line="last") == "done"
    assert plain.count("started") == 2
    assert processes() == []


async def test_a_server_that_is_killed_at_random_loses_no_call_that_may_be_repeated(
    plain: PlainServer, chance: random.Random
) -> None:
    outcomes: list[str] = []

    async def read(tools: Any) -> None:
        for _ in range(10):
            assert await tools.echo(text="a") == "a"

    async def write(tools: Any, number: int) -> None:
        try:
            await tools.append(line=str(number))
            outcomes.append("done")
        except nh.mcp.ServerLostError:
            outcomes.append("lost")

    async with nh.mcp.connect(plain.describe(max_restarts=100)) as tools:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(read, tools)
                group.start_soon(write, tools, number)
            for _ in range(3):
                await anyio.sleep(chance.random() * 0.1)
                for process in processes():
                    process.send_signal(signal.SIGKILL)
        assert len(outcomes) == 10
        assert await tools.echo(text="at last") == "at last"
    assert processes() == []


async def test_a_run_that_is_cancelled_while_its_servers_start_leaves_nothing_behind(
    plain: PlainServer, chance: random.Random
) -> None:
    for _ in range(5):
        with anyio.move_on_after(chance.random() * 0.2):
            async with nh.run(
                ScriptedModel([]), servers={"one": plain.describe(), "other": plain.describe()}
            ):
                await anyio.sleep_forever()
        assert processes() == []


@contextmanager
def sdk_process(folder: Path, port: int, python: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [python, "-I", str(SDK_SERVER), str(folder), "uvicorn", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(process, port)
            yield process
        finally:
            process.kill()


@pytest.mark.may_block_event_loop("the server is started by the test itself")
@pytest.mark.parametrize("version", ["2", "1"])
async def test_a_server_behind_http_that_is_killed_is_connected_again(tmp_path: Path, version: str) -> None:
    python = sys.executable if version == "2" else VERSION_1
    if python is None:
        pytest.skip("NIGHTHAWK_MCP1_PYTHON names no interpreter with version 1 of the package mcp")
    port = free_port()
    with sdk_process(tmp_path, port, python) as process:
        server = nh.mcp.http(f"http://127.0.0.1:{port}/mcp", max_restarts=20)
        async with nh.mcp.connect(server) as tools:
            assert await tools.add(a=1, b=2) == 3
            async with anyio.create_task_group() as group:
                group.start_soon(read_until_it_succeeds, tools)
                await wait_until((tmp_path / "waiting").exists)
                process.kill()
                process.wait()
                with sdk_process(tmp_path, port, python):
                    await group.start(call_again, tools, group.cancel_scope)
                    group.cancel_scope.cancel()


async def read_until_it_succeeds(tools: Any) -> None:
    with anyio.CancelScope():
        await tools.wait()


async def call_again(tools: Any, scope: anyio.CancelScope, *, task_status: Any) -> None:
    with anyio.fail_after(240):
        assert await tools.add(a=2, b=2) == 4
    task_status.started()


@contextmanager
def answering(status: int, seen: list[dict[str, str]] | None = None) -> Iterator[str]:
    """An HTTP server that answers everything with one status, and collects the headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if seen is not None:
                seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(("status", "text"), [(401, "401 Unauthorized"), (503, "503 Service Unavailable")])
async def test_a_server_that_refuses_is_an_error_with_its_status(status: int, text: str) -> None:
    with (
        answering(status) as url,
        pytest.raises(nh.mcp.ServerUnavailableError, match=f"its last answer was HTTP {text}"),
    ):
        async with nh.mcp.connect(nh.mcp.http(url)):
            pytest.fail("there is no session")


async def test_requests_have_the_headers_and_the_authentication_that_are_given() -> None:
    class Signed(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Iterator[httpx2.Request]:
            request.headers["Authorization"] = "Bearer token"
            yield request

    seen: list[dict[str, str]] = []
    with answering(403, seen) as url:
        server = nh.mcp.http(url, headers={"X-Team": "blue"}, auth=Signed())
        with pytest.raises(nh.mcp.ServerUnavailableError, match="403 Forbidden"):
            async with nh.mcp.connect(server):
                pytest.fail("there is no session")
    assert (seen[0]["x-team"], seen[0]["authorization"]) == ("blue", "Bearer token")


async def test_a_server_that_accepts_and_never_answers_is_given_up_in_time() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with pytest.raises(nh.mcp.ServerUnavailableError, match=r"did not answer in 0.3 seconds"):
            async with nh.mcp.connect(nh.mcp.http(url, connect_timeout=0.3)):
                pytest.fail("there is no session")
