"""An order at a counter grows line by line, until the customer has finished."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on
from ..chat import Chat
from ..program import Input, Program


class NotOnMenuError(Exception):
    """Something was ordered that is not sold."""


@dataclass
class Drink:
    name: str
    size: Literal["small", "large"] = "small"
    extras: list[str] = field(default_factory=list[str])


@nh.natural_function
async def take_order(order: list[Drink], menu: list[str], lines: list[str]) -> int:
    answered = 0
    for line in lines:
        """natural
        The customer says <line>. If that is no part of an order, continue. If it says that the order is
        complete, break. Otherwise change <order> in place: append a Drink, or change one that is there.
        Drinks are small unless said otherwise. Raise NotOnMenuError, with the name of the drink alone, if it
        is not in <menu>.
        """
        answered += 1
    return answered


class Ordered(BaseModel):
    name: str
    size: Literal["small", "large"]
    extras: list[str]


class Said(BaseModel):
    kind: Literal["no part of an order", "complete", "changes the order"]
    place: int | None
    drink: Ordered | None


async def take_order_by_hand(chat: Chat, order: list[Drink], menu: list[str], lines: list[str]) -> int:
    answered = 0
    for line in lines:
        said = await chat.ask(
            f"The menu: {menu}\nThe order so far: {order}\nThe customer says: {line}\nIs that no part of an "
            "order, does it say that the order is complete, or does it change the order? If so, give the "
            "drink as it is to be, and its place in the order, from 0; null for a new one. Drinks are "
            "small unless said otherwise.",
            Said,
        )
        if said.kind == "complete":
            break
        if said.drink is None:
            continue
        if said.drink.name not in menu:
            raise NotOnMenuError(said.drink.name)
        if said.place is None:
            order.append(Drink(said.drink.name, said.drink.size, said.drink.extras))
        else:
            drink = order[said.place]
            drink.name, drink.size, drink.extras[:] = said.drink.name, said.drink.size, said.drink.extras
        answered += 1
    return answered


def counter(*lines: str) -> dict[str, object]:
    return {"order": [Drink("tea")], "menu": ["tea", "latte", "espresso"], "lines": list(lines)}


def drink(name: str, size: str = "small", *extras: str, place: int | None = None) -> dict[str, object]:
    return {
        "kind": "changes the order",
        "place": place,
        "drink": {"name": name, "size": size, "extras": list(extras)},
    }


TALK = {"kind": "no part of an order", "place": None, "drink": None}
COMPLETE = {"kind": "complete", "place": None, "drink": None}


def changes(*evaluations: str) -> Answer:
    return goes_on(evaluations=evaluations)


PROGRAM = Program(
    name="coffee",
    what="a dialogue at a counter changes an order, until it is complete",
    features=("objects", "loop", "exceptions"),
    natural=take_order,
    by_hand=take_order_by_hand,
    held=lambda given: given["order"][0],
    checks={
        "the order is right": lambda ended: ended["order"] == ended.expected[0],
        "the tea is the same object": lambda ended: ended["order"][0] is ended.held,
        "the lines were answered": lambda ended: ended.result == ended.expected[1],
        "the error names the drink": lambda ended: ended.error is None or str(ended.error) == "lemonade",
    },
    inputs=(
        Input(
            name="changes",
            arguments=lambda: counter(
                "A latte too, please.",
                "Lovely weather!",
                "Oh, make the tea a large one, with milk.",
                "That's all, thanks.",
            ),
            expected=([Drink("tea", "large", ["milk"]), Drink("latte")], 2),
            answers=(
                changes("order.append(Drink('latte'))"),
                goes_on("continue"),
                changes("setattr(order[0], 'size', 'large')", "order[0].extras.append('milk')"),
                goes_on("break"),
            ),
            replies=(drink("latte"), TALK, drink("tea", "large", "milk", place=0), COMPLETE),
            wrong_answers=(
                (
                    changes("order.append(Drink('latte'))"),
                    goes_on("continue"),
                    changes("order.__setitem__(0, Drink('tea', 'large', ['milk']))"),
                    goes_on("break"),
                ),
                (changes("order.append(Drink('latte'))"), goes_on("break")),
                (
                    changes("order.append(Drink('latte'))"),
                    goes_on(),
                    changes("setattr(order[0], 'size', 'large')", "order[0].extras.append('milk')"),
                    goes_on("break"),
                ),
            ),
            wrong_replies=((drink("latte"), TALK, drink("tea", "large", "milk"), COMPLETE),),
        ),
        Input(
            name="not on the menu",
            arguments=lambda: counter("An espresso.", "And a large lemonade.", "Done."),
            expected=([Drink("tea"), Drink("espresso")], None),
            raises=NotOnMenuError,
            answers=(
                changes("order.append(Drink('espresso'))"),
                Answer(kind="raise", raise_message="lemonade", raise_error_type="NotOnMenuError"),
            ),
            replies=(drink("espresso"), drink("lemonade", "large")),
            wrong_answers=(
                (
                    changes("order.append(Drink('espresso'))"),
                    Answer(kind="raise", raise_message="We have none.", raise_error_type="NotOnMenuError"),
                ),
                (
                    changes("order.append(Drink('espresso'))"),
                    changes("order.append(Drink('lemonade', 'large'))"),
                    goes_on("break"),
                ),
            ),
            wrong_replies=((drink("espresso"), TALK, COMPLETE),),
        ),
        Input(
            name="another thought",
            arguments=lambda: counter(
                "Hmm, instead of the tea I'd rather have a latte.",
                "Is it true that you close at six?",
                "With cinnamon.",
                "Perfect, I'd like to pay.",
                "An espresso for my friend here.",
            ),
            expected=([Drink("latte", "small", ["cinnamon"])], 2),
            answers=(
                changes("setattr(order[0], 'name', 'latte')"),
                goes_on("continue"),
                changes("order[0].extras.append('cinnamon')"),
                goes_on("break"),
            ),
            replies=(drink("latte", place=0), TALK, drink("latte", "small", "cinnamon", place=0), COMPLETE),
            wrong_answers=(
                (
                    changes("order.append(Drink('latte'))"),
                    goes_on("continue"),
                    changes("order[1].extras.append('cinnamon')"),
                    goes_on("break"),
                ),
            ),
            wrong_replies=((drink("latte"), TALK, drink("latte", "small", "cinnamon", place=1), COMPLETE),),
        ),
    ),
)
