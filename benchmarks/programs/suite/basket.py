"""A customer's message changes a basket."""

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@nh.natural_function
async def change_basket(basket: dict[str, int], prices: dict[str, int], message: str) -> list[str]:
    unavailable: list[str] = nh.unset
    """natural
    <basket> counts the pieces of each article. Change it in place as the customer asks in <message>. Only
    articles in <prices> are sold. An article without pieces is removed. Set <:unavailable> to the articles
    that the customer wants and that are not sold, in the singular.
    """
    return unavailable


class Count(BaseModel):
    article: str
    pieces: int


class Change(BaseModel):
    new_counts: list[Count]
    unavailable: list[str]


async def change_basket_by_hand(
    chat: Chat, basket: dict[str, int], prices: dict[str, int], message: str
) -> list[str]:
    change = await chat.ask(
        f"A basket has these pieces of each article: {basket}\nArticles that are sold: "
        f"{sorted(prices)}\nThe customer writes: {message}\nGive the new count of each sold article whose "
        "count changes, 0 for one that is removed, and, in the singular, the articles that the customer "
        "wants and that are not sold.",
        Change,
    )
    for count in change.new_counts:
        if count.article not in prices:
            raise ValueError(f"{count.article!r} is not sold")
        if count.pieces:
            basket[count.article] = count.pieces
        else:
            basket.pop(count.article, None)
    return change.unavailable


def shop(**basket: int) -> dict[str, dict[str, int]]:
    return {"basket": basket, "prices": {"apple": 40, "milk": 120, "bread": 250, "egg": 30, "honey": 600}}


def count(article: str, pieces: int) -> dict[str, object]:
    return {"article": article, "pieces": pieces}


PROGRAM = Program(
    name="basket",
    what="a customer's message changes a basket in place",
    features=("objects",),
    natural=change_basket,
    by_hand=change_basket_by_hand,
    checks={
        "the basket itself has changed": lambda ended: ended["basket"] == ended.expected[0],
        "what is not sold is named": lambda ended: (
            [each.lower() for each in ended.result] == ended.expected[1]
        ),
        "the prices are untouched": lambda ended: ended["prices"] == ended.before["prices"],
    },
    inputs=(
        Input(
            name="more and less",
            arguments=lambda: {
                **shop(apple=2, milk=1),
                "message": "Two more apples, please. And I don't need the milk after all.",
            },
            expected=({"apple": 4}, []),
            answers=(goes_on(evaluations=["basket.update(apple=4)", "basket.pop('milk')"], unavailable=[]),),
            replies=({"new_counts": [count("apple", 4), count("milk", 0)], "unavailable": []},),
            wrong_answers=((goes_on(assignments={"basket": "{'apple': 4}"}, unavailable=[]),),),
            wrong_replies=(({"new_counts": [count("apple", 2), count("milk", 0)], "unavailable": []},),),
        ),
        Input(
            name="not sold",
            arguments=lambda: {
                **shop(bread=1),
                "message": "A dozen eggs on top. Do you have marmalade? One jar of it then.",
            },
            expected=({"bread": 1, "egg": 12}, ["marmalade"]),
            answers=(goes_on(evaluations=["basket.update(egg=12)"], unavailable=["marmalade"]),),
            replies=({"new_counts": [count("egg", 12)], "unavailable": ["marmalade"]},),
            wrong_answers=(
                (goes_on(evaluations=["basket.update(egg=12)"], unavailable=[]),),
                (
                    goes_on(
                        evaluations=["basket.update(egg=12)", "prices.update(marmalade=300)"],
                        unavailable=["marmalade"],
                    ),
                ),
            ),
            wrong_replies=(({"new_counts": [count("egg", 12)], "unavailable": []},),),
        ),
        Input(
            name="relative",
            arguments=lambda: {
                **shop(apple=3, honey=1, egg=6),
                "message": "Make it half the eggs, and as many milks as there are apples.",
            },
            expected=({"apple": 3, "honey": 1, "egg": 3, "milk": 3}, []),
            answers=(
                goes_on(
                    evaluations=["basket.update(egg=basket['egg'] // 2, milk=basket['apple'])"],
                    unavailable=[],
                ),
            ),
            replies=({"new_counts": [count("egg", 3), count("milk", 3)], "unavailable": []},),
        ),
    ),
)
