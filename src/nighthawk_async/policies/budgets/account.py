"""The account of one budget: the spent amounts, and the amounts reserved for work in progress. No I/O.

One lock guards all accounts: it is held only for arithmetic, and nested accounts must agree.
"""

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from itertools import count
from math import inf
from secrets import token_hex
from types import MappingProxyType
from typing import Any, NamedTuple

from ...errors import BudgetExceededError, NighthawkError
from ...kernel.usage_meter import UsageMeter
from ...parallel.event_loop import Stopwatch
from ...pickling import checked_picklable
from .ledger import Ledger, WindowState
from .lender import Lender
from .terms import Amount, Amounts, BudgetAmounts, BudgetLimits, BudgetTerms, Resource

_NOTHING: Amounts = MappingProxyType({})

ACCOUNTS_LOCK = threading.Lock()
"""Held whenever an account is changed, and for a change of several accounts at once."""

_PROCESS = token_hex(8)
_NUMBERS = count()


class PassedThreshold(NamedTuple):
    """A fraction of a limit that has been spent.

    Args:
        resource: The limited resource.
        part: The fraction, between 0 and 1.
        spent: The amount spent.
        limit: The amount allowed.
    """

    resource: Resource
    part: float
    spent: int | float | Amount
    limit: int | float | Amount


class Payer:
    """A step in progress whose model requests are charged to accounts.

    Attributes:
        requests: The number of requests with a reservation. Changed with the lock held.
    """

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0


class BudgetAccount:
    """One account. Methods whose name ends with `_locked` are called with the lock held.

    Args:
        terms: The terms of the budget.
        account_id: The id of the account for which this one stands; None for an account of its own.
        lender: The way to that account, in which everything is reserved and charged; None for this one.
        ledger: The ledger of a shared budget, which alone keeps its limits; None for another one. Then this
            account counts what this process spends.

    Attributes:
        id: The id of the account, in errors.
        lender: The way to the account for which this one stands; None for an account of its own.
        meter: Adds up the usage of the model requests that are charged.
        watch: Runs while the budget is active.
        has_unpriced: Whether usage with an unknown price was charged.
    """

    __slots__ = (
        "_lowest_thresholds",
        "_reported",
        "_reserved",
        "_spent",
        "has_unpriced",
        "id",
        "ledger",
        "lender",
        "meter",
        "terms",
        "watch",
    )

    def __init__(
        self,
        terms: BudgetTerms,
        *,
        account_id: str | None = None,
        lender: Lender | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.terms = terms
        self.ledger = ledger
        self.id = account_id or f"{_PROCESS}.{next(_NUMBERS)}"
        self.lender = lender
        self.watch = Stopwatch()
        self.has_unpriced = False
        self._spent: dict[Resource, Amount] = {}
        self._reserved: dict[Resource, Amount] = {}
        self.meter = UsageMeter()
        self._reported: dict[object, set[tuple[Resource, float, int]]] = {}
        self._lowest_thresholds: tuple[tuple[Resource, float], ...] = ()  # looked at several times in a step
        if terms.thresholds and not terms.shared:
            part = min(terms.thresholds)
            self._lowest_thresholds = tuple(
                (resource, part * float(limit)) for resource, limit in terms.limits.limited()
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the terms and the spent amounts. A copy has no reservations."""
        if self.ledger is not None:
            raise NighthawkError(
                f"budget {self.terms.name} is kept in a store and cannot be copied or pickled: make it "
                "where it is needed, with the same name and a store of the same address."
            )
        what = f"budget {self.terms.name}: a price function is pickled by its name, and this one is not found"
        checked_picklable(
            self.terms.prices, f"{what} by it; define it in a module, or give a mapping of prices"
        )
        watch, meter = copy(self.watch), copy(self.meter)
        with ACCOUNTS_LOCK:
            return BudgetAccount._rebuilt, (self.terms, dict(self._spent), self.has_unpriced, watch, meter)

    @classmethod
    def _rebuilt(
        cls,
        terms: BudgetTerms,
        spent: dict[Resource, Amount],
        has_unpriced: bool,
        watch: Stopwatch,
        meter: UsageMeter,
    ) -> "BudgetAccount":
        account = cls(terms)
        account._spent, account.has_unpriced, account.watch, account.meter = spent, has_unpriced, watch, meter
        return account

    @property
    def spent(self) -> BudgetAmounts:
        """The spent amounts."""
        if self.ledger is not None:
            return BudgetAmounts(**_by_resource(self.ledger.read(), "spent"))
        seconds = self.watch.elapsed_seconds
        with ACCOUNTS_LOCK:
            spent: dict[str, Any] = {**self._spent}
        return BudgetAmounts(**spent, seconds=seconds)

    @property
    def reserved(self) -> BudgetAmounts:
        """The reserved amounts."""
        if self.ledger is not None:
            return BudgetAmounts(**_by_resource(self.ledger.read(), "reserved"))
        with ACCOUNTS_LOCK:
            reserved: dict[str, Any] = {**self._reserved}
        return BudgetAmounts(**reserved)

    @property
    def remaining(self) -> BudgetLimits:
        """The amounts neither spent nor reserved; None where there is no limit."""
        if self.ledger is not None:
            return BudgetLimits(**_by_resource(self.ledger.read(), "remaining"))
        seconds = self.watch.elapsed_seconds
        with ACCOUNTS_LOCK:
            left: dict[str, Any] = {
                resource: max(amount - self._in_use(resource), 0)
                for resource in self.terms.limits.named()
                if resource != "seconds" and (amount := self._limit(resource)) is not None
            }
        limit = self.terms.limits.seconds
        return BudgetLimits(**left, seconds=None if limit is None else max(limit - seconds, 0.0))

    def find_breach_locked(self, asked: Amounts) -> BudgetExceededError | None:
        """Return the reason why there is no room for an amount; None when there is room.

        Args:
            asked: The amount.
        """
        for resource, amount in asked.items():
            limit = self._limit(resource)
            if limit is not None and self._in_use(resource) + amount > limit:
                return self._breach(resource, limit, amount)
        return None

    def find_lasting_breach_locked(
        self, asked: Amounts, *, kept: Amounts = _NOTHING
    ) -> BudgetExceededError | None:
        """Return the reason why there is no room even without others' reservations; None when there may be.

        Args:
            asked: The amount.
            kept: The amounts that stay reserved for the same request.
        """
        for resource, amount in asked.items():
            limit = self._limit(resource)
            lasting = self._spent.get(resource, 0) + kept.get(resource, 0)
            if limit is not None and lasting + amount > limit:
                return self._breach(resource, limit, amount)
        return None

    def has_plenty(self, asked: Amounts, times: int) -> bool:
        """Whether there is room for so many times an amount, and it is this account alone that says so.

        Args:
            asked: The amount.
            times: The number of times.
        """
        if self.lender is not None or self.ledger is not None or self.terms.shared:
            return False
        with ACCOUNTS_LOCK:
            return all(
                (limit := self._limit(resource)) is None or self._in_use(resource) + times * amount <= limit
                for resource, amount in asked.items()
            )

    def reserve_locked(self, amounts: Amounts) -> None:
        """Reserve amounts."""
        for resource, amount in amounts.items():
            self._reserved[resource] = self._reserved.get(resource, 0) + amount

    def return_locked(self, amounts: Amounts) -> None:
        """Return reserved amounts."""
        for resource, amount in amounts.items():
            self._reserved[resource] -= amount

    def spend_locked(self, amounts: Amounts) -> None:
        """Charge amounts, even without room."""
        for resource, amount in amounts.items():
            self._spent[resource] = self._spent.get(resource, 0) + amount

    @property
    def remaining_seconds(self) -> float:
        """The remaining time in seconds; infinity without a limit."""
        limit = self.terms.limits.seconds
        return inf if limit is None else limit - self.watch.elapsed_seconds

    def time_breach(self) -> BudgetExceededError:
        """Return the error for a time limit that is over."""
        limit = self.terms.limits.seconds or 0.0
        seconds = max(self.watch.elapsed_seconds, limit)  # clocks round
        return self._remember(
            BudgetExceededError(
                budget=self.terms.name, resource="seconds", limit=limit, spent=seconds, reserved=0, asked=0
            )
        )

    def limits(self, resource: Resource) -> bool:
        """Whether it has a limit of a resource."""
        if self.terms.shared:
            return any(each.resource == resource for each in self.terms.shared)
        return self._limit(resource) is not None

    def has_refused(self, error: BudgetExceededError) -> bool:
        """Whether this account raised an error."""
        return error.account_id == (ledger_id(self.terms.name) if self.terms.shared else self.id)

    @property
    def has_passed_threshold(self) -> bool:
        """Whether a threshold may have been passed, reported or not: mostly none has."""
        if self.ledger is not None or self.terms.limits.seconds is not None:
            return True
        for resource, least in self._lowest_thresholds:
            spent = self._spent.get(resource, 0)
            if spent and float(spent) >= least:
                return True
        return False

    def take_threshold(self, listener: object) -> PassedThreshold | None:
        """Return a passed threshold that was not yet reported to a listener; None when there is none.

        Args:
            listener: The listener that is about to be notified; None for traces.
        """
        if self.ledger is not None:
            return self._take_shared_threshold(listener, self.ledger.seen)
        if self.terms.shared:
            return None  # on a worker, whose program reports it
        seconds = 0.0 if self.terms.limits.seconds is None else self.watch.elapsed_seconds
        with ACCOUNTS_LOCK:
            reported = self._reported.setdefault(listener, set())
            for resource, limit in self.terms.limits.limited():
                spent = seconds if resource == "seconds" else self._spent.get(resource, 0)
                for part in self.terms.thresholds:
                    is_passed = float(spent) >= part * float(limit) and spent > 0
                    if is_passed and (resource, part, 0) not in reported:
                        reported.add((resource, part, 0))
                        return PassedThreshold(resource, part, spent, limit)
        return None

    def _take_shared_threshold(
        self, listener: object, states: Sequence[WindowState]
    ) -> PassedThreshold | None:
        with ACCOUNTS_LOCK:
            reported = self._reported.setdefault(listener, set())
            for state in states:
                for part in self.terms.thresholds:
                    is_passed = float(state.spent) >= part * float(state.limit) and state.spent > 0
                    # Once in each window of a calendar; a rolling one is reported again when it was below.
                    key = (state.resource, part, state.number if not state.is_rolling else -1)
                    if is_passed and key not in reported:
                        reported.add(key)
                        return PassedThreshold(state.resource, part, state.spent, state.limit)
                    if not is_passed and state.is_rolling:
                        reported.discard(key)
        return None

    def put_threshold_back(self, listener: object, threshold: PassedThreshold) -> None:
        """Mark a threshold as not reported to a listener after all.

        Args:
            listener: The listener that was to be notified.
            threshold: The threshold.
        """
        with ACCOUNTS_LOCK:
            self._reported[listener] = {
                each for each in self._reported[listener] if each[:2] != (threshold.resource, threshold.part)
            }

    def _limit(self, resource: Resource) -> Amount | None:
        """The limit that this account keeps itself; None for none."""
        if self.terms.shared:
            return None
        return getattr(self.terms.limits, resource)

    def _in_use(self, resource: Resource) -> Amount:
        return self._spent.get(resource, 0) + self._reserved.get(resource, 0)

    def _breach(self, resource: Resource, limit: Amount, asked: Amount) -> BudgetExceededError:
        return self._remember(
            BudgetExceededError(
                budget=self.terms.name,
                resource=resource,
                limit=limit,
                spent=self._spent.get(resource, 0),
                reserved=self._reserved.get(resource, 0),
                asked=asked,
            )
        )

    def _remember(self, error: BudgetExceededError) -> BudgetExceededError:
        error.account_id = self.id
        return error


def ledger_id(budget: str) -> str:
    """Return the id of the account of a shared budget, in errors; see `BudgetExceededError.account_id`.

    Args:
        budget: The name of the budget.
    """
    return f"shared {budget}"


def shared_breach(budget: str, state: WindowState, asked: Amount) -> BudgetExceededError:
    """Return the error for a window of a shared budget that has no room.

    Args:
        budget: The name of the budget.
        state: The window.
        asked: The amount.
    """
    error = BudgetExceededError(
        budget=budget,
        resource=state.resource,
        limit=state.limit,
        spent=state.spent,
        reserved=state.reserved,
        asked=asked,
        window=state.window,
    )
    error.account_id = ledger_id(budget)
    return error


def _by_resource(states: Sequence[WindowState], attribute: str) -> dict[str, Any]:
    """The amounts of each resource; with two windows, those of the one that has less left."""
    tightest = sorted(states, key=lambda state: state.remaining, reverse=True)
    return {state.resource: getattr(state, attribute) for state in tightest}


@contextmanager
def counting_time(accounts: Iterable[BudgetAccount]) -> Generator[None, None, None]:
    """Count the time of accounts during the `with` statement.

    Args:
        accounts: The accounts.
    """
    with ExitStack() as stack:
        for account in accounts:
            stack.enter_context(account.watch)
        yield


def find_lender(accounts: Iterable[BudgetAccount]) -> Lender | None:
    """Return the way to the accounts that are kept elsewhere; None when there are none.

    Args:
        accounts: The accounts, outermost first.
    """
    for account in accounts:
        return account.lender
    return None


def own_accounts(accounts: Iterable[BudgetAccount]) -> tuple[BudgetAccount, ...]:
    """Return the accounts that are not kept elsewhere.

    Args:
        accounts: The accounts.
    """
    return tuple(account for account in accounts if account.lender is None)


def breached_account(error: BudgetExceededError, accounts: tuple[BudgetAccount, ...]) -> BudgetAccount | None:
    """Return the account that raised an error; None when it is none of these.

    Args:
        error: The error.
        accounts: The accounts.
    """
    return next((account for account in accounts if account.has_refused(error)), None)
