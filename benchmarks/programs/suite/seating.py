"""Guests change places, and the same guests stand in a list of tables and in a directory."""

from dataclasses import dataclass, field

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Guest:
    name: str
    diet: str = "any"


@dataclass
class Table:
    number: int
    guests: list[Guest] = field(default_factory=list[Guest])


@nh.natural_function
async def reseat(tables: list[Table], directory: dict[str, Guest], wish: str) -> None:
    """natural
    Carry out <wish> in place: move the guests among <tables>, and change their diets. A guest who moves sits
    down at the end of a table; one who swaps takes the other's place in the list. The guests in <directory>
    are the guests at the tables: make no new ones.
    """


class Seats(BaseModel):
    number: int
    names: list[str]


class Diet(BaseModel):
    name: str
    diet: str


class Seating(BaseModel):
    tables: list[Seats]
    changed_diets: list[Diet]


async def reseat_by_hand(chat: Chat, tables: list[Table], directory: dict[str, Guest], wish: str) -> None:
    seats = {table.number: [guest.name for guest in table.guests] for table in tables}
    diets = {guest.name: guest.diet for guest in directory.values()}
    seating = await chat.ask(
        f"Guests by table: {seats}\nTheir diets: {diets}\nCarry out this wish: {wish}\nA guest who moves "
        "sits down at the end of a table; one who swaps takes the other's place. Give all tables as they "
        "are then, and the diets that change.",
        Seating,
    )
    for row in seating.tables:
        table = next(table for table in tables if table.number == row.number)
        table.guests[:] = [directory[name] for name in row.names]
    for each in seating.changed_diets:
        directory[each.name].diet = each.diet


def party(wish: str) -> dict[str, object]:
    ada, bo, cy, dee = guests = [Guest("Ada"), Guest("Bo", "vegan"), Guest("Cy"), Guest("Dee")]
    directory = {guest.name: guest for guest in guests}
    return {"tables": [Table(1, [ada, bo]), Table(2, [cy, dee])], "directory": directory, "wish": wish}


def seats(*tables: list[str]) -> list[dict[str, object]]:
    return [{"number": number, "names": names} for number, names in enumerate(tables, 1)]


PROGRAM = Program(
    name="seating",
    what="guests change places, who are held by a table and by a directory",
    features=("objects",),
    natural=reseat,
    by_hand=reseat_by_hand,
    held=lambda given: dict(given["directory"]),
    checks={
        "everybody sits right": lambda ended: (
            [[guest.name for guest in table.guests] for table in ended["tables"]] == ended.expected[0]
        ),
        "the directory holds the guests at the tables": lambda ended: all(
            guest is ended.held[guest.name] for table in ended["tables"] for guest in table.guests
        ),
        "the diets are right": lambda ended: (
            {name: guest.diet for name, guest in ended.held.items()} == ended.expected[1]
        ),
    },
    inputs=(
        Input(
            name="swap",
            arguments=lambda: party("Ada must not sit beside Bo. Let her swap places with Dee."),
            expected=(
                [["Dee", "Bo"], ["Cy", "Ada"]],
                {"Ada": "any", "Bo": "vegan", "Cy": "any", "Dee": "any"},
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "tables[0].guests.__setitem__(0, directory['Dee'])",
                        "tables[1].guests.__setitem__(1, directory['Ada'])",
                    ],
                ),
            ),
            replies=({"tables": seats(["Dee", "Bo"], ["Cy", "Ada"]), "changed_diets": []},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=[
                            "tables[0].guests.__setitem__(0, Guest('Dee'))",
                            "tables[1].guests.__setitem__(1, Guest('Ada'))",
                        ],
                    ),
                ),
            ),
            wrong_replies=(({"tables": seats(["Bo", "Dee"], ["Cy", "Ada"]), "changed_diets": []},),),
        ),
        Input(
            name="diet",
            arguments=lambda: party("Cy has become a vegan too and wants to sit with the other one."),
            expected=(
                [["Ada", "Bo", "Cy"], ["Dee"]],
                {"Ada": "any", "Bo": "vegan", "Cy": "vegan", "Dee": "any"},
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "tables[0].guests.append(tables[1].guests.pop(0))",
                        "setattr(directory['Cy'], 'diet', 'vegan')",
                    ],
                ),
            ),
            replies=(
                {
                    "tables": seats(["Ada", "Bo", "Cy"], ["Dee"]),
                    "changed_diets": [{"name": "Cy", "diet": "vegan"}],
                },
            ),
            wrong_answers=((goes_on(evaluations=["tables[0].guests.append(tables[1].guests.pop(0))"]),),),
            wrong_replies=(({"tables": seats(["Ada", "Bo", "Cy"], ["Dee"]), "changed_diets": []},),),
        ),
        Input(
            name="leaving",
            arguments=lambda: party(
                "Bo had to go home. Ada does not want to sit alone, so she joins the others."
            ),
            expected=([[], ["Cy", "Dee", "Ada"]], {"Ada": "any", "Bo": "vegan", "Cy": "any", "Dee": "any"}),
            answers=(
                goes_on(
                    evaluations=["(tables[1].guests.append(directory['Ada']), tables[0].guests.clear())"]
                ),
            ),
            replies=({"tables": seats([], ["Cy", "Dee", "Ada"]), "changed_diets": []},),
            wrong_answers=((goes_on(evaluations=["tables[1].guests.append(directory['Ada'])"]),),),
            wrong_replies=(({"tables": seats(["Bo"], ["Cy", "Dee", "Ada"]), "changed_diets": []},),),
        ),
    ),
)
