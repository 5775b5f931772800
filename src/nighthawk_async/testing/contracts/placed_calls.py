"""The calls that `PlacementContract` makes. Placements import them by name, where there may be no pytest."""

import os
import signal
import time
from pathlib import Path

import anyio

from ...parallel import task_values
from ...pickling import PicklableError

BEGUN, CLEANED = "begun", "cleaned"
"""The files that show how far `wait_for_ever` has come."""


class ContractCallError(PicklableError):
    """Raised by a call, to see how it arrives."""


async def add(first: int, second: int = 0) -> int:
    """Add two numbers."""
    await anyio.lowlevel.checkpoint()
    return first + second


def add_in_thread(first: int, second: int = 0) -> int:
    """Add two numbers."""
    return first + second


async def fail(text: str) -> None:
    """Raise an error."""
    raise ContractCallError(text)


async def take_time(seconds: float) -> tuple[float, float]:
    """Take some seconds; return when it began and ended, in seconds since 1970."""
    began_at = time.time()
    await anyio.sleep(seconds)
    return began_at, time.time()


async def wait_for_ever(folder: str) -> None:
    """Note the beginning in a folder, wait, and note there that it was cancelled. Without a folder, wait."""
    if folder:
        (Path(folder) / BEGUN).touch()
    try:
        await anyio.sleep_forever()
    finally:
        if folder:
            (Path(folder) / CLEANED).touch()


async def look_around(name: str) -> tuple[object, float]:
    """Return a task value of the caller, and the seconds until its deadline."""
    return task_values().get(name), anyio.current_effective_deadline() - anyio.current_time()


async def die(program: int) -> None:
    """End the process that this call runs in, if it is another one than the program."""
    if os.getpid() != program:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
