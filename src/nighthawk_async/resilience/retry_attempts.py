"""The attempts of one call, or of one loop, carried out by tenacity.

Tenacity is imported when a function needs it: it is not small, and not every program tries again.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..lazy_exports import LazyModule
from ..policies.attempts.error_notes import note_earlier_errors
from ..policies.attempts.retry_policy import RetryPolicy
from ..runtime.awaitable import is_awaitable
from ..runtime.error_text import describe_error
from ..runtime.retry_report import RetryScheduled, report_retry, report_retry_async
from .waiting import raise_if_ending, raise_if_ending_async, sleep_from_sync, sleep_unless_ending

if TYPE_CHECKING:
    import tenacity
else:
    tenacity = LazyModule("tenacity")

__all__ = ["Attempt", "Attempts", "is_tenacity_wait", "tenacity_wait"]

Result = TypeVar("Result")


class Attempts:
    """The attempts at one thing. Used once.

    Args:
        policy: When to try again.
        name: What is tried, for whoever is told.
        on_retry: Is told before each wait.
    """

    def __init__(
        self, policy: RetryPolicy, name: str, on_retry: Callable[[RetryScheduled], object] | None
    ) -> None:
        self._policy = policy
        self._name = name
        self._on_retry = on_retry
        self._waits: list[float] = []
        self._earlier: list[str] = []  # texts, because errors would keep everything around them alive
        self._next: RetryScheduled | None = None

    def call(self, function: Callable[[], Result]) -> Result:
        """Call until it succeeds, or fails for good."""
        try:
            return self._controller()(function)
        except Exception as error:
            self.note(error)
            raise

    async def call_async(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Call until it succeeds, or fails for good."""

        async def call() -> Result:
            return await function()

        try:
            return cast("Result", await self._async_controller()(call))
        except Exception as error:
            self.note(error)
            raise

    def attempts(self) -> Iterator["Attempt"]:
        """The attempts; waits between them."""
        for manager in self._controller():
            attempt = Attempt(self, manager)
            yield attempt
            attempt.check()

    def attempts_async(self) -> AsyncIterator["Attempt"]:
        """The attempts; waits between them."""
        return _AsyncIterator(self, self._async_controller())

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there is none. Decides once on each attempt.

        Args:
            error: Why the attempt failed.
            attempt: Which attempt it was, from 1.
        """
        if self._next is None or self._next.attempt != attempt:
            wait = self._policy.wait_after(error, attempt)
            if wait is None:
                return None
            self._next = RetryScheduled(
                name=self._name, attempt=attempt, error=cast("Exception", error), wait_seconds=wait
            )
        return self._next.wait_seconds

    def note(self, error: BaseException) -> None:
        """Tell on the last error of the attempts before.

        Args:
            error: The error.
        """
        if self._waits:
            waits = ", ".join(f"{wait:.3g}" for wait in self._waits)
            title = f"{len(self._waits) + 1} attempts at {self._name}, with waits of {waits} seconds"
            note_earlier_errors(error, title, self._earlier)

    def _controller(self) -> "tenacity.Retrying":
        return tenacity.Retrying(
            sleep=self._sleep_here,
            retry=self._is_next,
            wait=self._wait,
            before_sleep=self._report_here,
        )

    def _async_controller(self) -> "tenacity.AsyncRetrying":
        return tenacity.AsyncRetrying(
            sleep=self._sleep, retry=self._is_next, wait=self._wait, before_sleep=self._report_async
        )

    def _is_next(self, state: "tenacity.RetryCallState") -> bool:
        error = None if state.outcome is None else state.outcome.exception()
        return error is not None and self.wait_after(error, state.attempt_number) is not None

    def _wait(self, state: "tenacity.RetryCallState") -> float:
        return 0.0 if self._next is None else self._next.wait_seconds

    def _report_here(self, state: "tenacity.RetryCallState") -> None:
        with _raising_from(self._next):
            raise_if_ending()
        retry = self._remembered()
        report_retry(retry)
        if self._on_retry is not None:
            self._on_retry(retry)

    async def _report_async(self, state: "tenacity.RetryCallState") -> None:
        with _raising_from(self._next):
            await raise_if_ending_async()
        retry = self._remembered()
        await report_retry_async(retry)
        answer = None if self._on_retry is None else self._on_retry(retry)
        if is_awaitable(answer):
            await answer

    def _sleep_here(self, seconds: float) -> None:
        with _raising_from(self._next):
            sleep_from_sync(seconds)

    async def _sleep(self, seconds: float) -> None:
        with _raising_from(self._next):
            await sleep_unless_ending(seconds)

    def _remembered(self) -> RetryScheduled:
        retry = cast("RetryScheduled", self._next)
        self._waits.append(retry.wait_seconds)
        self._earlier.append(describe_error(retry.error))
        return retry


class Attempt:
    """One attempt. What fails inside `with attempt:` is tried again, or raised.

    Args:
        attempts: The attempts it is one of.
        manager: Tenacity's own.
    """

    __slots__ = ("_attempts", "_is_entered", "_manager")

    def __init__(self, attempts: Attempts, manager: "tenacity.AttemptManager") -> None:
        self._attempts = attempts
        self._manager = manager
        self._is_entered = False

    @property
    def number(self) -> int:
        """The number of the attempt, from 1."""
        return self._manager.retry_state.attempt_number

    def __enter__(self) -> "Attempt":
        self._is_entered = True
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if exc is not None and self._attempts.wait_after(exc, self.number) is None:
            self._attempts.note(exc)
            return False
        return bool(self._manager.__exit__(exc_type, exc, traceback))

    def check(self) -> None:
        """Refuse to go on when it was not entered: it would be the first of endless attempts.

        Raises:
            RuntimeError: It was not entered.
        """
        if not self._is_entered:
            raise RuntimeError("put what is to be tried again inside `with attempt:`")


class _AsyncIterator(AsyncIterator[Attempt]):
    def __init__(self, attempts: Attempts, controller: "tenacity.AsyncRetrying") -> None:
        self._attempts = attempts
        self._managers = aiter(controller)
        self._attempt: Attempt | None = None

    async def __anext__(self) -> Attempt:
        if self._attempt is not None:
            self._attempt.check()
        self._attempt = Attempt(self._attempts, await anext(self._managers))
        return self._attempt


@contextmanager
def _raising_from(retry: RetryScheduled | None) -> Generator[None, None, None]:
    """Raise the error that ends the attempts, with the error of the last one as its cause."""
    try:
        yield
    except Exception as error:
        raise error from (None if retry is None else retry.error)


def is_tenacity_wait(wait: object) -> bool:
    """Whether an object is one of `tenacity.wait`; none is when nobody has imported tenacity.

    Args:
        wait: Any object.
    """
    module = sys.modules.get("tenacity.wait")
    return module is not None and isinstance(wait, module.wait_base)


def tenacity_wait(wait: Any) -> Callable[[int, Exception], float]:
    """An object of `tenacity.wait` as a function of an attempt's number and its error.

    Args:
        wait: The object.
    """

    def seconds(attempt: int, error: Exception) -> float:
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(error), error, error.__traceback__))
        return float(wait(state))

    return seconds
