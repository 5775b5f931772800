"""The stock-taking: it sees what a test leaves behind and forgives what is about to end."""

import socket
import subprocess
import sys
import threading
from functools import partial

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from .leftovers import describe_leftovers, take_stock, wait_for_leftovers


def test_a_thread_that_still_runs_is_left_behind() -> None:
    before = take_stock()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten")
    thread.start()
    try:
        leftovers = wait_for_leftovers(before, patience_seconds=0.05)
        assert leftovers.threads == {thread}
        assert "forgotten" in describe_leftovers(leftovers)
    finally:
        release.set()
        thread.join()
    assert not wait_for_leftovers(before, patience_seconds=0.05)


def test_a_thread_that_is_about_to_end_is_waited_for() -> None:
    before = take_stock()
    release = threading.Event()
    threading.Thread(target=release.wait).start()
    threading.Timer(0.1, release.set).start()
    assert not wait_for_leftovers(before, patience_seconds=30.0)


def test_an_open_socket_is_left_behind_until_it_is_closed() -> None:
    before = take_stock()
    with socket.socket() as left:
        leftovers = wait_for_leftovers(before, patience_seconds=0.05)
        assert [descriptor for descriptor, _ in leftovers.sockets] == [left.fileno()]
        assert f"file descriptor {left.fileno()}" in describe_leftovers(leftovers)
    assert not wait_for_leftovers(before, patience_seconds=0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process its children")
def test_a_child_process_is_left_behind_until_it_is_reaped() -> None:
    before = take_stock()
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        leftovers = wait_for_leftovers(before, patience_seconds=0.05)
        assert leftovers.children == {child.pid}
        child.communicate(b"\n")
    assert not wait_for_leftovers(before, patience_seconds=0.05)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_worker_thread_counts_only_while_it_works(backend: str) -> None:
    async def main() -> tuple[int, int]:
        before = take_stock()
        release = threading.Event()
        began = anyio.Event()

        def work() -> None:
            anyio.from_thread.run_sync(began.set)
            release.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(partial(anyio.to_thread.run_sync, work))
            await began.wait()
            working = len(take_stock().beyond(before).threads)
            release.set()
        return working, len(wait_for_leftovers(before, patience_seconds=5.0).threads)

    assert anyio.run(main, backend=backend) == (1, 0)
