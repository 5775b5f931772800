"""Reservations and charges in the ledgers of shared budgets, after those in the accounts of this process.

A ledger is one more place that a reservation asks: everything is reserved in all places, or nothing in any.
They are asked in one order everywhere, so nobody waits in a circle.

What a durable run has consumed counts in the life that consumed it, and not again in a later one, which finds
it recorded. See `ledger`.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ...errors import BudgetExceededError
from ...journal_ports import RunJournal
from ...kernel.calls import current_place
from ...kernel.environment import find_journal, get_execution_ref
from ...types.usage import Usage
from .account import BudgetAccount, shared_breach
from .ledger import Ledger, LedgerLoan, WindowState
from .notices import record_exceeded
from .reservation import Entry, added_up, grown
from .terms import Amounts, Resource


class RequestKey(NamedTuple):
    """The key by which a request, or a charge, counts once in the lives of a durable run.

    Args:
        name: Its name, the same in all lives; empty where it always counts.
        is_recorded: Whether the response to the request is recorded, so that nothing is sent.
        is_charge: Whether it is no request, and charged at once.
    """

    name: str
    is_recorded: bool
    is_charge: bool = False


class ReservedHere(Protocol):
    """A reservation in the other accounts; see `Reservation`."""

    @property
    def next_breach(self) -> BudgetExceededError | None:
        """See `Reservation.next_breach`."""
        ...

    @property
    def amounts(self) -> list[Amounts]:
        """See `Reservation.amounts`."""
        ...

    def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> bool | Awaitable[bool]:
        """See `Reservation.renew`."""
        ...

    def keep(self, kept: Sequence[Amounts]) -> None:
        """See `Reservation.keep`."""
        ...

    def settle(self, spent: Sequence[Amounts], model_name: str, usage: Usage | None) -> None:
        """See `Reservation.settle`."""
        ...

    def cancel(self) -> None:
        """See `Reservation.cancel`."""
        ...


def request_key() -> RequestKey | None:
    """Return the key of the request in the current place; None where a run is only replayed."""
    journal = find_journal()
    if journal is None:
        return RequestKey("", is_recorded=False)
    if journal.is_replay:
        return None
    place = current_place()
    is_recorded = journal.find_cached(place) is not None
    return RequestKey(f"{get_execution_ref().run_id} {place}", is_recorded=is_recorded)


async def reserve_shared(
    here: ReservedHere, entries: Sequence[Entry], *, key: RequestKey | None, may_wait: bool
) -> "SharedReservation":
    """Reserve amounts in the ledgers as well, or return those of the other accounts.

    Args:
        here: The reservation in the other accounts.
        entries: The entries of all accounts.
        key: The key of the request; None where nothing counts.
        may_wait: Whether to wait while only the reservations of others are in the way.

    Raises:
        BudgetExceededError: There is no room. Nothing has changed.
    """
    loans: list[tuple[int, LedgerLoan]] = []
    if key is not None:
        try:
            for position in _in_order(entries):
                account, asked = entries[position]
                assert account.ledger is not None
                if key.is_recorded:
                    loans.append((position, account.ledger.find_left(key.name)))
                    continue
                if key.is_charge:
                    minute = await account.ledger.charge(asked, key=key.name)
                    loans.append((position, _Charge(account.ledger, asked, key.name, minute)))
                    continue
                loan = await account.ledger.reserve(asked, key=key.name, may_wait=may_wait)
                loans.append((position, loan))
        except BaseException:
            for _, loan in loans:
                loan.settle({})
            here.cancel()
            raise
    return SharedReservation(here, entries, loans)


class _Charge:
    """A charge that was made at once, as a reservation that is settled at once; a `LedgerLoan`."""

    states: Sequence[WindowState] = ()

    def __init__(self, ledger: Ledger, amounts: Amounts, key: str, minute: int | None) -> None:
        self._ledger = ledger
        self._amounts = amounts
        self._key = key
        self._minute = minute

    async def renew(self, amounts: Amounts) -> bool:
        return True

    def keep(self, amounts: Amounts) -> None:
        pass

    def begin(self, amounts: Amounts) -> None:
        pass

    def settle(self, spent: Amounts) -> None:
        if not spent and self._minute is not None:
            self._ledger.take_back(self._amounts, key=self._key, minute=self._minute)


class SharedReservation:
    """The reservations for one model request, of which some are in ledgers. Made by `reserve_shared`.

    Args:
        here: The reservation in the other accounts.
        entries: The entries of all accounts.
        loans: The reservations in ledgers, with the positions of their entries.
    """

    def __init__(
        self, here: ReservedHere, entries: Sequence[Entry], loans: Sequence[tuple[int, LedgerLoan]]
    ) -> None:
        self._here = here
        self._loans = loans
        self.next_breach = here.next_breach or self._find_next_breach(entries)

    @property
    def amounts(self) -> list[Amounts]:
        """The reserved amounts of each account."""
        return self._here.amounts

    async def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> bool:
        """Reserve the consumed amounts and some more; see `Reservation.renew`."""
        has_room = False
        try:
            answer = self._here.renew(kept, added)
            has_room = await answer if isawaitable(answer) else answer
            for position, loan in self._loans if has_room else ():
                if not await loan.renew(added_up(kept[position], added[position])):
                    has_room = False
                    break
        except BudgetExceededError as error:
            has_room = False
            record_exceeded(error)
            raise
        finally:
            if not has_room:
                self.keep(kept)
        return has_room

    def keep(self, kept: Sequence[Amounts]) -> None:
        """Reserve the consumed amounts instead; see `Reservation.keep`."""
        self._here.keep(kept)
        for position, loan in self._loans:
            loan.keep(kept[position])

    def begin(self, amounts: Sequence[Amounts]) -> None:
        """Charge what is consumed for sure to the ledgers, for the case that this process is killed."""
        for position, loan in self._loans:
            loan.begin(amounts[position])

    def settle(self, spent: Sequence[Amounts], model_name: str, usage: Usage | None) -> None:
        """Charge the spent amounts and return the rest; see `Reservation.settle`."""
        for position, loan in self._loans:
            loan.settle(spent[position])
        self._here.settle(spent, model_name, usage)

    def cancel(self) -> None:
        """Return everything, because nothing is sent; see `Reservation.cancel`."""
        for _, loan in self._loans:
            loan.settle({})
        self._here.cancel()

    def _find_next_breach(self, entries: Sequence[Entry]) -> BudgetExceededError | None:
        """Return the reason why steps must conclude; see `reservation`."""
        for position, loan in self._loans:
            account, amounts = entries[position]
            if account.terms.on_exceeded != "conclude":
                continue
            for state in loan.states:
                amount = amounts.get(state.resource, int(state.resource == "tool_calls"))
                both = 2 * amount if state.resource == "turns" else amount + grown(amount)
                if state.spent + both > state.limit:
                    return shared_breach(account.terms.name, state, both)
        return None


async def charge_shared(accounts: Sequence[BudgetAccount], resource: Resource) -> Callable[[], None]:
    """Charge one of a resource to the ledgers, or to none; once for all lives of a durable run.

    Args:
        accounts: The accounts.
        resource: The resource.

    Returns:
        A function that takes the charges back.

    Raises:
        BudgetExceededError: A ledger has no room.
    """
    charged: list[tuple[Ledger, int]] = []
    key = _charge_key(resource)

    def take_back() -> None:
        for ledger, minute in charged:
            ledger.take_back({resource: 1}, key=key or "", minute=minute)

    if key is not None:
        try:
            for position in _in_order([Entry(account, {}) for account in accounts]):
                ledger = accounts[position].ledger
                assert ledger is not None
                minute = await ledger.charge({resource: 1}, key=key)
                if minute is not None:
                    charged.append((ledger, minute))
        except BaseException:
            take_back()
            raise
    return take_back


async def check_shared_room(accounts: Sequence[BudgetAccount], least: Amounts) -> None:
    """Check that the ledgers have room for the least amounts; see `reservation.find_full`.

    Raises:
        BudgetExceededError: One has none.
    """
    for account in accounts:
        if account.ledger is not None and (error := await account.ledger.find_breach(least)) is not None:
            record_exceeded(error)
            raise error


def spend_shared(entries: Sequence[Entry]) -> None:
    """Charge amounts that were already consumed to the ledgers, even without room."""
    journal = find_journal()
    for account, amounts in entries:
        if account.ledger is not None and (journal is None or not journal.is_replay):
            account.ledger.spend(amounts)


def has_shared(accounts: Sequence[BudgetAccount]) -> bool:
    """Whether one of some accounts has a ledger."""
    return any(account.ledger is not None for account in accounts)


_passed: WeakKeyDictionary[RunJournal, Counter[str]] = WeakKeyDictionary()
"""The number of times that each charge of a life of a run was made."""


def _charge_key(resource: Resource) -> str | None:
    """Return the key of a charge in the current place; None where a run is only replayed."""
    journal = find_journal()
    if journal is not None and journal.is_replay:
        return None
    return numbered_key(journal, f"{resource} {current_place()}")


def numbered_key(journal: RunJournal | None, name: str) -> str:
    """Return the key of a charge, which several lives of a run make; empty without a journal.

    Args:
        journal: The journal of the run.
        name: The name of the charge. Each life makes charges of one name in the same order.
    """
    if journal is None:
        return ""
    passed = _passed.setdefault(journal, Counter())
    passed[name] += 1
    return f"{get_execution_ref().run_id} {name} {passed[name]}"


def _in_order(entries: Sequence[Entry]) -> list[int]:
    """Return the positions of the entries with a ledger, in the order of the names of their budgets."""
    named = [
        (entry.account.terms.name, position)
        for position, entry in enumerate(entries)
        if entry.account.ledger is not None
    ]
    return [position for _, position in sorted(named)]
