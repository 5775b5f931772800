"""A server over standard input and output: only messages come out, whatever functions print."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

import nighthawk_async as nh
from nighthawk_async.errors import NighthawkError
from nighthawk_async.mcp.serving import claimed_stdio
from tests.warm_python import WarmPopen

from .serving_support import ERAS, Era, count_run, stars, text_of

PROGRAM = Path(__file__).parent / "serving_program.py"
BACKENDS = ["trio", "asyncio"]


def command_of(backend: str) -> list[str]:
    functions = [f"{PROGRAM}:{name}" for name in ("stars", "shout", "hang")]
    options = ["--run", f"{PROGRAM}:make_run", "--stdio", "--backend", backend]
    return ["-m", "nighthawk_async", "mcp", "serve", *functions, *options]


@pytest.mark.anyio
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_calls_functions_that_print(backend: str, era: Era, tmp_path: Path) -> None:
    marks = anyio.Path(tmp_path / "marks")
    with (tmp_path / "errors").open("w") as errors:
        parameters = StdioServerParameters(
            command=sys.executable, args=command_of(backend), cwd=PROGRAM.parents[3]
        )
        parameters.env = {"PYTHONPATH": ":".join(sys.path)}
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(parameters, errlog=errors), mode=era) as client:
            assert text_of(await client.call_tool("shout", {"text": "kettle"})) == "KETTLE"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "hang", {"marks": str(marks)})
                await written(marks, "begun")
                tasks.cancel_scope.cancel()
            await written(marks, "cancelled")
            assert text_of(await client.call_tool("stars", {"review": "**"})) == "2"
    printed = (tmp_path / "errors").read_text()
    for text in ("at the import", "by a function", "to the descriptor", "by a child"):
        assert text in printed


async def written(file: anyio.Path, text: str) -> None:
    """Wait until another process has written a text."""
    while True:
        if await file.exists() and await file.read_text() == text:
            return
        await anyio.sleep(0.01)


class Wire:
    """The input and output of a server."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._number = 0

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def send(self, method: str, **parameters: Any) -> None:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        self.write(json.dumps(message))

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def call(self, name: str, **arguments: Any) -> Any:
        self.send("tools/call", name=name, arguments=arguments)
        return self.read()["result"]


@contextmanager
def server_process(backend: str) -> Iterator[Wire]:
    pipe = subprocess.PIPE
    command = [sys.executable, *command_of(backend)]
    with WarmPopen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            wire = Wire(process)
            client = {"name": "test", "version": "1"}
            wire.send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
            assert wire.read()["result"]["protocolVersion"] == "2025-06-18"
            wire.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
            yield wire
        finally:
            process.kill()


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("backend", BACKENDS)
def test_lines_that_are_no_messages_change_nothing(backend: str) -> None:
    with server_process(backend) as wire:
        for line in ("{bad", "[]", "null", "\N{PILE OF POO}", '{"jsonrpc": "2.0"}', ""):
            wire.write(line)
        assert wire.call("stars", review="***")["content"][0]["text"] == "3"


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_arguments_are_refused(backend: str) -> None:
    with server_process(backend) as wire:
        result = wire.call("shout", text="x" * 5_000_000)
        assert result["isError"]
        assert "have 5,000,012 bytes; at most 4,194,304 are allowed" in result["content"][0]["text"]
        assert wire.call("shout", text="x" * 300_000)["content"][0]["text"] == "X" * 300_000


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("end", ["end of input", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_end_cancels_calls_in_progress_and_nothing_is_left(
    backend: str, end: str, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    with server_process(backend) as wire:
        wire.send("tools/call", name="hang", arguments={"marks": str(marks)})
        assert wire.call("stars", review="*")["content"][0]["text"] == "1"  # so the first call has begun
        while not marks.exists():
            time.sleep(0.01)  # another process tells nobody
        if end == "end of input":
            assert wire.process.stdin is not None
            wire.process.stdin.close()
        else:
            wire.process.send_signal(getattr(signal, end))
        assert wire.process.stdout is not None
        assert wire.process.wait(120) == 0
        for line in wire.process.stdout.read().splitlines():
            assert json.loads(line)["error"]["message"] == "Connection closed"
        assert marks.read_text() == "cancelled"


def test_standard_output_is_claimed_once_at_a_time_and_given_back(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with claimed_stdio():
        print("inside")
        with pytest.raises(NighthawkError, match="Another MCP server"):
            anyio.run(lambda: nh.mcp.serve_stdio([stars], run=count_run))
    print("outside")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("outside\n", "inside\n")
