"""A rule in words becomes a function that looks at a table of the program at each call."""

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, expressed
from ..chat import Chat
from ..program import Input, Program


@nh.natural_function
async def price_by(rule: str, percentages: dict[str, int]) -> Callable[[int, int], int]:
    """natural
    Return a Python function of the number of pieces and the cents of one piece, which gives the cents of all
    by <rule>, rounded down. It looks up percentages in <percentages> at each call, because they change.
    """


async def prices(rule: str, percentages: dict[str, int], purchases: list[tuple[int, int]]) -> list[int]:
    price = await price_by(rule, percentages)
    today = [price(pieces, cents) for pieces, cents in purchases]
    percentages.update(dict.fromkeys(percentages, 50))
    return [*today, *(price(pieces, cents) for pieces, cents in purchases)]


class Rule(BaseModel):
    percentage: str
    measured_by: Literal["pieces", "cents of all", "nothing"]
    at_least: int
    applies_to: Literal["all pieces", "every second piece"]


async def prices_by_hand(
    chat: Chat, rule: str, percentages: dict[str, int], purchases: list[tuple[int, int]]
) -> list[int]:
    made = await chat.ask(
        f"A rule of a shop: {rule}\nWhich of the percentages {sorted(percentages)} is taken off, from which "
        "least number of pieces or cents of all on (0 if it does not depend on that), and from all pieces "
        "or from every second one?",
        Rule,
    )

    def price(pieces: int, cents: int) -> int:
        measures = {"pieces": pieces, "cents of all": pieces * cents, "nothing": 0}
        if measures[made.measured_by] < made.at_least:
            return pieces * cents
        reduced = pieces if made.applies_to == "all pieces" else pieces // 2
        return (
            (pieces - reduced) * cents * 100 + reduced * cents * (100 - percentages[made.percentage])
        ) // 100

    today = [price(pieces, cents) for pieces, cents in purchases]
    percentages.update(dict.fromkeys(percentages, 50))
    return [*today, *(price(pieces, cents) for pieces, cents in purchases)]


def shop(rule: str) -> dict[str, object]:
    return {
        "rule": rule,
        "percentages": {"member": 10, "bulk": 20},
        "purchases": [(1, 250), (5, 199), (12, 1000)],
    }


def rule(
    percentage: str, measured_by: str, at_least: int, applies_to: str = "all pieces"
) -> dict[str, object]:
    return {
        "percentage": percentage,
        "measured_by": measured_by,
        "at_least": at_least,
        "applies_to": applies_to,
    }


def function(reduced: str, percentage: str = "percentages['bulk']") -> Answer:
    return expressed(
        f"lambda pieces, cents: (pieces * cents * 100 - ({reduced}) * cents * {percentage}) // 100",
    )


PROGRAM = Program(
    name="discount",
    what="a rule in words becomes a function over a table that changes later",
    features=("closure",),
    natural=prices,
    by_hand=prices_by_hand,
    checks={
        "the prices of today are right": lambda ended: ended.result[:3] == ended.expected[:3],
        "the function sees the changed table": lambda ended: ended.result[3:] == ended.expected[3:],
        "making it changes no table": lambda ended: ended["percentages"] == {"member": 50, "bulk": 50},
    },
    inputs=(
        Input(
            name="bulk",
            arguments=lambda: shop(
                "Whoever takes half a dozen or more gets the bulk discount on everything."
            ),
            expected=[250, 995, 9600, 250, 995, 6000],
            answers=(function("pieces if pieces >= 6 else 0"),),
            replies=(rule("bulk", "pieces", 6),),
            wrong_answers=(
                (function("pieces if pieces >= 6 else 0", "20"),),
                (function("pieces"),),
                (
                    expressed(
                        "lambda pieces, cents: pieces * cents", evaluations=["percentages.update(none=0)"]
                    ),
                ),
            ),
            wrong_replies=((rule("member", "pieces", 6),),),
        ),
        Input(
            name="by value",
            arguments=lambda: shop(
                "From nine euros in all on, members (we have no other customers) get their discount."
            ),
            expected=[250, 895, 10800, 250, 497, 6000],
            answers=(function("pieces if pieces * cents >= 900 else 0", "percentages['member']"),),
            replies=(rule("member", "cents of all", 900),),
            wrong_answers=((function("pieces if pieces >= 9 else 0", "percentages['member']"),),),
            wrong_replies=((rule("member", "pieces", 9),),),
        ),
        Input(
            name="every second",
            arguments=lambda: shop("The bulk discount is for every second piece, however many there are."),
            expected=[250, 915, 10800, 250, 796, 9000],
            answers=(function("pieces // 2"),),
            replies=(rule("bulk", "nothing", 0, "every second piece"),),
            wrong_answers=((function("pieces // 2", "percentages['member']"),),),
            wrong_replies=((rule("bulk", "nothing", 0),),),
        ),
    ),
)
