"""Starts of workers, in several attempts.

A worker that something else has ended while it started, such as the kernel for want of memory, says nothing
about the next one: it is tried more often than one that reports an error or fails by itself.
"""

from collections.abc import Awaitable, Callable

import anyio

from .connection import WorkerConnection
from .errors import WorkerStartError

_MOST_FAILED_STARTS = 3
"""The number of starts in succession that may fail before a worker is given up."""
_MOST_KILLED_STARTS = 100
"""The same of those in which something else has ended the worker."""

_FIRST_PAUSE_SECONDS = 0.1
_MOST_PAUSE_SECONDS = 2.0


async def start_worker(
    connect: Callable[[], Awaitable[WorkerConnection]], *, is_first: bool
) -> WorkerConnection:
    """Start a worker, in several attempts with growing pauses.

    Args:
        connect: Starts one.
        is_first: Whether the placement is about to begin, which a broken start ends at once.

    Raises:
        WorkerStartError: It cannot be started; the attempts before the last one are its notes.
    """
    most_failed = 1 if is_first else _MOST_FAILED_STARTS
    failures: list[WorkerStartError] = []
    killed, pause = 0, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await connect()
        except WorkerStartError as error:
            failures.append(error)
            killed += error.was_killed
            if len(failures) - killed >= most_failed or killed >= _MOST_KILLED_STARTS:
                for each in failures[:-1]:
                    error.add_note(f"before that: {each}")
                raise
        await anyio.sleep(pause)
        pause = min(2 * pause, _MOST_PAUSE_SECONDS)
