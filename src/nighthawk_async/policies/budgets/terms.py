"""Terms of a budget, as its author gave them. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from math import isfinite
from typing import Any, Literal, TypeAlias, cast

from ...catalog.request_cost import Prices
from ...errors import NighthawkError
from ...types.model import ModelPrice
from .windows import Window, checked_window

Resource: TypeAlias = Literal["tokens", "cost", "steps", "turns", "tool_calls", "seconds"]
"""A resource that a budget can limit."""

OnExceeded: TypeAlias = Literal["fail", "conclude"]
"""The behaviour when a budget runs out: the step fails, or its model is asked to end the block before."""

Amount: TypeAlias = int | Decimal
"""An amount of a resource other than `seconds`; cost in US dollars."""

Amounts: TypeAlias = Mapping[Resource, Amount]
"""Amounts of resources; never of `seconds`, which pass by themselves."""

_WHOLE = ("tokens", "steps", "turns", "tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAmounts:
    """Amounts of each resource.

    Args:
        tokens: Tokens sent and received.
        cost: US dollars.
        steps: Steps started.
        turns: Model requests.
        tool_calls: Tool calls started.
        seconds: Seconds for which the budget has been active.
    """

    tokens: int = 0
    cost: Decimal = Decimal(0)
    steps: int = 0
    turns: int = 0
    tool_calls: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """Limits or remainders of each resource; None where there is no limit.

    Args:
        tokens: Tokens sent and received.
        cost: US dollars.
        steps: Steps started.
        turns: Model requests.
        tool_calls: Tool calls started.
        seconds: Seconds for which the budget is active.
    """

    tokens: int | None = None
    cost: Decimal | None = None
    steps: int | None = None
    turns: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None

    def named(self) -> list[Resource]:
        """Return the resources that have a limit."""
        return [resource for resource, _ in self.limited()]

    def limited(self) -> Iterator[tuple[Resource, int | float | Decimal]]:
        """Yield the resources that have a limit, with the limit."""
        for resource in _RESOURCES:
            limit: int | float | Decimal | None = getattr(self, resource)
            if limit is not None:
                yield resource, limit


_RESOURCES: tuple[Resource, ...] = tuple(cast("Resource", each.name) for each in fields(BudgetLimits))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimit:
    """A limit of a resource in a window, for everything that names its budget.

    Args:
        resource: The resource.
        limit: The amount allowed in each window.
        window: The window.
    """

    resource: Resource
    limit: Amount
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BudgetTerms:
    """The terms of a budget, without an account. Made by `checked_terms`.

    Args:
        name: The name of the budget in errors and traces.
        limits: The limits.
        max_output_tokens: The maximum tokens of a response, for requests whose settings do not limit it.
        prices: The prices of models; None for those that the library knows.
        on_exceeded: The behaviour when the budget runs out.
        thresholds: The fractions of each limit that are reported when they are spent.
        shared: The limits by windows of time, of a budget that is kept in a store; empty for another one.
    """

    name: str
    limits: BudgetLimits
    max_output_tokens: int | None
    prices: Prices | None
    on_exceeded: OnExceeded
    thresholds: tuple[float, ...]
    shared: tuple[SharedLimit, ...] = ()

    @property
    def needs_bounds(self) -> bool:
        """Whether a request must be measured before it is sent."""
        return self.limits.tokens is not None or self.limits.cost is not None


def checked_terms(
    *,
    limits: Mapping[Resource, object],
    name: object,
    max_output_tokens: object,
    prices: object,
    on_exceeded: object,
    thresholds: object,
    per: object = None,
    timezone: object = "UTC",
    decisions_per_hour: object = None,
) -> BudgetTerms:
    """Return the terms of a budget.

    Raises:
        NighthawkError: An argument has a bad value, or nothing is limited.
    """
    given: dict[Resource, int | float | Decimal] = {
        resource: _checked_limit(resource, limit) for resource, limit in limits.items() if limit is not None
    }
    if not given and decisions_per_hour is None:
        raise NighthawkError(f"A budget limits something: give one of {', '.join(limits)}.")
    if on_exceeded not in ("fail", "conclude"):
        raise NighthawkError(f"on_exceeded must be 'fail' or 'conclude', not {on_exceeded!r}.")
    named = ", ".join(f"{each}={limit}" for each, limit in given.items())
    shared: tuple[SharedLimit, ...] = ()
    if per is not None or decisions_per_hour is not None:
        shared = _shared_limits(given, per, timezone, decisions_per_hour)
        named = _shared_name(named, shared, decisions_per_hour)
    if on_exceeded == "conclude" and given.keys() <= {"steps", "seconds"}:
        raise NighthawkError(
            "on_exceeded='conclude' needs a limit of tokens, cost, turns or tool_calls: the end of steps and "
            "seconds cannot be announced to a model in time."
        )
    if name is not None and not (isinstance(name, str) and name):
        raise NighthawkError(f"The name of a budget is a text, not {name!r}.")
    if max_output_tokens is not None and _checked_limit("tokens", max_output_tokens) == 0:
        raise NighthawkError("max_output_tokens must be more than 0.")
    return BudgetTerms(
        name=name or named,
        limits=BudgetLimits(**cast("dict[str, Any]", given)),
        max_output_tokens=cast("int | None", max_output_tokens),
        prices=_checked_prices(prices),
        on_exceeded=on_exceeded,
        thresholds=_checked_thresholds(thresholds),
        shared=shared,
    )


def _shared_limits(
    given: Mapping[Resource, Any], per: object, timezone: object, decisions: object
) -> tuple[SharedLimit, ...]:
    if "seconds" in given:
        raise NighthawkError(
            "A budget by windows of time has no limit of seconds; nest another one for them."
        )
    if per is None and given:
        raise NighthawkError(
            "decisions_per_hour limits steps; the other limits need per='hour', 'day', 'month' or a "
            "timedelta, or a budget of their own."
        )
    if per is not None and not given:
        raise NighthawkError("per needs a limit: give one of tokens, cost, steps, turns, tool_calls.")
    shared: list[SharedLimit] = []
    if per is not None:
        window = checked_window(per, timezone)
        shared = [SharedLimit(resource=each, limit=limit, window=window) for each, limit in given.items()]
    if decisions is not None:
        limit = int(_checked_limit("steps", decisions))
        shared.append(SharedLimit(resource="steps", limit=limit, window=Window(seconds=3_600.0)))
    return tuple(shared)


def _shared_name(named: str, shared: tuple[SharedLimit, ...], decisions: object) -> str:
    """The name of a budget without one: equal limits are one budget, wherever they are given."""
    parts = [f"{named} per {shared[0].window}"] if named else []
    return ", ".join([*parts, *([] if decisions is None else [f"decisions_per_hour={decisions}"])])


def _checked_limit(resource: Resource, limit: object) -> int | float | Decimal:
    if resource in _WHOLE:
        if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
            return limit
        raise NighthawkError(f"A budget of {resource} is a whole number, at least 0, not {limit!r}.")
    if (
        isinstance(limit, int | float | Decimal)
        and not isinstance(limit, bool)
        and isfinite(limit)
        and limit >= 0
    ):
        return Decimal(str(limit)) if resource == "cost" else float(limit)
    unit = "US dollars" if resource == "cost" else "seconds"
    raise NighthawkError(f"A budget of {resource} is a number of {unit}, at least 0, not {limit!r}.")


def _checked_prices(prices: object) -> Prices | None:
    if prices is None or callable(prices):
        return cast("Callable[[str, Any], Decimal | None] | None", prices)
    if not isinstance(prices, Mapping):
        raise NighthawkError(
            f"prices is a mapping of model ids to ModelPrice, or a function, not {prices!r}."
        )
    checked = dict(cast("Mapping[object, object]", prices))
    for model_name, price in checked.items():
        if not isinstance(model_name, str) or ":" not in model_name:
            raise NighthawkError(f"prices names models as 'provider:name', not {model_name!r}.")
        if not isinstance(price, ModelPrice) or not _has_amounts(price):
            raise NighthawkError(
                f"The price of {model_name} must be a ModelPrice of Decimals, not {price!r}."
            )
    return cast("dict[str, ModelPrice]", checked)


def _has_amounts(price: ModelPrice) -> bool:
    cached = (price.cache_read, price.cache_write, price.cache_write_1h)
    given: list[object] = [price.input, price.output, *cached]
    is_good = all(_is_price(amount) for amount in given if amount is not None)
    return is_good and (price.long_request is None or _has_amounts(price.long_request))


def _is_price(amount: object) -> bool:
    return isinstance(amount, Decimal) and amount.is_finite() and amount >= 0


def _checked_thresholds(thresholds: object) -> tuple[float, ...]:
    given = (
        cast("tuple[object, ...]", tuple(cast("Any", thresholds)))
        if isinstance(thresholds, list | tuple)
        else None
    )
    if given is None or not all(_is_part(each) for each in given):
        raise NighthawkError(
            f"thresholds are parts of a limit, more than 0 and at most 1, not {thresholds!r}."
        )
    return tuple(sorted({float(cast("float", each)) for each in given}))


def _is_part(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
