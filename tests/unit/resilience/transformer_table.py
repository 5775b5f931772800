"""The transformers, each with a simple model of what it does to the results of a function.

The test of compositions puts them together in every order and compares with their models, put together in the
same order. Another transformer is one more row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nighthawk_async.errors import ExecutionError
from nighthawk_async.resilience import circuit_breaker, fallback, rate_limit, retrying, timeout

__all__ = ["TRANSFORMERS", "Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A transformer.

    Args:
        transform: Transforms any function.
        model: Does the same to a function without arguments that succeeds or raises `ExecutionError`.
    """

    transform: Callable[[Callable[..., Any]], Callable[..., Any]]
    model: Callable[[Callable[[], object]], object]


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
    except ExecutionError:
        return "default"


TRANSFORMERS: Mapping[str, Row] = {
    "retrying": Row(transform=retrying(attempts=2, wait=0), model=call_twice_at_most),
    "fallback": Row(transform=fallback(default="default"), model=call_or_default),
    "timeout": Row(transform=lambda function: timeout(function, 1_000), model=call),
    "circuit_breaker": Row(transform=circuit_breaker(fail_threshold=1_000_000), model=call),
    "rate_limit": Row(transform=rate_limit(per_minute=1_000_000), model=call),
}
