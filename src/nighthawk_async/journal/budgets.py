"""Budgets by windows of time, as a store keeps them for all processes; see `policies.budgets.ledger`.

What a request consumes is written behind: neither its response nor its step waits for it. A change that
cannot be written is written with the next one. Until then its reservation stays.
"""

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec
from msgspec import Struct

from ..errors import BudgetExceededError
from ..parallel.event_loop import LoopEvent
from ..policies.budgets.account import shared_breach
from ..policies.budgets.ledger import Ledger, WindowState
from ..policies.budgets.terms import Amount, Amounts, Resource, SharedLimit
from ..policies.budgets.windows import Window
from . import budget_table, tables
from .acknowledgement import Acknowledgement
from .budget_table import minute_of
from .database import Database
from .errors import JournalStoreError
from .holders import is_alive, process_name
from .listeners import FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, Listeners
from .names import check_name
from .schedule_table import read_now
from .store_thread import StoreThread

_logger = logging.getLogger("nighthawk")

_COST_DIGITS = 10
Result = TypeVar("Result")
Change = Callable[[Database], object]


class BudgetRow(Struct, frozen=True, kw_only=True):
    """A budget of a store.

    Args:
        name: Its name.
        windows: Its present windows, one for each limit.
    """

    name: str
    windows: tuple[WindowState, ...]


class StoreBudgets:
    """The budgets of a store.

    Args:
        thread: The thread of the store.
    """

    def __init__(self, thread: StoreThread) -> None:
        self.holder = process_name(uuid.uuid4().hex[:8])
        self.listeners = Listeners()
        self._thread = thread
        self._unwritten: deque[tuple[str, Change]] = deque()
        self._is_renewing = self._has_failed = False

    def open(self, name: str, limits: Sequence[SharedLimit]) -> Ledger:
        """Return the ledger of a budget; see `JournalStore.open_budget`."""
        check_name(name, "the name of a budget")
        return StoreBudget(self, name, tuple(limits))

    def read_all(self) -> list[BudgetRow]:
        """Read all budgets. Blocks."""
        return self.start_reading().wait_in_thread()

    def start_reading(self) -> Acknowledgement[list[BudgetRow]]:
        """Begin to read all budgets."""

        def read(database: Database) -> list[BudgetRow]:
            rows = budget_table.read_definitions(database)
            return [
                BudgetRow(name=name, windows=read_states(database, name, decode_limits(limits), self.holder))
                for name, limits in rows
            ]

        return self._thread.perform(self._written_before, read)

    @property
    def store(self) -> object:
        """The parts that all ledgers share."""
        return self._thread

    async def transact(self, change: Callable[[Database], Result]) -> Result:
        """Write what is unwritten, and call a function in a transaction, to its end also when cancelled."""

        def perform(database: Database) -> Result:
            self._renew_from_now_on()
            with database.transaction():
                return change(database)

        with anyio.CancelScope(shield=True):
            return await self._thread.perform(self._written_before, perform).wait()
        raise AssertionError("a shielded scope is not cancelled")

    def read(self, function: Callable[[Database], Result]) -> Result:
        """Call a function that only reads. Blocks."""
        return self._thread.perform(self._written_before, function).wait_in_thread()

    def write_behind(self, name: str, change: Change) -> None:
        """Have a change of a budget written soon."""
        self._unwritten.append((name, change))
        try:
            self._thread.perform(self._write_unwritten).call_when_done(self._note_failure)
        except JournalStoreError as error:  # it was closed too early
            self._note_failure(error)

    def _written_before(self, function: Callable[[Database], Result]) -> Result:
        self._write_unwritten()
        return function(self._thread.opened())

    def _write_unwritten(self) -> None:
        """Write the changes so far in one transaction; in the thread of the store."""
        changes = list(self._unwritten)
        if not changes:
            return
        database = self._thread.opened()
        with database.transaction():
            for name in sorted({name for name, _ in changes}):  # all processes in the same order
                budget_table.lock_budget(database, name)
            for _, change in changes:
                change(database)
        for _ in changes:
            self._unwritten.popleft()
        for name in {name for name, _ in changes}:
            self.listeners.wake(name)

    def _note_failure(self, error: Exception | None) -> None:
        if error is not None and not self._has_failed:
            _logger.warning(
                "what budgets have spent cannot be written; it is tried again until the store is closed: %s",
                error,
            )
        self._has_failed = error is not None

    def _renew_from_now_on(self) -> None:
        if not self._is_renewing:
            self._is_renewing = True
            self._thread.renew_also(self._renew)

    def _renew(self, database: Database) -> None:
        self._write_unwritten()
        with database.transaction():
            budget_table.renew_reservations(database, self.holder, tables.LEASE_SECONDS)


class _Decision(NamedTuple):
    """A decision about a reservation or a charge.

    Args:
        minute: The minute in which it was made; None for a charge that was made before.
        breach: The reason why there is no room; None where it was made.
        is_lasting: Whether there is no room even without the reservations of others.
    """

    minute: int | None
    breach: BudgetExceededError | None = None
    is_lasting: bool = False


class StoreBudget:
    """The ledger of one budget; see `Ledger`.

    Args:
        budgets: The budgets of the store.
        name: The name of the budget.
        limits: Its limits.
    """

    def __init__(self, budgets: StoreBudgets, name: str, limits: tuple[SharedLimit, ...]) -> None:
        self.name = name
        self.limits = limits
        self.seen: tuple[WindowState, ...] = ()
        self._budgets = budgets
        self._resources = {each.resource for each in limits}
        self._is_defined = False
        self._waiting: deque[LoopEvent] = deque()
        self._lock = threading.Lock()

    @property
    def key(self) -> tuple[object, str]:
        """The store, and the name."""
        return self._budgets.store, self.name

    async def reserve(self, asked: Amounts, *, key: str, may_wait: bool) -> "StoreLoan":
        """Reserve amounts; see `Ledger`."""
        loan = StoreLoan(self, uuid.uuid4().hex)

        def insert(database: Database, minute: int) -> None:
            budget_table.insert_reservation(
                database,
                loan.id,
                self.name,
                key,
                minute,
                self.units(asked),
                holder=self._budgets.holder,
                seconds=tables.LEASE_SECONDS,
            )

        with self._lock:
            has_queue = bool(self._waiting)
        breach = None if may_wait and has_queue else (await self.decide(asked, insert)).breach
        if breach is not None and not may_wait:
            raise breach
        if breach is not None or (may_wait and has_queue):
            await self._wait_for_room(asked, insert)
        loan.states = self.seen
        return loan

    async def _wait_for_room(self, asked: Amounts, insert: Callable[[Database, int], None]) -> None:
        """Reserve amounts when those that others of this process asked for before are reserved."""
        turn = LoopEvent()
        with self._lock:
            self._waiting.append(turn)
            is_first = self._waiting[0] is turn
        try:
            if not is_first:
                await turn.wait()
            pause = FIRST_PAUSE_SECONDS
            while True:
                with self._budgets.listeners.listening(self.name) as changed:
                    if (await self.decide(asked, insert)).breach is None:
                        return
                    with anyio.move_on_after(pause):
                        await changed.wait()
                pause = min(2 * pause, MOST_PAUSE_SECONDS)
        finally:
            with self._lock:
                self._waiting.remove(turn)
                following = self._waiting[0] if self._waiting else None
            if following is not None:
                following.set()

    def find_left(self, key: str) -> "LeftLoan":
        """Return what an earlier life may have reserved; see `Ledger`."""
        return LeftLoan(self, key)

    async def charge(self, amounts: Amounts, *, key: str) -> int | None:
        """Charge amounts; see `Ledger`."""
        units = self.units(amounts)
        if not units:
            return None

        def spend(database: Database, minute: int) -> None:
            budget_table.spend(database, self.name, minute, units)

        decision = await self.decide(amounts, spend, charge=key)
        if decision.breach is not None:
            raise decision.breach
        return decision.minute

    def take_back(self, amounts: Amounts, *, key: str, minute: int) -> None:
        """Take a charge back; see `Ledger`."""
        units = {resource: -amount for resource, amount in self.units(amounts).items()}

        def take_back(database: Database) -> None:
            budget_table.forget_charge(database, self.name, key)
            budget_table.spend(database, self.name, minute, units)

        if units:
            self.write_behind(take_back)

    def spend(self, amounts: Amounts) -> None:
        """Charge amounts that were already consumed; see `Ledger`."""
        units = self.units(amounts)

        def spend(database: Database) -> None:
            budget_table.spend(database, self.name, minute_of(read_now(database)), units)

        if units:
            self.write_behind(spend)

    async def find_breach(self, asked: Amounts) -> BudgetExceededError | None:
        """Return the reason why there is no room; see `Ledger`."""
        states = await self._budgets.transact(self._states)
        self.seen = states
        return self._find_breach(states, asked, counts_reserved=False)

    def read(self) -> Sequence[WindowState]:
        """Return the present windows; see `Ledger`."""
        self.seen = self._budgets.read(self._states)
        return self.seen

    async def decide(
        self,
        asked: Amounts,
        change: Callable[[Database, int], None],
        *,
        charge: str = "",
        without: str = "",
    ) -> "_Decision":
        """Change the tables if there is room.

        Args:
            asked: The amounts that need room.
            change: Changes the tables; it is given the present minute.
            charge: The key of a charge that is made once; empty for none.
            without: A reservation that the amounts replace; empty for none.

        Returns:
            The decision; its reason is that of no room now, although there may be some later.

        Raises:
            BudgetExceededError: There is no room, even without the reservations of others.
        """

        def perform(database: Database) -> _Decision:
            if not self._is_defined:
                budget_table.define(database, self.name, encode_limits(self.limits))
            budget_table.lock_budget(database, self.name)
            now = read_now(database)
            minute = minute_of(now)
            if charge and not budget_table.note_charge(database, self.name, charge, minute):
                return _Decision(None)
            self.seen = states = self._states(database, now=now, without=without)
            breach = self._find_breach(states, asked)
            if breach is None:
                change(database, minute)
                return _Decision(minute)
            if charge:
                budget_table.forget_charge(database, self.name, charge)
            lasting = self._find_breach(states, asked, counts_reserved=False)
            return _Decision(minute, lasting or breach, is_lasting=lasting is not None)

        decision = await self._budgets.transact(perform)
        self._is_defined = True
        if decision.breach is not None and decision.is_lasting:
            raise decision.breach
        return decision

    def write_behind(self, change: Change) -> None:
        """Have a change written soon."""
        self._budgets.write_behind(self.name, change)

    def units(self, amounts: Amounts) -> dict[str, int]:
        """Return the amounts that are limited as the tables have them."""
        return {
            resource: _units(amount) for resource, amount in amounts.items() if resource in self._resources
        }

    def _states(
        self, database: Database, *, now: float | None = None, without: str = ""
    ) -> tuple[WindowState, ...]:
        return read_states(database, self.name, self.limits, self._budgets.holder, now=now, without=without)

    def _find_breach(
        self, states: Sequence[WindowState], asked: Amounts, *, counts_reserved: bool = True
    ) -> BudgetExceededError | None:
        for state in states:
            amount = asked.get(state.resource, 0)
            in_use = state.spent + (state.reserved if counts_reserved else 0)
            if amount and in_use + amount > state.limit:
                return shared_breach(self.name, state, amount)
        return None


class StoreLoan:
    """The reservation of one request; a `LedgerLoan`.

    Args:
        ledger: The ledger.
        reservation_id: Its id in the tables.
    """

    def __init__(self, ledger: StoreBudget, reservation_id: str) -> None:
        self.id = reservation_id
        self.states: Sequence[WindowState] = ()
        self._ledger = ledger

    async def renew(self, amounts: Amounts) -> bool:
        """Reserve other amounts; see `LedgerLoan`."""
        units = self._ledger.units(amounts)

        def change(database: Database, minute: int) -> None:
            budget_table.change_reservation(database, self.id, units)

        return (await self._ledger.decide(amounts, change, without=self.id)).breach is None

    def keep(self, amounts: Amounts) -> None:
        """Reserve no more than amounts that were consumed; see `LedgerLoan`."""
        units = self._ledger.units(amounts)
        self._ledger.write_behind(lambda database: budget_table.change_reservation(database, self.id, units))

    def begin(self, amounts: Amounts) -> None:
        """Charge what is consumed for sure; see `LedgerLoan`."""
        units = self._ledger.units(amounts)
        self._ledger.write_behind(lambda database: budget_table.charge_reservation(database, self.id, units))

    def settle(self, spent: Amounts) -> None:
        """Charge the spent amounts and return the rest; see `LedgerLoan`."""
        units = self._ledger.units(spent)
        self._ledger.write_behind(lambda database: budget_table.settle_reservation(database, self.id, units))


class LeftLoan:
    """The reservation that an earlier life of a durable run may have made for a request; a `LedgerLoan`.

    Args:
        ledger: The ledger.
        request: The key of the request.
    """

    states: Sequence[WindowState] = ()

    def __init__(self, ledger: StoreBudget, request: str) -> None:
        self._ledger = ledger
        self._request = request

    async def renew(self, amounts: Amounts) -> bool:
        """Do nothing: nothing is sent."""
        return True

    def keep(self, amounts: Amounts) -> None:
        """Do nothing: nothing is sent."""

    def begin(self, amounts: Amounts) -> None:
        """Do nothing: nothing is sent."""

    def settle(self, spent: Amounts) -> None:
        """Charge what the recorded response has consumed, unless that was charged; see `LedgerLoan`."""
        if spent:
            name, request, units = self._ledger.name, self._request, self._ledger.units(spent)
            self._ledger.write_behind(
                lambda database: budget_table.settle_left(database, name, request, units)
            )


def read_states(
    database: Database,
    name: str,
    limits: Sequence[SharedLimit],
    holder: str,
    *,
    now: float | None = None,
    without: str = "",
) -> tuple[WindowState, ...]:
    """Read the present windows of a budget.

    Args:
        database: The database.
        name: The name of the budget.
        limits: Its limits.
        holder: This process.
        now: The time, in seconds since 1970; None for that of the database.
        without: A reservation that is left out; empty for none.
    """
    now = read_now(database) if now is None else now
    states: list[WindowState] = []
    for each in limits:
        span = each.window.span(now)
        used = budget_table.read_in_use(
            database, name, each.resource, span, holder=holder, is_alive=is_alive, without=without
        )
        states.append(
            WindowState(
                resource=each.resource,
                limit=each.limit,
                spent=_amount(each.resource, used.spent),
                reserved=_amount(each.resource, used.reserved),
                window=each.window.describe(now),
                number=span.first,
                is_rolling=not each.window.period,
            )
        )
    return tuple(states)


def encode_limits(limits: Sequence[SharedLimit]) -> str:
    """Return limits as the tables have them."""
    rows = [
        {
            "resource": each.resource,
            "limit": str(each.limit),
            "period": each.window.period,
            "seconds": each.window.seconds,
            "timezone": each.window.timezone,
        }
        for each in limits
    ]
    return msgspec.json.encode(rows).decode()


def decode_limits(text: str) -> tuple[SharedLimit, ...]:
    """Return limits; see `encode_limits`."""
    rows: list[Mapping[str, Any]] = msgspec.json.decode(text)
    return tuple(
        SharedLimit(
            resource=row["resource"],
            limit=Decimal(row["limit"]) if row["resource"] == "cost" else int(row["limit"]),
            window=Window(period=row["period"], seconds=row["seconds"], timezone=row["timezone"]),
        )
        for row in rows
    )


def _units(amount: Amount) -> int:
    """An amount as the tables have it, rounded up."""
    if isinstance(amount, int):
        return amount
    return int(amount.scaleb(_COST_DIGITS).to_integral_value(ROUND_CEILING))


def _amount(resource: Resource, units: int) -> Amount:
    if resource != "cost":
        return units
    dollars = Decimal(units).scaleb(-_COST_DIGITS).normalize()
    return dollars if dollars.as_tuple().exponent <= 0 else dollars.quantize(Decimal(1), ROUND_FLOOR)  # type: ignore[operator]
