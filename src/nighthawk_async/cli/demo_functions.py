"""The natural functions of the demonstration, and the reviews they work on.

They are written as any user would write them.
"""

# A write binding gets its value from the block, where neither pyright nor ruff sees it.
# pyright: reportUnboundVariable=false
# ruff: noqa: F821

import json
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle, islice
from typing import Literal, TypeAlias

import nighthawk_async as nh

Label: TypeAlias = Literal["positive", "negative"]


class AdvertisingError(Exception):
    """A text is advertising and no review."""


@nh.natural_function
async def classify(review: str) -> Label:
    """Whether a product review is positive or negative."""
    label: Label
    """natural
    Set <:label> to the sentiment of the product review <review>: positive or negative.
    """
    return label


@nh.natural_function
def stars_in(text: str) -> int:
    """The number that a text names, in digits or in words."""
    number: int
    """natural
    Set <:number> to the number that <text> names.
    """
    return number


@nh.natural_function
def publish(review: str) -> None:
    """Refuse to publish a text that is advertising and no review.

    Raises:
        AdvertisingError: Always. The message, which the model writes, says what is advertised.
    """
    """natural
    ---
    deny: [pass, return]
    ---
    Refuse <review>, which is advertising and no review: raise <AdvertisingError> with a message of a few
    words that says what is sold.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A product review and its label by a person.

    Args:
        review: The text.
        label: Whether it is positive or negative.
    """

    review: str
    label: Label


def load_reviews(count: int | None = None) -> list[Review]:
    """The reviews that come with the library.

    Args:
        count: The number; None for all of them. A greater number repeats them.
    """
    text = files("nighthawk_async.cli").joinpath("reviews.json").read_text(encoding="utf-8")
    reviews = [Review(**fields) for fields in json.loads(text)]
    return list(islice(cycle(reviews), len(reviews) if count is None else count))
