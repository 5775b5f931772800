"""Threads with an event loop of their own, for synchronous natural functions. Floor 3."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, ExitStack
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeVar, TypeVarTuple

from anyio import get_cancelled_exc_class
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..errors import NighthawkError

__all__ = ["PortalPool", "portal_depth"]

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_thread = threading.local()


def portal_depth() -> int:
    """How many portals are waiting for the present thread: 0 outside portal threads."""
    return getattr(_thread, "depth", 0)


class PortalPool:
    """Portal threads of one run, started on first use.

    A thread that waits for a step cannot serve the loop it runs itself. So a synchronous natural function
    called on portal n runs on portal n + 1; everything else shares the first one.

    Args:
        backend: The AnyIO backend of the threads.
        resources: Gives the context manager that each portal's loop holds open as long as it runs.
    """

    def __init__(self, *, backend: str, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._backend = backend
        self._resources = resources
        self._portals: list[BlockingPortal] = []
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_started(self) -> bool:
        """Whether a portal thread is running."""
        return bool(self._portals)

    def call(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on a portal and wait for it.

        The present context variables flow in. When the wait is interrupted, by Ctrl-C for example, the
        function is cancelled and awaited.

        Raises:
            NighthawkError: The pool is closed, or was closed meanwhile.
        """
        call = _Call[Result]()
        start_task = partial(self._start_task, portal_depth(), call.answer, function, *args)
        with _helper_thread() as helper:
            try:
                helper.submit(copy_context().run, call.start, start_task).result()
                return call.answer.result()
            finally:
                if not call.answer.done():
                    call.abandon()

    def close(self) -> None:
        """Cancel what is in progress, stop every portal thread and wait for it. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            self._portals.clear()
            stack = self._stack.pop_all()
        # Not under the lock: a call in progress may need it for a call of its own before it ends.
        with _helper_thread() as helper:
            helper.submit(stack.close).result()

    def _start_task(
        self,
        depth: int,
        answer: Future[Result],
        function: Callable[[*Arguments], Awaitable[Result]],
        *args: *Arguments,
    ) -> Future[None]:
        with self._lock:
            while len(self._portals) <= depth and not self._is_closed:
                self._portals.append(self._start_portal(len(self._portals)))
            if self._is_closed:
                raise _run_ended()
            portal = self._portals[depth]
        try:
            return portal.start_task_soon(_deliver, answer, function, *args)
        except RuntimeError as error:  # the pool was closed meanwhile, and the portal with it
            raise _run_ended() from error

    def _start_portal(self, depth: int) -> BlockingPortal:
        with ExitStack() as stack:
            name = f"nighthawk-async portal {depth}"
            portal = stack.enter_context(start_blocking_portal(self._backend, name=name))
            stack.callback(portal.call, portal.stop, True)
            portal.call(_set_depth, depth + 1)
            stack.enter_context(portal.wrap_async_context_manager(self._resources()))
            self._stack.push(stack.pop_all())
        return portal


async def _deliver(
    answer: Future[Result], function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments
) -> None:
    """Run a function and deliver what it gave. Its SystemExit is the caller's and does not end the portal."""
    try:
        answer.set_result(await function(*args))
    except get_cancelled_exc_class():
        answer.set_exception(_run_ended())
        raise
    except BaseException as error:
        answer.set_exception(error)


class _Call(Generic[Result]):
    """A call on its way to a portal.

    Ctrl-C may interrupt its caller anywhere, also where the caller cannot know yet whether it has begun.
    """

    __slots__ = ("_is_abandoned", "_lock", "_task", "answer")

    def __init__(self) -> None:
        self.answer: Future[Result] = Future()
        self._lock = threading.Lock()
        self._task: Future[None] | None = None
        self._is_abandoned = False

    def start(self, start_task: Callable[[], Future[None]]) -> None:
        """Begin, unless the caller has given up."""
        with self._lock:
            if not self._is_abandoned:
                self._task = start_task()

    def abandon(self) -> None:
        """Cancel what the caller no longer waits for, and wait until it has ended, or never let it begin."""
        with self._lock:
            self._is_abandoned = True
        if self._task is not None:
            with _helper_thread() as helper:
                helper.submit(self._task.cancel)
            wait([self.answer])


def _run_ended() -> NighthawkError:
    return NighthawkError("The run has ended; call its synchronous natural functions before leaving it.")


def _set_depth(depth: int) -> None:
    _thread.depth = depth


def _helper_thread() -> ThreadPoolExecutor:
    """A thread that speaks to portals.

    Trio refuses to be spoken to from a thread that runs a loop itself, and Ctrl-C reaches the main thread
    only, so what is done here is done whole.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="nighthawk-async caller")
