"""`budget`: what each call of a function may spend, as one of the transformers. Floor 5."""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

from ..runtime.budgets.budget import Budget
from ..runtime.budgets.budget import budget as make_budget
from ..runtime.budgets.request_cost import Prices
from ..runtime.budgets.terms import OnExceeded
from .transforming import Call, Transformer

__all__ = ["BudgetPerCall", "budget"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Limits(TypedDict, total=False):
    """The arguments of `nighthawk_async.budget`."""

    tokens: int | None
    cost: Decimal | float | None
    steps: int | None
    turns: int | None
    tool_calls: int | None
    seconds: float | None
    name: str | None
    max_output_tokens: int | None
    prices: Prices | None
    on_exceeded: OnExceeded
    thresholds: Sequence[float]


@overload
def budget(
    function: Callable[Parameters, Result], /, **limits: Unpack[_Limits]
) -> Callable[Parameters, Result]: ...


@overload
def budget(**limits: Unpack[_Limits]) -> "BudgetPerCall": ...


def budget(function: Callable[..., Any] | None = None, /, **limits: Unpack[_Limits]) -> Any:
    """Limit what each call of a function may spend: `nighthawk_async.budget` for functions.

        cheap = budget(summarize, tokens=20_000)

        @budget(cost=0.05, turns=4)
        async def summarize(text: str) -> str: ...

    Each call has an account of its own, inside the budgets in force. It must be within a run.

    Args:
        function: What to call; None gives a decorator for any number of functions.
        **limits: The arguments of `nighthawk_async.budget`.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        NighthawkError: An argument has a bad value, or nothing is limited.
        TypeError: The function cannot be called, or is a generator.
        BudgetExceededError: Raised by the call: something found no room. Nothing retries it.
    """
    transformer = BudgetPerCall(make_budget(**limits))
    return transformer if function is None else transformer(function)


class BudgetPerCall(Transformer):
    """Gives each call of a function an account of its own. Made by `budget`.

    Args:
        budget: What an account allows.
    """

    __slots__ = ("_budget",)

    title = "budget"

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def run(self, call: Call[Any]) -> Any:
        """Call the function within a fresh account."""
        with self._budget.fresh():
            return call()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function within a fresh account."""
        with self._budget.fresh():
            return await call()
