"""A description becomes a class, a subclass of one of the program."""

from abc import ABC, abstractmethod

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, expressed
from ..chat import Chat
from ..program import Input, Program


class Creature(ABC):
    """A creature of a story."""

    legs: int

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def speak(self, times: int) -> str:
        """Make its sound several times, with a space between."""

    @property
    def introduction(self) -> str:
        return f"{self.name} has {self.legs} legs and says {self.speak(2)}"


@nh.natural_function
async def breed(description: str) -> type[Creature]:
    """natural
    Return a new subclass of <Creature>, not an instance, for the animals of <description>, with all that it
    needs. It takes a name as Creature does. Write sounds in small letters.
    """


async def introduce(description: str, names: list[str], zoo: list[Creature]) -> list[str]:
    kind = await breed(description)
    zoo.extend(kind(name) for name in names)
    return [creature.introduction for creature in zoo]


class Kind(BaseModel):
    legs: int
    sound: str


async def introduce_by_hand(chat: Chat, description: str, names: list[str], zoo: list[Creature]) -> list[str]:
    made = await chat.ask(
        f"How many legs do these animals have, and which sound do they make, in small letters? {description}",
        Kind,
    )

    class Made(Creature):
        legs = made.legs

        def speak(self, times: int) -> str:
            return " ".join([made.sound] * times)

    zoo.extend(Made(name) for name in names)
    return [creature.introduction for creature in zoo]


def story(description: str) -> dict[str, object]:
    return {"description": description, "names": ["Ann", "Ben"], "zoo": []}


def made(legs: int, sound: str, *, own: str = "") -> Answer:
    """Define a subclass, with more of its own in its body, and return it."""
    body = f"legs = {legs}\n    def speak(self, times): return ' '.join([{sound!r}] * times)\n{own}"
    return expressed("Made", first=[f"class Made(Creature):\n    {body}"])


NAMELESS = "    def __init__(self, name): self.name = 'Dog'\n"
TWICE = "    def speak(self, times): return 'woof woof'\n"


def introductions(legs: int, sound: str) -> list[str]:
    return [f"{name} has {legs} legs and says {sound} {sound}" for name in ("Ann", "Ben")]


PROGRAM = Program(
    name="creatures",
    what="a description becomes a class, with which Python makes objects",
    features=("class",),
    natural=introduce,
    by_hand=introduce_by_hand,
    checks={
        "the creatures say what they should": lambda ended: ended.result == ended.expected,
        "they have their names": lambda ended: [each.name for each in ended["zoo"]] == ["Ann", "Ben"],
        "it speaks any number of times": lambda ended: len(ended["zoo"][0].speak(3).split()) == 3,
    },
    inputs=(
        Input(
            name="usual",
            arguments=lambda: story("Dogs of the usual kind. They bark: woof."),
            expected=introductions(4, "woof"),
            answers=(made(4, "woof"),),
            replies=({"legs": 4, "sound": "woof"},),
            wrong_answers=(
                (made(2, "woof"),),
                (made(4, "woof", own=TWICE),),
                (made(4, "woof", own=NAMELESS),),
            ),
            wrong_replies=(({"legs": 4, "sound": "bark"},),),
        ),
        Input(
            name="spiders",
            arguments=lambda: story("Spiders that lost one of their legs each, and hum like this: hmm."),
            expected=introductions(7, "hmm"),
            answers=(made(7, "hmm"),),
            replies=({"legs": 7, "sound": "hmm"},),
            wrong_answers=((made(8, "hmm"),),),
            wrong_replies=(({"legs": 8, "sound": "hmm"},),),
        ),
        Input(
            name="two in one",
            arguments=lambda: story(
                "A horse for its lower half and a man for the rest, arms not counted. It shouts HEY."
            ),
            expected=introductions(4, "hey"),
            answers=(made(4, "hey"),),
            replies=({"legs": 4, "sound": "hey"},),
            wrong_answers=((made(6, "hey"),),),
            wrong_replies=(({"legs": 4, "sound": "HEY"},),),
        ),
    ),
)
