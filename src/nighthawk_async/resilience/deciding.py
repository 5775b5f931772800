"""Types of decorators that change the result of a function.

`vote(decide=…)` and `ensemble(reconcile=…)` give such decorators.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

__all__ = ["Deciding"]

Decided_co = TypeVar("Decided_co", covariant=True)
Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Value_contra = TypeVar("Value_contra", contravariant=True)


class Deciding(Protocol[Value_contra, Decided_co]):
    """A decorator: a function that gave a value then gives what is decided of several."""

    @overload
    def __call__(
        self, function: "staticmethod[Parameters, Coroutine[Any, Any, Value_contra]]", /
    ) -> "staticmethod[Parameters, Coroutine[Any, Any, Decided_co]]": ...

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a static method is taken for a plain function too
        self, function: "staticmethod[Parameters, Value_contra]", /
    ) -> "staticmethod[Parameters, Decided_co]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Coroutine[Any, Any, Value_contra]]", /
    ) -> "classmethod[Owner, Parameters, Coroutine[Any, Any, Decided_co]]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Value_contra]", /
    ) -> "classmethod[Owner, Parameters, Decided_co]": ...

    @overload
    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Value_contra]], /
    ) -> Callable[Parameters, Coroutine[Any, Any, Decided_co]]: ...

    @overload
    def __call__(
        self, function: Callable[Parameters, Value_contra], /
    ) -> Callable[Parameters, Decided_co]: ...
