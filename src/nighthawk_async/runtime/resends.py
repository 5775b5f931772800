"""Checks before a request is sent again, with the attempts so far.

One request may become several, each of which consumes. The check is a context variable that is in force while
a response is opened: a transport does not know budgets, and what records stands between the two.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeAlias

from msgspec import Struct

from ..types.usage import Usage

__all__ = ["AttemptUsage", "AttemptsSource", "ResendCheck", "checking_resends", "find_resend_check"]


class AttemptUsage(Struct, frozen=True, kw_only=True):
    """The known facts of one attempt at a request.

    Args:
        told: What was told of it, counted as no request; None when nothing was.
        may_have_consumed: Whether the provider may have worked on it: it was sent, and not turned away.
    """

    told: Usage | None
    may_have_consumed: bool


AttemptsSource: TypeAlias = Callable[[], Sequence[AttemptUsage]]
"""Gives the attempts at a request that were begun, oldest first, at any time."""

ResendCheck: TypeAlias = Callable[[AttemptsSource], bool]
"""Called before a request is sent again; tells whether there is room for that.

It raises `BudgetExceededError` when there will be none, whatever others that are in progress give back.
"""

_check: ContextVar[ResendCheck | None] = ContextVar("nighthawk_async_resend_check", default=None)


def find_resend_check() -> ResendCheck | None:
    """Return the check to make before the request that is being opened is sent again; None for none."""
    return _check.get()


class checking_resends:  # noqa: N801  (a context manager that reads as a function at its call)
    """Put a check in force for the extent of the `with` statement."""

    __slots__ = ("_check", "_token")

    def __init__(self, check: ResendCheck | None) -> None:
        self._check = check

    def __enter__(self) -> None:
        self._token = _check.set(self._check)

    def __exit__(self, *exc_details: object) -> None:
        _check.reset(self._token)
