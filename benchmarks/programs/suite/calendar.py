"""A calendar is changed by its public methods, from requests with dates in words."""

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


@dataclass
class Event:
    title: str
    day: date
    hour: int


@dataclass
class Calendar:
    today: date
    events: dict[str, Event] = field(default_factory=dict[str, Event])
    history: list[str] = field(default_factory=list[str])

    def add(self, title: str, day: date, hour: int) -> None:
        """Add an event. The hour is from 0 to 23."""
        if any((event.day, event.hour) == (day, hour) for event in self.events.values()):
            raise ValueError(f"there is an event on {day} at {hour}")
        self.events[title] = Event(title, day, hour)
        self.history.append(f"add {title}")

    def move(self, title: str, day: date, hour: int) -> None:
        """Move an event."""
        event = self.events[title]
        event.day, event.hour = day, hour
        self.history.append(f"move {title}")

    def cancel(self, title: str) -> None:
        """Remove an event."""
        del self.events[title]
        self.history.append(f"cancel {title}")


@nh.natural_function
async def plan(calendar: Calendar, request: str) -> None:
    weekday = f"{calendar.today:%A}"
    """natural
    Change <calendar> as <request> says, with its methods and in the order of the request, seen from its
    today, which is a <weekday>. Weeks begin on Monday.
    """


class Action(BaseModel):
    method: Literal["add", "move", "cancel"]
    title: str
    day: date | None
    hour: int | None


class Actions(BaseModel):
    actions: list[Action]


async def plan_by_hand(chat: Chat, calendar: Calendar, request: str) -> None:
    events = {title: f"{each.day:%A, %Y-%m-%d}, {each.hour}:00" for title, each in calendar.events.items()}
    answer = await chat.ask(
        f"Today is {calendar.today:%A, %Y-%m-%d}. A calendar has these events: {events}\n"
        f"Give the actions for this request, in its order: {request}\nWeeks begin on Monday. An event that "
        "is canceled has no day and no hour.",
        Actions,
    )
    for action in answer.actions:
        if action.method == "cancel":
            calendar.cancel(action.title)
        elif action.day is not None and action.hour is not None:
            (calendar.add if action.method == "add" else calendar.move)(action.title, action.day, action.hour)


def this_week(request: str) -> dict[str, object]:
    calendar = Calendar(date(2025, 3, 12))  # a Wednesday
    calendar.events = {
        "dentist": Event("dentist", date(2025, 3, 13), 15),
        "lunch with Ada": Event("lunch with Ada", date(2025, 3, 14), 12),
        "choir": Event("choir", date(2025, 3, 17), 19),
    }
    return {"calendar": calendar, "request": request}


def action(method: str, title: str, day: str | None = None, hour: int | None = None) -> dict[str, object]:
    return {"method": method, "title": title, "day": day, "hour": hour}


PROGRAM = Program(
    name="calendar",
    what="requests with dates in words change a calendar through its public methods",
    features=("objects", "methods"),
    natural=plan,
    by_hand=plan_by_hand,
    held=lambda given: dict(given["calendar"].events),
    checks={
        "the dates are right": lambda ended: (
            {title: (event.day, event.hour) for title, event in ended["calendar"].events.items()}
            == ended.expected[0]
        ),
        "only methods were used": lambda ended: ended["calendar"].history == ended.expected[1],
        "events that stay are the same objects": lambda ended: all(
            ended["calendar"].events[title] is event
            for title, event in ended.held.items()
            if title in ended.expected[0]
        ),
    },
    inputs=(
        Input(
            name="move and cancel",
            arguments=lambda: this_week(
                "Move the dentist to the day after, at nine in the morning, and cancel the choir."
            ),
            expected=(
                {"dentist": (date(2025, 3, 14), 9), "lunch with Ada": (date(2025, 3, 14), 12)},
                ["move dentist", "cancel choir"],
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "calendar.move('dentist', date(2025, 3, 14), 9)",
                        "calendar.cancel('choir')",
                    ],
                ),
            ),
            replies=({"actions": [action("move", "dentist", "2025-03-14", 9), action("cancel", "choir")]},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=[
                            "calendar.cancel('dentist')",
                            "calendar.add('dentist', date(2025, 3, 14), 9)",
                            "calendar.cancel('choir')",
                        ],
                    ),
                ),
                (
                    goes_on(
                        evaluations=[
                            "calendar.move('dentist', date(2025, 3, 13), 9)",
                            "calendar.cancel('choir')",
                        ],
                    ),
                ),
            ),
            wrong_replies=(
                ({"actions": [action("move", "dentist", "2025-03-13", 9), action("cancel", "choir")]},),
            ),
        ),
        Input(
            name="next week",
            arguments=lambda: this_week("Add a haircut on Tuesday of next week, at ten in the morning."),
            expected=(
                {
                    "dentist": (date(2025, 3, 13), 15),
                    "lunch with Ada": (date(2025, 3, 14), 12),
                    "choir": (date(2025, 3, 17), 19),
                    "haircut": (date(2025, 3, 18), 10),
                },
                ["add haircut"],
            ),
            answers=(goes_on(evaluations=["calendar.add('haircut', date(2025, 3, 18), 10)"]),),
            replies=({"actions": [action("add", "haircut", "2025-03-18", 10)]},),
            wrong_answers=((goes_on(evaluations=["calendar.add('haircut', date(2025, 3, 25), 10)"]),),),
            wrong_replies=(({"actions": [action("add", "haircut", "2025-03-25", 10)]},),),
        ),
        Input(
            name="same day",
            arguments=lambda: this_week(
                "Lunch with Ada has to be on the day of the choir, an hour later than planned."
            ),
            expected=(
                {
                    "dentist": (date(2025, 3, 13), 15),
                    "lunch with Ada": (date(2025, 3, 17), 13),
                    "choir": (date(2025, 3, 17), 19),
                },
                ["move lunch with Ada"],
            ),
            answers=(
                goes_on(evaluations=["calendar.move('lunch with Ada', calendar.events['choir'].day, 13)"]),
            ),
            replies=({"actions": [action("move", "lunch with Ada", "2025-03-17", 13)]},),
        ),
    ),
)
