"""Agents written by hand that decide, choose, filter and rank."""

from pydantic import BaseModel
from pydantic_ai import Agent

from ..data.deciding import (
    APPLICANTS,
    CLAIM,
    LAPTOPS,
    POLICY,
    REVIEWS,
    SENSORS,
    SHARING_REQUEST,
    TICKET,
    VERSION_ONE,
    VERSION_TWO,
    Category,
    Change,
    Decision,
    Parcel,
    Refusal,
    Sentiment,
    book_parcel,
)
from .asking import Asked, as_json

__all__ = ["ASKED"]


class AccessNames(BaseModel):
    """What somebody may do with a folder."""

    list: bool
    read: bool
    write: bool
    share: bool


class BadAddress(BaseModel):
    """An address to which nothing can be sent, and what it lacks."""

    missing: str


class Topic(BaseModel):
    """The subject of a complaint in one word; None if it is no complaint."""

    topic: str | None


class Mood(BaseModel):
    """The mood of a text in one word."""

    mood: str
    is_urgent: bool
    confidence: float


ASKED = {
    "classify-enum": Asked(
        Agent(
            output_type=Category,
            instructions="Which team answers the ticket? What it was about before is in its history and "
            "does not count.",
        ),
        as_json(TICKET),
    ),
    "flag": Asked(
        Agent(
            output_type=AccessNames,
            instructions="Say what the request asks for. Who may read may list as well.",
        ),
        SHARING_REQUEST,
    ),
    "literals": Asked(
        Agent(output_type=list[Sentiment], instructions="Give the mood of each review, in their order."),
        as_json(REVIEWS),
    ),
    "choose-object": Asked(
        Agent(output_type=int, instructions="Return the index of the laptop that suits the wish best."),
        "Wish: light, 32 GB of memory, a matte display, and not more than 1,200 euros\n\n"
        f"Laptops: {as_json(LAPTOPS)}",
    ),
    "policy": Asked(
        Agent(output_type=Decision, instructions="Decide the claim by the policy."),
        f"<policy>\n{POLICY}</policy>\n<claim>\n{CLAIM}</claim>",
    ),
    "rank": Asked(
        Agent(
            output_type=list[str],
            instructions="Return the names of the applicants who meet every demand of the job, the best one "
            "first.",
        ),
        "Job: async Python, five years of experience at least, on-call duty\n\n"
        f"Applicants: {as_json(APPLICANTS)}",
    ),
    "long-list": Asked(
        Agent(
            output_type=list[str],
            instructions="List the ids of those sensors whose notes say that something is wrong.",
        ),
        as_json(SENSORS),
    ),
    "compare": Asked(
        Agent(
            output_type=list[Change],
            instructions="Compare the contracts and list what changed, section by section. A section that "
            "says the same in other words is reworded.",
        ),
        f"<first>\n{VERSION_ONE}</first>\n<second>\n{VERSION_TWO}</second>",
    ),
    "union-return": Asked(
        Agent(
            output_type=[int, Refusal, type(None)],
            instructions="The message may ask for a parcel. If it does, book it and return its number; "
            "parcels above 30 kg and those with batteries are refused. If it is about something else, "
            "return None.",
            tools=[book_parcel],
        ),
        "I want to send a car battery, 14 kg, to my aunt in Turin, insured please.",
    ),
    "raise": Asked(
        Agent(
            output_type=[Parcel, BadAddress],
            instructions="Read the text into a parcel. If street or city are missing, say which.",
        ),
        "Parcel for Ms Ito, 22 Harbour Road, 8001",
    ),
    "iterate": Asked(
        Agent(
            output_type=Topic,
            instructions="If the review is a complaint, give its subject in one word.",
        ),
        "Lovely bag.",
    ),
    "frontmatter": Asked(
        Agent(
            output_type=Mood,
            instructions="Tell the mood of the text in one word, whether it is urgent, and your confidence "
            "from 0 to 1.",
        ),
        "Where on earth is my parcel?! I leave for the airport in an hour!",
    ),
}
