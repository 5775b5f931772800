"""Changes of several accounts at once, of which the outer ones may be kept elsewhere; see `lender`.

On a worker, its own accounts come after those of the program. An amount is reserved in its own ones first,
then in those of the program: so everything is reserved, or nothing, and nobody waits in a circle.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence

from ...errors import BudgetExceededError
from ...types.usage import Usage
from . import reservation
from .account import BudgetAccount, Payer, find_lender
from .lender import Lender, Loan
from .notices import record_exceeded
from .reservation import Entry, Reservation, added_up
from .shared import (
    RequestKey,
    SharedReservation,
    charge_shared,
    has_shared,
    request_key,
    reserve_shared,
    spend_shared,
)
from .terms import Amounts, Resource


class AwaitedAnswer(Awaitable[bool]):
    """An answer that takes a while: await it. As a truth value it is false.

    Args:
        ask: Asks for the answer.
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask

    def __await__(self) -> Generator[object, object, bool]:
        return self._ask().__await__()

    def __bool__(self) -> bool:
        return False


class LentReservation:
    """The reservations for one model request in accounts of which some are kept elsewhere.

    Args:
        lent: The entries of the accounts that are kept elsewhere.
        loan: Their reservation.
        own: The reservation in the other accounts.
    """

    def __init__(self, lent: Sequence[Entry], loan: Loan, own: Reservation) -> None:
        self._ids = [entry.account.id for entry in lent]
        self._lent = [entry.amounts for entry in lent]
        self._loan = loan
        self._own = own

    @property
    def next_breach(self) -> BudgetExceededError | None:
        """The reason why there is no room for another request; see `Reservation`."""
        return self._loan.next_breach or self._own.next_breach

    @property
    def amounts(self) -> list[Amounts]:
        """The reserved amounts of each account."""
        return [*self._lent, *self._own.amounts]

    def renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> AwaitedAnswer:
        """Reserve the consumed amounts and some more, once it is awaited; see `Reservation.renew`."""
        return AwaitedAnswer(lambda: self._renew(kept, added))

    async def _renew(self, kept: Sequence[Amounts], added: Sequence[Amounts]) -> bool:
        number = len(self._ids)
        has_room = False
        try:
            has_room = self._own.renew(kept[number:], added[number:]) and await self._loan.renew(
                self._by_id(kept), self._by_id(added)
            )
        except BudgetExceededError as error:
            record_exceeded(error)
            raise
        finally:
            if has_room:
                self._lent = [added_up(*both) for both in zip(kept[:number], added[:number], strict=True)]
            else:
                self.keep(kept)
        return has_room

    def keep(self, kept: Sequence[Amounts]) -> None:
        """Reserve the consumed amounts instead of the present reservation; see `Reservation.keep`."""
        number = len(self._ids)
        self._lent = list(kept[:number])
        self._own.keep(kept[number:])
        self._loan.keep(self._by_id(kept))

    def cancel(self) -> None:
        """Return everything, because nothing is sent; see `Reservation.cancel`."""
        self._own.cancel()
        self._loan.cancel()

    def settle(self, spent: Sequence[Amounts], model_name: str, usage: Usage | None) -> None:
        """Charge the spent amounts and return the rest; see `Reservation.settle`."""
        self._own.settle(spent[len(self._ids) :], model_name, usage)
        self._loan.settle(self._by_id(spent), model_name, usage)

    def _by_id(self, amounts: Sequence[Amounts]) -> dict[str, Amounts]:
        return dict(zip(self._ids, amounts, strict=False))


async def reserve_in_turn(
    entries: Sequence[Entry], *, model_name: str, payers: Sequence[Payer], key: RequestKey | None = None
) -> Reservation | LentReservation | SharedReservation:
    """Reserve amounts for a model request in all accounts, or in none; see `reservation.reserve_in_turn`.

    Args:
        entries: The amounts to reserve, outermost account first.
        model_name: The model id.
        payers: The steps in progress, outermost first; the last one pays.
        key: How the request counts in the lives of a run; None to find out here.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
    """
    may_wait = not any(payer.requests for payer in payers)
    reserved = await _reserve_here(entries, model_name=model_name, payers=payers)
    if not has_shared([entry.account for entry in entries]):
        return reserved
    return await reserve_shared(reserved, entries, key=key or request_key(), may_wait=may_wait)


async def _reserve_here(
    entries: Sequence[Entry], *, model_name: str, payers: Sequence[Payer]
) -> Reservation | LentReservation:
    """Reserve amounts in all accounts that are no ledgers."""
    lender = find_lender(entry.account for entry in entries)
    if lender is None:
        return await reservation.reserve_in_turn(entries, payers=payers)
    may_wait = not any(payer.requests for payer in payers)
    lent, own = _divided(entries)
    return await _with_loan(
        lender,
        lent,
        await reservation.reserve_in_turn(own, payers=payers),
        model_name=model_name,
        may_wait=may_wait,
    )


async def charge(accounts: Sequence[BudgetAccount], resource: Resource) -> None:
    """Charge one of a resource to all accounts, or to none.

    Args:
        accounts: The accounts, outermost first.
        resource: The resource.

    Raises:
        BudgetExceededError: An account has no room. Nothing has changed.
    """
    if not has_shared(accounts):
        await _charge_here(accounts, resource)
        return
    take_back = await charge_shared(accounts, resource)
    try:
        await _charge_here(accounts, resource)
    except BaseException:
        take_back()
        raise


async def _charge_here(accounts: Sequence[BudgetAccount], resource: Resource) -> None:
    """Charge one of a resource to all accounts that are no ledgers."""
    lender = find_lender(accounts)
    if lender is None:
        reservation.charge(accounts, resource)
        return
    entries = [Entry(account, {resource: 1}) for account in accounts]
    lent, own = _divided(entries)
    if any(entry.account.limits(resource) for entry in lent):
        reserved = await _with_loan(lender, lent, reservation.reserve(own), model_name="", may_wait=False)
        reserved.settle(reserved.amounts, "", None)
    else:  # it always has room there
        reservation.charge([entry.account for entry in own], resource)
        lender.spend(_by_id(lent), "", None, is_foreign=False)


def charge_usage(
    entries: Sequence[Entry], model_name: str, usage: Usage | None, *, is_foreign: bool = False
) -> None:
    """Charge amounts that were already consumed, even without room.

    Args:
        entries: The charges of the accounts.
        model_name: The model id.
        usage: The usage; None for a charge of something else.
        is_foreign: Whether the user's own agent reports it.
    """
    if is_foreign:  # what a later life finds recorded was charged to ledgers by the life that consumed it
        spend_shared(entries)
    lent, own = _divided(entries)
    reservation.charge_usage(own, model_name, usage)
    lender = find_lender(entry.account for entry in lent)
    if lender is not None:
        lender.spend(_by_id(lent), model_name, usage, is_foreign=is_foreign)


async def _with_loan(
    lender: Lender, lent: Sequence[Entry], own: Reservation, *, model_name: str, may_wait: bool
) -> LentReservation:
    """Reserve amounts in the accounts that are kept elsewhere as well, or return those of the others."""
    try:
        loan = await lender.reserve(_by_id(lent), model_name=model_name, may_wait=may_wait)
    except BaseException:
        own.cancel()
        raise
    return LentReservation(lent, loan, own)


def _divided(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the entries of accounts that are kept elsewhere, and those of the others, which come last."""
    lent = [entry for entry in entries if entry.account.lender is not None]
    return lent, list(entries[len(lent) :])


def _by_id(entries: Sequence[Entry]) -> dict[str, Amounts]:
    return {entry.account.id: entry.amounts for entry in entries}
