"""A question is answered from the first page of a handbook that answers it."""

from dataclasses import dataclass

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on, returns
from ..chat import Chat
from ..program import Input, Program


class UnansweredError(LookupError):
    """No page answers the question."""


@dataclass
class Page:
    title: str
    text: str


@nh.natural_function
async def look_up(pages: list[Page], opened: list[str], question: str) -> int:
    """Days, as the first page says that answers a question."""
    for page in pages:
        opened.append(page.title)
        """natural
        If the text of <page> answers <question>, return the number of days that it says. Otherwise continue.
        """
    raise UnansweredError(question)


class Found(BaseModel):
    is_answered: bool
    days: int


async def look_up_by_hand(chat: Chat, pages: list[Page], opened: list[str], question: str) -> int:
    for page in pages:
        opened.append(page.title)
        found = await chat.ask(
            (
                f"A page of a handbook: {page.text}\nDoes it answer this question, and with how many days? "
                f"{question}"
            ),
            Found,
        )
        if found.is_answered:
            return found.days
    raise UnansweredError(question)


def handbook(question: str) -> dict[str, object]:
    pages = [
        Page(
            "Leave",
            "Everybody has thirty days of leave a year. Whoever is away longer than a week says so early.",
        ),
        Page(
            "Illness",
            "From the third day of an illness, a doctor's note is needed. It has to be here within a week.",
        ),
        Page(
            "Travel", "Claims for journeys are made within a fortnight. Money arrives four days after that."
        ),
    ]
    return {"pages": pages, "opened": [], "question": question}


def found(days: int | None) -> dict[str, object]:
    return {"is_answered": days is not None, "days": days or 0}


NOT_HERE: Answer = goes_on("continue")

PROGRAM = Program(
    name="handbook",
    what="a block returns from the loop around it, or lets it go on",
    features=("loop", "exceptions"),
    natural=look_up,
    by_hand=look_up_by_hand,
    checks={
        "the answer is right": lambda ended: ended.result == ended.expected[0],
        "no page more was opened": lambda ended: ended["opened"] == ended.expected[1],
        "the pages are untouched": lambda ended: ended["pages"] == ended.before["pages"],
    },
    inputs=(
        Input(
            name="second page",
            arguments=lambda: handbook(
                "I have the flu. How many days do I have to hand in the doctor's note?"
            ),
            expected=(7, ["Leave", "Illness"]),
            answers=(NOT_HERE, returns(7)),
            replies=(found(None), found(7)),
            wrong_answers=(
                (NOT_HERE, returns(3)),
                (returns(7),),
                (
                    NOT_HERE,
                    Answer(
                        kind="return", value=7, has_value=True, evaluations=("setattr(page, 'text', '')",)
                    ),
                ),
            ),
            wrong_replies=((found(None), found(3)), (found(7),)),
        ),
        Input(
            name="third page",
            arguments=lambda: handbook("By how many days after the train ride must I ask for the money?"),
            expected=(14, ["Leave", "Illness", "Travel"]),
            answers=(NOT_HERE, NOT_HERE, returns(14)),
            replies=(found(None), found(None), found(14)),
        ),
        Input(
            name="nowhere",
            arguments=lambda: handbook("How many days of notice do I have to give when I quit?"),
            expected=(None, ["Leave", "Illness", "Travel"]),
            raises=UnansweredError,
            answers=(NOT_HERE, NOT_HERE, NOT_HERE),
            replies=(found(None), found(None), found(None)),
            wrong_answers=((returns(30),),),
            wrong_replies=((found(30),),),
        ),
    ),
)
