"""Messages about a parcel drive a state machine, which refuses what cannot follow."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts, goes_on
from ..chat import Chat
from ..program import Input, Program


class IllegalTransitionError(Exception):
    """The state of a parcel does not allow that."""


@dataclass
class Parcel:
    state: str = "packed"
    history: list[str] = field(default_factory=list[str])

    def send(self) -> None:
        """A packed parcel is on its way."""
        self._go("packed", "on its way")

    def deliver(self) -> None:
        """A parcel that is on its way is delivered."""
        self._go("on its way", "delivered")

    def give_back(self) -> None:
        """A delivered parcel is returned."""
        self._go("delivered", "returned")

    def _go(self, state: str, next_state: str) -> None:
        if self.state != state:
            raise IllegalTransitionError(next_state)
        self.state = next_state
        self.history.append(next_state)


@nh.natural_function
async def follow(parcel: Parcel, messages: list[str]) -> list[str]:
    states: list[str] = []
    for message in messages:
        """natural
        Call the method of <parcel> that tells what has happened to it as <message> says. If nothing has
        happened to it, or not yet, continue. If its method raises IllegalTransitionError, raise that.
        """
        states.append(parcel.state)
    return states


class Happened(BaseModel):
    event: Literal["sent", "delivered", "given back", "nothing"]


async def follow_by_hand(chat: Chat, parcel: Parcel, messages: list[str]) -> list[str]:
    methods = {"sent": parcel.send, "delivered": parcel.deliver, "given back": parcel.give_back}
    states: list[str] = []
    for message in messages:
        happened = await chat.ask(
            f"A message about a parcel: {message}\nWas it sent, delivered to its receiver, or given back by "
            "the receiver, or has nothing happened to it, or not yet?",
            Happened,
        )
        if happened.event == "nothing":
            continue
        methods[happened.event]()
        states.append(parcel.state)
    return states


def messages(*texts: str) -> dict[str, object]:
    return {"parcel": Parcel(), "messages": list(texts)}


def events(*words: str) -> tuple[dict[str, str], ...]:
    return tuple({"event": word} for word in words)


SEND, DELIVER, GIVE_BACK = (
    goes_on(evaluations=[f"parcel.{name}()"]) for name in ("send", "deliver", "give_back")
)
NOTHING = goes_on("continue")
ILLEGAL: Answer = aborts("returned", "IllegalTransitionError")

PROGRAM = Program(
    name="parcel",
    what="messages drive a state machine, which refuses what cannot follow",
    features=("objects", "methods", "loop", "exceptions"),
    natural=follow,
    by_hand=follow_by_hand,
    checks={
        "the state is right": lambda ended: ended["parcel"].state == ended.expected[0],
        "each transition was one of its methods": lambda ended: ended["parcel"].history == ended.expected[1],
        "each state was noted": lambda ended: ended.error is not None or ended.result == ended.expected[1],
    },
    inputs=(
        Input(
            name="until the door",
            arguments=lambda: messages(
                "The van has picked up your parcel.",
                "Your parcel will reach you tomorrow.",
                "We left your parcel with you: signed by Ms Okafor.",
            ),
            expected=("delivered", ["on its way", "delivered"]),
            answers=(SEND, NOTHING, DELIVER),
            replies=events("sent", "nothing", "delivered"),
            wrong_answers=(
                (SEND, goes_on(), DELIVER),
                (SEND, NOTHING, goes_on(evaluations=["setattr(parcel, 'state', 'delivered')"])),
                (SEND, NOTHING, NOTHING),
            ),
            wrong_replies=(events("sent", "nothing", "nothing"),),
        ),
        Input(
            name="and back",
            arguments=lambda: messages(
                "It has left our house!",
                "The postman has just handed it to me.",
                "How do I open it?",
                "It doesn't fit, so I sent it back to you this morning.",
            ),
            expected=("returned", ["on its way", "delivered", "returned"]),
            answers=(SEND, DELIVER, NOTHING, GIVE_BACK),
            replies=events("sent", "delivered", "nothing", "given back"),
            wrong_answers=((SEND, DELIVER, NOTHING, NOTHING),),
            wrong_replies=(events("sent", "delivered", "nothing", "nothing"),),
        ),
        Input(
            name="impossible",
            arguments=lambda: messages(
                "Your parcel is in our lorry now.", "The customer has sent it back to us, unopened."
            ),
            expected=("on its way", ["on its way"]),
            raises=IllegalTransitionError,
            answers=(SEND, ILLEGAL),
            replies=events("sent", "given back"),
            wrong_answers=(
                (SEND, goes_on(evaluations=["parcel.deliver()", "parcel.give_back()"])),
                (SEND, NOTHING),
            ),
            wrong_replies=(events("sent", "delivered"), events("sent", "nothing")),
        ),
    ),
)
