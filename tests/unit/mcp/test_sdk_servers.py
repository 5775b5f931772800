"""Servers written with the official package: both versions of it, and both transports."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel
from tests.free_ports import free_port
from tests.unit.mcp.support import wait_until

pytestmark = [
    pytest.mark.anyio,
    # The HTTP client of the package leaves its generators to the collector, of which Trio warns.
    pytest.mark.filterwarnings("ignore:.*was garbage collected before it had been exhausted:ResourceWarning"),
]
SDK_SERVER = Path(__file__).with_name("sdk_server.py")
VERSION_1 = os.environ.get("NIGHTHAWK_MCP1_PYTHON")
"""The interpreter of an environment with version 1 of the package `mcp`."""

KINDS = ["stdio", "uvicorn", "hypercorn"]


class SdkServer:
    """One server: how to reach it, and what it has noted."""

    def __init__(self, server: nh.mcp.Server, folder: Path, version: str) -> None:
        self.server = server
        self.folder = folder
        self.version = version

    async def wait_for(self, note: str) -> None:
        await wait_until((self.folder / note).exists)


def wait_for_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the server has not started")


@pytest.fixture(
    scope="module",
    params=[
        (version, kind) for version in ("2", "1") for kind in KINDS if (version, kind) != ("1", "hypercorn")
    ],
    ids=lambda each: f"{each[1]}-{each[0]}",
)
def sdk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkServer]:
    version, kind = request.param
    python = sys.executable if version == "2" else VERSION_1
    if python is None:
        pytest.skip("NIGHTHAWK_MCP1_PYTHON names no interpreter with version 1 of the package mcp")
    folder = tmp_path_factory.mktemp("sdk")
    command = [python, "-I", str(SDK_SERVER), str(folder)]
    if kind == "stdio":
        yield SdkServer(nh.mcp.stdio(*command, "stdio", name="sdk"), folder, version)
        return
    port = free_port()
    with subprocess.Popen([*command, kind, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(process, port)
            yield SdkServer(nh.mcp.http(f"http://127.0.0.1:{port}/mcp", name="sdk"), folder, version)
        finally:
            process.kill()


class Person:
    async def ask(self, question: nh.human.Question) -> object:
        return {"name": "Ann"}

    async def approve(self, request: object) -> None:
        raise AssertionError(request)


async def test_calls_results_progress_questions_errors_resources_and_changes(sdk: SdkServer) -> None:
    async with nh.run(ScriptedModel([]), human=Person(), servers={"sdk": sdk.server}):
        with nh.observe.recording() as tree:
            async with nh.mcp.connect(sdk.server, name="sdk") as tools:
                assert await tools.add(a=1, b=2) == 3, "a wrapped result is unwrapped"
                assert await tools.work(steps=2) == "worked"
                assert await tools.ask() == "Hello Ann"
                with pytest.raises(nh.mcp.ServerToolError, match=r"fail: .*out of order") as failed:
                    await tools.fail(text="out of order")
                assert failed.value.kind == "execution"
                with pytest.raises(nh.mcp.ServerToolError, match="validation error") as refused:
                    await tools.add(a="one", b=2)
                assert refused.value.kind == "invalid_input"
                assert [each.content for each in await nh.mcp.read_resource(tools, "sdk://note")] == [
                    "a note"
                ]
                await check_changes(tools)
    nodes = [node for node in tree.snapshot().children if node.name == "Sdk.work"]
    assert "2/2 step 2" in nodes[0].transcript[-1].text


async def check_changes(tools: Any) -> None:
    """The methods change when the server says that its tools did."""
    assert await tools.change_tools() == "changed"
    await wait_until(lambda: hasattr(tools, "late"))
    assert await tools.late(a=1, b=2) == 3


async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_session_lives_on(sdk: SdkServer) -> None:
    for note in ("waiting", "cancelled"):
        (sdk.folder / note).unlink(missing_ok=True)
    async with nh.mcp.connect(sdk.server) as tools:
        async with anyio.create_task_group() as group:
            group.start_soon(tools.wait)
            await sdk.wait_for("waiting")
            group.cancel_scope.cancel()
        await sdk.wait_for("cancelled")
        assert await tools.add(a=1, b=2) == 3


async def test_calls_that_only_read_run_at_the_same_time(sdk: SdkServer) -> None:
    async with nh.mcp.connect(sdk.server) as tools:
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(tools.pause, 1.0)
        assert time.monotonic() - began < 10, "twenty seconds, one after the other"


async def test_an_address_where_nobody_listens_is_an_error_that_names_it() -> None:
    server = nh.mcp.http(f"http://127.0.0.1:{free_port()}/mcp")
    with pytest.raises(
        nh.mcp.ServerUnavailableError, match=r"http://127.0.0.1:\d+/mcp cannot be reached: ConnectError"
    ):
        async with nh.mcp.connect(server):
            pytest.fail("there is no session")
