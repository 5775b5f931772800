"""The messages between the accounts of a program's budgets and the calls on workers, as bytes.

    Reserve ──► Reserved        ask for a loan: for one model request, or for one step, turn or tool call
    Renew ──► Renewed           ask for more, because the request is sent again
    Keep, Settle, Return        report what a loan has consumed, and what is left of it
    Spend                       report what was consumed without a loan
    CheckTurn, ReportThresholds ask for what only the program knows

Amounts are given by the id of the account. A worker gives the numbers of its loans itself.
"""

import pickle
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from ..errors import BudgetExceededError
from ..policies.budgets.terms import Amounts
from ..types.usage import Usage

TOPIC = "budgets"

WireAmounts: TypeAlias = dict[str, dict[str, int | str]]
"""Amounts of resources by the id of the account; cost as a text."""


class LentAccount(Struct, frozen=True, array_like=True):
    """An account of the caller's scope.

    Args:
        id: Its id.
        seconds: The seconds for which its budget has been active.
    """

    id: str
    seconds: float


class Reserve(Struct, frozen=True, tag=True, array_like=True):
    """Reserve amounts in all accounts, or in none.

    Args:
        loan: The number of the loan.
        asked: The amounts.
        model_name: The model id; empty for another charge than a model request.
        may_wait: Whether to wait while only the reservations of others are in the way.
        key: The key by which it counts; see `counting`.
        is_recorded: Whether the response to the request is recorded, so that nothing is sent.
    """

    loan: int
    asked: WireAmounts
    model_name: str
    may_wait: bool
    key: str
    is_recorded: bool


class Reserved(Struct, frozen=True, array_like=True):
    """The answer to `Reserve`: the reason why there is no room for another one, pickled; empty for none."""

    next_breach: bytes = b""


class Renew(Struct, frozen=True, tag=True, array_like=True):
    """Reserve the consumed amounts and some more. The answer is whether there was room."""

    loan: int
    kept: WireAmounts
    added: WireAmounts


class CheckTurn(Struct, frozen=True, tag=True, array_like=True):
    """Check that there is room for a turn of the user's own agent."""


class ReportThresholds(Struct, frozen=True, tag=True, array_like=True):
    """Report the thresholds that were passed."""


class Keep(Struct, frozen=True, tag=True, array_like=True):
    """Reserve no more than what was consumed."""

    loan: int
    kept: WireAmounts


class Settle(Struct, frozen=True, tag=True, array_like=True):
    """Charge what a loan has consumed, and return the rest."""

    loan: int
    spent: WireAmounts
    model_name: str
    usage: Usage | None


class Return(Struct, frozen=True, tag=True, array_like=True):
    """Return a loan that has consumed nothing, perhaps before it is made."""

    loan: int


class Spend(Struct, frozen=True, tag=True, array_like=True):
    """Charge what was consumed without a loan; see `Lender.spend`, and `counting` for the key."""

    key: str
    spent: WireAmounts
    model_name: str
    usage: Usage | None
    is_foreign: bool


Question: TypeAlias = Reserve | Renew | CheckTurn | ReportThresholds
Report: TypeAlias = Keep | Settle | Return | Spend

decode_question = msgspec.msgpack.Decoder(Question).decode
decode_report = msgspec.msgpack.Decoder(Report).decode
decode_accounts = msgspec.msgpack.Decoder(list[LentAccount]).decode
decode_reserved = msgspec.msgpack.Decoder(Reserved).decode
decode_room = msgspec.msgpack.Decoder(bool).decode


def to_wire(amounts: Mapping[str, Amounts]) -> WireAmounts:
    """Return amounts as they are sent."""
    return {
        account: {name: str(each) if isinstance(each, Decimal) else each for name, each in given.items()}
        for account, given in amounts.items()
    }


def from_wire(amounts: Mapping[str, int | str]) -> Amounts:
    """Return the amounts of one account."""
    return cast(
        "Amounts", {name: Decimal(each) if isinstance(each, str) else each for name, each in amounts.items()}
    )


def breach_to_wire(error: BudgetExceededError | None) -> bytes:
    """Return a refusal as it is sent."""
    return b"" if error is None else pickle.dumps(error)


def breach_from_wire(body: bytes) -> BudgetExceededError | None:
    """Return a refusal; see `breach_to_wire`."""
    return pickle.loads(body) if body else None
