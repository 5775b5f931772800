"""Jobs that end their processes, healthy ones, and a worker of them as a process."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel

import nighthawk_async as nh

from .queue_jobs import worker_of

WAYS_TO_END: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
}

_in_progress: set[str] = set()


def _note(folder: str, name: str) -> None:
    with (Path(folder) / "begun.txt").open("a") as file:
        file.write(f"{name}\n")


async def end_process(folder: str, way: str, company: int, lives: int) -> None:
    """End the process, in the first lives when others have begun in it."""
    _note(folder, "poison")
    _in_progress.add("poison")
    if (Path(folder) / "begun.txt").read_text().split().count("poison") <= lives:
        while len(_in_progress) <= company:
            await anyio.lowlevel.checkpoint()
    WAYS_TO_END[way]()


async def outlast_poison(folder: str, name: str) -> str:
    """End as soon as no other call of this process is about to end it."""
    _note(folder, name)
    _in_progress.add(name)
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    while "poison" in _in_progress:
        await anyio.lowlevel.checkpoint()
    _in_progress.discard(name)
    return name


async def exit_at_once(code: int) -> None:
    """End the program, as its author thinks."""
    sys.exit(code)


async def interrupt(code: int) -> None:
    """End the program as Ctrl-C does."""
    raise KeyboardInterrupt(code)


def interrupt_in_thread(code: int) -> None:
    """The same, in a thread."""
    raise KeyboardInterrupt(code)


async def cancel_itself(code: int) -> None:
    """Raise the cancellation of asyncio, which nobody has asked for."""
    raise asyncio.CancelledError(code)


def exit_in_thread(code: int) -> None:
    """The same, in a thread."""
    sys.exit(code)


async def exit_in_task(code: int) -> None:
    """The same, in a task of a group."""

    async def leave() -> None:
        sys.exit(code)

    async with anyio.create_task_group() as group:
        group.start_soon(leave)


if __name__ == "__main__":
    # The functions that are enqueued are those of the module, not of this script.
    from tests.unit.journal import poison_jobs

    async def serve(url: str) -> None:
        """Serve the queue."""
        with nh.journal.open(url) as store:
            await worker_of(store, poison_jobs.end_process, poison_jobs.outlast_poison).serve()

    anyio.run(serve, sys.argv[2], backend=sys.argv[1])
