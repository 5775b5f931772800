"""`Lender`: the way to accounts that are kept elsewhere, and lend to calls on workers."""

from collections.abc import Mapping
from typing import Protocol

from ...errors import BudgetExceededError
from ...types.usage import Usage
from .terms import Amounts


class Loan(Protocol):
    """The reservation, in accounts that are kept elsewhere, of one model request or one charge."""

    @property
    def next_breach(self) -> BudgetExceededError | None:
        """The reason why there is no room for another one; see `Reservation`."""
        ...

    async def renew(self, kept: Mapping[str, Amounts], added: Mapping[str, Amounts]) -> bool:
        """Reserve other amounts; see `Reservation.renew`. The amounts are given by the id of the account."""
        ...

    def keep(self, kept: Mapping[str, Amounts]) -> None:
        """Reserve no more than amounts that were consumed."""
        ...

    def settle(self, spent: Mapping[str, Amounts], model_name: str, usage: Usage | None) -> None:
        """Charge the spent amounts and return the rest; see `Reservation.settle`."""
        ...

    def cancel(self) -> None:
        """Return everything."""
        ...


class Lender(Protocol):
    """The way to accounts that are kept elsewhere. Amounts are given by the id of the account."""

    async def reserve(self, asked: Mapping[str, Amounts], *, model_name: str, may_wait: bool) -> Loan:
        """Reserve amounts in all accounts, or in none.

        Args:
            asked: The amounts to reserve.
            model_name: The model id of a request; empty for another charge.
            may_wait: Whether to wait while only the reservations of others are in the way.

        Raises:
            BudgetExceededError: An account has no room. Nothing has changed.
        """
        ...

    def spend(
        self, spent: Mapping[str, Amounts], model_name: str, usage: Usage | None, *, is_foreign: bool
    ) -> None:
        """Charge amounts that were already consumed, even without room.

        Args:
            spent: The amounts.
            model_name: The model id; empty for none.
            usage: The usage of a model; None for none.
            is_foreign: Whether the user's own agent reports it, so that an unknown cost is noted.
        """
        ...

    async def check_foreign_turn(self) -> None:
        """Check that there is room for a turn of the user's own agent; see `steps.check_foreign_turn`."""
        ...

    async def report_thresholds(self) -> None:
        """Report passed thresholds; see `notices.report_thresholds`."""
        ...
