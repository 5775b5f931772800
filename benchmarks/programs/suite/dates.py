"""Dates in words become days of a diary, or exceptions."""

from datetime import date

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts, goes_on
from ..chat import Chat
from ..program import Input, Program


class DateError(Exception):
    """A text that names no day to plan for."""


class AmbiguousDateError(DateError):
    """It may mean several days."""


class PastDateError(DateError):
    """It means a day before today."""


@nh.natural_function
async def enter(diary: dict[date, list[str]], title: str, when: str, today: date) -> None:
    weekday = f"{today:%A}"
    """natural
    Append <title> to the list of the day in <diary> that <when> means, seen from <today>, a <weekday>; a day
    without a list gets one. Weeks begin on Monday. Raise AmbiguousDateError if <when> may mean several days,
    and PastDateError if its day is before today.
    """


class Meant(BaseModel):
    is_ambiguous: bool
    day: date | None


async def enter_by_hand(chat: Chat, diary: dict[date, list[str]], title: str, when: str, today: date) -> None:
    meant = await chat.ask(
        f"Today is {today:%A, %Y-%m-%d}. Weeks begin on Monday. Which day does this text mean, which may be "
        f"in the past too? Or is it ambiguous, because it may mean several days? {when}",
        Meant,
    )
    if meant.is_ambiguous or meant.day is None:
        raise AmbiguousDateError(when)
    if meant.day < today:
        raise PastDateError(when)
    diary.setdefault(meant.day, []).append(title)


def diary(when: str) -> dict[str, object]:
    known = {date(2025, 7, 11): ["dentist"]}
    return {"diary": known, "title": "swimming", "when": when, "today": date(2025, 7, 9)}  # a Wednesday


def meant(day: str | None) -> dict[str, object]:
    return {"is_ambiguous": day is None, "day": day}


def enters(day: str) -> Answer:
    return goes_on(evaluations=[f"diary.setdefault({day}, []).append(title)"])


KNOWN = {date(2025, 7, 11): ["dentist"]}

PROGRAM = Program(
    name="dates",
    what="dates in words are entered in a diary, or raise what Python can tell apart",
    features=("objects", "exceptions"),
    natural=enter,
    by_hand=enter_by_hand,
    held=lambda given: given["diary"][date(2025, 7, 11)],
    checks={
        "the diary is right": lambda ended: ended["diary"] == ended.expected,
        "the known day has its list": lambda ended: ended["diary"][date(2025, 7, 11)] is ended.held,
    },
    inputs=(
        Input(
            name="relative",
            arguments=lambda: diary("a week from tomorrow"),
            expected=KNOWN | {date(2025, 7, 17): ["swimming"]},
            answers=(enters("date(2025, 7, 17)"),),
            replies=(meant("2025-07-17"),),
            wrong_answers=((enters("date(2025, 7, 16)"),),),
            wrong_replies=((meant("2025-07-16"),),),
        ),
        Input(
            name="known day",
            arguments=lambda: diary("on the day after tomorrow"),
            expected={date(2025, 7, 11): ["dentist", "swimming"]},
            answers=(enters("date(2025, 7, 11)"),),
            replies=(meant("2025-07-11"),),
            wrong_answers=(
                (goes_on(evaluations=["diary.update({date(2025, 7, 11): ['dentist', title]})"]),),
            ),
        ),
        Input(
            name="last of a month",
            arguments=lambda: diary("on the last Friday of next month"),
            expected=KNOWN | {date(2025, 8, 29): ["swimming"]},
            answers=(enters("date(2025, 8, 29)"),),
            replies=(meant("2025-08-29"),),
        ),
        Input(
            name="ambiguous",
            arguments=lambda: diary("some day next week, or the week after"),
            expected=KNOWN,
            raises=AmbiguousDateError,
            answers=(aborts("which day?", "AmbiguousDateError"),),
            replies=(meant(None),),
            wrong_answers=((enters("date(2025, 7, 14)"),),),
            wrong_replies=((meant("2025-07-14"),),),
        ),
        Input(
            name="past",
            arguments=lambda: diary("on Monday of this week"),
            expected=KNOWN,
            raises=PastDateError,
            answers=(aborts("that was on Monday", "PastDateError"),),
            replies=(meant("2025-07-07"),),
            wrong_answers=((aborts("which day?", "AmbiguousDateError"),), (enters("date(2025, 7, 7)"),)),
            wrong_replies=((meant("2025-07-14"),),),
        ),
    ),
)
