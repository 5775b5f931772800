"""Agents written by hand that call functions as their tools."""

from datetime import date
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, RunContext

from ..data import money
from ..data.calling import (
    Cart,
    Forecast,
    Money,
    Rates,
    add_working_days,
    cancel_order,
    escalate,
    exchange_rate,
    fetch_notes,
    find_article,
    forecast,
    refund_order,
)
from .asking import Asked, as_json, called

__all__ = ["ASKED"]


class Call(BaseModel):
    """The next call of a customer."""

    language: str
    time_of_day: Literal["morning", "afternoon", "evening"]


def put(run: RunContext[Cart], sku: str, quantity: int = 1) -> int:
    """Put more of an article into the cart; gives how many are in it then."""
    return run.deps.put(sku, quantity)


def take_out(run: RunContext[Cart], sku: str) -> None:
    """Take an article out altogether."""
    run.deps.take_out(sku)


def apply_voucher(run: RunContext[Cart], code: str) -> None:
    """Use a voucher; it replaces the one before."""
    run.deps.apply_voucher(code)


def language_of(text: str) -> str:
    """Tell the language of a text: de, en, fr or pt."""
    return "de"


CART = Cart({"MUG-RED": 2, "TEA-EARL": 1, "SPOON": 4}, "SUMMER5")
STYLE = {"tone": "formal", "language": "English", "avoid": ["hey", "hi"]}

ASKED = {
    "combine-functions": Asked(
        Agent(
            output_type=Money,
            tools=[find_article, exchange_rate],
            instructions="The wish names an article and a currency. Find the price of the article in that "
            "currency.",
        ),
        "How much is the tent in Swedish crowns?",
        calls=[[called("find_article", title="tent")], [called("exchange_rate", source="EUR", target="SEK")]],
    ),
    "compute": Asked(
        Agent(
            output_type=date,
            tools=[add_working_days],
            instructions="Compute when the order has to be delivered.",
        ),
        "Order: 200 tiles; delivery within seven working days\nMade on: 2026-11-20",
        calls=[[called("add_working_days", start="2026-11-20", days=7)]],
    ),
    "async-functions": Asked(
        Agent(
            output_type=Forecast,
            tools=[forecast],
            instructions="Return the forecast of the city in which more rain is expected.",
        ),
        "Sevilla or Bergen on 2026-11-24",
        calls=[[called("forecast", city=city, day="2026-11-24") for city in ("Sevilla", "Bergen")]],
    ),
    "route": Asked(
        Agent(
            tools=[refund_order, cancel_order, escalate],
            instructions="Do what the customer asks for with one of the tools and return its result. "
            "Escalate what sounds like a matter for lawyers.",
        ),
        "The lamp of order 5521-C flickers. Keep it I will, but half of the price I want back.",
        calls=[[called("refund_order", order_id="5521-C", percent=50)]],
    ),
    "methods": Asked(
        Agent(
            deps_type=Cart,
            tools=[put, take_out, apply_voucher],
            instructions="Change the cart as the wish says.",
        ),
        f"Cart: {as_json(CART)}\nWish: No more spoons, a third mug, three packs of TEA-MINT, and use "
        f"AUTUMN10 "
        "instead.",
        CART,
        [
            [
                called("take_out", sku="SPOON"),
                called("put", sku="MUG-RED"),
                called("put", sku="TEA-MINT", quantity=3),
                called("apply_voucher", code="AUTUMN10"),
            ]
        ],
    ),
    "module": Asked(
        Agent(
            output_type=Rates,
            tools=[money.compound, money.instalment],
            instructions="Compute what the question asks for.",
        ),
        "What do 1,000 become in three years at 2 % a year? And what does a loan of 12,000 at 6 % cost a "
        "month, over four years?",
        calls=[
            [
                called("compound", principal=1000, yearly_rate=0.02, years=3),
                called("instalment", principal=12000, yearly_rate=0.06, months=48),
            ]
        ],
    ),
    "nested": Asked(
        Agent(
            output_type=dict[str, str],
            tools=[language_of],
            instructions="Return a dictionary from the texts to their languages.",
        ),
        as_json(["Bom dia!", "Wo ist der Bahnhof?"]),
        calls=[[called("language_of", text=text) for text in ("Bom dia!", "Wo ist der Bahnhof?")]],
    ),
    "read-result": Asked(
        Agent(
            output_type=Call,
            tools=[fetch_notes],
            instructions="Read what support wrote down about the customer, and plan the next call.",
        ),
        "Customer 4711",
        calls=[[called("fetch_notes", customer_id=4711)]],
    ),
    "implicit-references": Asked(
        Agent(instructions="Greet the person in one line, in the house's style, and end with the slogan."),
        f"Name: Dr. Adeyemi\nHouse style: {as_json(STYLE)}\nSlogan: Built to last.",
    ),
    "choose-result": Asked(
        Agent(
            output_type=tuple[str, Decimal],
            tools=[find_article],
            instructions="Return title and price of the cheapest of the articles.",
        ),
        as_json(["tent", "stove"]),
        calls=[[called("find_article", title=title) for title in ("tent", "stove")]],
    ),
}
