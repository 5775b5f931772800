"""`nighthawk-async mcp serve`: functions as tools of a server; its settings, its mistakes and its end."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from nighthawk_async.cli.application import run_command_line
from tests.unit.mcp.serving_support import CLIENT_WARNINGS
from tests.warm_python import WarmPopen

SHOP = '''
import anyio
import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

async def shout(text: str) -> str:
    """Make a text louder."""
    return text.upper()

async def hang() -> str:
    print("begun", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print("cancelled", flush=True)

def many(values: "Unknown") -> int:
    return sum(values)

def make_run():
    return nh.run(CallbackExecutor(lambda call: pass_response()))
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with functions."""
    file = tmp_path / "mcp_shop.py"
    file.write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NIGHTHAWK_MCP_TOKEN", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield file
    sys.modules.pop("mcp_shop", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "Missing argument 'FUNCTION'", id="no function"),
        pytest.param(["shout"], "write module:function", id="no module"),
        pytest.param(["nowhere:shout"], "there is no module 'nowhere'", id="unknown module"),
        pytest.param(["mcp_shop.py:whisper"], "has no function 'whisper'", id="unknown function"),
        pytest.param(["mcp_shop.py:many"], "cannot be resolved", id="no type"),
        pytest.param(["mcp_shop.py:shout", "mcp_shop.py:shout"], "both named 'shout'", id="twice"),
        pytest.param(["mcp_shop.py:shout", "--model", "nope:x"], "No provider is called 'nope'", id="model"),
        pytest.param(["mcp_shop.py:shout", "--model", "a:b"], "exclude each other", id="model and run"),
        pytest.param(["mcp_shop.py:shout", "--host", "0.0.0.0"], "NIGHTHAWK_MCP_TOKEN", id="no token"),
        pytest.param(
            ["mcp_shop.py:shout", "--stdio", "--token", "a"], "--token is for HTTP", id="stdio token"
        ),
        pytest.param(["mcp_shop.py:many", "--stdio"], "cannot be resolved", id="stdio no type"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = [] if "nope:x" in arguments else ["--run", "mcp_shop.py:make_run"]
    assert run_command_line(["mcp", "serve", *arguments, *run]) == 2
    captured = capfd.readouterr()
    assert (captured.out, message in captured.err) == ("", True), captured
    assert "Traceback" not in captured.err


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # Uvicorn leaves it
def test_a_port_that_is_in_use_is_exit_code_2(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--run", "mcp_shop.py:make_run", "--port", str(port)]
        assert run_command_line(["mcp", "serve", "mcp_shop.py:shout", *options]) == 2
    assert f"127.0.0.1:{port} cannot be served" in capfd.readouterr().err


@contextmanager
def server_process(shop: Path, *options: str) -> Iterator[tuple[Any, str]]:
    """A server as a process, and its address."""
    functions = ["mcp_shop.py:shout", "mcp_shop.py:hang", "--run", "mcp_shop.py:make_run"]
    command = [sys.executable, "-m", "nighthawk_async", "mcp", "serve", *functions, "--port", "0", *options]
    with WarmPopen(
        command, cwd=shop.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("MCP server: http://127.0.0.1:"), process.communicate()[1]
            yield process, line.partition(": ")[2].strip()
        finally:
            process.kill()


@CLIENT_WARNINGS
@pytest.mark.usefixtures("warm_python")
def test_a_server_ends_on_ctrl_c_with_its_calls(shop: Path) -> None:
    import httpx2

    async def call_and_end(process: Any, url: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": "Bearer sesame"}, timeout=240) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            assert client.server_info is not None
            assert client.server_info.name == "shop"
            (content,) = (await client.call_tool("shout", {"text": "kettle"})).content
            assert isinstance(content, TextContent)
            assert content.text == "KETTLE"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "hang", {})
                assert await anyio.to_thread.run_sync(process.stdout.readline) == "begun\n"
                process.send_signal(signal.SIGINT)
                assert await anyio.to_thread.run_sync(process.stdout.readline) == "cancelled\n"
                tasks.cancel_scope.cancel()

    with server_process(shop, "--token", "sesame", "--path", "/tools", "--name", "shop", "--grace", "0") as (
        process,
        url,
    ):
        assert url.endswith("/tools")
        anyio.run(call_and_end, process, url)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (130, "interrupted\n")
