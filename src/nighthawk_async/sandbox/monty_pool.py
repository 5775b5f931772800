"""The workers of the package pydantic-monty: a pool for each run, and threads that wait for their turns.

The package waits in the calling thread, or on asyncio. So each turn of a worker runs in a thread, of which
there are few: a turn never waits for the program, so all of them end, by the limits of the sandbox at the
latest, and no step waits for another one.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter, get_cancelled_exc_class

from ..errors import SandboxUnavailableError
from ..lazy_exports import LazyModule
from .settings import SandboxSettings

Result = TypeVar("Result")

package: Any = LazyModule("pydantic_monty")
"""The package, which is loaded with the first worker."""

_MOST_WORKERS = 10_000
_IDLE_WORKERS = 16
_TURNS = max(4, 2 * (os.cpu_count() or 1))
_NICENESS = 10
_GRACE_SECONDS = 1.0


class MontyPool:
    """The workers of one run, on one event loop."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._limiter = CapacityLimiter(_TURNS)
        self.open_sessions = 0

    async def __aenter__(self) -> "MontyPool":
        self._pool = await self.in_thread(_open_pool)
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.in_thread(self._close)

    def _close(self) -> None:
        self._pool.__exit__(None, None, None)

    async def in_thread(
        self, function: Callable[[], Result], *, on_cancel: Callable[[], None] | None = None
    ) -> Result:
        """Run a function in a thread of the pool.

        Args:
            function: The function.
            on_cancel: Makes the function return soon, if the caller is cancelled; None to wait for it.
        """
        if on_cancel is None:
            return await anyio.to_thread.run_sync(function, limiter=self._limiter)
        try:
            return await anyio.to_thread.run_sync(function, limiter=self._limiter, abandon_on_cancel=True)
        except get_cancelled_exc_class():
            on_cancel()
            raise

    def check_out(self, limits: SandboxSettings) -> Any:
        """Take a worker for a session, in a thread.

        Raises:
            SandboxUnavailableError: It cannot be started.
        """
        session = self._pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory_bytes,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": limits.calls,
            },
            os_policy={"sleep": "call_host"},
            print_flush_interval=None,
        )
        try:
            session.__enter__()
        except Exception as error:
            raise SandboxUnavailableError(f"no worker of the sandbox can be started: {error}") from error
        lower_priority(session.worker_pid)
        self.open_sessions += 1
        return session

    def check_in(self, session: Any, process: int | None) -> None:
        """Give a worker back, in a thread; of many that were needed at once, few are kept."""
        self.open_sessions -= 1
        if self.open_sessions >= _IDLE_WORKERS:
            kill(process)
        with suppress(package.MontyError, OSError):
            session.__exit__(None, None, None)


def _open_pool() -> Any:
    try:
        pool = package.Monty(
            min_processes=0,
            max_processes=_MOST_WORKERS,
            feed_duration_limit_grace=_GRACE_SECONDS,
        )
        pool.__enter__()
    except ImportError as error:
        raise SandboxUnavailableError(
            "nh.Sandbox() needs the package pydantic-monty: pip install 'nighthawk-async[sandbox]'. "
            "No code is run without it"
        ) from error
    except Exception as error:
        raise SandboxUnavailableError(f"pydantic-monty does not work here: {error}") from error
    return pool


def lower_priority(process: int | None) -> None:
    """Have a worker give way to the program."""
    if process is not None and hasattr(os, "setpriority"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process, _NICENESS)


def kill(process: int | None) -> None:
    """End a worker at once; without effect on one that has ended."""
    if process is not None:
        with suppress(OSError):
            os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))
