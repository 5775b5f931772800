"""An inbox is worked through until a mail says that it is enough."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Mail:
    text: str
    tags: list[str] = field(default_factory=list[str])


@nh.natural_function
async def work_through(mails: list[Mail], urgent: list[Mail]) -> list[Mail]:
    read: list[Mail] = []
    for mail in mails:
        """natural
        If <mail> is advertising, tag it as "advertising" and continue. If it says that work ends for today,
        break. Otherwise, if an answer is needed today, append the mail to <urgent>.
        """
        read.append(mail)
    return read


class Verdict(BaseModel):
    kind: Literal["advertising", "end of work", "urgent", "other"]


async def work_through_by_hand(chat: Chat, mails: list[Mail], urgent: list[Mail]) -> list[Mail]:
    read: list[Mail] = []
    for mail in mails:
        verdict = await chat.ask(
            f"A mail: {mail.text}\nIs it advertising, does it say that work ends for today, is an answer "
            "needed today (urgent), or is it another mail?",
            Verdict,
        )
        if verdict.kind == "advertising":
            mail.tags.append("advertising")
            continue
        if verdict.kind == "end of work":
            break
        if verdict.kind == "urgent":
            urgent.append(mail)
        read.append(mail)
    return read


def inbox(*texts: str) -> dict[str, object]:
    return {"mails": [Mail(text) for text in texts], "urgent": []}


def kinds(*kinds: str) -> tuple[dict[str, str], ...]:
    return tuple({"kind": kind} for kind in kinds)


ADVERTISING = goes_on("continue", evaluations=["mail.tags.append('advertising')"])
URGENT = goes_on(evaluations=["urgent.append(mail)"])
OTHER, END = goes_on(), goes_on("break")
STRANGER: Answer = goes_on(evaluations=["urgent.append(Mail(mail.text))"])

PROGRAM = Program(
    name="inbox",
    what="blocks go on, skip a mail, or leave the loop",
    features=("objects", "loop"),
    natural=work_through,
    by_hand=work_through_by_hand,
    held=lambda given: list(given["mails"]),
    checks={
        "the right mails were read": lambda ended: (
            [id(mail) for mail in ended.result] == [id(ended.held[number]) for number in ended.expected[0]]
        ),
        "urgent mails are the same objects": lambda ended: (
            [id(mail) for mail in ended["urgent"]] == [id(ended.held[number]) for number in ended.expected[1]]
        ),
        "advertising is tagged, and nothing else": lambda ended: (
            [mail.tags for mail in ended.held]
            == [["advertising"] * (number in ended.expected[2]) for number in range(len(ended.held))]
        ),
    },
    inputs=(
        Input(
            name="all kinds",
            arguments=lambda: inbox(
                "Do you come to the picnic in August?",
                "LAST CHANCE: watches from 9.99, only this week!!",
                "The customer calls at three this afternoon and wants our offer. What do I tell her?",
                "Chief here: we close for today, go and enjoy the sun.",
                "Where is the offer? I need it within the hour.",
            ),
            expected=([0, 2], [2], [1]),
            answers=(OTHER, ADVERTISING, URGENT, END),
            replies=kinds("other", "advertising", "urgent", "end of work"),
            wrong_answers=(
                (OTHER, goes_on("continue"), URGENT, END),
                (OTHER, ADVERTISING, STRANGER, END),
                (OTHER, ADVERTISING, URGENT, OTHER, URGENT),
            ),
            wrong_replies=(
                kinds("other", "other", "urgent", "end of work"),
                kinds("other", "advertising", "urgent", "other", "urgent"),
            ),
        ),
        Input(
            name="advertising alone",
            arguments=lambda: inbox(
                "You have won! Click to claim your prize.", "Cheap flights: book by midnight!"
            ),
            expected=([], [], [0, 1]),
            answers=(ADVERTISING, ADVERTISING),
            replies=kinds("advertising", "advertising"),
            wrong_answers=((ADVERTISING, URGENT),),
            wrong_replies=(kinds("advertising", "urgent"),),
        ),
        Input(
            name="until the end",
            arguments=lambda: inbox(
                "The office will close at six next Friday.",
                "Please confirm by tonight that the room is ours.",
            ),
            expected=([0, 1], [1], []),
            answers=(OTHER, URGENT),
            replies=kinds("other", "urgent"),
            wrong_answers=((END,),),
            wrong_replies=(kinds("end of work"),),
        ),
    ),
)
