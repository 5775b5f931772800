"""Rules in words become handlers in a dictionary of the program, which write to a list of the program."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on
from ..chat import Chat
from ..program import Input, Program

Handlers: TypeAlias = dict[str, Callable[[float], None]]


@nh.natural_function
async def register(handlers: Handlers, sent: list[str], rule: str) -> None:
    """natural
    Add to <handlers>, in place, a handler for each sensor that <rule> names: a function of a reading, which
    appends to <sent> the word in quotation marks whenever the rule asks for it. Leave other handlers as they
    are.
    """


async def watch(handlers: Handlers, sent: list[str], rule: str, readings: list[tuple[str, float]]) -> None:
    await register(handlers, sent, rule)
    for sensor, reading in readings:
        handlers[sensor](reading)


class Handler(BaseModel):
    sensor: str
    word: str
    comparison: Literal["above", "below"]
    limit: float
    is_once: bool


class Rules(BaseModel):
    handlers: list[Handler]


async def watch_by_hand(
    chat: Chat, handlers: Handlers, sent: list[str], rule: str, readings: list[tuple[str, float]]
) -> None:
    answer = await chat.ask(
        "Turn this rule about sensors into handlers, each with the word that is sent, which stands in "
        "quotation marks, whether it is sent above or below a limit, and whether it is sent only once: "
        f"{rule}",
        Rules,
    )

    def handler(made: Handler) -> Callable[[float], None]:
        def handle(reading: float) -> None:
            is_due = reading > made.limit if made.comparison == "above" else reading < made.limit
            if is_due and not (made.is_once and made.word in sent):
                sent.append(made.word)

        return handle

    for made in answer.handlers:
        handlers[made.sensor] = handler(made)
    for sensor, reading in readings:
        handlers[sensor](reading)


def ring(reading: float) -> None:
    """A handler that is there already."""


def house(rule: str, *readings: tuple[str, float]) -> dict[str, object]:
    return {"handlers": {"door": ring}, "sent": [], "rule": rule, "readings": list(readings)}


def made(
    sensor: str, word: str, comparison: str, limit: float, *, is_once: bool = False
) -> dict[str, object]:
    return {"sensor": sensor, "word": word, "comparison": comparison, "limit": limit, "is_once": is_once}


def adds(**handlers: str) -> Answer:
    functions = ", ".join(
        f"{sensor}=lambda reading: sent.append({word!r}) if {condition} else None"
        for sensor, (word, condition) in ((sensor, text.split(" if ")) for sensor, text in handlers.items())
    )
    return goes_on(evaluations=[f"handlers.update({functions})"])


PROGRAM = Program(
    name="alarms",
    what="rules in words become handlers that share a list with the program",
    features=("closure", "objects"),
    natural=watch,
    by_hand=watch_by_hand,
    checks={
        "the right words were sent": lambda ended: ended["sent"] == ended.expected[0],
        "the right sensors have handlers": lambda ended: set(ended["handlers"]) == ended.expected[1],
        "the old handler is still there": lambda ended: ended["handlers"]["door"] is ring,
    },
    inputs=(
        Input(
            name="heat",
            arguments=lambda: house(
                'When the oven gets hotter than two hundred degrees, send "hot".',
                ("oven", 180.0),
                ("oven", 230.0),
                ("door", 1.0),
                ("oven", 201.0),
            ),
            expected=(["hot", "hot"], {"door", "oven"}),
            answers=(adds(oven="hot if reading > 200"),),
            replies=({"handlers": [made("oven", "hot", "above", 200)]},),
            wrong_answers=(
                (adds(oven="hot if reading < 200"),),
                (
                    goes_on(
                        evaluations=[
                            "handlers.update(oven=lambda r: sent.append('hot') if r > 200 else None, "
                            "door=lambda r: None)"
                        ]
                    ),
                ),
                (adds(oven="hot if reading > 200", stove="hot if reading > 200"),),
            ),
            wrong_replies=(({"handlers": [made("oven", "hot", "above", 200, is_once=True)]},),),
        ),
        Input(
            name="two sensors",
            arguments=lambda: house(
                'Send "frost" as soon as the pipe is below zero, and "flood" when the cellar has more than '
                "a hand (ten "
                "centimetres) of water.",
                ("pipe", -2.0),
                ("cellar", 9.0),
                ("cellar", 12.0),
                ("pipe", 3.0),
            ),
            expected=(["frost", "flood"], {"door", "pipe", "cellar"}),
            answers=(adds(pipe="frost if reading < 0", cellar="flood if reading > 10"),),
            replies=(
                {"handlers": [made("pipe", "frost", "below", 0), made("cellar", "flood", "above", 10)]},
            ),
            wrong_answers=((adds(pipe="frost if reading < 0", cellar="flood if reading > 5"),),),
            wrong_replies=(
                ({"handlers": [made("pipe", "frost", "below", 0), made("cellar", "flood", "above", 5)]},),
            ),
        ),
        Input(
            name="only once",
            arguments=lambda: house(
                (
                    'If the tank falls below a quarter, readings are from 0 to 1, send "refill"; but send it '
                    "only once."
                ),
                ("tank", 0.3),
                ("tank", 0.2),
                ("tank", 0.1),
            ),
            expected=(["refill"], {"door", "tank"}),
            answers=(adds(tank="refill if reading < 0.25 and 'refill' not in sent"),),
            replies=({"handlers": [made("tank", "refill", "below", 0.25, is_once=True)]},),
            wrong_answers=((adds(tank="refill if reading < 0.25"),),),
            wrong_replies=(({"handlers": [made("tank", "refill", "below", 0.25)]},),),
        ),
    ),
)
