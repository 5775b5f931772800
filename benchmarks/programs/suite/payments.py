"""A payment falls back on other accounts as a wish says; the accounts do not show what they hold."""

from dataclasses import dataclass, field

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts
from ..chat import Chat
from ..program import Input, Program


class InsufficientFundsError(Exception):
    """An account holds too little."""


class PaymentFailedError(Exception):
    """No account that may be used holds enough."""


class Account:
    """An account that refuses to be overdrawn."""

    def __init__(self, name: str, cents: int) -> None:
        self.name = name
        self.taken: list[int] = []
        self._cents = cents

    def withdraw(self, cents: int) -> None:
        """Take money out.

        Raises:
            InsufficientFundsError: There is too little. Nothing was taken.
        """
        if cents > self._cents:
            raise InsufficientFundsError(self.name)
        self._cents -= cents
        self.taken.append(cents)


@dataclass
class Wallet:
    accounts: dict[str, Account] = field(default_factory=dict[str, Account])


@nh.natural_function
async def pay(wallet: Wallet, euros: int, wish: str) -> str:
    """natural
    Pay <euros> with a single `withdraw(cents)` of an account of <wallet>, trying the accounts in the order
    that <wish> says and no others. An account that raises InsufficientFundsError took nothing. Return the
    name of the account that paid. Raise PaymentFailedError if none could.
    """


class Order(BaseModel):
    accounts: list[str]


async def pay_by_hand(chat: Chat, wallet: Wallet, euros: int, wish: str) -> str:
    order = await chat.ask(
        f"Accounts: {sorted(wallet.accounts)}\nIn which order may they be tried for a payment of {euros} "
        f"euros, without those that may not be used, if this is the wish of their owner? {wish}",
        Order,
    )
    for name in order.accounts:
        try:
            wallet.accounts[name].withdraw(euros * 100)
        except InsufficientFundsError:
            continue
        return name
    raise PaymentFailedError(wish)


def wallet(euros: int, wish: str) -> dict[str, object]:
    accounts = {"checking": 50_00, "savings": 400_00, "holidays": 90_00}
    return {
        "wallet": Wallet({name: Account(name, cents) for name, cents in accounts.items()}),
        "euros": euros,
        "wish": wish,
    }


def tried(name: str, *failed: str, cents: int) -> Answer:
    return Answer(
        kind="return",
        first=tuple(f"wallet.accounts[{each!r}].withdraw({cents})" for each in failed),
        evaluations=(f"wallet.accounts[{name!r}].withdraw({cents})",),
        value=name,
        has_value=True,
    )


def failed(cents: int, *names: str) -> Answer:
    return Answer(
        kind="raise",
        first=tuple(f"wallet.accounts[{each!r}].withdraw({cents})" for each in names),
        raise_message="there is too little",
        raise_error_type="PaymentFailedError",
    )


PROGRAM = Program(
    name="payments",
    what="a block reacts to exceptions of the methods that it calls",
    features=("methods", "exceptions"),
    natural=pay,
    by_hand=pay_by_hand,
    held=lambda given: dict(given["wallet"].accounts),
    checks={
        "the right account has paid once": lambda ended: (
            {name: account.taken for name, account in ended.held.items() if account.taken}
            == ended.expected[0]
        ),
        "its name is returned": lambda ended: ended.result == ended.expected[1],
        "the accounts are the same objects": lambda ended: ended["wallet"].accounts == ended.held,
    },
    inputs=(
        Input(
            name="fallback",
            arguments=lambda: wallet(
                80, "Use my checking account. If that is not enough, take the savings instead."
            ),
            expected=({"savings": [8000]}, "savings"),
            answers=(tried("savings", "checking", cents=8000),),
            replies=({"accounts": ["checking", "savings"]},),
            wrong_answers=(
                (tried("holidays", "checking", cents=8000),),
                (
                    Answer(
                        kind="return",
                        evaluations=(
                            "wallet.accounts.update(checking=Account('checking', 9000))",
                            "wallet.accounts['checking'].withdraw(8000)",
                        ),
                        value="checking",
                        has_value=True,
                    ),
                ),
            ),
            wrong_replies=(({"accounts": ["holidays", "savings"]},),),
        ),
        Input(
            name="first choice",
            arguments=lambda: wallet(
                45, "What is for the holidays goes first; the others are for emergencies, in any order."
            ),
            expected=({"holidays": [4500]}, "holidays"),
            answers=(tried("holidays", cents=4500),),
            replies=({"accounts": ["holidays", "checking", "savings"]},),
            wrong_answers=((tried("checking", cents=4500),),),
            wrong_replies=(({"accounts": ["checking", "holidays"]},),),
        ),
        Input(
            name="never the savings",
            arguments=lambda: wallet(120, "Holidays first, then checking. Hands off the savings!"),
            expected=({}, None),
            raises=PaymentFailedError,
            answers=(failed(12000, "holidays", "checking"),),
            replies=({"accounts": ["holidays", "checking"]},),
            wrong_answers=(
                (tried("savings", "holidays", "checking", cents=12000),),
                (aborts("too little", "InsufficientFundsError"),),
            ),
            wrong_replies=(({"accounts": ["holidays", "checking", "savings"]},),),
        ),
    ),
)
