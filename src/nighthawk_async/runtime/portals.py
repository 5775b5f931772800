"""Threads with an event loop of their own, for synchronous natural functions. Floor 3."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import TypeVar, TypeVarTuple

from anyio import NoEventLoopError
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import current_token

__all__ = ["PortalPool", "is_loop_thread", "off_loop", "portal_depth"]

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_thread = threading.local()


def portal_depth() -> int:
    """How many portals are waiting for the present thread: 0 outside portal threads."""
    return getattr(_thread, "depth", 0)


def is_loop_thread() -> bool:
    """Whether an event loop is running in the present thread."""
    try:
        current_token()
    except NoEventLoopError:
        return False
    return True


def off_loop(function: Callable[[], Result]) -> Result:
    """Call a blocking function; on the thread of a running loop, in another thread meanwhile.

    Event loops refuse to be waited for from a thread that runs a loop itself.
    """
    if not is_loop_thread():
        return function()
    with ThreadPoolExecutor(1, thread_name_prefix="nighthawk-async caller") as executor:
        return executor.submit(copy_context().run, function).result()


class PortalPool:
    """Portal threads of one run, started on first use.

    A thread that waits for a step cannot serve the loop it runs itself. So a synchronous natural function
    called on portal n runs on portal n + 1; everything else shares the first one.

    Args:
        backend: The AnyIO backend of the threads.
        attach: Called on a portal's loop when it starts.
        detach: Awaited on a portal's loop before it stops.
    """

    def __init__(
        self, *, backend: str, attach: Callable[[], object], detach: Callable[[], Awaitable[None]]
    ) -> None:
        self._backend = backend
        self._attach = attach
        self._detach = detach
        self._portals: list[BlockingPortal] = []
        self._stack = ExitStack()
        self._lock = threading.Lock()

    def call(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on a portal and wait for it.

        The present context variables flow in. When the wait is interrupted, by Ctrl-C for example, the
        function is cancelled and awaited.
        """
        return off_loop(partial(self._call, portal_depth(), function, *args))

    @property
    def is_started(self) -> bool:
        """Whether a portal thread is running."""
        return bool(self._portals)

    def close(self) -> None:
        """Stop every portal thread and wait for it. Closing twice is fine."""
        with self._lock:
            self._portals.clear()
            off_loop(self._stack.close)

    def _call(
        self,
        depth: int,
        function: Callable[[*Arguments], Awaitable[Result]],
        *args: *Arguments,
    ) -> Result:
        future = self._portal(depth).start_task_soon(function, *args)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    def _portal(self, depth: int) -> BlockingPortal:
        with self._lock:
            while len(self._portals) <= depth:
                self._portals.append(self._start(len(self._portals)))
            return self._portals[depth]

    def _start(self, depth: int) -> BlockingPortal:
        with ExitStack() as stack:
            name = f"nighthawk-async portal {depth}"
            portal = stack.enter_context(start_blocking_portal(self._backend, name=name))
            stack.callback(portal.call, self._detach)
            portal.call(self._prepare_thread, depth)
            self._stack.push(stack.pop_all())
        return portal

    def _prepare_thread(self, depth: int) -> None:
        _thread.depth = depth + 1
        self._attach()
