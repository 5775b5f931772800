"""The detectors as tests meet them, in a pytest run of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]

CONFTEST = """
import socket

import tests.conftest as shared
from tests.conftest import *
from tests.conftest import _event_loop_not_blocked, _nothing_left_behind, _on_this_machine

def refuse(*arguments, **options):
    raise OSError("nothing leaves this machine, whatever the guard does")


socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refuse
shared.PATIENCE_SECONDS = 0.1
shared.WATCH.bound_seconds = 0.3
shared.WATCH.looks_needed = 3
"""

CASES = """
import socket
import threading
import time
from contextlib import suppress

import anyio
import pytest
import trio

KEPT = []


@pytest.mark.anyio
async def test_good_on_both(anyio_backend_name):
    await anyio.sleep(0.001)


@pytest.mark.trio
async def test_good_on_trio(autojump_clock):
    await trio.sleep(3600)


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_good_in_virtual_time(virtual_clock):
    await anyio.sleep(3600)
    assert virtual_clock.current_time() >= 3600


@pytest.mark.anyio
async def test_bad_blocks():
    time.sleep(1.2)


@pytest.mark.trio
async def test_bad_blocks_trio():
    time.sleep(1.2)


@pytest.mark.anyio
@pytest.mark.may_block_event_loop("on purpose")
async def test_good_blocks_on_purpose():
    time.sleep(0.6)


def test_bad_socket():
    KEPT.append(socket.socket())


@pytest.mark.may_leave_behind("on purpose")
def test_good_socket_on_purpose():
    KEPT.append(socket.socket())


def test_bad_network():
    with socket.socket() as connection:
        connection.connect(("192.0.2.1", 80))


def test_bad_hidden_network():
    with socket.socket() as connection, suppress(RuntimeError):
        connection.connect(("192.0.2.1", 80))


def test_bad_datagram():
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams, suppress(RuntimeError):
        datagrams.sendto(b"a", ("192.0.2.1", 80))


@pytest.mark.anyio
async def test_bad_name(anyio_backend_name):
    with suppress(OSError):
        await anyio.getaddrinfo("shop.example", 80)


def test_good_addresses():
    for name in ("localhost", "127.1", "::1", None):
        socket.getaddrinfo(name, 80)


async def test_bad_unmarked():
    pass
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of the run that tell each test's results."""
    folder = tmp_path_factory.mktemp("wiring")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pyproject.toml"), "--rootdir", str(HERE)]
    command += ["-p", "no:cacheprovider", "-rA", "--color=no", "--hypothesis-profile=explore", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=100, check=False)
    return [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]


def told(results: list[str], word: str) -> set[str]:
    """The tests reported with a word, by name, each with its parameters."""
    lines = [line for line in results if line.startswith(word)]
    return {line.split("::")[1].split(" - ")[0] for line in lines}


def test_what_behaves_passes(results: list[str]) -> None:
    good = {name for name in told(results, "PASSED") if name.startswith("test_good")}
    assert good == {
        "test_good_on_both[asyncio]",
        "test_good_on_both[trio]",
        "test_good_addresses",
        "test_good_on_trio",
        "test_good_in_virtual_time[virtual_time]",
        "test_good_blocks_on_purpose[asyncio]",
        "test_good_blocks_on_purpose[trio]",
        "test_good_socket_on_purpose",
    }
    assert {name for name in told(results, "ERROR") | told(results, "FAILED") if "good" in name} == set()


def test_what_misbehaves_fails(results: list[str]) -> None:
    assert told(results, "ERROR") == {
        "test_bad_blocks[asyncio]",
        "test_bad_blocks[trio]",
        "test_bad_blocks_trio",
        "test_bad_socket",
        "test_bad_network",
        "test_bad_hidden_network",
        "test_bad_datagram",
        "test_bad_name[asyncio]",
        "test_bad_name[trio]",
    }
    assert told(results, "FAILED") == {"test_bad_network", "test_bad_unmarked"}
