"""Changes of several accounts at once: all or nothing. Floor 3. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import BudgetExceededError
from ...types.usage import Usage
from .account import ACCOUNTS_LOCK, Amounts, BudgetAccount
from .terms import Amount, Resource

__all__ = ["Entry", "Reservation", "charge", "charge_usage", "find_full", "reserve"]

_GROWTH = 4
"""The next request is taken to be larger than the present one by one part in so many: conversations grow."""


class Entry(NamedTuple):
    """What is to be done with one account.

    Args:
        account: The account.
        amounts: How much; money may differ between accounts, whose prices differ.
    """

    account: BudgetAccount
    amounts: Amounts


class Reservation:
    """What accounts have set aside for one model request. Made by `reserve`, ended by `settle`.

    Args:
        entries: What was set aside.
        concludes: Whether an account that wants steps to be concluded has no room for another such request.
    """

    __slots__ = ("_entries", "concludes")

    def __init__(self, entries: Sequence[Entry], *, concludes: bool) -> None:
        self._entries = tuple(entries)
        self.concludes = concludes

    @property
    def amounts(self) -> list[Amounts]:
        """What each account has set aside."""
        return [entry.amounts for entry in self._entries]

    def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> None:
        """Set aside what was consumed, and something more, instead of what was set aside.

        Args:
            kept: What was consumed, for each account in the order of the entries.
            added: What is to be set aside as well, likewise.

        Raises:
            BudgetExceededError: An account has no room for `added`. What was consumed stays set aside.
        """
        with ACCOUNTS_LOCK:
            self._replace_locked(kept)
            _check_room_locked(
                [Entry(entry.account, amounts) for entry, amounts in zip(self._entries, added, strict=True)]
            )
            self._replace_locked([_sum(*both) for both in zip(kept, added, strict=True)])

    def _replace_locked(self, amounts: Sequence[Amounts]) -> None:
        """Set other amounts aside."""
        for entry in self._entries:
            entry.account.return_locked(entry.amounts)
        self._entries = tuple(
            Entry(entry.account, each) for entry, each in zip(self._entries, amounts, strict=True)
        )
        for entry in self._entries:
            entry.account.reserve_locked(entry.amounts)

    def settle(self, spent: Sequence[Amounts], model_name: str, usage: Usage) -> None:
        """Charge what was spent and return the rest. To be done once.

        Args:
            spent: What each account is charged, in the order of the entries.
            model_name: The model id.
            usage: The usage of the request.
        """
        with ACCOUNTS_LOCK:
            for entry, amounts in zip(self._entries, spent, strict=True):
                entry.account.return_locked(entry.amounts)
                entry.account.spend_locked(amounts)
                entry.account.meter.add(model_name, usage)


def reserve(entries: Sequence[Entry]) -> Reservation:
    """Set something aside in all accounts, or in none.

    Args:
        entries: What to set aside, outermost account first.

    Raises:
        BudgetExceededError: An account has no room for it. Nothing has changed.
    """
    with ACCOUNTS_LOCK:
        _check_room_locked(entries)
        for entry in entries:
            entry.account.reserve_locked(entry.amounts)
        concludes = any(_is_last_locked(entry) for entry in entries)
    return Reservation(entries, concludes=concludes)


def charge(accounts: Sequence[BudgetAccount], resource: Resource, amount: Amount = 1) -> None:
    """Charge something that begins to all accounts, or to none.

    Args:
        accounts: The accounts, outermost first.
        resource: What.
        amount: How much.

    Raises:
        BudgetExceededError: An account has no room for it. Nothing has changed.
    """
    entries = [Entry(account, {resource: amount}) for account in accounts]
    with ACCOUNTS_LOCK:
        _check_room_locked(entries)
        for entry in entries:
            entry.account.spend_locked(entry.amounts)


def charge_usage(entries: Sequence[Entry], model_name: str, usage: Usage) -> None:
    """Charge what has been consumed already, whether there is room or not.

    Args:
        entries: What each account is charged.
        model_name: The model id.
        usage: What was consumed.
    """
    with ACCOUNTS_LOCK:
        for entry in entries:
            entry.account.spend_locked(entry.amounts)
            entry.account.meter.add(model_name, usage)


def find_full(accounts: Sequence[BudgetAccount], least: Amounts) -> BudgetExceededError | None:
    """Why there is no room even for the least; None when there is in all accounts.

    Args:
        accounts: The accounts, outermost first.
        least: How much is needed at least.
    """
    with ACCOUNTS_LOCK:
        breaches = (account.find_breach_locked(least) for account in accounts)
        return next((breach for breach in breaches if breach is not None), None)


def _check_room_locked(entries: Sequence[Entry]) -> None:
    for entry in entries:
        breach = entry.account.find_breach_locked(entry.amounts)
        if breach is not None:
            raise breach


def _is_last_locked(entry: Entry) -> bool:
    """Whether an account is to be told of, because another request would not fit, or no tool call would."""
    account = entry.account
    if account.terms.on_exceeded != "conclude":
        return False
    another: dict[Resource, Amount] = {
        resource: amount if resource == "turns" else _grown(amount)
        for resource, amount in entry.amounts.items()
    }
    return not account.has_room_locked({**another, "tool_calls": 1})


def _sum(one: Amounts, other: Amounts) -> Amounts:
    """Both together."""
    both: dict[Resource, Amount] = {**one}
    for resource, amount in other.items():
        both[resource] = both.get(resource, 0) + amount
    return both


def _grown(amount: Amount) -> Amount:
    return amount + (amount // _GROWTH if isinstance(amount, int) else amount / _GROWTH)
