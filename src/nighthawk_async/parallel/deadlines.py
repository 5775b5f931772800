"""A time limit for a block or a function, on an event loop or in a thread.

On an event loop a deadline is a cancel scope, so it reaches everything that the block waits for: tools, child
steps, functions bridged from worker threads. In a thread nothing can interrupt the code itself: there a
deadline reaches calls that go to an event loop through `under_thread_deadlines`, as synchronous natural
functions do and `anyio.from_thread.run` does not, and is checked at the end of the block.
"""

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import partial, wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

import anyio
from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import checkpoint

from .calling import checked_seconds, is_async_callable
from .decided_limits import DecidedLimit, begin_decided_limit, call_on, shorten_scope
from .errors import DeadlineExceededError
from .event_loop import Clock, EventLoop, is_loop_thread

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_BLOCKING = "what blocks its event loop"

# Set in threads alone, where no event loop knows the deadline; a call to a loop empties it.
_in_thread: ContextVar[tuple["Deadline", ...]] = ContextVar("nighthawk_async_thread_deadlines", default=())


def deadline(seconds: float, *, name: str | None = None) -> "Deadline":
    """Limit the time of a block or of each call of a function.

        async with nh.deadline(30):      # `with` does the same
            report = await write_report()

        @nh.deadline(30)
        async def write_report() -> str: ...

    Work that is still running is cancelled, and work that ends later than that without having noticed counts
    as late too, whatever it returned or raised. So no handler inside can swallow the deadline: neither one
    for every exception, nor one of a shorter deadline inside. Only a cancellation of an enclosing scope takes
    precedence.

    Code in a thread cannot be interrupted. A block that is entered in a thread limits the synchronous natural
    functions that are called in it, and is checked at its end. Calls that the thread itself sends to an event
    loop are limited on request: `anyio.from_thread.run(parallel.under_thread_deadlines(function))`.

    In a run with a journal, the time counts over all lives, and a deadline that was exceeded in one life is
    exceeded in the later ones, at the same point.

    Args:
        seconds: The limit, in seconds from entering the block or from the call. For a function that returns
            an awaitable, the call and the await share it.
        name: The name of the limited work in the error message; None for that of a decorated function.

    Returns:
        A context manager for one block, and a decorator for any number of functions.

    Raises:
        InvalidLimitError: It is not a number of seconds, or negative.
        DeadlineExceededError: Raised at the end of the block: the work did not end in time. A `TimeoutError`.
    """
    return Deadline(checked_seconds(seconds), name)


class Deadline:
    """A time limit for one block, or for each call of a function. Made by `deadline`.

    Args:
        seconds: The limit, in seconds.
        name: The name of the limited work.
        left_seconds: The time left when the block begins; None for all of it.
        place: The place in a run with a journal; None for the next one.
    """

    __slots__ = (
        "_clock",
        "_decided",
        "_expires_at",
        "_handed_over",
        "_left_seconds",
        "_loop",
        "_place",
        "_scope",
        "_token",
        "name",
        "seconds",
    )

    def __init__(
        self,
        seconds: float,
        name: str | None = None,
        *,
        left_seconds: float | None = None,
        place: str | None = None,
    ) -> None:
        self.seconds = seconds
        self.name = name
        self._clock: Clock | None = None
        self._expires_at = 0.0
        self._left_seconds = seconds if left_seconds is None else left_seconds
        self._scope: anyio.CancelScope | None = None
        self._token: Token[tuple[Deadline, ...]] | None = None
        self._place = place
        self._decided: DecidedLimit | None = None
        self._loop: EventLoop | None = None
        self._handed_over: dict[anyio.CancelScope, EventLoop] = {}  # of calls that its thread sent to loops

    def __repr__(self) -> str:
        return (
            f"deadline({self.seconds:g})" if self.name is None else f"deadline({self.seconds:g}, {self.name})"
        )

    @property
    def remaining_seconds(self) -> float:
        """The remaining time, in seconds; negative when late, the full limit before the block begins.

        For a block on an event loop it can be read there and in any thread that belongs to no other loop. In
        a thread the event loop answers, so the loop must be running: it never answers while it waits for that
        thread with a blocking call (`thread.join()`, `future.result()`).

        Raises:
            RuntimeError: It is read in a thread of another event loop.
        """
        return self._left_seconds if self._clock is None else self._expires_at - self._clock.now()

    @property
    def is_at_hand(self) -> bool:
        """Whether `remaining_seconds` is known here without asking another thread."""
        return self._clock is not None and self._clock.is_at_hand

    def check(self) -> None:
        """Raise when the time is over. For code in a thread, which cannot be interrupted.

        In a worker thread it also ends a thread whose caller on the event loop was cancelled, with the
        cancellation that `anyio.from_thread.check_cancelled` raises. The loop must be running, as for
        `remaining_seconds`.

        Raises:
            DeadlineExceededError: The time is over.
            RuntimeError: It is called in a thread of another event loop.
        """
        if self.remaining_seconds <= 0:
            raise self._error()
        with suppress(NoEventLoopError):  # not in a worker thread
            from_thread.check_cancelled()

    def __enter__(self) -> "Deadline":
        if self._clock is not None:
            raise RuntimeError("a deadline is for one block; make a new one for the next")
        self._clock = Clock()
        self._expires_at = self._clock.now() + self._left_seconds
        self._decided = begin_decided_limit(self, kind="deadline", place=self._place)
        if self._decided is not None and self._clock.is_of_loop_thread:
            self._loop = EventLoop()
        if self._clock.is_of_loop_thread:
            self._scope = anyio.CancelScope(deadline=self._expires_at)
            self._scope.__enter__()
        else:
            self._token = _in_thread.set((*_in_thread.get(), self))
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        decided = self._decided
        if decided is None:
            self._leave(error_type, error, traceback)
            return
        decided.leave()
        if decided.expires:
            self._expires_at = -math.inf
        try:
            self._leave(error_type, error, traceback)
        except DeadlineExceededError as raised:
            decided.end(raised, has_expired=raised is not error)
            raise
        except BaseException as raised:
            decided.end(raised, has_expired=False)
            raise
        decided.end(error, has_expired=False)

    def _leave(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._scope is not None:
                self._scope.__exit__(error_type, error, traceback)
            elif self._token is not None:
                _in_thread.reset(self._token)
        except Exception as remainder:  # a group without the cancellations that were the scope's own
            if self.remaining_seconds > 0:
                raise
            raise self._error() from remainder
        if self._scope is not None and self._scope.cancelled_caught:
            raise self._error() from None
        if self.remaining_seconds <= 0 and (error is None or isinstance(error, Exception)):
            raise self._error()

    async def __aenter__(self) -> "Deadline":
        return self.__enter__()

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(error_type, error, traceback)

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Limit the time of each call of a function.

        Raises:
            TypeError: The function is a generator: it would yield values from within the limit.
        """
        name = self.name or getattr(function, "__qualname__", None)
        # Both functions look into partial objects, which have no name of their own.
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{name or function!r} is a generator; put the deadline around what consumes it")
        if is_async_callable(function):
            return cast("Callable[Parameters, Result]", _limited_async(function, self.seconds, name))
        return _limited(function, self.seconds, name)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over; False where only another thread knows. Internal."""
        return self.is_at_hand and self.remaining_seconds <= 0

    def expire(self) -> None:
        """End its time now. Internal."""
        self._expires_at = -math.inf
        if self._scope is not None:
            call_on(self._loop, self._scope.cancel)
        for scope, loop in tuple(self._handed_over.items()):
            call_on(loop, scope.cancel)

    def expire_in_thread(self) -> None:
        """End its time because a call has used it up that its thread has sent to an event loop. Internal."""
        if self._decided is not None:
            self._expires_at = -math.inf

    @contextmanager
    def reaching(self, scope: anyio.CancelScope) -> Generator[None, None, None]:
        """Let `expire` cancel a call that its thread has sent to an event loop. Internal."""
        if self._decided is None:
            yield
            return
        self._handed_over[scope] = EventLoop()
        try:
            yield
        finally:
            del self._handed_over[scope]

    def shorten(self, seconds: float) -> None:
        """Leave it so many seconds less than at its beginning. Internal."""
        left = self._left_seconds - seconds
        if left <= 0:
            self.expire()
        else:
            call_on(self._loop, lambda: self._shorten(left))

    def _shorten(self, left_seconds: float) -> None:
        assert self._clock is not None
        self._expires_at = min(self._expires_at, self._clock.now() + left_seconds)
        if self._scope is not None:
            shorten_scope(self._scope, left_seconds)

    def _error(self) -> DeadlineExceededError:
        return DeadlineExceededError(self.seconds, self.name)


def find_deadline_error() -> DeadlineExceededError | None:
    """Return the error to raise because the caller's time is over; None when it is not.

    For code that calls functions one after the other. In a thread, which cannot be interrupted, the outermost
    expired deadline counts, and the loop must be running, as for `Deadline.remaining_seconds`. On the thread
    of a running loop all of the caller's cancel scopes count, because a loop that was blocked by a call
    cancels only afterwards.
    """
    if is_loop_thread():
        return DeadlineExceededError(0.0, _BLOCKING) if _seconds_left_on_loop() <= 0 else None
    late = next((limit for limit in _in_thread.get() if limit.remaining_seconds <= 0), None)
    return None if late is None else DeadlineExceededError(late.seconds, late.name)


def under_thread_deadlines(
    function: Callable[..., Awaitable[Result]],
) -> Callable[..., Awaitable[Result]]:
    """Return an async function that runs on an event loop within the deadlines of the current thread.

    For code that passes calls from threads to event loops. On the thread of a running loop all of the
    caller's cancel scopes count, because a blocked loop cannot cancel. In a worker thread whose caller was
    cancelled the function is cancelled, too, even if the thread calls it only afterwards.

    Args:
        function: The async function.

    Returns:
        The function to run in its place, with the same arguments.
    """
    if is_loop_thread():
        seconds = _seconds_left_on_loop()
        if math.isinf(seconds) and seconds > 0:
            return function
        return partial(_within, _HandedOver(Deadline(max(seconds, 0.0), _BLOCKING)), function)
    function = partial(_reached_by_cancellation, function)
    limits = _in_thread.get()
    if not limits:
        return function
    return partial(_within, _HandedOver(min(limits, key=_remaining_seconds)), function)


async def _reached_by_cancellation(function: Callable[..., Awaitable[Result]], *args: object) -> Result:
    if _seconds_left_on_loop() == -math.inf:  # cancelled before this started: asyncio would not report it
        with anyio.CancelScope() as scope:
            scope.cancel()
            await checkpoint()
    return await function(*args)


class _HandedOver:
    """A deadline on its way from a thread to an event loop, which may take long to receive it."""

    __slots__ = ("_at", "_left_seconds", "limit")

    def __init__(self, limit: Deadline) -> None:
        self.limit = limit
        self._left_seconds = limit.remaining_seconds
        self._at = time.monotonic()

    def left_seconds(self) -> float:
        """The time that is left when it arrives, in seconds."""
        if self.limit.is_at_hand:
            return self.limit.remaining_seconds
        return self._left_seconds - (time.monotonic() - self._at)


async def _within(limit: _HandedOver, function: Callable[..., Awaitable[Result]], *args: object) -> Result:
    token = _in_thread.set(())  # the scope reaches everything below
    try:
        with anyio.move_on_after(max(limit.left_seconds(), 0.0)) as scope, limit.limit.reaching(scope):
            return await function(*args)
    finally:
        _in_thread.reset(token)
    limit.limit.expire_in_thread()
    raise DeadlineExceededError(limit.limit.seconds, limit.limit.name)


def _limited_async(
    function: Callable[..., Any], seconds: float, name: str | None
) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with Deadline(seconds, name):
            return await function(*args, **kwargs)

    return call


def _limited(
    function: Callable[Parameters, Result], seconds: float, name: str | None
) -> Callable[Parameters, Result]:
    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        result: Result | None = None
        try:
            with Deadline(seconds, name) as limit:
                result = function(*args, **kwargs)
        except DeadlineExceededError:
            if isinstance(result, Coroutine):
                result.close()  # avoids a "never awaited" warning
            raise
        if not inspect.isawaitable(result):
            return result
        rest = Deadline(seconds, name, left_seconds=limit.remaining_seconds)
        return cast("Result", _await_within(result, rest))

    return call


async def _await_within(awaitable: Awaitable[Result], limit: Deadline) -> Result:
    with limit:
        return await awaitable


def _remaining_seconds(limit: Deadline) -> float:
    return limit.remaining_seconds


def _seconds_left_on_loop() -> float:
    """Return the seconds left by the caller's cancel scopes; minus infinity if one was cancelled."""
    return anyio.current_effective_deadline() - anyio.current_time()
