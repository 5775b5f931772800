"""The embedded model server always dies with its parent, however the parent ends.

The real child program runs, over a stand-in for `xllamacpp`. A test holds a connection to the child: the
system ends it when the child is gone, so nothing has to be polled.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import nighthawk_async.errors
from nighthawk_async.models.local_process import SERVER_PROGRAM

FAKE_LLAMA = Path(__file__).with_name("fake_llama")
SOURCES = Path(nighthawk_async.errors.__file__).parents[1]

PARENT = """
import os, subprocess, sys, time
import anyio
from anyio import to_thread
from pathlib import Path
from nighthawk_async.models.local_process import LocalServerLaunch, ServerProcess

async def main():
    launch = LocalServerLaunch(
        gguf=Path(sys.argv[1]), context_tokens=64, parallel_requests=1, threads=1, start_timeout=30
    )
    process = await ServerProcess.spawn(launch)
    print((await process.wait_until_ready()).address, flush=True)
    exec(sys.argv[3])
    await to_thread.run_sync(sys.stdin.read)  # until it is killed, or the test is no more

anyio.run(main, backend=sys.argv[2])
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes with POSIX signals")


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_text("whole")
    return path


@contextmanager
def running_parent(
    gguf: Path, backend: str, then: str
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """A parent whose server is ready, and a connection to that server."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(FAKE_LLAMA), str(SOURCES)])}
    command = [sys.executable, "-W", "ignore", "-c", PARENT, str(gguf), backend, then]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, text=True) as parent:
        try:
            assert parent.stdout is not None
            address = urlsplit(parent.stdout.readline().strip())
            assert address.hostname is not None
            with socket.create_connection((address.hostname, address.port or 0), timeout=240) as connection:
                yield parent, connection
        finally:
            parent.kill()


def wait_until_server_is_gone(connection: socket.socket) -> None:
    try:
        assert connection.recv(1) == b""
    except ConnectionResetError:
        return


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_killed_parent_leaves_no_server(gguf: Path, backend: str) -> None:
    with running_parent(gguf, backend, "pass") as (parent, connection):
        os.kill(parent.pid, signal.SIGKILL)
        wait_until_server_is_gone(connection)


def test_a_parent_that_exits_without_cleaning_up_leaves_no_server(gguf: Path) -> None:
    with running_parent(gguf, "trio", "sys.stdin.readline(); os._exit(0)") as (parent, connection):
        assert parent.stdin is not None
        parent.stdin.write("end\n")
        parent.stdin.flush()
        wait_until_server_is_gone(connection)


def test_a_killed_parent_leaves_no_server_even_when_a_forked_process_holds_its_pipe(gguf: Path) -> None:
    fork = "print(os.fork() or time.sleep(30) or os._exit(0), flush=True)"
    with running_parent(gguf, "trio", fork) as (parent, connection):
        assert parent.stdout is not None
        forked = int(parent.stdout.readline())
        try:
            os.kill(parent.pid, signal.SIGKILL)
            wait_until_server_is_gone(connection)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_ctrl_c_in_the_terminal_does_not_end_the_server_before_its_parent_does(gguf: Path) -> None:
    with start_server(gguf) as server:
        assert server.stdin is not None
        address = urlsplit(read_report(server)["address"])
        assert address.hostname is not None
        with socket.create_connection((address.hostname, address.port or 0), timeout=240) as connection:
            server.send_signal(signal.SIGINT)
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(20)
            server.stdin.close()
            wait_until_server_is_gone(connection)


def test_only_the_report_reaches_standard_output_and_chatter_ends_with_the_start(gguf: Path) -> None:
    with start_server(gguf) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        assert "address" in read_report(server)
        assert server.stdout.read() == b""
        assert server.stderr.read() == b"chatter of the library\n"


def test_a_file_that_cannot_be_served_is_reported_and_ends_the_server(gguf: Path) -> None:
    gguf.write_text("broken")
    with start_server(gguf) as server:
        assert read_report(server) == {"error": "RuntimeError: no magic number in the file"}
        assert server.wait(240) == 1


@contextmanager
def start_server(gguf: Path) -> Iterator[subprocess.Popen[bytes]]:
    options = ["--context-tokens=64", "--parallel-requests=1", "--threads=1", f"--parent={os.getpid()}"]
    command = [sys.executable, "-P", str(SERVER_PROGRAM), f"--model={gguf}", *options]
    variables = os.environ | {"PYTHONPATH": str(FAKE_LLAMA)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        try:
            assert server.stdin is not None
            server.stdin.write(b"the key\n")
            server.stdin.flush()
            yield server
        finally:
            server.kill()


def read_report(server: subprocess.Popen[bytes]) -> dict[str, str]:
    assert server.stdout is not None
    return json.loads(server.stdout.readline())
