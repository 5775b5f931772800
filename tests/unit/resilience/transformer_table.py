"""The transformers, each with a simple model of what it does to the results of a function.

The test of compositions puts them together in every order and compares with their models, put together in the
same order. Another transformer is one more row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nighthawk_async.errors import ExecutionError
from nighthawk_async.resilience import (
    Answer,
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

__all__ = ["TRANSFORMERS", "Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A transformer.

    Args:
        transform: Transforms any function.
        model: Does the same to a function without arguments that succeeds or raises `ExecutionError`, or
            `VoteError` or `EnsembleError` when there is a vote or an ensemble in it.
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
    except (ExecutionError, VoteError, EnsembleError):
        return "default"


def call_both(function: Callable[[], object]) -> object:
    values: list[str] = []
    errors: list[Exception] = []
    for _ in range(2):
        try:
            values.append(str(function()))
        except (ExecutionError, VoteError, EnsembleError) as error:
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
