"""Arguments of a middleware, checked."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ..errors import NighthawkError
from ..observe.tree import TaskTree
from ..policies.budgets.budget import Budget
from ..runtime.run import Run
from .protocol import AsgiScope

__all__ = ["Settings", "checked_budget", "checked_count", "checked_seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Arguments of a middleware.

    Args:
        make_run: Gives a new run.
        request_timeout_seconds: How many seconds a request has; None for any number.
        budget: What each request may spend, by an account of its own; None for anything.
        grace_seconds: How many seconds requests in progress have when the service ends.
        retry_after_seconds: After how many seconds a client that is refused may try again.
        client_of: Gives the client of a connection; None for nobody knows.
        tree: What records what goes on; None for what is in force anyway.
    """

    make_run: Callable[[], Run]
    request_timeout_seconds: float | None
    budget: Budget | None
    grace_seconds: float
    retry_after_seconds: float
    client_of: Callable[[AsgiScope], str | None] | None
    tree: TaskTree | None


def checked_count(value: object, name: str, *, least: int) -> int:
    """A number of requests.

    Args:
        value: What was given.
        name: The name of the argument.
        least: The least that makes sense.

    Raises:
        NighthawkError: It is none, or less.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise NighthawkError(f"{name} must be an integer of at least {least}, not {value!r}")
    return value


def checked_seconds(value: object, name: str, *, most: float = math.inf) -> float:
    """A number of seconds.

    Args:
        value: What was given.
        name: The name of the argument.
        most: The most that makes sense.

    Raises:
        NighthawkError: It is none, negative, or more.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= cast("float", value) <= most:
        bound = "" if most == math.inf else f" of at most {most:,.0f}"
        raise NighthawkError(f"{name} must be a number of seconds{bound}, not {value!r}")
    return float(cast("float", value))


def checked_budget(value: object) -> Budget | None:
    """The budget of a request.

    Args:
        value: What was given.

    Raises:
        NighthawkError: It is no budget.
    """
    if value is not None and not isinstance(value, Budget):
        raise NighthawkError(f"budget must be a budget, made by nighthawk_async.budget, not {value!r}.")
    return value
