"""A number is guessed with the help of hints in words."""

from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on, sets
from ..chat import Chat
from ..program import Input, Program


class NotGuessedError(Exception):
    """The range is empty, and the number was not guessed."""


class Friend:
    """Knows a number, and speaks of guesses in words."""

    def __init__(self, secret: int) -> None:
        self._secret = secret
        self.guesses: list[int] = []

    @property
    def is_found(self) -> bool:
        return self._secret in self.guesses

    def hint(self, guess: int) -> str:
        self.guesses.append(guess)
        distance = guess - self._secret
        if distance == 0:
            return "That's it! What did you see in the crystal ball?"
        if abs(distance) <= 2:
            return "So close, a tiny step down!" if distance > 0 else "Ooh, just a little more!"
        return (
            "Nowhere near, that shoots over the roof." if distance > 0 else "Brr, deep in the cellar, climb!"
        )


@nh.natural_function
async def guess(friend: Friend, highest: int) -> int:
    low, high = 1, highest
    while low <= high:
        number = (low + high) // 2
        hint = friend.hint(number)
        """natural
        A friend has a number in mind, from <low> to <high>. When asked for <number>, the friend said <hint>.
        Break if that was the number. Otherwise set <:low> or <:high> such that all numbers remain that are
        still possible, going only by whether <number> is too low or too high.
        """
    else:
        raise NotGuessedError
    return number


class Verdict(BaseModel):
    verdict: Literal["too low", "too high", "right"]


async def guess_by_hand(chat: Chat, friend: Friend, highest: int) -> int:
    low, high = 1, highest
    while low <= high:
        number = (low + high) // 2
        verdict = await chat.ask(
            f"A friend has a number in mind, from {low} to {high}. When asked for {number}, the friend said: "
            f"{friend.hint(number)}\nIs {number} too low, too high, or right?",
            Verdict,
        )
        if verdict.verdict == "right":
            return number
        if verdict.verdict == "too low":
            low = number + 1
        else:
            high = number - 1
    raise NotGuessedError


def says(*verdicts: str) -> tuple[dict[str, str], ...]:
    return tuple({"verdict": verdict} for verdict in verdicts)


RIGHT: Answer = goes_on("break")

PROGRAM = Program(
    name="guessing",
    what="hints in words narrow a range until a block leaves the loop",
    features=("loop", "exceptions"),
    natural=guess,
    by_hand=guess_by_hand,
    checks={
        "the number is right": lambda ended: ended.result == ended.expected[-1],
        "the guesses halve the range": lambda ended: ended["friend"].guesses == ended.expected,
        "the friend has heard it": lambda ended: ended["friend"].is_found,
    },
    inputs=(
        Input(
            name="four guesses",
            arguments=lambda: {"friend": Friend(11), "highest": 16},
            expected=[8, 12, 10, 11],
            answers=(sets(low=9), sets(high=11), sets(low=11), RIGHT),
            replies=says("too low", "too high", "too low", "right"),
            wrong_answers=(
                (sets(low=9), sets(high=11), RIGHT),
                (sets(low=8), sets(high=11), sets(low=10), sets(low=11), RIGHT),
            ),
            wrong_replies=(says("too low", "too high", "right"),),
        ),
        Input(
            name="at once",
            arguments=lambda: {"friend": Friend(8), "highest": 16},
            expected=[8],
            answers=(RIGHT,),
            replies=says("right"),
            wrong_answers=((sets(high=7), sets(low=5), sets(low=7), sets(low=8)),),
            wrong_replies=(says("too high", "too low", "too low", "too low"),),
        ),
        Input(
            name="the greatest",
            arguments=lambda: {"friend": Friend(30), "highest": 30},
            expected=[15, 23, 27, 29, 30],
            answers=(sets(low=16), sets(low=24), sets(low=28), sets(low=30), RIGHT),
            replies=says("too low", "too low", "too low", "too low", "right"),
        ),
    ),
)
