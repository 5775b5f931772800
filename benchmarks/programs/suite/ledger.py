"""Lines of a notebook, as people write them, are booked in accounts."""

from dataclasses import dataclass, field

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Account:
    cents: int = 0
    entries: list[int] = field(default_factory=list[int])

    def post(self, cents: int) -> None:
        """Add cents; a negative number takes them out."""
        self.cents += cents
        self.entries.append(cents)


@nh.natural_function
async def book(accounts: dict[str, Account], lines: list[str]) -> list[str]:
    booked: list[str] = []
    for line in lines:
        """natural
        If no money moves in <line> of a household's notebook, continue. Otherwise `post(cents)` it in two of
        <accounts>: negative in the one that it leaves, positive in the one that it reaches. What is bought
        goes to "spending". Where nothing is said, money is taken from "cash".
        """
        booked.append(line)
    return booked


class Move(BaseModel):
    is_money_moved: bool
    cents: int
    from_account: str
    to_account: str


async def book_by_hand(chat: Chat, accounts: dict[str, Account], lines: list[str]) -> list[str]:
    booked: list[str] = []
    for line in lines:
        move = await chat.ask(
            f"A line of a household's notebook: {line}\nDoes money move, how many cents, and from which of "
            "the accounts "
            f'{sorted(accounts)} to which? What is bought goes to "spending". Where nothing is said, money '
            'is taken from "cash".',
            Move,
        )
        if not move.is_money_moved:
            continue
        accounts[move.from_account].post(-move.cents)
        accounts[move.to_account].post(move.cents)
        booked.append(line)
    return booked


def household(*lines: str) -> dict[str, object]:
    return {"accounts": {"cash": Account(), "bank": Account(), "spending": Account()}, "lines": list(lines)}


def posts(cents: int, source: str, target: str) -> Answer:
    return goes_on(
        evaluations=[f"accounts[{source!r}].post({-cents})", f"accounts[{target!r}].post({cents})"]
    )


def moves(cents: int, source: str, target: str, *, is_money_moved: bool = True) -> dict[str, object]:
    return {"is_money_moved": is_money_moved, "cents": cents, "from_account": source, "to_account": target}


NO_MOVE = moves(0, "", "", is_money_moved=False)

PROGRAM = Program(
    name="ledger",
    what="lines as people write them are booked in accounts",
    features=("objects", "methods", "loop"),
    natural=book,
    by_hand=book_by_hand,
    held=lambda given: dict(given["accounts"]),
    checks={
        "the entries are right": lambda ended: (
            {name: account.entries for name, account in ended.held.items()} == ended.expected[0]
        ),
        "the accounts balance": lambda ended: (
            sum(account.cents for account in ended.held.values()) == 0
            and all(account.cents == sum(account.entries) for account in ended.held.values())
        ),
        "only bookings were kept": lambda ended: (
            ended.result == [ended.before["lines"][number] for number in ended.expected[1]]
        ),
        "there is no new account": lambda ended: set(ended["accounts"]) == set(ended.held),
    },
    inputs=(
        Input(
            name="plain",
            arguments=lambda: household(
                "Bread and cheese, eight euros forty.",
                "Don't forget: choir on Tuesday!",
                "50 from the machine at the bank",
            ),
            expected=({"cash": [-840, 5000], "bank": [-5000], "spending": [840]}, [0, 2]),
            answers=(posts(840, "cash", "spending"), goes_on("continue"), posts(5000, "bank", "cash")),
            replies=(moves(840, "cash", "spending"), NO_MOVE, moves(5000, "bank", "cash")),
            wrong_answers=(
                (posts(840, "cash", "spending"), goes_on(), posts(5000, "bank", "cash")),
                (
                    goes_on(evaluations=["accounts['cash'].post(-840)"]),
                    goes_on("continue"),
                    posts(5000, "bank", "cash"),
                ),
                (
                    posts(840, "cash", "spending"),
                    goes_on("continue"),
                    goes_on(
                        evaluations=["accounts.update(machine=Account())", "accounts['cash'].post(5000)"]
                    ),
                ),
            ),
            wrong_replies=((moves(8400, "cash", "spending"), NO_MOVE, moves(5000, "bank", "cash")),),
        ),
        Input(
            name="by card",
            arguments=lambda: household(
                "New kettle, paid by bank transfer: 34.90", "Put ten euros into the bank account"
            ),
            expected=({"cash": [-1000], "bank": [-3490, 1000], "spending": [3490]}, [0, 1]),
            answers=(posts(3490, "bank", "spending"), posts(1000, "cash", "bank")),
            replies=(moves(3490, "bank", "spending"), moves(1000, "cash", "bank")),
            wrong_answers=((posts(3490, "cash", "spending"), posts(1000, "cash", "bank")),),
            wrong_replies=((moves(3490, "cash", "spending"), moves(1000, "cash", "bank")),),
        ),
        Input(
            name="nothing",
            arguments=lambda: household(
                "Milk is up to 1.29 now, a scandal.",
                "Half a dozen eggs at thirty cents each",
                "The tap drips.",
            ),
            expected=({"cash": [-180], "bank": [], "spending": [180]}, [1]),
            answers=(goes_on("continue"), posts(180, "cash", "spending"), goes_on("continue")),
            replies=(NO_MOVE, moves(180, "cash", "spending"), NO_MOVE),
            wrong_answers=(
                (posts(129, "cash", "spending"), posts(180, "cash", "spending"), goes_on("continue")),
            ),
            wrong_replies=((moves(129, "cash", "spending"), moves(180, "cash", "spending"), NO_MOVE),),
        ),
    ),
)
