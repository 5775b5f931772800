"""News change who works for whom, in objects that refer to each other."""

from dataclasses import dataclass, field

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass(eq=False)
class Person:
    name: str
    manager: "Person | None" = field(default=None, repr=False)
    team: "list[Person]" = field(default_factory=list)


@nh.natural_function
async def reorganise(staff: dict[str, Person], news: str) -> None:
    """natural
    Change the people of <staff> in place as <news> says. Somebody's manager and that manager's team always
    agree; who joins a team comes last in it. Somebody who leaves the company is removed from <staff> and from
    the team of their manager, and their team goes to that manager unless the news say otherwise. Somebody new
    is added to <staff>, as a Person.
    """


class Placed(BaseModel):
    name: str
    manager: str | None


class Change(BaseModel):
    left: list[str]
    placed: list[Placed]


async def reorganise_by_hand(chat: Chat, staff: dict[str, Person], news: str) -> None:
    managers = {person.name: person.manager.name if person.manager else None for person in staff.values()}
    change = await chat.ask(
        f"People and their managers: {managers}\nNews: {news}\nGive those who leave the company, and those "
        "who are new or get another manager, with their manager. Whoever leaves a team to somebody leaves "
        "it to their own manager, unless the news say otherwise.",
        Change,
    )
    for placed in change.placed:
        person = staff.setdefault(placed.name, Person(placed.name))
        if person.manager is not None:
            person.manager.team.remove(person)
        person.manager = None if placed.manager is None else staff[placed.manager]
        if person.manager is not None:
            person.manager.team.append(person)
    for name in change.left:
        person = staff.pop(name)
        if person.manager is not None:
            person.manager.team.remove(person)


def company(news: str) -> dict[str, object]:
    omar, ines, tom, una = (Person(name) for name in ("Omar", "Ines", "Tom", "Una"))
    for person, manager in ((ines, omar), (tom, ines), (una, ines)):
        person.manager = manager
        manager.team.append(person)
    return {"staff": {person.name: person for person in (omar, ines, tom, una)}, "news": news}


def placed(**managers: str | None) -> list[dict[str, object]]:
    return [{"name": name, "manager": manager} for name, manager in managers.items()]


def moves(person: str, manager: str) -> tuple[str, ...]:
    return (
        f"staff[{person!r}].manager.team.remove(staff[{person!r}])",
        f"setattr(staff[{person!r}], 'manager', staff[{manager!r}])",
        f"staff[{manager!r}].team.append(staff[{person!r}])",
    )


INES_LEAVES = "staff['Omar'].team.remove(staff.pop('Ines'))"

PROGRAM = Program(
    name="organisation",
    what="news change objects that refer to each other",
    features=("objects",),
    natural=reorganise,
    by_hand=reorganise_by_hand,
    held=lambda given: dict(given["staff"]),
    checks={
        "the teams are right": lambda ended: (
            {name: [each.name for each in person.team] for name, person in ended["staff"].items()}
            == ended.expected
        ),
        "managers and teams agree": lambda ended: (
            all(member.manager is person for person in ended["staff"].values() for member in person.team)
            and all(
                person.manager is None or any(person is each for each in person.manager.team)
                for person in ended["staff"].values()
            )
        ),
        "the people are the same objects": lambda ended: all(
            person is ended.held.get(name, person) for name, person in ended["staff"].items()
        ),
    },
    inputs=(
        Input(
            name="leaving",
            arguments=lambda: company("Ines has found another job and is gone."),
            expected={"Omar": ["Tom", "Una"], "Tom": [], "Una": []},
            answers=(goes_on(evaluations=[*moves("Tom", "Omar"), *moves("Una", "Omar"), INES_LEAVES]),),
            replies=({"left": ["Ines"], "placed": placed(Tom="Omar", Una="Omar")},),
            wrong_answers=(
                (goes_on(evaluations=[INES_LEAVES]),),
                (
                    goes_on(
                        evaluations=[
                            INES_LEAVES,
                            (
                                "staff.update(Tom=Person('Tom', staff['Omar']), Una=Person('Una', "
                                "staff['Omar']))"
                            ),
                            "staff['Omar'].team.extend([staff['Tom'], staff['Una']])",
                        ],
                    ),
                ),
            ),
            wrong_replies=(({"left": ["Ines"], "placed": []},),),
        ),
        Input(
            name="promotion",
            arguments=lambda: company(
                "Tom now answers to Omar directly, and he takes Una with him, as his own team."
            ),
            expected={"Omar": ["Ines", "Tom"], "Ines": [], "Tom": ["Una"], "Una": []},
            answers=(goes_on(evaluations=[*moves("Tom", "Omar"), *moves("Una", "Tom")]),),
            replies=({"left": [], "placed": placed(Tom="Omar", Una="Tom")},),
            wrong_answers=((goes_on(evaluations=[*moves("Tom", "Omar"), *moves("Una", "Omar")]),),),
            wrong_replies=(({"left": [], "placed": placed(Tom="Omar", Una="Omar")},),),
        ),
        Input(
            name="new",
            arguments=lambda: company(
                "Vera starts today in the team of Ines. Una retired; nobody follows her."
            ),
            expected={"Omar": ["Ines"], "Ines": ["Tom", "Vera"], "Tom": [], "Vera": []},
            answers=(
                goes_on(
                    evaluations=[
                        "staff.update(Vera=Person('Vera', staff['Ines']))",
                        "staff['Ines'].team.append(staff['Vera'])",
                        "staff['Ines'].team.remove(staff.pop('Una'))",
                    ],
                ),
            ),
            replies=({"left": ["Una"], "placed": placed(Vera="Ines")},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=[
                            "staff.update(Vera=Person('Vera'))",
                            "staff['Ines'].team.append(staff['Vera'])",
                            "staff['Ines'].team.remove(staff.pop('Una'))",
                        ],
                    ),
                ),
            ),
            wrong_replies=(({"left": [], "placed": placed(Vera="Ines")},),),
        ),
    ),
)
