"""Limits that processes share: on workers, these context variables lead to those of the program."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from .pacing import Pacer, PacingLimits, Start

PACER_MAKER: ContextVar[Callable[[Hashable], Pacer] | None] = ContextVar(
    "nighthawk_async_pacer_maker", default=None
)
"""Makes the pacers of a run whose first request is sent in this context; None for those of this process."""


class CallLimit(Protocol):
    """A limit of the calls that begin within a minute, and of their tokens."""

    @property
    def limits(self) -> PacingLimits:
        """The numbers."""
        ...

    def enter_nowait(self, tokens: int | None) -> Start | None:
        """Begin a call, or return None when it has to wait, or to ask."""
        ...

    async def enter(self, tokens: int | None, *, goes_first: bool = False) -> Start:
        """Begin a call when it is its turn."""
        ...

    def settle(self, start: Start, tokens: int | None) -> None:
        """Record the end of a call, and the tokens that it used."""
        ...


LimitFinder: TypeAlias = Callable[[str, PacingLimits], CallLimit]
"""Finds the limit of a name, with the numbers that it has."""

LIMIT_FINDER: ContextVar[LimitFinder | None] = ContextVar("nighthawk_async_limit_finder", default=None)
"""Finds the limits of `rate_limit` that are shared; None for those of this process."""
