"""Names that keywords had before: they are taken still, so that programs go on, and shown nowhere."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def takes_former(**names: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function take keywords by the names that they had before.

    Args:
        names: The present name of each, by the former one.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        called: Any = function
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def begin(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
                return await called(*args, **present(kwargs, names, called.__name__))

            return cast("Callable[Parameters, Result]", begin)

        @wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            return called(*args, **present(kwargs, names, called.__qualname__))

        return call

    return decorate


def present(given: Mapping[str, Any], names: Mapping[str, str], where: str) -> Mapping[str, Any]:
    """Return what is given under the present names.

    Args:
        given: What is given, by name.
        names: The present name of each, by the former one.
        where: The name of what takes them.

    Raises:
        TypeError: Something is given by both of its names.
    """
    former = names.keys() & given.keys()
    if not former:
        return given
    twice = next((each for each in sorted(former) if names[each] in given), None)
    if twice is not None:
        raise TypeError(f"{where}() got {names[twice]!r} twice, also by its former name {twice!r}")
    return {names.get(name, name): value for name, value in given.items()}
