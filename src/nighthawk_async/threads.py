"""Calling synchronous functions in worker threads, so that a cancellation reaches what they begin.

A thread cannot be interrupted, but the calls that it sends to its event loop with `anyio.from_thread.run` can
be. On Trio such a call runs in the task of the caller and is cancelled with it, whenever it arrives. On
asyncio, AnyIO runs it in a task of its own and cancels those that exist at the moment of the caller's
cancellation: a call that arrives a moment later would never be cancelled.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from anyio import CapacityLimiter, from_thread, get_cancelled_exc_class
from anyio.lowlevel import RunVar

from .executions import find_execution_in_progress

Arguments = TypeVarTuple("Arguments")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_SECONDS_BETWEEN_CANCELLATIONS = 0.01
"""The seconds for which a call that a thread sends to its loop after the caller's cancellation may run."""

_SECONDS_UNNOTICED = 0.5
"""The seconds for which a signal may stay unnoticed by a waiting thread."""

_limiters: RunVar[dict[int, CapacityLimiter]] = RunVar("nighthawk_async_threads_of_levels")


def thread_limiter() -> CapacityLimiter | None:
    """Return the limiter of the caller's worker threads; None for AnyIO's default of 40 per event loop.

    Threads that wait for steps which need threads themselves could exhaust the limiter and deadlock. So each
    level of nested steps has a limiter of its own, and threads of one level wait only for deeper ones.
    """
    execution = find_execution_in_progress()
    if execution is None:
        return None
    depth = execution.depth
    limiters = _limiters.get(None)
    if limiters is None:
        limiters = dict[int, CapacityLimiter]()
        _limiters.set(limiters)
    if depth not in limiters:
        threads = anyio.to_thread.current_default_thread_limiter().total_tokens
        limiters[depth] = CapacityLimiter(threads)
    return limiters[depth]


async def call_in_thread(
    function: Callable[[*Arguments], Result], *args: *Arguments, limiter: CapacityLimiter | None = None
) -> Result:
    """Call a synchronous function in a worker thread, and wait until it has returned.

    The context variables of the caller flow in. When the caller is cancelled before the thread has begun, the
    function is not called. When the caller is cancelled later, this waits for the function and cancels its
    calls through `anyio.from_thread`, whether they reached the loop before the cancellation or after it. The
    function's result or exception then takes precedence over the cancellation.

    Args:
        function: The function.
        args: Its arguments.
        limiter: Bounds the worker threads; None for that of `thread_limiter`.

    Raises:
        BaseException: The exception that the function raised.
    """
    limiter = limiter or thread_limiter()
    if get_cancelled_exc_class().__module__.startswith("trio"):
        return (await anyio.to_thread.run_sync(_begin, function, args, limiter=limiter))[0]
    values: list[Result] = []
    failures: list[BaseException] = []
    has_returned = anyio.Event()
    try:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(_cancel_late_comers, has_returned)
            try:
                values.extend(await anyio.to_thread.run_sync(_begin, function, args, limiter=limiter))
            except get_cancelled_exc_class():
                raise
            except BaseException as error:  # re-raised as it is, and not in a group
                failures.append(error)
            finally:
                has_returned.set()
    except get_cancelled_exc_class():
        if not values and not failures:
            raise
    try:
        if failures:
            raise failures[0]
    finally:
        failures.clear()  # the traceback of an error refers to these
    return values[0]


def restart_cancellation() -> None:
    """Have the cancellation of a scope that encloses the caller, if any, look for tasks again.

    On asyncio it stops looking when every task in the scope has ended or is shielded.
    """
    with anyio.CancelScope():  # noqa: ASYNC100  (nothing is to be cancelled in it)
        pass  # leaving the scope does that


def _begin(function: Callable[[*Arguments], Result], args: tuple[*Arguments]) -> tuple[Result]:
    # In a tuple, because Trio treats a thread that returns a coroutine as a mistake.
    from_thread.check_cancelled()
    return (function(*args),)


async def _cancel_late_comers(has_returned: anyio.Event) -> None:
    """Once the caller of a thread is cancelled, cancel the calls that the thread then sends to the loop."""
    try:
        await has_returned.wait()
    except get_cancelled_exc_class():
        while not has_returned.is_set():
            with anyio.move_on_after(_SECONDS_BETWEEN_CANCELLATIONS, shield=True):
                await has_returned.wait()
            restart_cancellation()
        raise


def wait_interruptibly(future: "Future[Result]") -> Result:
    """Block the present thread until a future is done, and return its result.

    Python runs signal handlers in the main thread, and does not wake it when a signal arrives right before it
    begins to wait, or arrives in another thread: Ctrl-C would be noticed only after the result. So the main
    thread waits in pieces.

    Args:
        future: The future.

    Raises:
        BaseException: The error of the future, or that of a signal handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    while is_main and not future.done():
        with suppress(TimeoutError):
            future.exception(timeout=_SECONDS_UNNOTICED)
    return future.result()


class BlockingCall(Generic[Result]):
    """A call that will run in a worker thread. Await it, or pass it to a step as the value."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, Result]:
        return call_in_thread(self._call).__await__()


def blocking(function: Callable[Parameters, Result]) -> Callable[Parameters, BlockingCall[Result]]:
    """Make a synchronous function run in a worker thread when a block calls it.

    A block's synchronous binding functions run on the event loop, where a slow one blocks every
    other step. The wrapped function keeps its signature and docstring. Unlike other awaitables, its calls
    also work in synchronous natural functions.

    Args:
        function: The synchronous function.

    Raises:
        TypeError: The function is `async def`; it needs no thread.
    """
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} is async and needs no thread; pass it as it is")

    @functools.wraps(function)
    def call_later(*args: Parameters.args, **kwargs: Parameters.kwargs) -> BlockingCall[Result]:
        return BlockingCall(functools.partial(function, *args, **kwargs))

    vars(call_later)["__nighthawk_async_call__"] = True  # so that prompts show it as `async`
    return call_later
