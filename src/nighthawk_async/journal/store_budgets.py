"""The budgets of a store, as programs use them."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ..lazy_exports import LazyModule
from .store_thread import StoreThread

if TYPE_CHECKING:
    from ..policies.budgets.ledger import Ledger
    from ..policies.budgets.terms import SharedLimit
    from ..telemetry import budget_gauges
    from . import budgets as budget_rows
else:  # few programs share budgets
    budget_rows = LazyModule(f"{__package__}.budgets")
    budget_gauges = LazyModule("nighthawk_async.telemetry.budget_gauges")


class StoreBudgets:
    """The part of a store that keeps budgets by windows of time; see `JournalStore`."""

    thread: StoreThread

    @cached_property
    def _budgets(self) -> "budget_rows.StoreBudgets":
        return budget_rows.StoreBudgets(self.thread)

    def budgets(self) -> "list[budget_rows.BudgetRow]":
        """Return the budgets that processes share through the store, by name. Blocks while it reads.

        Each has its present windows: what is spent, reserved and left. The limits are those of the process
        that used the budget last for the first time.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return self._budgets.read_all()

    async def read_budgets(self) -> "list[budget_rows.BudgetRow]":
        """Return the budgets, without blocking the event loop; see `budgets`.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return await self._budgets.start_reading().wait()

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        return self.thread.is_closed

    def observe_budgets(self) -> None:
        """Export what is left of the budgets as the OpenTelemetry gauge `nighthawk.budget.left`.

        The store is read at each export, in the thread of the exporter, until it is closed. The budgets are
        those that any process has used with `nighthawk_async.budget(store=…)`. Again, it has no effect.
        Set the `MeterProvider` before.
        """
        budget_gauges.observe_budgets(self)

    def open_budget(self, name: str, limits: "Sequence[SharedLimit]") -> "Ledger":
        """Return the account of a budget; `nighthawk_async.budget` calls it.

        Args:
            name: The name of the budget.
            limits: Its limits.

        Raises:
            JournalValueError: The name cannot be stored.
        """
        return self._budgets.open(name, limits)
