"""Changes of several accounts at once: all or nothing. No I/O."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from ...errors import BudgetExceededError
from ...parallel.fair_queue import FairQueue, wake
from ...types.usage import Usage
from .account import ACCOUNTS_LOCK, Amounts, BudgetAccount, Payer
from .terms import Amount, Resource

_GROWTH = 4
"""The next request is taken to be larger than the present one by one part in so many: conversations grow."""


class Entry(NamedTuple):
    """An amount to reserve in one account.

    Args:
        account: The account.
        amounts: The amounts; money may differ between accounts, whose prices differ.
    """

    account: BudgetAccount
    amounts: Amounts


class Reservation:
    """Reservations of accounts for one model request. Made by `reserve`, ended by `settle`.

    Args:
        entries: The amounts that were set aside.
        payer: The step that it is set aside for; None for none.
        concludes: Whether an account that wants steps to be concluded has no room for another such request.
    """

    __slots__ = ("_entries", "_payer", "concludes")

    def __init__(self, entries: Sequence[Entry], *, payer: Payer | None, concludes: bool) -> None:
        self._entries = tuple(entries)
        self._payer = payer
        self.concludes = concludes

    @property
    def amounts(self) -> list[Amounts]:
        """The reserved amounts of each account."""
        return [entry.amounts for entry in self._entries]

    def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> bool:
        """Set aside what was consumed, and something more, instead of what was set aside.

        It does not wait in line: others may be waiting for what it keeps.

        Args:
            kept: The consumed amounts, for each account in the order of the entries.
            added: The amounts to set aside as well, likewise.

        Returns:
            Whether there was room; False when only what others have set aside is in the way. Then what was
            consumed stays set aside.

        Raises:
            BudgetExceededError: An account has no room for `added`, whatever others do. What was consumed
                stays set aside.
        """
        with ACCOUNTS_LOCK:
            self._replace_locked(kept)
            entries = [Entry(entry.account, more) for entry, more in zip(self._entries, added, strict=True)]
            lasting = _find_lasting_breach_locked(entries, kept=kept)
            has_room = _find_breach_locked(entries) is None
            if has_room:
                self._replace_locked([_sum(*both) for both in zip(kept, added, strict=True)])
            answered = _QUEUE.move()
        wake(answered)
        if lasting is not None:
            raise lasting
        return has_room

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
            spent: The charges of the accounts, in the order of the entries.
            model_name: The model id.
            usage: The usage of the request.
        """
        with ACCOUNTS_LOCK:
            self._release_locked()
            for entry, amounts in zip(self._entries, spent, strict=True):
                entry.account.spend_locked(amounts)
                entry.account.meter.add(model_name, usage)
            answered = _QUEUE.move()
        wake(answered)

    def cancel(self) -> None:
        """Return everything, because nothing is sent. To be done once, instead of `settle`."""
        with ACCOUNTS_LOCK:
            self._release_locked()
            answered = _QUEUE.move()
        wake(answered)

    def _release_locked(self) -> None:
        if self._payer is not None:
            self._payer.requests -= 1
        for entry in self._entries:
            entry.account.return_locked(entry.amounts)


_Answer: TypeAlias = Reservation | BudgetExceededError
_QUEUE = FairQueue[_Answer](ACCOUNTS_LOCK)


def reserve(entries: Sequence[Entry], *, payers: Sequence[Payer] = ()) -> Reservation:
    """Set something aside in all accounts, or in none, at once.

    Args:
        entries: The amounts to set aside, outermost account first.
        payers: The steps in progress, outermost first; the last one pays.

    Raises:
        BudgetExceededError: An account has no room for it. Nothing has changed.
    """
    with ACCOUNTS_LOCK:
        return _reserve_locked(entries, payers)


async def reserve_in_turn(entries: Sequence[Entry], *, payers: Sequence[Payer]) -> Reservation:
    """Set something aside in all accounts, or in none, as soon as there is room.

    When only what others have set aside is in the way, it waits, in turn, until they settle. Whoever has set
    something aside already, in this step or in one around it, does not wait: others may be waiting for that.

    Args:
        entries: The amounts to set aside, outermost account first.
        payers: The steps in progress, outermost first; the last one pays.

    Raises:
        BudgetExceededError: An account has no room for it. Nothing has changed.
    """
    with ACCOUNTS_LOCK:
        if any(payer.requests for payer in payers):
            return _reserve_locked(entries, payers)
        accounts = [entry.account for entry in entries]
        turn = _QUEUE.join(partial(_decide_locked, entries, payers), needs=accounts)
    answer = await _QUEUE.wait(turn, _give_back)
    if isinstance(answer, BudgetExceededError):
        raise answer
    return answer


def _give_back(answer: _Answer) -> None:
    """Return what came at the moment in which nobody waited for it any more."""
    if isinstance(answer, Reservation):
        answer.cancel()


def charge(accounts: Sequence[BudgetAccount], resource: Resource, amount: Amount = 1) -> None:
    """Charge something that begins to all accounts, or to none.

    Args:
        accounts: The accounts, outermost first.
        resource: The resource.
        amount: The amount.

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
        entries: The charges of the accounts.
        model_name: The model id.
        usage: The usage.
    """
    with ACCOUNTS_LOCK:
        for entry in entries:
            entry.account.spend_locked(entry.amounts)
            entry.account.meter.add(model_name, usage)


def find_full(accounts: Sequence[BudgetAccount], least: Amounts) -> BudgetExceededError | None:
    """Return the reason why there is no room even for the least; None when all accounts have or will have it.

    What others have set aside may come back, so it does not count.

    Args:
        accounts: The accounts, outermost first.
        least: The least amounts that are needed.
    """
    with ACCOUNTS_LOCK:
        return _find_lasting_breach_locked([Entry(account, least) for account in accounts])


def _decide_locked(entries: Sequence[Entry], payers: Sequence[Payer]) -> _Answer | None:
    """Return the reservation, or the reason why it will never come; None to wait."""
    lasting = _find_lasting_breach_locked(entries)
    if lasting is not None:
        return lasting
    if _find_breach_locked(entries) is not None:
        return None
    return _reserve_locked(entries, payers)


def _reserve_locked(entries: Sequence[Entry], payers: Sequence[Payer]) -> Reservation:
    _check_room_locked(entries)
    for entry in entries:
        entry.account.reserve_locked(entry.amounts)
    payer = payers[-1] if payers else None
    if payer is not None:
        payer.requests += 1
    return Reservation(entries, payer=payer, concludes=any(_is_last_locked(entry) for entry in entries))


def _check_room_locked(entries: Sequence[Entry]) -> None:
    breach = _find_breach_locked(entries)
    if breach is not None:
        raise breach


def _find_breach_locked(entries: Sequence[Entry]) -> BudgetExceededError | None:
    breaches = (entry.account.find_breach_locked(entry.amounts) for entry in entries)
    return next((breach for breach in breaches if breach is not None), None)


def _find_lasting_breach_locked(
    entries: Sequence[Entry], *, kept: Sequence[Amounts] | None = None
) -> BudgetExceededError | None:
    breaches = (
        entry.account.find_lasting_breach_locked(entry.amounts, kept=kept[position] if kept else {})
        for position, entry in enumerate(entries)
    )
    return next((breach for breach in breaches if breach is not None), None)


def _is_last_locked(entry: Entry) -> bool:
    """Whether an account is to be told of, because another request would not fit, or no tool call would.

    What others have set aside does not count: most of it comes back.
    """
    account = entry.account
    if account.terms.on_exceeded != "conclude":
        return False
    both: dict[Resource, Amount] = {
        resource: 2 * amount if resource == "turns" else amount + _grown(amount)
        for resource, amount in entry.amounts.items()
    }
    return account.find_lasting_breach_locked({**both, "tool_calls": 1}) is not None


def _sum(one: Amounts, other: Amounts) -> Amounts:
    """Both together."""
    both: dict[Resource, Amount] = {**one}
    for resource, amount in other.items():
        both[resource] = both.get(resource, 0) + amount
    return both


def _grown(amount: Amount) -> Amount:
    return amount + (amount // _GROWTH if isinstance(amount, int) else amount / _GROWTH)
