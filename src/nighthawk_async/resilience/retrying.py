"""`retrying`: call a function again when it fails.

`policies.attempts.resilience` decides whether and when to retry; tenacity runs the attempts of a call or a
loop. Tenacity is imported when the first function needs it: it is not small, and not every program retries.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, Union, cast, overload

from ..causes import leaves_of
from ..kernel.calls import skips_waits
from ..kernel.commands import is_awaitable
from ..kernel.events import RetryScheduled, report_retry, report_retry_async
from ..lazy_exports import LazyModule
from ..parallel import is_async_callable
from ..policies.attempts.resilience import (
    ExponentialWait,
    RetryPolicy,
    asked_wait_seconds,
    note_earlier_errors,
)
from ..policies.attempts.samples import using_sample
from ..values.error_text import describe_error
from .errors import CircuitOpenError
from .transforming import (
    Call,
    Errors,
    Transformer,
    checked_callable,
    checked_count,
    checked_errors,
    checked_seconds,
    function_name,
)
from .waiting import raise_if_ending, raise_if_ending_async, sleep_from_sync, sleep_unless_ending

if TYPE_CHECKING:
    import tenacity
else:
    tenacity = LazyModule("tenacity")

Result = TypeVar("Result")


class Attempts:
    """The attempts of one call or loop. Used once.

    Args:
        policy: The retry policy.
        name: The name of the work in reports.
        on_retry: Called before each wait.
    """

    def __init__(
        self, policy: RetryPolicy, name: str, on_retry: Callable[[RetryScheduled], object] | None
    ) -> None:
        self._policy = policy
        self._name = name
        self._on_retry = on_retry
        self._waits: list[float] = []
        self._earlier: list[str] = []  # texts, because errors would keep their frames alive
        self._next: RetryScheduled | None = None

    def call(self, function: Callable[[], Result]) -> Result:
        """Call the function until it succeeds or is not retried any more."""
        numbers = count()

        def call() -> Result:
            with using_sample(next(numbers)):
                return function()

        try:
            return self._controller()(call)
        except Exception as error:
            self.note(error)
            raise

    async def call_async(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Call the function until it succeeds or is not retried any more."""
        numbers = count()

        async def call() -> Result:
            with using_sample(next(numbers)):
                return await function()

        try:
            return cast("Result", await self._async_controller()(call))
        except Exception as error:
            self.note(error)
            raise

    def attempts(self) -> Iterator["Attempt"]:
        """Yield the attempts, waiting between them."""
        for manager in self._controller():
            attempt = Attempt(self, manager)
            yield attempt
            attempt.check()

    def attempts_async(self) -> AsyncIterator["Attempt"]:
        """Yield the attempts, waiting between them."""
        return _AsyncIterator(self, self._async_controller())

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Return the seconds until the next attempt; None to stop. Decides once for each attempt.

        Args:
            error: The error of the attempt.
            attempt: The number of the attempt, from 1.
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
        """Add a note about the earlier attempts to the last error.

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
            sleep_from_sync(0.0 if skips_waits() else seconds)

    async def _sleep(self, seconds: float) -> None:
        with _raising_from(self._next):
            await sleep_unless_ending(0.0 if skips_waits() else seconds)

    def _remembered(self) -> RetryScheduled:
        retry = cast("RetryScheduled", self._next)
        self._waits.append(retry.wait_seconds)
        self._earlier.append(describe_error(retry.error))
        return retry


class Attempt:
    """One attempt. An error inside `with attempt:` leads to another attempt, or is raised.

    Args:
        attempts: The attempts that this one belongs to.
        manager: Tenacity's manager of the attempt.
    """

    __slots__ = ("_attempts", "_is_entered", "_manager", "_sample")

    def __init__(self, attempts: Attempts, manager: "tenacity.AttemptManager") -> None:
        self._attempts = attempts
        self._manager = manager
        self._is_entered = False
        self._sample = using_sample(self.number - 1)

    @property
    def number(self) -> int:
        """The number of the attempt, from 1."""
        return self._manager.retry_state.attempt_number

    def __enter__(self) -> "Attempt":
        self._is_entered = True
        self._sample.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._sample.__exit__()
        if exc is not None and self._attempts.wait_after(exc, self.number) is None:
            self._attempts.note(exc)
            return False
        return bool(self._manager.__exit__(exc_type, exc, traceback))

    def check(self) -> None:
        """Refuse to go on when the attempt was not entered: the loop would never end.

        Raises:
            RuntimeError: The attempt was not entered.
        """
        if not self._is_entered:
            raise RuntimeError("put the code to retry inside `with attempt:`")


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
    """Raise the error that ends the attempts, with the error of the last attempt as its cause."""
    try:
        yield
    except Exception as error:
        raise error from (None if retry is None else retry.error)


def is_tenacity_wait(wait: object) -> bool:
    """Whether an object comes from `tenacity.wait`; always False when tenacity was not imported.

    Args:
        wait: Any object.
    """
    module = sys.modules.get("tenacity.wait")
    return module is not None and isinstance(wait, module.wait_base)


def tenacity_wait(wait: Any) -> Callable[[int, Exception], float]:
    """Turn an object of `tenacity.wait` into a function of an attempt's number and its error.

    Args:
        wait: The object.
    """

    def seconds(attempt: int, error: Exception) -> float:
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(error), error, error.__traceback__))
        return float(wait(state))

    return seconds


if TYPE_CHECKING:
    import tenacity.wait as tenacity_waits
else:
    tenacity_waits = LazyModule("tenacity.wait")

Parameters = ParamSpec("Parameters")

Wait: TypeAlias = Union[float, Callable[[int, Exception], float], "tenacity_waits.wait_base"]
"""Seconds, a function of the attempt's number and its error, or an object of `tenacity.wait`."""

OnRetry: TypeAlias = Callable[[RetryScheduled], object]


@overload
def retrying(
    function: Callable[Parameters, Result],
    /,
    *,
    attempts: int = 3,
    on: Errors | None = None,
    retry_if: Callable[[Exception], bool] | None = None,
    wait: Wait | None = None,
    on_retry: OnRetry | None = None,
    max_retry_after: float = 300.0,
) -> Callable[Parameters, Result]: ...


@overload
def retrying(
    *,
    attempts: int = 3,
    on: Errors | None = None,
    retry_if: Callable[[Exception], bool] | None = None,
    wait: Wait | None = None,
    on_retry: OnRetry | None = None,
    max_retry_after: float = 300.0,
) -> "Retrying": ...


def retrying(
    function: Callable[..., Any] | None = None,
    /,
    *,
    attempts: int = 3,
    on: Errors | None = None,
    retry_if: Callable[[Exception], bool] | None = None,
    wait: Wait | None = None,
    on_retry: OnRetry | None = None,
    max_retry_after: float = 300.0,
) -> Any:
    """Call a function again when it fails.

        steady = retrying(summarize, attempts=5)

        @retrying(on=OSError, wait=0.5)
        def read() -> str: ...

        async for attempt in retrying():      # `for` in synchronous code
            with attempt:
                summary = await summarize(text)

    Cancellations, `BudgetExceededError`, `StepAbortedError`, `StepRejectedError`, `HookError`, `HumanError`
    and errors caused by any of these are never retried; nor is a `RefusalError`, unless `on` names it. The
    last error is raised unchanged; after more than one attempt, a note on it lists the earlier errors.

    Args:
        function: The function; None returns a decorator that can also be iterated over.
        attempts: The total number of attempts.
        on: The errors to retry: by default `ExecutionError`, including limits of steps, and transient model
            errors (`ModelError.is_transient`). An exception group counts when all its errors do.
        retry_if: A predicate that must also return true, when given.
        wait: The wait: seconds, a function of the number of the attempt that failed and its error, or
            an object of `tenacity.wait`. By default `ExponentialWait()`. When the provider or a circuit
            breaker asks for a longer wait, that wait is used.
        on_retry: Called with a `RetryScheduled` before each wait. May be async when the function is.
        max_retry_after: The longest wait that the provider may ask for, in seconds; a longer one ends the
            attempts.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid.
        TypeError: The function cannot be called, or is a generator.
    """
    checked_callable("retry_if", retry_if)
    checked_callable("on_retry", on_retry, may_be_async=True)
    policy = RetryPolicy(
        attempts=checked_count("attempts", attempts),
        on=checked_errors("on", on),
        retry_if=retry_if,
        wait=_wait_function(wait),
        asked_wait=_asked_wait,
        max_asked_wait=checked_seconds("max_retry_after", max_retry_after),
    )
    transformer = Retrying(policy, on_retry)
    return transformer if function is None else transformer(function)


class Retrying(Transformer):
    """Retries functions when they fail; iterating over it gives attempts. Made by `retrying`.

    Args:
        policy: The retry policy.
        on_retry: Called before each wait.
    """

    __slots__ = ("on_retry", "policy")

    title = "retrying"

    def __init__(self, policy: RetryPolicy, on_retry: OnRetry | None) -> None:
        self.policy = policy
        self.on_retry = on_retry

    def check(self, function: object) -> None:
        """Refuse a synchronous function when `on_retry` is async."""
        super().check(function)
        if not is_async_callable(function):
            self._check_on_retry(function_name(function))

    def run(self, call: Call[Any]) -> Any:
        """Call the function until it succeeds or is not retried any more."""
        return self._log(call.name).call(call)

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function until it succeeds or is not retried any more."""
        return await self._log(call.name).call_async(call)

    def __iter__(self) -> Iterator[Attempt]:
        """Yield the attempts, each to be entered with `with`, waiting between them."""
        self._check_on_retry("a `for` loop")
        return self._log("a block").attempts()

    def __aiter__(self) -> AsyncIterator[Attempt]:
        """Yield the attempts, each to be entered with `with`, waiting between them."""
        return self._log("a block").attempts_async()

    def _log(self, name: str) -> Attempts:
        return Attempts(self.policy, name, self.on_retry)

    def _check_on_retry(self, name: str) -> None:
        if is_async_callable(self.on_retry):
            raise TypeError(f"on_retry is async, but {name} is not")


def _wait_function(wait: object) -> Callable[[int, Exception], float]:
    """Return the wait in the form that `RetryPolicy` takes."""
    if wait is None:
        return ExponentialWait()
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        seconds = checked_seconds("wait", wait)
        return lambda attempt, error: seconds
    if is_tenacity_wait(wait):
        return tenacity_wait(wait)
    checked_callable("wait", wait)
    return cast("Callable[[int, Exception], float]", wait)


def _asked_wait(error: BaseException) -> float | None:
    """Return the delay that the provider or a circuit breaker asks for."""
    asked = [asked_wait_seconds(error)]
    asked += [each.retry_in for each in leaves_of(error) if isinstance(each, CircuitOpenError)]
    return max((seconds for seconds in asked if seconds is not None), default=None)
