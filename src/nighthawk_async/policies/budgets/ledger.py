"""`Ledger`: the account of a budget that is shared by processes, kept in a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...errors import BudgetExceededError
from .terms import Amount, Amounts, Resource, SharedLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """The consumption in the present window of one limit.

    Args:
        resource: The resource.
        limit: The amount allowed in each window.
        spent: The amount spent; cost in US dollars.
        reserved: The amount reserved for work in progress.
        window: The window in words.
        number: The first minute of the window; with a rolling one, it moves.
        is_rolling: Whether the window is a rolling one.
    """

    resource: Resource
    limit: Amount
    spent: Amount
    reserved: Amount
    window: str
    number: int
    is_rolling: bool

    @property
    def remaining(self) -> Amount:
        """The amount neither spent nor reserved."""
        return max(self.limit - self.spent - self.reserved, type(self.limit)(0))


class LedgerLoan(Protocol):
    """The reservation of one model request in a ledger."""

    @property
    def states(self) -> Sequence[WindowState]:
        """The windows right after the reservation was made."""
        ...

    async def renew(self, amounts: Amounts) -> bool:
        """Reserve other amounts instead; see `Reservation.renew`.

        Returns:
            Whether there was room; False when there would be, but for the reservations of others.

        Raises:
            BudgetExceededError: There is no room, even without the reservations of others.
        """
        ...

    def keep(self, amounts: Amounts) -> None:
        """Reserve no more than amounts that were consumed."""
        ...

    def begin(self, amounts: Amounts) -> None:
        """Charge amounts that are consumed for sure, also if this process is killed before it settles."""
        ...

    def settle(self, spent: Amounts) -> None:
        """Charge the spent amounts and return the rest. Call it once; spending nothing returns everything."""
        ...


class Ledger(Protocol):
    """The account of one budget, in a store.

    Charges are made for the window in which the work was reserved. A key names a request or a charge of a
    durable run, which several lives may make: it is the same in all of them.
    """

    @property
    def key(self) -> tuple[object, str]:
        """The store, and the name of the budget."""
        ...

    @property
    def limits(self) -> Sequence[SharedLimit]:
        """The limits."""
        ...

    async def reserve(self, asked: Amounts, *, key: str, may_wait: bool) -> LedgerLoan:
        """Reserve amounts.

        Args:
            asked: The amounts.
            key: The key of the request; empty for none.
            may_wait: Whether to wait while only the reservations of others are in the way.

        Raises:
            BudgetExceededError: There is no room. Nothing has changed.
            JournalStoreError: The store cannot be used.
        """
        ...

    def find_left(self, key: str) -> LedgerLoan:
        """Return what an earlier life of a durable run may have reserved for a request, and not settled.

        Args:
            key: The key of the request, whose response is recorded.
        """
        ...

    async def charge(self, amounts: Amounts, *, key: str) -> int | None:
        """Charge amounts, once for each key.

        Args:
            amounts: The amounts.
            key: The key of the charge; empty for none.

        Returns:
            The minute to which it was charged; None where it was charged before, or is not limited.

        Raises:
            BudgetExceededError: There is no room. Nothing has changed.
            JournalStoreError: The store cannot be used.
        """
        ...

    def take_back(self, amounts: Amounts, *, key: str, minute: int) -> None:
        """Take a charge back that was just made; see `charge`."""
        ...

    def spend(self, amounts: Amounts) -> None:
        """Charge amounts that were already consumed, even without room."""
        ...

    async def find_breach(self, asked: Amounts) -> BudgetExceededError | None:
        """Return the reason why there is no room, even without reservations of others; None if there is."""
        ...

    def read(self) -> Sequence[WindowState]:
        """Return the present windows. Blocks while it reads the store."""
        ...

    @property
    def seen(self) -> Sequence[WindowState]:
        """The windows as this process has last seen them."""
        ...


@runtime_checkable
class KeepsBudgets(Protocol):
    """A store that keeps budgets, as `nighthawk_async.journal.open` makes it."""

    def open_budget(self, name: str, limits: Sequence[SharedLimit]) -> Ledger:
        """Return the ledger of a budget.

        Args:
            name: The name of the budget.
            limits: Its limits.
        """
        ...
