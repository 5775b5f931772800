"""The transformers, each with a simple model of what it does to the results of a function.

The tests of compositions put them together in many orders and compare with their models, put together in the
same order. Another transformer is one more row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod
from typing import Any

from nighthawk_async.errors import ExecutionError
from nighthawk_async.parallel import DeadlineExceededError
from nighthawk_async.resilience import (
    Answer,
    CircuitOpenError,
    EnsembleError,
    VoteError,
    budget,
    circuit_breaker,
    ensemble,
    fallback,
    rate_limit,
    retrying,
    timeout,
    vote,
)

__all__ = [
    "FAILURES",
    "ORDERS",
    "ORDERS_OF_FAILURES",
    "TRANSFORMERS",
    "Row",
    "calls_at_once",
    "composed",
    "covering_orders",
    "modelled",
]

FAILURES = (ExecutionError, VoteError, EnsembleError, CircuitOpenError, DeadlineExceededError)
"""What the models make up for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A transformer.

    Args:
        transform: Transforms any function.
        model: Does the same to a function without arguments that succeeds, raises one of `FAILURES`, or
            raises `BudgetExceededError`, which nothing makes up for.
        calls_at_once: How many calls it makes at once.
    """

    transform: Callable[[Callable[..., Any]], Callable[..., Any]]
    model: Callable[[Callable[[], object]], object]
    calls_at_once: int = 1


def call(function: Callable[[], object]) -> object:
    return function()


def call_twice_at_most(function: Callable[[], object]) -> object:
    try:
        return function()
    except ExecutionError:
        return function()


def call_or_default(function: Callable[[], object]) -> object:
    try:
        return function()
    except FAILURES:
        return "default"


def call_both(function: Callable[[], object]) -> object:
    values: list[str] = []
    errors: list[Exception] = []
    for _ in range(2):
        try:
            values.append(str(function()))
        except FAILURES as error:
            errors.append(error)
    if not values:
        raise VoteError("both failed", errors=errors)
    return max(values)


def greatest(answers: list[Answer[str]]) -> str:
    return max(answer.value for answer in answers)


TRANSFORMERS: Mapping[str, Row] = {
    "retrying": Row(transform=retrying(attempts=2, wait=0), model=call_twice_at_most),
    "fallback": Row(transform=fallback(default="default"), model=call_or_default),
    "timeout": Row(transform=lambda function: timeout(function, 1_000), model=call),
    "circuit_breaker": Row(transform=circuit_breaker(fail_threshold=1_000_000), model=call),
    "rate_limit": Row(transform=rate_limit(per_minute=1_000_000), model=call),
    # Which of the calls fails is left to chance, so both are heard, in any order.
    "budget": Row(transform=budget(steps=1_000_000), model=call),
    "vote": Row(transform=vote(count=2, min_success=1, decide=max), model=call_both, calls_at_once=2),
    "ensemble": Row(
        transform=ensemble(models={"test:a": 1, "test:b": 1}, allow_fail=1, reconcile=greatest),
        model=call_both,
        calls_at_once=2,
    ),
}


def covering_orders(names: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Few orders of all names in which any so many of them come one after the other in each order.

    Each is begun with some names whose order has not come yet, and the others are put, one by one, where most
    such orders arise.
    """
    missing = dict.fromkeys(permutations(names, length))
    while missing:
        order = next(reversed(missing))
        for name in names:
            if name not in order:
                places = ((*order[:place], name, *order[place:]) for place in range(len(order) + 1))
                order = max(places, key=lambda each: len(missing.keys() & combinations(each, length)))
        yield order
        for each in combinations(order, length):
            missing.pop(each, None)


ORDERS: Sequence[tuple[str, ...]] = [
    *permutations(TRANSFORMERS, 1),
    *permutations(TRANSFORMERS, 2),
    *covering_orders(list(TRANSFORMERS), 3),
]
"""The first of an order is the innermost."""

ORDERS_OF_FAILURES = [*ORDERS, *covering_orders([name for name in TRANSFORMERS if name != "fallback"], 3)]
"""Those without a fallback too: around a fallback to a default nothing fails any more."""


def composed(
    order: tuple[str, ...],
    function: Callable[..., Any],
    instead: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] | None = None,
) -> Callable[..., Any]:
    """A function within transformers.

    Args:
        order: Which, the first is the innermost.
        function: The function.
        instead: What takes the place of some of them.
    """
    for name in order:
        transform = (instead or {}).get(name, TRANSFORMERS[name].transform)
        function = transform(function)
    return function


def modelled(
    order: tuple[str, ...],
    function: Callable[[], object],
    instead: Mapping[str, Callable[[Callable[[], object]], object]] | None = None,
) -> object:
    """What a function within transformers does, according to their models."""
    for name in order:
        model = (instead or {}).get(name, TRANSFORMERS[name].model)
        function = lambda model=model, inner=function: model(inner)  # noqa: E731
    return function()


def calls_at_once(order: tuple[str, ...]) -> int:
    """How many calls of a function are in progress at once when none ends."""
    return prod(TRANSFORMERS[name].calls_at_once for name in order)
