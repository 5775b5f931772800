"""The tables of budgets by windows of time: what was spent in each minute, and what is reserved.

Amounts are whole numbers: those of cost count ten-billionths of a US dollar. A reservation counts as long as
the lease of its process. One that has lapsed stays for a later life of its run, which settles it if it finds
the response recorded. What is spent is in `budget_spending` alone, where nothing takes it back.

Every function is part of a transaction of the caller.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from ..policies.budgets.windows import MINUTE, Span
from .database import Database

Units = Mapping[str, int]
"""Amounts by resource."""

_RESOURCES = ("tokens", "cost", "steps", "turns", "tool_calls")
_KEPT_DAYS = 400
_LAPSED_DAYS = 40

MIGRATION = (
    "CREATE TABLE budgets (name TEXT PRIMARY KEY, limits TEXT NOT NULL){table_options}",
    """
CREATE TABLE budget_spending (
    name TEXT NOT NULL,
    resource TEXT NOT NULL,
    minute BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (name, resource, minute)
){table_options}
""",
    """
CREATE TABLE budget_reservations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    request TEXT NOT NULL,
    minute BIGINT NOT NULL,
    holder TEXT NOT NULL,
    leased_until {real} NOT NULL,
    charged TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    steps BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL
){table_options}
""",
    "CREATE INDEX budget_reservations_by_minute ON budget_reservations (name, minute)",
    "CREATE INDEX budget_reservations_by_holder ON budget_reservations (holder)",
    "CREATE INDEX budget_reservations_by_request ON budget_reservations (name, request) WHERE request <> ''",
    """
CREATE TABLE budget_charges (
    name TEXT NOT NULL,
    charge TEXT NOT NULL,
    minute BIGINT NOT NULL,
    PRIMARY KEY (name, charge)
){table_options}
""",
)
"""The statements that make the tables; see `tables.migrate`."""


class InUse(Struct, frozen=True):
    """The amounts in use in a window.

    Args:
        spent: The amount spent.
        reserved: The amount reserved by processes that may still run.
    """

    spent: int
    reserved: int


def define(database: Database, name: str, limits: str) -> None:
    """Note the limits of a budget, for those who only look, and forget what no window reaches any more."""
    database.change(
        "INSERT INTO budgets (name, limits) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET limits = excluded.limits",
        *(name, limits),
    )
    now = database.NOW
    for table, days in (("spending", _KEPT_DAYS), ("charges", _KEPT_DAYS)):
        database.change(
            f"DELETE FROM budget_{table} WHERE name = ? AND minute < {now} / 60 - ?", name, days * 1_440
        )
    database.change(
        f"DELETE FROM budget_reservations WHERE name = ? AND leased_until < {now} - ?",
        name,
        _LAPSED_DAYS * 86_400,
    )


def read_definitions(database: Database) -> list[tuple[str, str]]:
    """Read the names and the limits of all budgets."""
    return [
        (name, limits) for name, limits in database.query("SELECT name, limits FROM budgets ORDER BY name")
    ]


def lock_budget(database: Database, name: str) -> None:
    """Let nobody else reserve or charge anything before the transaction ends."""
    database.query(f"SELECT name FROM budgets WHERE name = ?{database.FOR_UPDATE}", name)


def read_in_use(
    database: Database,
    name: str,
    resource: str,
    span: Span,
    *,
    holder: str,
    is_alive: Callable[[str], bool],
    without: str = "",
) -> InUse:
    """Read what is in use in a window.

    Args:
        database: The database.
        name: The budget.
        resource: The resource.
        span: The minutes of the window.
        holder: This process.
        is_alive: Whether another process may still run.
        without: A reservation that is left out; empty for none.
    """
    assert resource in _RESOURCES
    ((spent,),) = database.query(
        "SELECT COALESCE(SUM(amount), 0) FROM budget_spending "
        "WHERE name = ? AND resource = ? AND minute >= ? AND minute < ?",
        *(name, resource, *span),
    )
    reserved = database.query(
        f"SELECT holder, SUM({resource}) FROM budget_reservations "
        f"WHERE name = ? AND minute >= ? AND minute < ? AND leased_until > {database.NOW} AND id <> ? "
        "GROUP BY holder",
        *(name, *span, without),
    )
    live = (amount for each, amount in reserved if each == holder or is_alive(each))
    return InUse(int(spent), int(sum(live)))


def insert_reservation(
    database: Database,
    reservation_id: str,
    name: str,
    request: str,
    minute: int,
    amounts: Units,
    *,
    holder: str,
    seconds: float,
) -> None:
    """Reserve amounts. What an earlier life has reserved for the request is no business of this one."""
    if request:
        database.change(
            "UPDATE budget_reservations SET request = '' WHERE name = ? AND request = ?", name, request
        )
    columns = ", ".join(_RESOURCES)
    database.change(
        "INSERT INTO budget_reservations "
        f"(id, name, request, minute, holder, leased_until, charged, {columns}) "
        f"VALUES (?, ?, ?, ?, ?, {database.NOW} + ?, '{{}}', ?, ?, ?, ?, ?)",
        *(reservation_id, name, request, minute, holder, seconds),
        *(amounts.get(resource, 0) for resource in _RESOURCES),
    )


def renew_reservations(database: Database, holder: str, seconds: float) -> None:
    """Renew the leases of all reservations of a process."""
    database.change(
        f"UPDATE budget_reservations SET leased_until = {database.NOW} + ? WHERE holder = ?", seconds, holder
    )


def change_reservation(database: Database, reservation_id: str, amounts: Units) -> None:
    """Reserve other amounts; what was charged of them is not reserved again."""
    row = _find(database, reservation_id)
    if row is not None:
        _write(database, reservation_id, amounts, row.charged)


def charge_reservation(database: Database, reservation_id: str, amounts: Units) -> None:
    """Charge a part of a reservation, for the case that nobody settles it."""
    row = _find(database, reservation_id)
    if row is None:
        return
    _spend(database, row.name, row.minute, _less(amounts, row.charged))
    _write(
        database,
        reservation_id,
        {key: row.amounts[key] + row.charged.get(key, 0) for key in _RESOURCES},
        amounts,
    )


def settle_reservation(database: Database, reservation_id: str, spent: Units) -> None:
    """End a reservation, and charge what was spent to the minute in which it was made."""
    row = _find(database, reservation_id)
    if row is not None:
        _spend(database, row.name, row.minute, _less(spent, row.charged))
        database.change("DELETE FROM budget_reservations WHERE id = ?", reservation_id)


def settle_left(database: Database, name: str, request: str, spent: Units) -> None:
    """End what an earlier life has reserved for a request with a recorded response, and has not settled."""
    rows = database.query("SELECT id FROM budget_reservations WHERE name = ? AND request = ?", name, request)
    for (reservation_id,) in rows:
        settle_reservation(database, reservation_id, spent)


def note_charge(database: Database, name: str, charge: str, minute: int) -> bool:
    """Note a charge; return whether no earlier life has made it."""
    changed = database.change(
        "INSERT INTO budget_charges (name, charge, minute) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        *(name, charge, minute),
    )
    return changed == 1


def forget_charge(database: Database, name: str, charge: str) -> None:
    """Forget a charge that is taken back."""
    database.change("DELETE FROM budget_charges WHERE name = ? AND charge = ?", name, charge)


def spend(database: Database, name: str, minute: int, amounts: Units) -> None:
    """Charge amounts to a minute."""
    _spend(database, name, minute, amounts)


def minute_of(seconds: float) -> int:
    """The minute of a time in seconds since 1970."""
    return int(seconds // MINUTE)


class _Row(Struct):
    name: str
    minute: int
    charged: dict[str, int]
    amounts: dict[str, int]


def _find(database: Database, reservation_id: str) -> _Row | None:
    columns = ", ".join(_RESOURCES)
    rows: Sequence[Sequence[object]] = database.query(
        f"SELECT name, minute, charged, {columns} FROM budget_reservations WHERE id = ?{database.FOR_UPDATE}",
        reservation_id,
    )
    for name, minute, charged, *amounts in rows:
        decoded = msgspec.json.decode(str(charged), type=dict[str, int])
        return msgspec.convert(
            {
                "name": name,
                "minute": minute,
                "charged": decoded,
                "amounts": dict(zip(_RESOURCES, amounts, strict=True)),
            },
            _Row,
        )
    return None


def _write(database: Database, reservation_id: str, amounts: Units, charged: Units) -> None:
    left = _less(amounts, charged)
    changes = ", ".join(f"{resource} = ?" for resource in _RESOURCES)
    database.change(
        f"UPDATE budget_reservations SET charged = ?, {changes} WHERE id = ?",
        msgspec.json.encode(dict(charged)).decode(),
        *(max(left.get(resource, 0), 0) for resource in _RESOURCES),
        reservation_id,
    )


def _less(amounts: Units, charged: Units) -> dict[str, int]:
    return {key: amounts.get(key, 0) - charged.get(key, 0) for key in (*amounts, *charged)}


def _spend(database: Database, name: str, minute: int, amounts: Units) -> None:
    for resource, amount in sorted(amounts.items()):
        if amount:
            database.change(
                "INSERT INTO budget_spending (name, resource, minute, amount) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (name, resource, minute) DO UPDATE SET amount = budget_spending.amount + "
                "excluded.amount",
                *(name, resource, minute, amount),
            )
