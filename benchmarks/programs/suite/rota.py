"""A rule in words becomes an endless iterator, of which Python takes as much as it needs."""

import itertools
from collections.abc import Iterator

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import expressed
from ..chat import Chat
from ..program import Input, Program


@nh.natural_function
async def rota(people: list[str], rule: str) -> Iterator[str]:
    """natural
    Return an endless iterator of who cooks, day by day from today, a Monday, by <rule> for <people>.
    <itertools> is there.
    """


async def plan(people: list[str], rule: str, days: int) -> tuple[list[str], list[str]]:
    """The first days, and the days after that."""
    cooks = await rota(people, rule)
    return list(itertools.islice(cooks, days)), list(itertools.islice(cooks, days))


class Cycle(BaseModel):
    names: list[str]


async def plan_by_hand(chat: Chat, people: list[str], rule: str, days: int) -> tuple[list[str], list[str]]:
    cycle = await chat.ask(
        f"Who cooks, day by day from today, a Monday, if this is the rule for {people}? {rule}\nGive the "
        "shortest list of names, one for each day, that repeats itself forever.",
        Cycle,
    )
    cooks = itertools.cycle(cycle.names)
    return list(itertools.islice(cooks, days)), list(itertools.islice(cooks, days))


def kitchen(rule: str) -> dict[str, object]:
    return {"people": ["Ada", "Bo", "Cy"], "rule": rule, "days": 9}


A, B, C = "Ada", "Bo", "Cy"

PROGRAM = Program(
    name="rota",
    what="a rule in words becomes an endless iterator, which Python goes on with",
    features=("iterator",),
    natural=plan,
    by_hand=plan_by_hand,
    checks={
        "the first days are right": lambda ended: ended.result[0] == ended.expected[:9],
        "it goes on where it was": lambda ended: ended.result[1] == ended.expected[9:],
        "the people are untouched": lambda ended: ended["people"] == ended.before["people"],
    },
    inputs=(
        Input(
            name="two days each",
            arguments=lambda: kitchen(
                "Everybody cooks for two days, then the next one does, in the order of the list."
            ),
            expected=[A, A, B, B, C, C, A, A, B, B, C, C, A, A, B, B, C, C],
            answers=(expressed("(people[day // 2 % 3] for day in itertools.count())"),),
            replies=({"names": [A, A, B, B, C, C]},),
            wrong_answers=(
                (expressed("(people[day % 3] for day in itertools.count())"),),
                (expressed("iter(['Ada', 'Ada', 'Bo', 'Bo', 'Cy', 'Cy', 'Ada', 'Ada', 'Bo'])"),),
                (expressed("(people.append('Dee') or people[day // 2 % 3] for day in itertools.count())"),),
            ),
            wrong_replies=(({"names": [A, A, B, B, C, C, A, A, B]},),),
        ),
        Input(
            name="weekends",
            arguments=lambda: kitchen(
                "Cy cooks on Saturdays and Sundays. The other two take turns from Monday to Friday, Ada "
                "on three of the days and beginning on Monday."
            ),
            expected=[A, B, A, B, A, C, C, A, B, A, B, A, C, C, A, B, A, B],
            answers=(
                expressed(
                    "itertools.cycle([people[0], people[1], people[0], people[1], people[0], people[2], "
                    "people[2]])"
                ),
            ),
            replies=({"names": [A, B, A, B, A, C, C]},),
            wrong_answers=((expressed("itertools.cycle(['Bo', 'Ada', 'Bo', 'Ada', 'Bo', 'Cy', 'Cy'])"),),),
            wrong_replies=(({"names": [B, A, B, A, B, C, C]},),),
        ),
        Input(
            name="back and forth",
            arguments=lambda: kitchen(
                "Through the list and back again: after Cy it is Bo's turn, then Ada's, and from her on it "
                "starts again with Bo."
            ),
            expected=[A, B, C, B, A, B, C, B, A, B, C, B, A, B, C, B, A, B],
            answers=(expressed("itertools.cycle([*people, people[1]])"),),
            replies=({"names": [A, B, C, B]},),
            wrong_answers=((expressed("itertools.cycle([*people, *people[::-1]])"),),),
            wrong_replies=(({"names": [A, B, C, C, B, A]},),),
        ),
    ),
)
