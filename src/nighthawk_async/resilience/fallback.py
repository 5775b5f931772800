"""`fallback`: when one function fails, call another."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from ..causes import leaves_of
from ..errors import ExecutionError, ModelError
from ..parallel import DeadlineExceededError, is_async_callable
from ..policies.attempts.resilience import may_be_retried, note_earlier_errors
from ..tracing import note_named_event
from ..types.unset import UNSET, Unset
from ..values.error_text import describe_error
from .errors import InvalidPolicyError, ResilienceError
from .transforming import (
    Call,
    Errors,
    Transformer,
    check_function,
    checked_errors,
    function_name,
)
from .waiting import raise_if_ending, raise_if_ending_async

Default = TypeVar("Default")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_TITLE = "fallback"
_HANDLED = (ExecutionError, ModelError, ResilienceError, DeadlineExceededError)


@overload
def fallback(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
    /,
    *functions: Callable[Parameters, Coroutine[Any, Any, Result]],
    to: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    on: Errors | None = None,
    default: Default,
) -> Callable[Parameters, Coroutine[Any, Any, Result | Default]]: ...


@overload
def fallback(
    function: Callable[Parameters, Result],
    /,
    *functions: Callable[Parameters, Result],
    to: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    on: Errors | None = None,
    default: Default,
) -> Callable[Parameters, Result | Default]: ...


@overload
def fallback(
    function: Callable[Parameters, Result],
    /,
    *functions: Callable[Parameters, Result],
    to: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    on: Errors | None = None,
) -> Callable[Parameters, Result]: ...


@overload
def fallback(
    *,
    to: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    on: Errors | None = None,
    default: object = ...,
) -> "Fallback": ...


def fallback(
    *functions: Callable[..., Any],
    to: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    on: Errors | None = None,
    default: object = UNSET,
) -> Any:
    """Call functions with the same arguments, one after the other, until one succeeds.

        summarize = fallback(summarize_well, summarize_quickly, default="(no summary)")

        @fallback(to=summarize_quickly)
        async def summarize_well(text: str) -> str: ...

    Errors that are not handled, and those that `retrying` never handles, are raised at once. When all
    functions fail, the last error is raised unchanged, with a note that lists the earlier ones.

    Args:
        functions: The functions, all async or all synchronous. The result has the signature of the first.
            With none, a decorator is returned.
        to: One or more functions to call after those.
        on: The errors that lead to the next function: by default failed steps (`ExecutionError`), every
            `ModelError`, exceeded deadlines, and failures of other transformers (`ResilienceError`). An
            exception group counts when all its errors do.
        default: Returned when all functions fail.

    Returns:
        The function, or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid, or there is nothing to fall back to.
        TypeError: A function cannot be called or is a generator, or some are async and some are not.
    """
    more = (to,) if callable(to) else tuple(to)
    alternatives = (*functions[1:], *more)
    if not alternatives and isinstance(default, Unset):
        raise InvalidPolicyError("fallback needs another function, or a default, to fall back to")
    transformer = Fallback(alternatives, on=checked_errors("on", on), default=default)
    return transformer(functions[0]) if functions else transformer


class Fallback(Transformer):
    """Calls other functions when one fails. Made by `fallback`.

    Args:
        alternatives: The other functions.
        on: The errors after which the next function is called; None for the default.
        default: The value that is returned when all functions fail, if any.
    """

    __slots__ = ("_alternatives", "_default", "_on")

    title = _TITLE

    def __init__(
        self,
        alternatives: Sequence[Callable[..., Any]],
        *,
        on: tuple[type[Exception], ...] | None,
        default: object,
    ) -> None:
        for each in alternatives:
            check_function(each, _TITLE)
        self._alternatives = tuple(alternatives)
        self._on = on
        self._default = default

    def check(self, function: object) -> None:
        """Refuse a mixture of async and synchronous functions."""
        super().check(function)
        is_async = is_async_callable(function)
        for each in self._alternatives:
            if is_async_callable(each) != is_async:
                first, second = function_name(function), function_name(each)
                kinds = "is async, but {} is not" if is_async else "is not async, but {} is"
                raise TypeError(f"fallback: {first} {kinds.format(second)}; all must be async or all sync")

    def run(self, call: Call[Any]) -> Any:
        """Call the functions until one succeeds."""
        progress = _Progress(self._calls(call), self._handles, has_default=self._has_default)
        for each in progress.calls:
            try:
                return each()
            except Exception as error:
                if progress.ends_with(error):
                    raise
                raise_if_ending()
        return self._default

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the functions until one succeeds."""
        progress = _Progress(self._calls(call), self._handles, has_default=self._has_default)
        for each in progress.calls:
            try:
                return await each()
            except Exception as error:
                if progress.ends_with(error):
                    raise
                await raise_if_ending_async()
        return self._default

    @property
    def _has_default(self) -> bool:
        return not isinstance(self._default, Unset)

    def _calls(self, call: Call[Any]) -> list[Call[Any]]:
        return [call, *(call.of(each) for each in self._alternatives)]

    def _handles(self, error: Exception) -> bool:
        if not may_be_retried(error):
            return False
        if self._on is not None:
            return isinstance(error, self._on) or all(isinstance(each, self._on) for each in leaves_of(error))
        return all(
            isinstance(each, _HANDLED) and not isinstance(each, InvalidPolicyError)
            for each in leaves_of(error)
        )


class _Progress:
    """Progress through the functions: the failures and the next call. It only decides and calls nothing."""

    def __init__(
        self, calls: Sequence[Call[Any]], handles: Callable[[Exception], bool], *, has_default: bool
    ) -> None:
        self.calls = calls
        self._handles = handles
        self._has_default = has_default
        self._failures: list[str] = []

    def ends_with(self, error: Exception) -> bool:
        """Whether an error ends the fallback; otherwise the next function, or the default, is used."""
        failed = len(self._failures)
        is_last = failed == len(self.calls) - 1 and not self._has_default
        if is_last or not self._handles(error):
            if self._failures:
                names = ", ".join(call.name for call in self.calls[: failed + 1])
                note_earlier_errors(error, f"fallback: {names} failed", self._failures)
            return True
        self._failures.append(f"{self.calls[failed].name}: {describe_error(error)}")
        following = self.calls[failed + 1 : failed + 2]
        note_named_event(
            "nighthawk.fallback.taken",
            {
                "nighthawk.fallback.from": self.calls[failed].name,
                "nighthawk.fallback.to": following[0].name if following else "default",
                "error.type": type(error).__name__,
            },
        )
        return False
