"""Functions for workers that end them, block them, or leave processes behind: they are not to be nice."""

# ruff: noqa: ASYNC220, ASYNC230, ASYNC240, ASYNC251

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio

import nighthawk_async as nh

from .worker_functions import double


def _leave(mark: str, number: int) -> None:
    """Write a number where a test finds it whole."""
    part = Path(f"{mark}.part")
    part.write_text(str(number))
    part.rename(mark)


async def process_id(_: int) -> int:
    return os.getpid()


async def kill_sometimes(number: int, folder: str) -> int:
    """End the worker, the first time a seventh call is made; twice its number otherwise."""
    mark = Path(folder) / f"died-{number}"
    if number % 7 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(Path(folder) / "made", "a") as made:
        made.write(f"{number}\n")
    return number * 2


def _connection() -> int:
    """The file descriptor of the worker's connection."""
    return int(sys.orig_argv[-3])


async def write_junk(mark: str) -> str:
    """Write on the worker's connection, the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.write(_connection(), b"HTTP/1.1 200 OK\r\n\r\n")
        await anyio.sleep_forever()
    return "well"


async def stop_process(mark: str) -> None:
    """Stop the whole worker, as a debugger does."""
    _leave(mark, os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
    await anyio.sleep_forever()


async def wait_with_cleanup(mark: str) -> None:
    """Wait for ever, and leave another mark at the end."""
    _leave(mark, os.getpid())
    try:
        await anyio.sleep_forever()
    finally:
        Path(f"{mark}.cleaned").touch()


async def block_loop(mark: str) -> None:
    """Compute for ever on the event loop."""
    _leave(mark, os.getpid())
    while True:
        pass


def block_thread(mark: str) -> None:
    """Wait for ever in a thread, which nothing can interrupt."""
    _leave(mark, os.getpid())
    while True:
        time.sleep(1000)


async def cancel_itself(_: int) -> None:
    raise anyio.get_cancelled_exc_class()


async def fork_and_die(mark: str) -> int:
    """Leave a forked process, and one in a session of its own, and end the worker; the first time."""
    if Path(mark).exists():
        return 7
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    _leave(f"{mark}.other", other.pid)
    _leave(mark, pid)
    os._exit(3)


async def start_and_wait(mark: str) -> None:
    """Start a process in a session of its own, and wait for ever."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    _leave(f"{mark}.other", other.pid)
    await block_loop(mark)


def is_open_in_children(_: int) -> bool:
    """Whether a process that is started with all file descriptors has the connection."""
    code = f"import os; os.fstat({_connection()})"
    return (
        subprocess.run([sys.executable, "-c", code], close_fds=False, stderr=subprocess.DEVNULL).returncode
        == 0
    )


async def size_of(body: bytes, times: int) -> bytes:
    return body * times


async def use_workers_of_its_own(numbers: list[int]) -> list[int]:
    async with nh.distributed.Processes(1) as workers:
        return await nh.parallel.map(double, numbers, on=workers)


def read_and_print(text: str) -> str:
    print(text, flush=True)
    return sys.stdin.read()
