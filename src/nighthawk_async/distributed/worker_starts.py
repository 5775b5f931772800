"""Starts of workers, in several attempts.

A worker that something else has ended while it started, such as the kernel for want of memory, says nothing
about the next one. So it is no broken start. A placement gives such a worker up only when it was killed very
often, for a long time, and no other worker of the placement has been ready meanwhile.

Workers that end soon after they were ready, without a call, are limited, too: no call counts their losses.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

from .connection import WorkerConnection
from .errors import WorkerStartError
from .link import KilledFromOutside

_logger = logging.getLogger("nighthawk")

_MOST_FAILED_STARTS = 3
"""The number of starts that may fail by themselves before a worker is given up."""
_MOST_KILLED_STARTS = 100
"""The number of starts in which something else may end the worker, while no other one becomes ready."""
_MOST_KILLED_SECONDS = 600.0
"""The seconds for which that has to go on: on a busy machine starts take long, and are killed more often."""

_MOST_UNUSED = 5
"""The workers in succession that may end by themselves right after they were ready, without a call."""
_SHORT_LIFE_SECONDS = 60.0
"""The seconds after which the end of a worker without a call is none of these."""

_FIRST_PAUSE_SECONDS = 0.1
_MOST_PAUSE_SECONDS = 2.0


class WorkerStarts:
    """The starts of the workers of one placement."""

    def __init__(self) -> None:
        self._ready = 0  # the number of workers that have become ready

    async def start(
        self, name: str, connect: Callable[[], Awaitable[WorkerConnection]], *, is_first: bool
    ) -> WorkerConnection:
        """Start a worker, in several attempts with growing pauses.

        Args:
            name: Its name.
            connect: Starts one.
            is_first: Whether the placement is about to begin, which a broken start ends at once.

        Raises:
            WorkerStartError: It cannot be started; the attempts before the last one are its notes.
        """
        most_failed = 1 if is_first else _MOST_FAILED_STARTS
        failures: list[WorkerStartError] = []
        killed, ready, since, pause = 0, self._ready, anyio.current_time(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                connection = await connect()
            except WorkerStartError as error:
                if ready != self._ready:
                    killed, ready, since = 0, self._ready, anyio.current_time()
                if error.was_killed:
                    killed += 1
                    is_over = (
                        killed >= _MOST_KILLED_STARTS and anyio.current_time() - since >= _MOST_KILLED_SECONDS
                    )
                    if not killed & killed - 1:  # the first, second, fourth, eighth time: few of many
                        _logger.warning("start %d of worker %s was killed: %s", killed, name, error)
                else:
                    failures.append(error)
                    is_over = len(failures) >= most_failed
                if is_over:
                    _note_attempts(error, failures, killed)
                    raise
            else:
                self._ready += 1
                return connection
            await anyio.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)


class UnusedWorkers:
    """Workers, one after the other, that have ended right after they were ready, without a call."""

    def __init__(self) -> None:
        self._failures: list[WorkerStartError] = []
        self._killed = 0
        self._pause = 0.0

    async def note_end(self, connection: WorkerConnection, seconds: float, how: str) -> None:
        """Note that a worker has ended, and wait before the next one is started.

        Args:
            connection: The worker.
            seconds: The seconds for which it was ready.
            how: How it has ended.

        Raises:
            WorkerStartError: Too many have ended so; those before the last one are its notes.
        """
        if connection.had_call or seconds >= _SHORT_LIFE_SECONDS:
            self._failures.clear()
            self._killed, self._pause = 0, 0.0
            return
        when = f"{seconds:.1f} seconds after it was ready, without a call"
        error = WorkerStartError(f"worker {connection.name} has ended {when}: {how}")
        if isinstance(how, KilledFromOutside):
            error.was_killed = True
            self._killed += 1
        else:
            self._failures.append(error)
        if len(self._failures) >= _MOST_UNUSED:
            _note_attempts(error, self._failures, 0)
            raise error
        number = self._killed + len(self._failures)
        if number > 1 and not number & number - 1:
            _logger.warning("%s; that was number %d in succession", error, number)
        await anyio.sleep(self._pause)
        self._pause = min(2 * self._pause, _MOST_PAUSE_SECONDS) or _FIRST_PAUSE_SECONDS


def _note_attempts(last: WorkerStartError, failures: list[WorkerStartError], killed: int) -> None:
    for each in failures:
        if each is not last:
            last.add_note(f"before that: {each}")
    if killed:
        last.add_note(f"it was killed while it started, {killed} times in succession")
