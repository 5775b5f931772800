"""Changes of several accounts at once: all or nothing. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ...errors import BudgetExceededError
from ...parallel.fair_queue import FairQueue, wake
from ...types.usage import Usage
from .account import ACCOUNTS_LOCK, BudgetAccount, Payer
from .terms import Amount, Amounts, Resource

_GROWTH = 4
"""The next request is assumed to be larger by this fraction, one in four: conversations grow."""


class Entry(NamedTuple):
    """An amount to reserve in one account.

    Args:
        account: The account.
        amounts: The amounts; cost may differ between accounts with different prices.
    """

    account: BudgetAccount
    amounts: Amounts


class Reservation:
    """The reservations for one model request in its accounts. Made by `reserve`, ended by `settle`.

    Args:
        entries: The reserved amounts.
        payer: The step that pays; None for none.
        next_breach: The reason why an account with `on_exceeded="conclude"` has no room for another such
            request; None when there is room.
    """

    __slots__ = ("_entries", "_payer", "next_breach")

    def __init__(
        self, entries: Sequence[Entry], *, payer: Payer | None, next_breach: BudgetExceededError | None
    ) -> None:
        self._entries = tuple(entries)
        self._payer = payer
        self.next_breach = next_breach

    @property
    def amounts(self) -> list[Amounts]:
        """The reserved amounts of each account."""
        return [entry.amounts for entry in self._entries]

    def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> bool:
        """Reserve the consumed amounts and some more, instead of the present reservation.

        It does not wait in the queue: others may be waiting for its reservation.

        Args:
            kept: The consumed amounts, for each account in the order of the entries.
            added: The amounts to reserve as well, likewise.

        Returns:
            Whether there was room; False when there would be, but for the reservations of others. Then only
            `kept` is reserved.

        Raises:
            BudgetExceededError: An account has no room for `added`, even without the reservations of others.
                Then only `kept` is reserved.
        """
        with ACCOUNTS_LOCK:
            self._replace_locked(kept)
            entries = [Entry(entry.account, more) for entry, more in zip(self._entries, added, strict=True)]
            lasting = _find_lasting_breach_locked(entries, kept=kept)
            has_room = _find_breach_locked(entries) is None
            if has_room:
                self._replace_locked([added_up(*both) for both in zip(kept, added, strict=True)])
            answered = _QUEUE.move()
        wake(answered)
        if lasting is not None:
            raise lasting
        return has_room

    def keep(self, kept: Sequence[Amounts]) -> None:
        """Reserve the consumed amounts instead of the present reservation.

        Args:
            kept: The consumed amounts, for each account in the order of the entries.
        """
        with ACCOUNTS_LOCK:
            self._replace_locked(kept)
            answered = _QUEUE.move()
        wake(answered)

    def _replace_locked(self, amounts: Sequence[Amounts]) -> None:
        """Reserve other amounts instead."""
        for entry in self._entries:
            entry.account.return_locked(entry.amounts)
        self._entries = tuple(
            Entry(entry.account, each) for entry, each in zip(self._entries, amounts, strict=True)
        )
        for entry in self._entries:
            entry.account.reserve_locked(entry.amounts)

    def settle(self, spent: Sequence[Amounts], model_name: str, usage: Usage | None) -> None:
        """Charge the spent amounts and return the rest. Call it once.

        Args:
            spent: The charges of the accounts, in the order of the entries.
            model_name: The model id.
            usage: The usage of the request; None for a charge of something else.
        """
        with ACCOUNTS_LOCK:
            self._release_locked()
            for entry, amounts in zip(self._entries, spent, strict=True):
                entry.account.spend_locked(amounts)
                if usage is not None:
                    entry.account.meter.add(model_name, usage)
            answered = _QUEUE.move()
        wake(answered)

    def cancel(self) -> None:
        """Return everything, because nothing is sent. Call it once, instead of `settle`."""
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
    """Reserve amounts in all accounts, or in none, without waiting.

    Args:
        entries: The amounts to reserve, outermost account first.
        payers: The steps in progress, outermost first; the last one pays.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
    """
    with ACCOUNTS_LOCK:
        return _reserve_locked(entries, payers)


async def reserve_in_turn(entries: Sequence[Entry], *, payers: Sequence[Payer]) -> Reservation:
    """Reserve amounts in all accounts, or in none, as soon as there is room.

    When there is room but for the reservations of others, it waits in the queue until they settle. It does
    not wait when this step or a parent of it already has a reservation: others may be waiting for that one.

    Args:
        entries: The amounts to reserve, outermost account first.
        payers: The steps in progress, outermost first; the last one pays.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
    """
    with ACCOUNTS_LOCK:
        if any(payer.requests for payer in payers):
            return _reserve_locked(entries, payers)
        accounts = [entry.account for entry in entries]
        turn = _QUEUE.join(lambda: _decide_locked(entries, payers), needs=accounts)
    answer = await _QUEUE.wait(turn, _give_back)
    if isinstance(answer, BudgetExceededError):
        raise answer
    return answer


def _give_back(answer: _Answer) -> None:
    """Cancel a reservation that was made when its waiter had just been cancelled."""
    if isinstance(answer, Reservation):
        answer.cancel()


def charge(accounts: Sequence[BudgetAccount], resource: Resource, amount: Amount = 1) -> None:
    """Charge an amount to all accounts, or to none.

    Args:
        accounts: The accounts, outermost first.
        resource: The resource.
        amount: The amount.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
    """
    entries = [Entry(account, {resource: amount}) for account in accounts]
    with ACCOUNTS_LOCK:
        _check_room_locked(entries)
        for entry in entries:
            entry.account.spend_locked(entry.amounts)


def charge_usage(entries: Sequence[Entry], model_name: str, usage: Usage | None) -> None:
    """Charge amounts that were already consumed, even without room.

    Args:
        entries: The charges of the accounts.
        model_name: The model id.
        usage: The usage; None for a charge of something else.
    """
    with ACCOUNTS_LOCK:
        for entry in entries:
            entry.account.spend_locked(entry.amounts)
            if usage is not None:
                entry.account.meter.add(model_name, usage)


def find_full(accounts: Sequence[BudgetAccount], least: Amounts) -> BudgetExceededError | None:
    """Return the reason why there is no room for the least amounts; None when there is, or may be later.

    Reservations of others do not count, because they may be returned.

    Args:
        accounts: The accounts, outermost first.
        least: The least amounts that are needed.
    """
    with ACCOUNTS_LOCK:
        return _find_lasting_breach_locked([Entry(account, least) for account in accounts])


def _decide_locked(entries: Sequence[Entry], payers: Sequence[Payer]) -> _Answer | None:
    """Return the reservation, or the reason why it will never come; None to wait."""
    if _find_breach_locked(entries) is None:  # and so none that lasts
        return _reserved_locked(entries, payers)
    return _find_lasting_breach_locked(entries)


def _reserve_locked(entries: Sequence[Entry], payers: Sequence[Payer]) -> Reservation:
    _check_room_locked(entries)
    return _reserved_locked(entries, payers)


def _reserved_locked(entries: Sequence[Entry], payers: Sequence[Payer]) -> Reservation:
    """Reserve amounts for which there is room."""
    for entry in entries:
        entry.account.reserve_locked(entry.amounts)
    payer = payers[-1] if payers else None
    if payer is not None:
        payer.requests += 1
    breaches = (breach for entry in entries if (breach := _find_next_breach_locked(entry)) is not None)
    return Reservation(entries, payer=payer, next_breach=next(breaches, None))


def _check_room_locked(entries: Sequence[Entry]) -> None:
    breach = _find_breach_locked(entries)
    if breach is not None:
        raise breach


def _find_breach_locked(entries: Sequence[Entry]) -> BudgetExceededError | None:
    for account, amounts in entries:
        if (breach := account.find_breach_locked(amounts)) is not None:
            return breach
    return None


def _find_lasting_breach_locked(
    entries: Sequence[Entry], *, kept: Sequence[Amounts] | None = None
) -> BudgetExceededError | None:
    breaches = (
        entry.account.find_lasting_breach_locked(entry.amounts, kept=kept[position] if kept else {})
        for position, entry in enumerate(entries)
    )
    return next((breach for breach in breaches if breach is not None), None)


def _find_next_breach_locked(entry: Entry) -> BudgetExceededError | None:
    """Return the reason why steps must conclude: there is no room for another request or tool call.

    Reservations of others do not count: most of them are returned.
    """
    account = entry.account
    if account.terms.on_exceeded != "conclude":
        return None
    both: dict[Resource, Amount] = {
        resource: 2 * amount if resource == "turns" else amount + grown(amount)
        for resource, amount in entry.amounts.items()
    }
    return account.find_lasting_breach_locked({**both, "tool_calls": 1})


def added_up(one: Amounts, other: Amounts) -> Amounts:
    """Return the amounts of both."""
    both: dict[Resource, Amount] = {**one}
    for resource, amount in other.items():
        both[resource] = both.get(resource, 0) + amount
    return both


def grown(amount: Amount) -> Amount:
    """Return the amount of a next request, which is larger."""
    return amount + (amount // _GROWTH if isinstance(amount, int) else amount / _GROWTH)
