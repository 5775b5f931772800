"""Blocks that call functions, methods, modules and other natural functions."""

from datetime import date
from decimal import Decimal
from functools import partial
from typing import Literal

import nighthawk_async as nh

from ..block import Answer, Block, expressed, goes_on, returns
from ..data import money
from ..data.calling import (
    Article,
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
from ..facts import fields, members, said, signature

__all__ = ["BLOCKS"]


@nh.natural_function
async def price_in(wish: str) -> Money:
    """natural
    <wish> names an article and a currency. Combine <find_article> and <exchange_rate> into its price in that
    currency.
    """


@nh.natural_function
async def due_date(order: str, ordered_on: date) -> date:
    due: date
    """natural
    Set <:due> to when <order> has to be delivered if it was made on <ordered_on>: use <add_working_days>.
    """
    return due


@nh.natural_function
async def rainier(first: str, second: str, day: date) -> Forecast:
    """natural
    Return the <forecast> of the city of <first> and <second> in which more rain is expected on <day>.
    """


@nh.natural_function
async def route(message: str) -> str:
    """natural
    Do what the customer asks for in <message> with one of <refund_order>, <cancel_order> and <escalate>, and
    return its
    result. Escalate what sounds like a matter for lawyers.
    """


@nh.natural_function
async def fill_cart(cart: Cart, wish: str) -> Cart:
    """natural
    ---
    deny: [return, raise]
    ---
    Change <cart> as <wish> says.
    """
    return cart


@nh.natural_function
async def compare_loans(question: str) -> Rates:
    rates: Rates
    """natural
    Compute what <question> asks for with the functions of <money>, and set <:rates>.
    """
    return rates


@nh.natural_function
async def language_of(text: str) -> Literal["de", "en", "fr", "pt"]:
    """natural
    Tell the language of <text>.
    """


@nh.natural_function
async def languages_of(texts: list[str]) -> dict[str, str]:
    """natural
    Ask <language_of> for each of <texts>, and return a dictionary from the texts to their languages.
    """


@nh.natural_function
async def plan_call(customer_id: int) -> tuple[str, str]:
    language: str
    time_of_day: Literal["morning", "afternoon", "evening"]
    """natural
    Read what <fetch_notes> has of <customer_id>, and set <:language> and <:time_of_day> of the next call.
    """
    return language, time_of_day


@nh.natural_function
async def greet(name: str) -> str:
    """natural
    Greet <name> in one line, in the house's style, and end with the slogan.
    """


async def greet_in_style(name: str) -> str:
    """A greeting in a scope that gives every block two names."""
    style = {"tone": "formal", "language": "English", "avoid": ["hey", "hi"]}
    with nh.scope(implicit_references={"house_style": style, "slogan": "Built to last."}):
        return await greet(name)


@nh.natural_function
async def cheapest(titles: list[str]) -> tuple[str, Decimal]:
    article: Article
    """natural
    Set <:article> to the cheapest article that <find_article> gives for <titles>.
    """
    return article.title, article.price.amount


def _wished_cart() -> Cart:
    return Cart({"MUG-RED": 2, "TEA-EARL": 1, "SPOON": 4}, "SUMMER5")


BLOCKS = (
    Block(
        name="combine-functions",
        what="call two functions and combine their results",
        call=partial(price_in, "How much is the tent in Swedish crowns?"),
        is_right=lambda price: price == Money(Decimal("2240.00"), "SEK"),
        facts=(
            signature("find_article", "title: str", result="Article"),
            signature("exchange_rate", "source: str", "target: str", result="Decimal"),
            fields("Article", price="Money"),
            fields("Money", amount="Decimal", currency="str"),
            said("tent in Swedish crowns"),
        ),
        answers=(
            expressed(
                "{'amount': find_article('tent').price.amount * exchange_rate('EUR', 'SEK'), 'currency': "
                "'SEK'}"
            ),
        ),
    ),
    Block(
        name="compute",
        what="compute with a helper",
        call=partial(due_date, "200 tiles; delivery within seven working days", date(2026, 11, 20)),
        is_right=lambda due: due == date(2026, 12, 1),
        facts=(
            signature("add_working_days", "start: date", "days: int", result="date"),
            said("within seven working days"),
            said("2026-11-20"),
        ),
        answers=(goes_on(assignments={"due": "add_working_days(ordered_on, 7)"}),),
    ),
    Block(
        name="async-functions",
        what="call async functions and return one of their results",
        call=partial(rainier, "Sevilla", "Bergen", date(2026, 11, 24)),
        is_right=lambda weather: weather.city == "Bergen",
        facts=(
            signature("forecast", "city: str", "day: date", result="Forecast"),
            fields("Forecast", rain_mm="float"),
            said("Sevilla", "Bergen"),
        ),
        answers=(
            expressed(
                "max((await forecast(first, day), await forecast(second, day)), key=lambda each: "
                "each.rain_mm)"
            ),
        ),
    ),
    Block(
        name="route",
        what="route a message to a function that handles it",
        call=partial(
            route, "The lamp of order 5521-C flickers. Keep it I will, but half of the price I want back."
        ),
        is_right=lambda result: result == "refund of 5521-C: 50 %",
        facts=(
            signature("refund_order", "order_id: str", "percent: int", result="str"),
            signature("cancel_order", "order_id: str", result="str"),
            signature("escalate", "order_id: str", "reason: str", result="str"),
            said("order 5521-C", "half of the price"),
        ),
        answers=(expressed("refund_order('5521-C', percent=50)"),),
    ),
    Block(
        name="methods",
        what="use the methods of an object",
        call=lambda: fill_cart(
            _wished_cart(), "No more spoons, a third mug, three packs of TEA-MINT, and use AUTUMN10 instead."
        ),
        is_right=lambda cart: cart == Cart({"MUG-RED": 3, "TEA-EARL": 1, "TEA-MINT": 3}, "AUTUMN10"),
        facts=(
            signature("put", "sku: str", "quantity: int", result="int"),
            signature("take_out", "sku: str", result="None"),
            signature("apply_voucher", "code: str", result="None"),
            said("MUG-RED", "TEA-EARL", "SPOON", what="what is in the cart"),
            said("three packs of TEA-MINT"),
        ),
        answers=(
            goes_on(
                evaluations=[
                    "cart.take_out('SPOON')",
                    "cart.put('MUG-RED')",
                    "cart.put('TEA-MINT', 3)",
                    "cart.apply_voucher('AUTUMN10')",
                ]
            ),
        ),
    ),
    Block(
        name="module",
        what="use the functions of a module",
        call=partial(
            compare_loans,
            "What do 1,000 become in three years at 2 % a year? And what does a loan of 12,000 at 6 % cost a "
            "month, over four years?",
        ),
        is_right=lambda rates: (
            rates
            == Rates(
                savings_after=money.compound(1000, 0.02, 3),
                monthly_payment=money.instalment(12000, 0.06, 48),
            )
        ),
        facts=(
            signature("compound", "principal: float", "yearly_rate: float", "years: int", result="float"),
            signature("instalment", "principal: float", "yearly_rate: float", "months: int", result="float"),
            fields("Rates", savings_after="float", monthly_payment="float"),
            said("1,000 become in three years at 2 %", "12,000 at 6 %"),
        ),
        answers=(
            goes_on(
                assignments={
                    "rates": "{'savings_after': money.compound(1000, 0.02, 3), "
                    "'monthly_payment': money.instalment(12000, 0.06, 48)}"
                }
            ),
        ),
    ),
    Block(
        name="nested",
        what="call another natural function",
        call=partial(languages_of, ["Bom dia!", "Wo ist der Bahnhof?"]),
        is_right=lambda languages: languages == {"Bom dia!": "pt", "Wo ist der Bahnhof?": "de"},
        facts=(
            signature("language_of", "text: str", result="Literal"),
            said("Bom dia!", "Wo ist der Bahnhof?"),
        ),
        answers=(
            expressed("{text: await language_of(text) for text in texts}"),
            returns("pt"),
            returns("de"),
        ),
    ),
    Block(
        name="read-result",
        what="read the text that a function gives",
        call=partial(plan_call, 4711),
        is_right=lambda plan: plan[0].lower().startswith("p") and plan[1] == "afternoon",
        facts=(
            signature("fetch_notes", "customer_id: int", result="str"),
            members("time_of_day", "morning", "afternoon", "evening"),
            said("4711"),
        ),
        answers=(
            Answer(
                bindings={"language": "Portuguese", "time_of_day": "afternoon"},
                first=("await fetch_notes(customer_id)",),
            ),
        ),
    ),
    Block(
        name="implicit-references",
        what="use names that a scope gives to every block",
        call=partial(greet_in_style, "Dr. Adeyemi"),
        is_right=lambda text: text.endswith("Built to last.") and "Adeyemi" in text and "Hi" not in text,
        facts=(
            said("Built to last.", what="the slogan"),
            said("formal", "avoid", "hey", what="the house's style"),
            said("Dr. Adeyemi"),
        ),
        answers=(returns("Good morning, Dr. Adeyemi. Built to last."),),
    ),
    Block(
        name="choose-result",
        what="set a variable to the best of several results",
        call=partial(cheapest, ["tent", "stove"]),
        is_right=lambda result: result == ("stove", Decimal(50)),
        facts=(
            signature("find_article", "title: str", result="Article"),
            fields("Article", title="str", price="Money"),
            fields("Money", amount="Decimal"),
            said("tent", "stove"),
        ),
        answers=(
            goes_on(
                assignments={"article": "min(map(find_article, titles), key=lambda each: each.price.amount)"}
            ),
        ),
    ),
)
