"""Subtitles are cleaned while they are read, and no further than somebody needs them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on, sets
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Film:
    lines: list[str]
    read: int = 0

    def next_line(self) -> str | None:
        self.read += 1
        return self.lines[self.read - 1] if self.read <= len(self.lines) else None


@nh.natural_function
async def spoken(film: Film) -> AsyncGenerator[str, None]:
    said: str = nh.unset
    while (line := film.next_line()) is not None:
        """natural
        <line> is a subtitle. If nobody speaks in it, because it only describes sounds or music, continue. If
        the film is over, because the credits begin, break. Otherwise set <:said> to the spoken words alone,
        without the name of the speaker and without descriptions in brackets.
        """
        yield said


async def first_words(film: Film, wanted: int) -> list[str]:
    words: list[str] = []
    async with aclosing(spoken(film)) as texts:
        async for text in texts:
            words.append(text)
            if len(words) == wanted:
                break
    return words


class Subtitle(BaseModel):
    kind: Literal["sounds", "credits", "speech"]
    spoken_words: str


async def first_words_by_hand(chat: Chat, film: Film, wanted: int) -> list[str]:
    words: list[str] = []
    while len(words) < wanted and (line := film.next_line()) is not None:
        subtitle = await chat.ask(
            f"A subtitle: {line}\nDoes it only describe sounds or music, do the credits begin, or does "
            "somebody speak? Give the spoken words alone, without the name of the speaker and without "
            "descriptions in brackets.",
            Subtitle,
        )
        if subtitle.kind == "credits":
            break
        if subtitle.kind == "speech":
            words.append(subtitle.spoken_words)
    return words


def film(wanted: int, *lines: str) -> dict[str, object]:
    return {"film": Film(list(lines)), "wanted": wanted}


def speech(words: str) -> dict[str, str]:
    return {"kind": "speech", "spoken_words": words}


SOUNDS, CREDITS = {"kind": "sounds", "spoken_words": ""}, {"kind": "credits", "spoken_words": ""}
QUIET: Answer = goes_on("continue")

PROGRAM = Program(
    name="subtitles",
    what="a natural generator skips, ends, and is read no further than needed",
    features=("iterator", "loop"),
    natural=first_words,
    by_hand=first_words_by_hand,
    checks={
        "the words are right": lambda ended: ended.result == ended.expected[0],
        "no line more was read": lambda ended: ended["film"].read == ended.expected[1],
        "the lines are untouched": lambda ended: ended["film"].lines == ended.before["film"].lines,
    },
    inputs=(
        Input(
            name="two of many",
            arguments=lambda: film(
                2,
                "[thunder]",
                "MARA: Is somebody there?",
                "(she coughs) Hello!",
                "NILS: Only me.",
                "[a door slams]",
            ),
            expected=(["Is somebody there?", "Hello!"], 3),
            answers=(QUIET, sets(said="Is somebody there?"), sets(said="Hello!")),
            replies=(SOUNDS, speech("Is somebody there?"), speech("Hello!")),
            wrong_answers=(
                (QUIET, sets(said="MARA: Is somebody there?"), sets(said="Hello!")),
                (QUIET, sets(said="Is somebody there?"), QUIET, sets(said="Hello!")),
                (
                    goes_on("continue", evaluations=["film.lines.pop()"]),
                    sets(said="Is somebody there?"),
                    sets(said="Hello!"),
                ),
            ),
            wrong_replies=((SOUNDS, speech("MARA: Is somebody there?"), speech("Hello!")),),
        ),
        Input(
            name="credits",
            arguments=lambda: film(
                5,
                "♪ slow waltz ♪",
                "We made it.",
                "Directed by Ines Okafor. Music: Tom Sailer.",
                "Bonus scene: Ha!",
            ),
            expected=(["We made it."], 3),
            answers=(QUIET, sets(said="We made it."), goes_on("break")),
            replies=(SOUNDS, speech("We made it."), CREDITS),
            wrong_answers=((QUIET, sets(said="We made it."), QUIET, sets(said="Ha!")),),
            wrong_replies=((SOUNDS, speech("We made it."), SOUNDS, speech("Ha!")),),
        ),
        Input(
            name="speech alone",
            arguments=lambda: film(3, "OLD MAN: Sit down.", "BOY (whispering): Why?", "[silence]"),
            expected=(["Sit down.", "Why?"], 4),
            answers=(sets(said="Sit down."), sets(said="Why?"), QUIET),
            replies=(speech("Sit down."), speech("Why?"), SOUNDS),
        ),
    ),
)
