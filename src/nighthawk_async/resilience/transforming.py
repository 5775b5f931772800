"""Base of all function transformers.

A transformer defines how a call runs: `run` for synchronous functions, `run_async` for asynchronous ones. The
transformed function has the signature of the original; async stays async, sync stays sync. Whether a function
is async is decided when it is transformed: it is when it is `async def`, even when wrapped in
`functools.partial`, bound to an object, or the `__call__` of an object.

The arguments of transformers are checked before anything is called.
"""

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from ..kernel.commands import is_awaitable
from ..parallel import is_async_callable
from ..policies.attempts.resilience import FINAL_ERRORS
from .errors import InvalidPolicyError

Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call(Generic[Result]):
    """One call of a transformed function, with its arguments. Calling it calls the original each time.

    Args:
        function: The original function.
        args: The positional arguments.
        kwargs: The keyword arguments.
    """

    function: Callable[..., Result]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the function."""
        return function_name(self.function)

    def of(self, function: Callable[..., Result]) -> "Call[Result]":
        """Return a call of another function with the same arguments."""
        return Call(function=function, args=self.args, kwargs=self.kwargs)

    def __call__(self) -> Result:
        """Call the function.

        Raises:
            TypeError: The function is not `async def` but returned an awaitable.
        """
        result = self.function(*self.args, **self.kwargs)
        if is_awaitable(result) and not is_async_callable(self.function):
            if isinstance(result, CoroutineType):
                result.close()  # otherwise Python warns that it was never awaited
            raise TypeError(
                f"{self.name} is not `async def` but gave an awaitable; wrap it in an `async def` function "
                "that awaits it"
            )
        return result


class Transformer(ABC):
    """Transforms functions. Subclasses define how a call runs.

    Attributes:
        title: Its name in error messages.
    """

    __slots__ = ()

    title: str

    @overload
    def __call__(
        self, function: "staticmethod[Parameters, Result_co]", /
    ) -> "staticmethod[Parameters, Result_co]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Result_co]", /
    ) -> "classmethod[Owner, Parameters, Result_co]": ...

    @overload
    def __call__(self, function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]: ...

    def __call__(self, function: Any, /) -> Any:
        """Transform a function: async or not, a method, a static or class method, or any other callable.

        Args:
            function: The function.

        Raises:
            TypeError: The object cannot be called, or is a generator, which yields values while it runs.
        """
        return within_descriptor(function, self._transform)

    def check(self, function: object) -> None:
        """Refuse a function that cannot be transformed. Subclasses may add checks.

        Args:
            function: The function.

        Raises:
            TypeError: The object cannot be called, or is a generator.
        """
        check_function(function, self.title)

    def _transform(self, function: Any) -> Any:
        self.check(function)
        return _transform(function, self)

    @abstractmethod
    def run(self, call: Call[Any]) -> Any:
        """Run a call of a synchronous function.

        Args:
            call: The call.
        """

    @abstractmethod
    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Run a call of an asynchronous function.

        Args:
            call: The call; calling it returns the awaitable.
        """


def function_name(function: object) -> str:
    """Return the name of a function, for messages.

    Args:
        function: Any callable.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__


def check_function(function: object, title: str) -> None:
    """Refuse an object that cannot be transformed.

    Args:
        function: The object that was passed as the function.
        title: The name of the transformer.

    Raises:
        TypeError: The object cannot be called, or is a generator.
    """
    if not callable(function):
        raise TypeError(f"{title} needs a function, not {function!r}")
    for each in (function, inspect.getattr_static(type(function), "__call__", None)):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise TypeError(
                f"{title} cannot take {function_name(function)}: it is a generator, which yields values "
                "while it runs; transform the function that consumes it"
            )


def within_descriptor(function: Any, transform: Callable[[Any], Any]) -> Any:
    """Transform a function; a static or class method stays one.

    Args:
        function: A function, or a static or class method.
        transform: Transforms a plain function.
    """
    if isinstance(function, staticmethod | classmethod):
        descriptor = cast("Any", function)
        return type(descriptor)(transform(descriptor.__func__))
    return transform(function)


def _transform(function: Callable[..., Any], transformer: Transformer) -> Callable[..., Any]:
    if is_async_callable(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            return await transformer.run_async(Call(function=function, args=args, kwargs=kwargs))

        return run_async

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return transformer.run(Call(function=function, args=args, kwargs=kwargs))

    return run


Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""One type of errors or several, as `except` takes them."""


def checked_count(name: str, value: object) -> int:
    """Return a value that is a whole number, at least 1.

    Args:
        name: The name of the argument.
        value: The given value.

    Raises:
        InvalidPolicyError: The value is anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise InvalidPolicyError(f"{name} is a whole number, at least 1, not {value!r}")


def checked_seconds(name: str, value: object) -> float:
    """Return a value that is a number of seconds, at least 0 and not infinite.

    Args:
        name: The name of the argument.
        value: The given value.

    Raises:
        InvalidPolicyError: The value is anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise InvalidPolicyError(f"{name} is a number of seconds, at least 0, not {value!r}")


def checked_errors(name: str, value: object) -> tuple[type[Exception], ...] | None:
    """Return types of errors; None for the default.

    Args:
        name: The name of the argument.
        value: The given value: a type, or several.

    Raises:
        InvalidPolicyError: The value is anything else, or one of the types is not an `Exception` (a
            cancellation is not), or is never handled.
    """
    if value is None:
        return None
    types = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidPolicyError(f"{name} is a type of exceptions or a tuple of them, not {value!r}")
        if issubclass(each, FINAL_ERRORS):
            raise InvalidPolicyError(f"{name} names {each.__name__}, which is final: it is never retried")
    return cast("tuple[type[Exception], ...]", types)


def checked_callable(name: str, value: object, *, may_be_async: bool = False) -> None:
    """Refuse an object that cannot be called; None is allowed.

    Args:
        name: The name of the argument.
        value: The given value.
        may_be_async: Whether an async function is allowed.

    Raises:
        InvalidPolicyError: The value is neither None nor such a function.
    """
    if value is None:
        return
    if not callable(value):
        raise InvalidPolicyError(f"{name} is a function, not {value!r}")
    if is_async_callable(value) and not may_be_async:
        raise InvalidPolicyError(f"{name} is not async, but {function_name(value)} is")
