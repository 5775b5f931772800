"""Handles and events of an event loop, for any thread."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVarTuple

import anyio
from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import EventLoopToken, current_token

from ..pickling import PicklableError

Arguments = TypeVarTuple("Arguments")


class OtherLoopError(PicklableError, RuntimeError):
    """Another event loop is running in the current thread, and must not wait for this one."""


class EventLoop:
    """A handle of the event loop on which it is made; any thread may use it.

    Raises:
        anyio.NoEventLoopError: No event loop is running.
    """

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = current_token()

    @property
    def is_here(self) -> bool:
        """Whether it runs on the current thread."""
        return find_running_loop() == self._token

    def call(self, function: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """Call a synchronous function on it: directly on its thread, or from a thread without an event loop.

        Raises:
            anyio.RunFinishedError: It has ended.
            OtherLoopError: Another event loop is running in the current thread.
        """
        if self.is_here:
            function(*args)
        elif is_loop_thread():
            raise OtherLoopError("another event loop is running in this thread")
        else:
            from_thread.run_sync(function, *args, token=self._token)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a synchronous function on it soon. Unlike AnyIO's own function, it does not wait.

        Args:
            function: The function. An exception from it may end the event loop.

        Raises:
            RuntimeError: It has ended.
        """
        loop: Any = self._token.native_token
        name = next(name for name in ("run_sync_soon", "call_soon_threadsafe") if hasattr(loop, name))
        getattr(loop, name)(function)


class LoopEvent:
    """An event of the event loop on which it is made; any thread may set it."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._loop = EventLoop()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def set(self) -> None:
        """Set it, without waiting for the event loop to notice."""
        if self._loop.is_here:
            self._event.set()
            return
        with suppress(RuntimeError):  # the loop and its waiting tasks have ended
            self._loop.call_soon(self._event.set)


def find_running_loop() -> EventLoopToken | None:
    """Return the token of the event loop that runs on the current thread; None when none does."""
    try:
        return current_token()
    except RuntimeError:  # NoEventLoopError, or AnyIO's error in a thread with the context of a loop
        return None


def is_loop_thread() -> bool:
    """Whether an event loop runs on the current thread."""
    return find_running_loop() is not None


def is_worker_thread() -> bool:
    """Whether the current thread works for an event loop in another thread, which waits for it.

    Raises:
        BaseException: The cancellation of the task that waits for it.
    """
    try:
        from_thread.check_cancelled()
    except NoEventLoopError:
        return False
    return True


def find_task() -> object:
    """Return the event loop's own task that the caller runs in; its thread where there is no such task.

    `anyio.get_current_task` describes the task as well, which takes longer than everything else here.
    """
    for name in ("trio.lowlevel", "asyncio"):  # not imported here: which of them is there depends on the loop
        module: Any = sys.modules.get(name)
        if module is None:
            continue
        with suppress(RuntimeError):  # no loop of this kind runs on this thread
            task = module.current_task()
            if task is not None:
                return task
    return threading.current_thread()
