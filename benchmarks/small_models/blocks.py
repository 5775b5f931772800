"""Blocks with two to four write bindings, as a user would write them. The words of a block matter."""

# A write binding gets its value from the block, where neither pyright nor ruff sees it.
# pyright: reportUnboundVariable=false
# ruff: noqa: F821

from enum import Enum
from typing import Literal, TypeAlias

import nighthawk_async as nh

__all__ = [
    "Language",
    "item_price_quantity",
    "language_urgent_mood",
    "mood_topic",
    "mood_topic_urgent_language",
    "mood_urgent",
    "quantity_price",
    "quantity_price_item",
    "recommended_sentiment",
    "sentiment_recommended",
    "urgent_mood",
]

Values: TypeAlias = dict[str, object]
Mood: TypeAlias = Literal["positive", "negative"]
Topic: TypeAlias = Literal["delivery", "payment", "account", "product"]


class Language(Enum):
    """The language of a ticket."""

    ENGLISH = "English"
    CHINESE = "Chinese"
    ARABIC = "Arabic"
    GERMAN = "German"
    FRENCH = "French"
    SPANISH = "Spanish"


@nh.natural_function
async def sentiment_recommended(review: str) -> Values:
    """A choice, then a flag."""
    sentiment: Mood
    recommended: bool
    """natural
    Set <:sentiment> to the sentiment of the product review <review>: positive or negative, and
    <:recommended> to whether <review> recommends the product.
    """
    return {"sentiment": sentiment, "recommended": recommended}


@nh.natural_function
async def recommended_sentiment(review: str) -> Values:
    """A flag, then a choice."""
    recommended: bool
    sentiment: Mood
    """natural
    Set <:recommended> to whether <review> recommends the product, and <:sentiment> to the sentiment of
    the product review <review>: positive or negative.
    """
    return {"recommended": recommended, "sentiment": sentiment}


@nh.natural_function
async def mood_topic(ticket: str) -> Values:
    """Two choices."""
    mood: Mood
    topic: Topic
    """natural
    Set <:mood> to the mood of <ticket>, positive or negative, <:topic> to what <ticket> is about:
    delivery, payment, account or product.
    """
    return {"mood": mood, "topic": topic}


@nh.natural_function
async def mood_urgent(ticket: str) -> Values:
    """A choice, then a flag."""
    mood: Mood
    urgent: bool
    """natural
    Set <:mood> to the mood of <ticket>, positive or negative, <:urgent> to whether <ticket> is urgent.
    """
    return {"mood": mood, "urgent": urgent}


@nh.natural_function
async def urgent_mood(ticket: str) -> Values:
    """A flag, then a choice."""
    urgent: bool
    mood: Mood
    """natural
    Set <:urgent> to whether <ticket> is urgent, <:mood> to the mood of <ticket>, positive or negative.
    """
    return {"urgent": urgent, "mood": mood}


@nh.natural_function
async def language_urgent_mood(ticket: str) -> Values:
    """A choice, a flag, and a choice."""
    language: Language
    urgent: bool
    mood: Mood
    """natural
    Set <:language> to the language of <ticket>, <:urgent> to whether <ticket> is urgent, <:mood> to the
    mood of <ticket>, positive or negative.
    """
    return {"language": language, "urgent": urgent, "mood": mood}


@nh.natural_function
async def mood_topic_urgent_language(ticket: str) -> Values:
    """Two choices, a flag, and a choice."""
    mood: Mood
    topic: Topic
    urgent: bool
    language: Language
    """natural
    Set <:mood> to the mood of <ticket>, positive or negative, <:topic> to what <ticket> is about:
    delivery, payment, account or product, <:urgent> to whether <ticket> is urgent, <:language> to the
    language of <ticket>.
    """
    return {"mood": mood, "topic": topic, "urgent": urgent, "language": language}


@nh.natural_function
async def quantity_price(order: str) -> Values:
    """Two numbers."""
    quantity: int
    price: float
    """natural
    Set <:quantity> to the number of pieces in <order>, <:price> to the price of one piece.
    """
    return {"quantity": quantity, "price": price}


@nh.natural_function
async def quantity_price_item(order: str) -> Values:
    """Two numbers, then a text."""
    quantity: int
    price: float
    item: str
    """natural
    Set <:quantity> to the number of pieces in <order>, <:price> to the price of one piece, <:item> to
    what is ordered.
    """
    return {"quantity": quantity, "price": price, "item": item}


@nh.natural_function
async def item_price_quantity(order: str) -> Values:
    """A text, then two numbers."""
    item: str
    price: float
    quantity: int
    """natural
    Set <:item> to what is ordered, <:price> to the price of one piece, <:quantity> to the number of
    pieces in <order>.
    """
    return {"item": item, "price": price, "quantity": quantity}
