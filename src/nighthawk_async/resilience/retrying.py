"""`retrying`: try again when something fails.

When, and after how long, is decided by `policies.attempts.retry_policy`; tenacity does the rest. It is loaded
when the first function is retried, because not every program does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, Union, cast, overload

from ..lazy_exports import LazyModule
from ..parallel import is_async_callable
from ..policies.attempts.retry_policy import ExponentialWait, RetryPolicy, asked_wait_seconds, leaves_of
from ..runtime.retry_report import RetryScheduled
from .arguments import Errors, checked_callable, checked_count, checked_errors, checked_seconds
from .errors import CircuitOpenError
from .retry_attempts import Attempt, Attempts, is_tenacity_wait, tenacity_wait
from .transforming import Call, Transformer, function_name

if TYPE_CHECKING:
    import tenacity.wait as tenacity_waits
else:
    tenacity_waits = LazyModule("tenacity.wait")

__all__ = ["Retrying", "Wait", "retrying"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

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

    Never after a cancellation, nor after `BudgetExceededError`, `StepAbortedError`, `StepRejectedError`,
    `HookError` or a `HumanError`, nor after what they caused. The last error is raised as it is; when
    there was more than one attempt, a note on it tells of them.

    Args:
        function: What to call; None gives a decorator that can be iterated over as well.
        attempts: How often to try altogether.
        on: After which errors: by default `ExecutionError`, limits of steps among them, and model errors that
            pass (`ModelError.is_transient`). An exception group counts when all its errors do.
        retry_if: Has to agree as well, when given.
        wait: How long to wait: seconds, a function of the number of the attempt that failed and its error, or
            an object of `tenacity.wait`. By default `ExponentialWait()`. When the provider, or a circuit
            breaker, asks for longer, that is waited.
        on_retry: Is called with a `RetryScheduled` before each wait. May be async when the function is.
        max_retry_after: When the provider asks for a longer wait, in seconds, there is no other attempt.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        InvalidPolicyError: An argument makes no sense.
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
    """Calls functions again when they fail; iterating over it gives attempts. Made by `retrying`.

    Args:
        policy: When to try again.
        on_retry: Is told before each wait.
    """

    __slots__ = ("on_retry", "policy")

    title = "retrying"

    def __init__(self, policy: RetryPolicy, on_retry: OnRetry | None) -> None:
        self.policy = policy
        self.on_retry = on_retry

    def check(self, function: object) -> None:
        """Refuse a synchronous function when whoever is told is async."""
        super().check(function)
        if not is_async_callable(function):
            self._check_on_retry(function_name(function))

    def run(self, call: Call[Any]) -> Any:
        """Call until it succeeds, or fails for good."""
        return self._log(call.name).call(call)

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call until it succeeds, or fails for good."""
        return await self._log(call.name).call_async(call)

    def __iter__(self) -> Iterator[Attempt]:
        """The attempts, each to be entered with `with`. Waits between them."""
        self._check_on_retry("a `for` loop")
        return self._log("a block").attempts()

    def __aiter__(self) -> AsyncIterator[Attempt]:
        """The attempts, each to be entered with `with`. Waits between them."""
        return self._log("a block").attempts_async()

    def _log(self, name: str) -> Attempts:
        return Attempts(self.policy, name, self.on_retry)

    def _check_on_retry(self, name: str) -> None:
        if is_async_callable(self.on_retry):
            raise TypeError(f"on_retry is async, but {name} is not")


def _wait_function(wait: object) -> Callable[[int, Exception], float]:
    """The wait as `RetryPolicy` takes it."""
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
    """Return the delay that the provider, or a circuit breaker, asks for."""
    asked = [asked_wait_seconds(error)]
    asked += [each.retry_in for each in leaves_of(error) if isinstance(each, CircuitOpenError)]
    return max((seconds for seconds in asked if seconds is not None), default=None)
