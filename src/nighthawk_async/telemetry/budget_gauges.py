"""A gauge of what is left of the budgets that a store keeps, such as that of a day."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol
from weakref import WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ..catalog.telemetry_names import BUDGET_LEFT, BUDGET_NAME, BUDGET_RESOURCE, BUDGET_WINDOW
from ..errors import NighthawkError
from .spans import LIBRARY, library_version

_LOGGER = logging.getLogger("nighthawk")


class ObservedWindow(Protocol):
    """The present window of one limit of a budget."""

    @property
    def resource(self) -> str:
        """The resource."""
        ...

    @property
    def window(self) -> str:
        """The window in words."""
        ...

    @property
    def remaining(self) -> object:
        """The amount neither spent nor reserved."""
        ...


class ObservedBudget(Protocol):
    """A budget of a store."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def windows(self) -> Sequence[ObservedWindow]:
        """Its present windows."""
        ...


class HasBudgets(Protocol):
    """A store that keeps budgets."""

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        ...

    def budgets(self) -> Sequence[ObservedBudget]:
        """Return the budgets, by name. Blocks while it reads."""
        ...


class _Gauge:
    """The gauge of one provider, with the stores that it observes."""

    def __init__(self, provider: MeterProvider) -> None:
        self.provider = provider
        self.stores: WeakSet[HasBudgets] = WeakSet()
        provider.get_meter(LIBRARY, library_version()).create_observable_gauge(
            BUDGET_LEFT, [self._observe], description="Amount of a budget that is neither spent nor reserved."
        )

    def _observe(self, options: CallbackOptions) -> Iterable[Observation]:
        found: list[Observation] = []
        for store in [each for each in self.stores if not each.is_closed]:
            try:
                found += _observations(store)
            except NighthawkError as error:  # the other stores, and other metrics, are exported all the same
                _LOGGER.warning("the budgets of a store cannot be read for %s: %s", BUDGET_LEFT, error)
        return found


_gauges: list[_Gauge] = []
"""One for each provider; a program has one. A provider need not have a hash: that of Logfire has none."""


def observe_budgets(store: HasBudgets) -> None:
    """Export what is left of the budgets of a store; see `JournalStore.observe_budgets`.

    Args:
        store: The store. It is not kept alive.
    """
    provider = metrics.get_meter_provider()
    gauge = next((each for each in _gauges if each.provider is provider), None)
    if gauge is None:
        gauge = _Gauge(provider)
        _gauges.append(gauge)
    gauge.stores.add(store)


def _observations(store: HasBudgets) -> Iterable[Observation]:
    for budget in store.budgets():
        for window in budget.windows:
            attributes = {
                BUDGET_NAME: budget.name,
                BUDGET_RESOURCE: window.resource,
                BUDGET_WINDOW: window.window.partition(" until ")[0],  # the same every day
            }
            yield Observation(float(str(window.remaining)), attributes)
