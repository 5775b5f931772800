"""`timeout`: a deadline as one of the transformers."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

from ..parallel import Deadline, deadline
from .errors import InvalidPolicyError
from .transforming import check_function, within_descriptor

Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@overload
def timeout(seconds: float, /, *, name: str | None = None) -> "Timeout": ...


@overload
def timeout(
    function: Callable[Parameters, Result], /, seconds: float, *, name: str | None = None
) -> Callable[Parameters, Result]: ...


def timeout(function_or_seconds: Any, /, seconds: float | None = None, *, name: str | None = None) -> Any:
    """Limit the time of each call of a function, or of a block: `nighthawk_async.deadline` for functions too.

        quick = timeout(summarize, 30)

        @timeout(30)
        async def summarize(text: str) -> str: ...

        async with timeout(30):                # `with` does the same
            summary = await summarize(text)

    Args:
        function_or_seconds: The function, or the seconds for a decorator and context manager.
        seconds: The time limit in seconds, from the call or from entering the block.
        name: The name of the limited work in the error message; None for the name of the function.

    Returns:
        The function with the same signature, or a decorator and context manager.

    Raises:
        InvalidPolicyError: A function was given without seconds.
        InvalidLimitError: The limit is not a number of seconds, or is negative.
        TypeError: The function cannot be called, or is a generator.
        DeadlineExceededError: Raised at the end of a call or block that did not end in time. A
            `TimeoutError`.
    """
    if seconds is not None:
        limit = Timeout(deadline(seconds).seconds, name)
        return cast("object", limit(function_or_seconds))
    if callable(function_or_seconds):
        raise InvalidPolicyError("timeout needs the seconds: `@timeout(30)`, or `timeout(function, 30)`")
    return Timeout(deadline(function_or_seconds).seconds, name)


class Timeout(Deadline):
    """A time limit for one block, or for each call of a function. Made by `timeout`."""

    __slots__ = ()

    @overload
    def __call__(
        self, function: "staticmethod[Parameters, Result_co]"
    ) -> "staticmethod[Parameters, Result_co]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Result_co]"
    ) -> "classmethod[Owner, Parameters, Result_co]": ...

    @overload
    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]: ...

    def __call__(self, function: Any) -> Any:
        """Limit the time of each call of a function: async or not, a method, a static or class method.

        Args:
            function: The function.

        Raises:
            TypeError: The object cannot be called, or is a generator.
        """
        return within_descriptor(function, self._limit)

    def _limit(self, function: Any) -> Any:
        check_function(function, "timeout")
        return super().__call__(function)
