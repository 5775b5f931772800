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
    if _lives_of_poison(folder) <= lives:
        while len(_in_progress) <= company:
            await anyio.lowlevel.checkpoint()
    WAYS_TO_END[way]()


def _lives_of_poison(folder: str) -> int:
    return (Path(folder) / "begun.txt").read_text().split().count("poison")


async def outlast_poison(folder: str, name: str, lives: int) -> str:
    """End when the call that ends its process has done so in its first lives, and is not in progress here."""
    _note(folder, name)
    _in_progress.add(name)
    while _lives_of_poison(folder) < lives or "poison" in _in_progress:  # which comes later in this process
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
