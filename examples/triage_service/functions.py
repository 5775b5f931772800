"""What the service leaves to a language model: three natural functions, and what they can call."""

import logging
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

import nighthawk_async as nh
from nighthawk_async import parallel

__all__ = ["Sentiment", "Triage", "find_incidents", "investigate", "triage", "triage_all"]

LOGGER = logging.getLogger("triage")

Sentiment: TypeAlias = Literal["positive", "negative"]
Reply: TypeAlias = Annotated[str, Field(min_length=120, max_length=600)]


class Triage(BaseModel):
    """What becomes of a ticket.

    Args:
        sentiment: How its author feels.
        queue: Who looks at it: somebody soon, or whoever has time.
    """

    model_config = ConfigDict(frozen=True)

    sentiment: Sentiment
    queue: Literal["soon", "later"]


@nh.natural_function
async def feel(review: str) -> Sentiment:
    """How the author of a text feels.

    The embedded model is so small that the words matter: of twelve tickets it takes three to six for the
    opposite when the block speaks of tickets or messages, and none like this.
    """
    label: Sentiment = nh.unset
    """natural
    Set <:label> to the sentiment of the product review <review>: positive or negative.
    """
    return label


async def triage(ticket: str) -> Triage:
    """Decide what becomes of a ticket: the model says how its author feels, Python what follows from it."""
    sentiment = await feel(ticket)
    return Triage(sentiment=sentiment, queue="soon" if sentiment == "negative" else "later")


async def triage_all(tickets: Sequence[str], max_at_once: int) -> list[Triage | None]:
    """Decide what becomes of many tickets; None where it cannot be decided.

    Args:
        tickets: The tickets.
        max_at_once: How many are worked on at once.
    """
    settled = await parallel.settle(triage, tickets, max_concurrent=max_at_once)
    for error in settled.errors():
        LOGGER.warning("a ticket of a batch cannot be sorted: %s", error)
    return [each.value if isinstance(each, parallel.Succeeded) else None for each in settled]


def find_incidents(word: str) -> list[str]:
    """What is known to be out of order at present.

    Args:
        word: A word that the incident has to do with.
    """
    incidents = ("Login fails for some customers since 09:20; a fix is on its way.", "Invoices arrive late.")
    return [incident for incident in incidents if word.lower() in incident.lower()]


@nh.natural_function
async def investigate(ticket: str) -> str:
    """Look into a ticket and write to its author."""
    reply: Reply = nh.unset
    """natural
    Find out with <find_incidents> whether what <ticket> tells of is known already. Then set <:reply> to a
    polite reply to the customer who wrote it: what is known, and what happens next.
    """
    return reply
