"""Blocks that decide, choose, filter and rank."""

from decimal import Decimal
from functools import partial
from typing import Any

import nighthawk_async as nh

from ..block import Block, aborts, expressed, goes_on, returns, sets
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
    Access,
    Applicant,
    Category,
    Change,
    Decision,
    InvalidAddressError,
    Laptop,
    Parcel,
    Refusal,
    Sentiment,
    Ticket,
    book_parcel,
)
from ..facts import fields, members, said, signature

__all__ = ["BLOCKS"]


@nh.natural_function
async def categorize(ticket: Ticket) -> Category:
    """natural
    Which team answers <ticket>? What it was about before is in its history and does not count.
    """


@nh.natural_function
async def grant_access(request: str) -> Access:
    access: Access
    """natural
    Set <:access> to what <request> asks for. Who may read may list as well.
    """
    return access


@nh.natural_function
async def judge_reviews(reviews: list[str]) -> list[Sentiment]:
    """natural
    Give the mood of each of <reviews>, in their order.
    """


@nh.natural_function
async def choose_laptop(laptops: list[Laptop], wish: str) -> Laptop:
    """natural
    Return the one of <laptops> that suits <wish> best.
    """


@nh.natural_function
async def decide_claim(policy: str, claim: str) -> Decision:
    """natural
    Decide <claim> by <policy>.
    """


@nh.natural_function
async def rank_applicants(applicants: list[Applicant], job: str) -> list[str]:
    """natural
    Return the names of <applicants> who meet every demand of <job>, the best one first.
    """


@nh.natural_function
async def find_broken(sensors: list[dict[str, Any]]) -> list[str]:
    broken: list[str] = []
    """natural
    Set <:broken> to the ids of those <sensors> whose notes say that something is wrong.
    """
    return broken


@nh.natural_function
async def compare_versions(first: str, second: str) -> list[Change]:
    """natural
    Compare the contracts <first> and <second> and list what changed, section by section. A section that says
    the same in other words is reworded.
    """


@nh.natural_function
async def answer_parcel(message: str) -> int | Refusal | None:
    """natural
    <message> may ask for a parcel. If it does, book it with <book_parcel> and return its number; parcels
    above 30 kg
    and those with batteries are refused. If it is about something else, return None.
    """


@nh.natural_function
async def check_address(text: str) -> Parcel:
    parcel: Parcel
    """natural
    Read <text> into <:parcel>. Raise InvalidAddressError if street or city are missing, and say which.
    """
    return parcel


@nh.natural_function
async def first_complaint(reviews: list[str]) -> tuple[int, str | None]:
    topic: str | None = None
    seen = 0
    for review in reviews:
        """natural
        If <review> is no complaint, continue. Otherwise set <:topic> to its subject in one word and break.
        """
        seen += 1
    return seen, topic


@nh.natural_function
async def tag_mood(text: str) -> tuple[str, bool, float]:
    mood: str
    is_urgent: bool
    confidence = 0.0
    """natural
    ---
    deny: [raise, return]
    ---
    Set <:mood> to one word for the mood of <text>, <:is_urgent>, and <:confidence> from 0 to 1.
    """
    return mood, is_urgent, confidence


async def raised_by_check(text: str) -> Exception | Parcel:
    """What checking an address gives or raises."""
    try:
        return await check_address(text)
    except InvalidAddressError as error:
        return error


BLOCKS = (
    Block(
        name="classify-enum",
        what="classify an object by an enum",
        call=partial(categorize, TICKET),
        is_right=lambda category: category is Category.ACCOUNT,
        facts=(
            members("Category", "billing-team", "repair-desk", "identity-team", "sales-floor", "triage"),
            said("my password is refused on both of my machines", "never arrives", "payroll run at four"),
            said("My order 1 has still not arrived, and it has been ten days now.", "has the wrong VAT id"),
        ),
        answers=(returns("identity-team"),),
    ),
    Block(
        name="flag",
        what="set a combination of flags",
        call=partial(grant_access, SHARING_REQUEST),
        is_right=lambda access: access == Access.LIST | Access.READ | Access.WRITE,
        facts=(
            said("LIST", "READ", "WRITE", "SHARE", what="the members of Access"),
            members("Access", 1, 2, 4, 8),
            said("let Mirjam open the folder", "able to save them", "not to pass the folder on"),
        ),
        answers=(sets(access=7),),
    ),
    Block(
        name="literals",
        what="label each of a list of texts",
        call=partial(judge_reviews, REVIEWS),
        is_right=lambda moods: (
            len(moods) == 8
            and moods[0] == "delighted"
            and moods[4] == "furious"
            and {moods[3], moods[6]} <= {"annoyed", "neutral"}
        ),
        facts=(
            members("Sentiment", "delighted", "satisfied", "neutral", "annoyed", "furious"),
            said(*REVIEWS, what="all eight reviews"),
        ),
        answers=(
            returns(
                [
                    "delighted",
                    "satisfied",
                    "neutral",
                    "annoyed",
                    "furious",
                    "satisfied",
                    "annoyed",
                    "neutral",
                ]
            ),
        ),
    ),
    Block(
        name="choose-object",
        what="choose one of several objects",
        call=partial(
            choose_laptop, LAPTOPS, "light, 32 GB of memory, a matte display, and not more than 1,200 euros"
        ),
        is_right=lambda laptop: laptop is LAPTOPS[6] or laptop == LAPTOPS[6],
        facts=(
            said("not more than 1,200 euros"),
            said("Pilot 14", "1089", "quiet fan", what="the one that fits, whole"),
            said("Granite 15", "discrete graphics", "18 hours", "1399", what="those that nearly fit"),
        ),
        answers=(expressed("laptops[6]"),),
    ),
    Block(
        name="policy",
        what="decide a case by a policy of two pages",
        call=partial(decide_claim, POLICY, CLAIM),
        is_right=lambda decision: (
            (decision.verdict, decision.amount) == ("partial", Decimal(96))
            and decision.delivery_fee_refunded
            and decision.return_is_free
        ),
        facts=(
            members("verdict", "refund", "partial", "refuse", "escalate"),
            fields("Decision", amount="Decimal", delivery_fee_refunded="bool", return_is_free="bool"),
            fields("Decision, the rest", sections="list[int]"),
            said("without the delivery fee", what="the descriptions of fields"),
            said("31 January of the following year", what="section 2"),
            said("we refund 60 percent of the price", what="section 3"),
            said("one parcel a month is free", "the whole order is sent back", what="section 4"),
            said("more than 500 euros needs the approval", what="section 5"),
            said("posted them back yesterday", "wore them for a weekend", "160.00 EUR", "only article"),
        ),
        answers=(
            returns(
                {
                    "verdict": "partial",
                    "amount": "96.00",
                    "delivery_fee_refunded": True,
                    "return_is_free": True,
                    "sections": [2, 3, 4],
                }
            ),
        ),
    ),
    Block(
        name="rank",
        what="rank objects by what their texts say",
        call=partial(
            rank_applicants, APPLICANTS, "async Python, five years of experience at least, on-call duty"
        ),
        is_right=lambda names: names == ["Sol Reyes"],
        facts=(
            said("Vera Lind", "Oren Katz", "Mai Nguyen", "Sol Reyes", what="all names"),
            said("leave on-call duty behind me", "one learns most at night", "Go is what I write best"),
            said("built the booking system of a ferry line with asyncio and am used to being on call"),
        ),
        answers=(returns(["Sol Reyes"]),),
    ),
    Block(
        name="long-list",
        what="filter a list of sixty records by their words",
        call=partial(find_broken, SENSORS),
        is_right=lambda broken: broken == ["S-104", "S-119", "S-133", "S-148"],
        facts=(
            said("S-104", "casing cracked, water inside", what="the fifth record"),
            said("S-119", "4 degrees too warm", what="the twentieth record"),
            said("S-133", "smells of smoke", what="the thirty-fourth record"),
            said("S-148", "battery swollen", what="the forty-ninth record"),
        ),
        answers=(sets(broken=["S-104", "S-119", "S-133", "S-148"]),),
    ),
    Block(
        name="compare",
        what="compare two documents",
        call=partial(compare_versions, VERSION_ONE, VERSION_TWO),
        is_right=lambda changes: (
            {(each.section, each.kind) for each in changes}
            == {(1, "value_changed"), (3, "reworded"), (5, "removed"), (12, "added")}
        ),
        facts=(
            members("kind", "added", "removed", "reworded", "value_changed"),
            fields("Change", section="int", summary="str"),
            said(*VERSION_ONE.splitlines(), what="the first version"),
            said(*VERSION_TWO.splitlines(), what="the second version"),
        ),
        answers=(
            returns(
                [
                    {"section": 1, "kind": "value_changed", "summary": "five days instead of ten"},
                    {"section": 3, "kind": "reworded", "summary": "the same limit in other words"},
                    {"section": 5, "kind": "removed", "summary": "no place of jurisdiction"},
                    {"section": 12, "kind": "added", "summary": "mediation first"},
                ]
            ),
        ),
    ),
    Block(
        name="union-return",
        what="return one of several types, or None",
        call=partial(
            answer_parcel, "I want to send a car battery, 14 kg, to my aunt in Turin, insured please."
        ),
        is_right=lambda answer: isinstance(answer, Refusal) and answer.reason == "forbidden_content",
        facts=(
            members("reason", "too_heavy", "forbidden_content", "no_service"),
            fields("Refusal", advice="str"),
            signature("book_parcel", "city: str", "weight_kg: float", "insured: bool", result="int"),
            said("a car battery, 14 kg", "insured"),
        ),
        answers=(
            returns(
                {"reason": "forbidden_content", "advice": "Batteries go with a carrier for dangerous goods."},
            ),
        ),
    ),
    Block(
        name="raise",
        what="raise an error on bad input",
        call=partial(raised_by_check, "Parcel for Ms Ito, 22 Harbour Road, 8001"),
        is_right=lambda error: isinstance(error, InvalidAddressError) and "city" in str(error).lower(),
        facts=(
            fields("Parcel", street="str", zip_code="str", city="str"),
            said("InvalidAddressError", what="the error's name"),
            said("22 Harbour Road, 8001"),
        ),
        answers=(aborts("the city is missing", "InvalidAddressError"),),
    ),
    Block(
        name="iterate",
        what="go through a list with continue and break",
        call=partial(first_complaint, ["Lovely bag.", "Fits my laptop.", "The zip broke.", "Nice colour."]),
        is_right=lambda result: result[1] is not None and "zip" in result[1].lower(),
        facts=(said("Lovely bag."), said("topic", what="the variable")),
        answers=(goes_on("continue"), goes_on("continue"), goes_on("break", topic="zip")),
    ),
    Block(
        name="frontmatter",
        what="set several simple variables, with outcomes denied",
        call=partial(tag_mood, "Where on earth is my parcel?! I leave for the airport in an hour!"),
        is_right=lambda result: result[1] is True and 0 <= result[2] <= 1 and bool(result[0]),
        facts=(
            fields("the variables", mood="str", is_urgent="bool", confidence="float"),
            said("I leave for the airport in an hour!"),
        ),
        answers=(sets(mood="angry", is_urgent=True, confidence=0.9),),
    ),
)
