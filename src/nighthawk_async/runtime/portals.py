"""Threads with an event loop of their own, for synchronous natural functions."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Generic, TypeVar, TypeVarTuple

from anyio import CancelScope, RunFinishedError, from_thread, get_cancelled_exc_class
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import EventLoopToken, current_token

from ..errors import NestedStepLimitError, NighthawkError
from ..parallel.event_loop import is_loop_thread
from ..threads import wait_interruptibly

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_thread = threading.local()

LOOP_SUBSTITUTE: ContextVar[Callable[[Callable[[], bool]], None] | None] = ContextVar(
    "nighthawk_async_loop_substitute", default=None
)
"""Does what a blocked event loop has to do for the steps that it waits for, until a condition holds."""

_MOST_PORTALS = 64
"""The greatest number of nested synchronous functions: each holds a thread and an event loop."""


def portal_depth() -> int:
    """Return the number of portals that wait for the current thread; 0 outside portal threads."""
    return getattr(_thread, "depth", 0)


class PortalPool:
    """Portal threads of one run, started on first use.

    A thread that waits for a step cannot run its own loop meanwhile. So a synchronous natural function
    called on portal n runs on portal n + 1; everything else shares the first one.

    Args:
        backend: The AnyIO backend of the threads.
        resources: Returns the context manager that each portal's loop holds open while it runs.
    """

    def __init__(self, *, backend: str, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._backend = backend
        self._resources = resources
        self._portals: list[_Portal] = []
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_started(self) -> bool:
        """Whether a portal thread is running."""
        return bool(self._portals)

    def call(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on a portal and wait for it.

        The current context variables flow in. If the wait is interrupted, by Ctrl-C for example, the
        function is cancelled and awaited.

        Raises:
            NighthawkError: The pool is closed, or was closed meanwhile.
            NestedStepLimitError: Too many portals wait for each other.
        """
        portal = self._find_portal(portal_depth())
        call = _Call[Result]()
        try:
            portal.start(call.deliver, function, *args)
            serve = LOOP_SUBSTITUTE.get()
            if serve is not None and is_loop_thread() and portal_depth() == 0:
                serve(call.answer.done)
            return wait_interruptibly(call.answer)
        finally:
            if not call.answer.done():
                call.abandon(portal.token)

    def close(self) -> None:
        """Cancel what is in progress, stop every portal thread and wait for it. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            if not self._portals:
                return
            self._portals.clear()
            stack = self._stack.pop_all()
        # Not under the lock: a call in progress may need it for a nested call before it ends.
        with _helper_thread() as helper:
            helper.submit(stack.close).result()

    def _find_portal(self, depth: int) -> "_Portal":
        if depth >= _MOST_PORTALS:
            raise NestedStepLimitError(
                f"{depth} synchronous natural functions wait for each other, each on an event loop of its "
                "own, which is the limit; make them `async def`"
            )
        if len(self._portals) <= depth:
            with _helper_thread() as helper:
                helper.submit(self._start_portals, depth).result()
        try:
            return self._portals[depth]
        except IndexError:  # closed meanwhile
            raise _run_ended() from None

    def _start_portals(self, depth: int) -> None:
        with self._lock:
            while len(self._portals) <= depth and not self._is_closed:
                self._portals.append(self._start_portal(len(self._portals)))

    def _start_portal(self, depth: int) -> "_Portal":
        with ExitStack() as stack:
            name = f"nighthawk-async portal {depth}"
            portal = stack.enter_context(start_blocking_portal(self._backend, name=name))
            stack.callback(portal.call, portal.stop, True)
            token = portal.call(_enter_portal_thread, depth + 1)
            stack.enter_context(portal.wrap_async_context_manager(self._resources()))
            self._stack.push(stack.pop_all())
        return _Portal(portal, token)


class _Portal:
    """One portal thread, and its event loop."""

    __slots__ = ("_portal", "token")

    def __init__(self, portal: BlockingPortal, token: EventLoopToken) -> None:
        self._portal = portal
        self.token = token

    def start(self, function: Callable[[*Arguments], Awaitable[None]], *args: *Arguments) -> None:
        """Start a task with the current context variables."""
        try:
            if is_loop_thread():
                start = partial(self._portal.start_task_soon, function, *args)
                with _helper_thread() as helper:
                    helper.submit(copy_context().run, start).result()
            else:  # a helper thread would cost more than many steps do
                self._portal.start_task_soon(function, *args)
        except RuntimeError as error:  # the pool and its portal were closed meanwhile
            raise _run_ended() from error


class _Call(Generic[Result]):
    """A call on its way to a portal.

    Ctrl-C may interrupt its caller anywhere, even where the caller cannot know yet whether it has begun. The
    portal's event loop knows: it runs callbacks in the order in which they are sent.
    """

    __slots__ = ("_is_abandoned", "_scope", "answer")

    def __init__(self) -> None:
        self.answer: Future[Result] = Future()
        self._scope: CancelScope | None = None
        self._is_abandoned = False

    async def deliver(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> None:
        """Run a function and deliver its result or error, even SystemExit, which must not end the portal."""
        if self._is_abandoned:
            return
        with CancelScope() as self._scope:
            try:
                self.answer.set_result(await function(*args))
            except get_cancelled_exc_class():
                self.answer.set_exception(_run_ended())
                raise
            except BaseException as error:
                self.answer.set_exception(error)

    def abandon(self, token: EventLoopToken) -> None:
        """Cancel the function, if it has begun, and wait until it has ended; otherwise never let it begin."""
        with _helper_thread() as helper, suppress(RunFinishedError):
            helper.submit(partial(from_thread.run_sync, self._cancel, token=token)).result()
            wait([self.answer])

    def _cancel(self) -> None:
        self._is_abandoned = True
        if self._scope is not None:
            self._scope.cancel()
        elif not self.answer.done():
            self.answer.set_exception(_run_ended())


def _run_ended() -> NighthawkError:
    return NighthawkError("The run has ended; call its synchronous natural functions before leaving it.")


def _enter_portal_thread(depth: int) -> EventLoopToken:
    _thread.depth = depth
    return current_token()


def _helper_thread() -> ThreadPoolExecutor:
    """A thread that calls portals.

    Trio refuses calls from a thread that runs a loop itself. Ctrl-C reaches only the main thread, so work in
    this thread is never interrupted half way.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="nighthawk-async caller")
