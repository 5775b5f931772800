"""A wish in words becomes a key, by which Python sorts two lists."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Person:
    name: str
    age: int
    city: str


@nh.natural_function
async def arrange(people: list[Person], latecomers: list[Person], wish: str) -> None:
    key: Callable[[Person], Any] = nh.unset
    """natural
    Set <:key> to a function that Python's sort can use as a key, to bring any list of Person into the order
    of <wish>. Do not sort yourself.
    """
    people.sort(key=key)
    latecomers.sort(key=key)


class Part(BaseModel):
    attribute: Literal["name", "age", "city"]
    comparison: Literal["value", "is less than", "is", "length"]
    operand: str
    is_descending: bool


class Parts(BaseModel):
    parts: list[Part]


async def arrange_by_hand(chat: Chat, people: list[Person], latecomers: list[Person], wish: str) -> None:
    answer = await chat.ask(
        f"Bring people such as {asdict(people[0])} into this order: {wish}\nGive the parts of a key, the "
        "most important one first: by the value of an attribute, by its length, or by whether it is, or is "
        "less than, an operand (a text; empty if there is none). False comes before true, unless a part is "
        "descending.",
        Parts,
    )

    def value(part: Part, person: Person) -> Any:
        attribute = getattr(person, part.attribute)
        match part.comparison:
            case "value":
                return attribute
            case "length":
                return len(attribute)
            case "is":
                return str(attribute) == part.operand
            case "is less than":
                return attribute < type(attribute)(part.operand)

    for each in (people, latecomers):
        for part in reversed(answer.parts):
            each.sort(key=lambda person: value(part, person), reverse=part.is_descending)


def queue(wish: str) -> dict[str, object]:
    people = [
        Person("Ada", 36, "Ulm"),
        Person("Bo", 8, "Kempten"),
        Person("Cy", 71, "Ulm"),
        Person("Dee", 12, "Lindau"),
    ]
    latecomers = [Person("Eve", 17, "Ulm"), Person("Fritz", 18, "Lindau"), Person("Gil", 5, "Ulm")]
    return {"people": people, "latecomers": latecomers, "wish": wish}


def part(
    attribute: str, comparison: str = "value", operand: str = "", *, down: bool = False
) -> dict[str, object]:
    return {"attribute": attribute, "comparison": comparison, "operand": operand, "is_descending": down}


def keyed(expression: str, *evaluations: str) -> Answer:
    return goes_on(assignments={"key": f"lambda person: {expression}"}, evaluations=evaluations)


PROGRAM = Program(
    name="ordering",
    what="a wish in words becomes a key function that works on any list",
    features=("closure", "objects"),
    natural=arrange,
    by_hand=arrange_by_hand,
    held=lambda given: {person.name: person for person in (*given["people"], *given["latecomers"])},
    checks={
        "the people are in order": lambda ended: [each.name for each in ended["people"]] == ended.expected[0],
        "the same key orders others": lambda ended: (
            [each.name for each in ended["latecomers"]] == ended.expected[1]
        ),
        "they are the same objects": lambda ended: all(
            each is ended.held[each.name] for each in (*ended["people"], *ended["latecomers"])
        ),
        "they are unchanged": lambda ended: (
            sorted(map(repr, ended.held.values()))
            == sorted(map(repr, (*ended.before["people"], *ended.before["latecomers"])))
        ),
    },
    inputs=(
        Input(
            name="children last",
            arguments=lambda: queue(
                "The oldest first, but everybody below eighteen comes after all the adults."
            ),
            expected=(["Cy", "Ada", "Dee", "Bo"], ["Fritz", "Eve", "Gil"]),
            answers=(keyed("(person.age < 18, -person.age)"),),
            replies=({"parts": [part("age", "is less than", "18"), part("age", down=True)]},),
            wrong_answers=((keyed("person.age"),),),
            wrong_replies=(({"parts": [part("age")]},),),
        ),
        Input(
            name="by city",
            arguments=lambda: queue("Those from Ulm first, and within each group by age, the oldest first."),
            expected=(["Cy", "Ada", "Dee", "Bo"], ["Eve", "Gil", "Fritz"]),
            answers=(keyed("(person.city != 'Ulm', -person.age)"),),
            replies=({"parts": [part("city", "is", "Ulm", down=True), part("age", down=True)]},),
            wrong_answers=(
                (keyed("['Cy', 'Ada', 'Dee', 'Bo', 'Fritz', 'Gil', 'Eve'].index(person.name)"),),
                (
                    keyed(
                        "(person.city != 'Ulm', -person.age)",
                        "people.__setitem__(0, Person('Ada', 36, 'Ulm'))",
                    ),
                ),
                (keyed("(person.city != 'Ulm', -person.age)", "setattr(people[0], 'city', 'Ulm, Germany')"),),
            ),
            wrong_replies=(({"parts": [part("city", "is", "Ulm"), part("age", down=True)]},),),
        ),
        Input(
            name="by length",
            arguments=lambda: queue(
                "Long names first; of two that are equally long, the younger person first."
            ),
            expected=(["Dee", "Ada", "Bo", "Cy"], ["Fritz", "Gil", "Eve"]),
            answers=(keyed("(-len(person.name), person.age)"),),
            replies=({"parts": [part("name", "length", down=True), part("age")]},),
            wrong_answers=((keyed("(len(person.name), person.age)"),),),
            wrong_replies=(({"parts": [part("name", "length"), part("age")]},),),
        ),
    ),
)
