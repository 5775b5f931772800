"""A warehouse is booked by its methods, from notes in words."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts, goes_on
from ..chat import Chat
from ..program import Input, Program


class OutOfStockError(ValueError):
    """More is taken out than there is."""


@dataclass
class Stock:
    pieces: dict[str, int]
    log: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def receive(self, article: str, pieces: int) -> None:
        """Book pieces that came in."""
        self.pieces[article] = self.pieces.get(article, 0) + pieces
        self.log.append(("in", article, pieces))

    def remove(self, article: str, pieces: int) -> None:
        """Book pieces that went out or were lost."""
        if pieces > self.pieces.get(article, 0):
            raise OutOfStockError(article)
        self.pieces[article] -= pieces
        self.log.append(("out", article, pieces))


@nh.natural_function
async def book(stock: Stock, note: str) -> None:
    """natural
    Book what <note> says with the methods of <stock>, in the order of the note, one call for each article
    that came in or went out. If something is to go out of which there is not enough, book nothing more and
    raise OutOfStockError with the name of the article alone.
    """


class Booking(BaseModel):
    direction: Literal["in", "out"]
    article: str
    pieces: int


class Bookings(BaseModel):
    bookings: list[Booking]


async def book_by_hand(chat: Chat, stock: Stock, note: str) -> None:
    answer = await chat.ask(
        f"A warehouse has {stock.pieces}. Give the bookings for this note, in its order, one for each "
        "article that came in or went out, even if there is not enough of it, with the names as they are "
        f"above: {note}",
        Bookings,
    )
    for booking in answer.bookings:
        if booking.direction == "in":
            stock.receive(booking.article, booking.pieces)
        else:
            stock.remove(booking.article, booking.pieces)


def booking(direction: str, article: str, pieces: int) -> dict[str, object]:
    return {"direction": direction, "article": article, "pieces": pieces}


def warehouse(note: str) -> dict[str, object]:
    return {"stock": Stock({"flour": 10, "sugar": 30, "salt": 6}), "note": note}


PROGRAM = Program(
    name="stock",
    what="notes are booked by the methods of a warehouse, which refuse the impossible",
    features=("objects", "methods", "exceptions"),
    natural=book,
    by_hand=book_by_hand,
    held=lambda given: given["stock"].pieces,
    checks={
        "the pieces are right": lambda ended: ended.held == ended.expected[0],
        "every booking went through a method": lambda ended: ended["stock"].log == ended.expected[1],
        "the error names the article": lambda ended: ended.error is None or str(ended.error) == "salt",
    },
    inputs=(
        Input(
            name="in and out",
            arguments=lambda: warehouse(
                "Three pallets of flour came in, 40 sacks each. The baker took a dozen sacks of sugar."
            ),
            expected=(
                {"flour": 130, "sugar": 18, "salt": 6},
                [("in", "flour", 120), ("out", "sugar", 12)],
            ),
            answers=(goes_on(evaluations=["stock.receive('flour', 120)", "stock.remove('sugar', 12)"]),),
            replies=({"bookings": [booking("in", "flour", 120), booking("out", "sugar", 12)]},),
            wrong_answers=((goes_on(evaluations=["stock.pieces.update(flour=130, sugar=18)"]),),),
            wrong_replies=(({"bookings": [booking("in", "flour", 43), booking("out", "sugar", 12)]},),),
        ),
        Input(
            name="half",
            arguments=lambda: warehouse(
                "Half of the sugar got wet and was thrown away. Then as many sacks of salt arrived as we "
                "have flour."
            ),
            expected=(
                {"flour": 10, "sugar": 15, "salt": 16},
                [("out", "sugar", 15), ("in", "salt", 10)],
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "stock.remove('sugar', stock.pieces['sugar'] // 2)",
                        "stock.receive('salt', stock.pieces['flour'])",
                    ],
                ),
            ),
            replies=({"bookings": [booking("out", "sugar", 15), booking("in", "salt", 10)]},),
        ),
        Input(
            name="not enough",
            arguments=lambda: warehouse(
                "Twenty sacks of sugar went to the bakery, and eight sacks of salt to the road service. "
                "Afterwards five sacks of flour came in."
            ),
            expected=({"flour": 10, "sugar": 10, "salt": 6}, [("out", "sugar", 20)]),
            raises=OutOfStockError,
            answers=(
                Answer(
                    kind="raise",
                    evaluations=("stock.remove('sugar', 20)",),
                    raise_message="salt",
                    raise_error_type="OutOfStockError",
                ),
            ),
            replies=(
                {
                    "bookings": [
                        booking("out", "sugar", 20),
                        booking("out", "salt", 8),
                        booking("in", "flour", 5),
                    ]
                },
            ),
            wrong_answers=(
                (goes_on(evaluations=["stock.remove('sugar', 20)"]),),
                (aborts("There is too little salt.", "OutOfStockError"),),
            ),
            wrong_replies=(({"bookings": [booking("out", "sugar", 20), booking("out", "salt", 6)]},),),
        ),
    ),
)
