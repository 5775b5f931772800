"""Types and inputs of blocks that decide, choose and rank."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag, auto
from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = [
    "APPLICANTS",
    "CLAIM",
    "LAPTOPS",
    "POLICY",
    "REVIEWS",
    "SENSORS",
    "SHARING_REQUEST",
    "TICKET",
    "VERSION_ONE",
    "VERSION_TWO",
    "Access",
    "Applicant",
    "Category",
    "Change",
    "Decision",
    "InvalidAddressError",
    "Laptop",
    "Parcel",
    "Refusal",
    "Sentiment",
    "Ticket",
    "book_parcel",
]


class Category(Enum):
    """Who answers a ticket."""

    BILLING = "billing-team"
    HARDWARE = "repair-desk"
    ACCOUNT = "identity-team"
    SALES = "sales-floor"
    OTHER = "triage"


@dataclass
class Ticket:
    """A question of a customer."""

    number: int
    subject: str
    body: str
    history: list[str]


TICKET = Ticket(
    number=90_417,
    subject="Locked out",
    body="Since the update this morning my password is refused on both of my machines, and the mail to "
    "reset it never arrives. I need to get in before our payroll run at four.",
    history=[
        "My order 1 has still not arrived, and it has been ten days now.",
        "Thank you, the parcel is here, everything is fine with it.",
        "Could you send me the invoice for order 1 once more, please?",
        "The invoice has the wrong VAT id, please correct it and send it again.",
    ],
)


class Access(Flag):
    """What somebody may do with a folder."""

    LIST = auto()
    READ = auto()
    WRITE = auto()
    SHARE = auto()


SHARING_REQUEST = (
    "Please let Mirjam open the folder and look at the files. She will hand in corrections, so she must be "
    "able to save them, but she is not to pass the folder on to anybody."
)

Sentiment = Literal["delighted", "satisfied", "neutral", "annoyed", "furious"]

REVIEWS = [
    "I told everybody I know. This kettle changed my mornings!",
    "Does what it says.",
    "It is a kettle.",
    "The lid sticks, and the handle gets warmer than I like. Meh.",
    "THIRD one that leaks!!! I want my money back NOW.",
    "Good value, arrived on time, looks nice on the shelf.",
    "Instructions only in Finnish. I had to guess how to set the clock, which took an evening I will not "
    "get back.",
    "Neither better nor worse than the one before.",
]


@dataclass(frozen=True)
class Laptop:
    """A laptop in the catalogue."""

    sku: str
    title: str
    price: Decimal
    weight_kg: float
    memory_gb: int
    notes: str


LAPTOPS = [
    Laptop("LT-1", "Borealis 13", Decimal(899), 1.24, 8, "Matte display, no fan."),
    Laptop("LT-2", "Borealis 13 Plus", Decimal(1099), 1.27, 16, "Matte display, no fan."),
    Laptop("LT-3", "Granite 15", Decimal(1190), 1.9, 32, "Glossy display, discrete graphics."),
    Laptop("LT-4", "Granite 15 Eco", Decimal(949), 1.8, 16, "Matte display, made of recycled metal."),
    Laptop("LT-5", "Swift Air", Decimal(1049), 0.98, 16, "Glossy display, battery for 20 hours."),
    Laptop("LT-6", "Swift Air X", Decimal(1399), 1.02, 32, "Matte display, battery for 18 hours."),
    Laptop("LT-7", "Pilot 14", Decimal(1089), 1.35, 32, "Matte display, battery for 12 hours, quiet fan."),
    Laptop("LT-8", "Pilot 14 S", Decimal(780), 1.39, 8, "Matte display, battery for 9 hours."),
]

POLICY = """\
RETURNS AND REFUNDS, version 7, in force since 1 September 2026

1. Scope. These rules apply to goods bought in our web shop by consumers. Goods bought by businesses are
governed by the
general terms. Gift cards, downloads and perishable food are neither returned nor refunded, except where the
law demands
it. What was bought in a store of ours is brought back to a store, where the store's manager decides.

2. Period. A customer may send goods back within 30 days from the day they arrived. From 15 November to 24
December the
period ends on 31 January of the following year, if that is later. The day on which the customer posts the
parcel counts.
The customer has to prove it when asked; a photograph of the receipt is enough. We do not ask for reasons.

3. Condition. Goods should be complete and as good as new. The customer may open the packaging and try the
goods as in a
shop. If goods show marks of use beyond that, we refund 60 percent of the price, whatever the marks, and say
why. If a
part is missing, we ask for it once and wait for 10 days; then we deduct the price of the spare part. Goods
that are
soiled so that they cannot be sold are not refunded. Hygiene articles whose seal is broken are not refunded
either.

4. Costs. We bear the cost of sending back what is defective or was delivered wrongly. Otherwise the customer
bears it,
except members of the Club, for whom one parcel a month is free. We refund the delivery fee of the original
order only if
the whole order is sent back. Express fees are never refunded.

5. Refund. We refund to the means of payment that was used, within 14 days after the goods arrived at our
warehouse. If
a card has expired meanwhile, support asks for an account. Vouchers are given back as vouchers. A refund of
more than 500
euros needs the approval of a team lead; the agent's decision is then `escalate`.

6. Defects. Where goods are defective, the customer may choose between a new delivery and the price within
two years. The
marks of use of section 3 do not matter then. From the second year on, support may ask for a description of
how the defect
came about. Defects that the customer caused are handled as in section 3.

7. Goodwill. Where these rules lead to a refusal, an agent may offer a voucher of 10 percent of the price,
once a year for
each customer, if the customer has bought for more than 200 euros within the last twelve months. Goodwill is
not offered
for goods of section 1.
"""

CLAIM = """\
Customer (Club member) writes on 20 January 2027: "I bought the hiking boots on 2 December and they came on
the 5th. I
posted them back yesterday, receipt attached. I wore them for a weekend in the mountains, so the soles show
it, but
otherwise they are fine." Price of the boots: 160.00 EUR, the only article of the order. Delivery fee: 4.90
EUR.
"""


class Decision(BaseModel):
    """What becomes of a claim."""

    verdict: Literal["refund", "partial", "refuse", "escalate"]
    amount: Decimal = Field(ge=0, description="in euros, without the delivery fee")
    delivery_fee_refunded: bool
    return_is_free: bool
    sections: list[int] = Field(description="the sections of the policy that decide")


class Applicant(BaseModel):
    """Somebody who would like to work for us."""

    name: str
    years: int
    skills: list[str]
    letter: str


APPLICANTS = [
    Applicant(
        name="Vera Lind",
        years=9,
        skills=["Python", "PostgreSQL", "Kubernetes", "Ansible", "Grafana"],
        letter="For nine years I ran the data platform of a hospital with three colleagues: forty services "
        "in Python, most of them asynchronous, two clusters of PostgreSQL, and nobody to call but us. I "
        "was on call every third week. We brought the number of alarms down from thirty a night to two a "
        "month, which I am prouder of than of any code. My children see too little of me, though, and I "
        "would like to leave on-call duty behind me. What I look for is a team that writes things down, "
        "and a product that people rely on.",
    ),
    Applicant(
        name="Oren Katz",
        years=3,
        skills=["Python", "Trio", "Rust"],
        letter="I maintain an async HTTP library in my spare time, which some of you use, as I saw in your "
        "lock file. Professionally I have written Python for three years, at a maker of parking meters and "
        "at a small bank. I care for correctness: cancellation, timeouts, what happens when the disk is "
        "full. I enjoy being on call, honestly: one learns most at night. I could start in February.",
    ),
    Applicant(
        name="Mai Nguyen",
        years=6,
        skills=["Go", "Kafka", "Terraform"],
        letter="In six years at a logistics company I moved the tracking of parcels from a nightly batch "
        "to a stream, twelve thousand events a second at Christmas. Go is what I write best. I would learn "
        "Python if I had to, and have been on call for years. I give talks about backpressure and like to "
        "review code.",
    ),
    Applicant(
        name="Sol Reyes",
        years=7,
        skills=["Python", "asyncio", "PostgreSQL", "Redis"],
        letter="I have worked for the same employer for seven years and think that it is time. There I "
        "built the booking system of a ferry line with asyncio and am used to being on call, in summer "
        "every other week. When the fleet was doubled, the system had to take ten times the load on the "
        "first day of sales, and did. I have no degree, but I have brought two apprentices through their "
        "exams.",
    ),
    Applicant(
        name="Jonas Weber",
        years=12,
        skills=["Java", "Python", "Oracle"],
        letter="I am a solution architect with twelve years of experience in insurance. I draw the "
        "pictures and others write the code, but I did write scripts in Python, for reports. I would "
        "prefer regular hours.",
    ),
]


def _sensors() -> list[dict[str, Any]]:
    """Sixty sensors; the words of a few say that somebody should go there."""
    odd = {
        4: "casing cracked, water inside",
        19: "reads 4 degrees too warm since the door was moved",
        33: "smells of smoke when it is plugged in",
        48: "battery swollen",
    }
    fine = ("ok", "ok, cleaned", "ok, new battery", "ok, calibrated in spring")
    return [
        {"id": f"S-{100 + number}", "floor": number % 7, "note": odd.get(number, fine[number % 4])}
        for number in range(60)
    ]


SENSORS = _sensors()


class Change(BaseModel):
    """A difference between two versions of a text."""

    section: int
    kind: Literal["added", "removed", "reworded", "value_changed"]
    summary: str


VERSION_ONE = """\
1. The supplier delivers within ten working days after the order.
2. Invoices are payable within 30 days.
3. Liability is limited to the value of the order.
4. The parties keep each other's secrets for three years.
5. The place of jurisdiction is Rotterdam.
6. The supplier keeps spare parts for all articles in stock for eight years after their last delivery.
7. Changes of prices are announced three months ahead, and do not concern orders that were confirmed before.
8. The buyer examines the goods on arrival and reports visible defects within five working days. Hidden
defects are
reported as soon as they are found.
9. Goods remain the property of the supplier until they are paid for in full. The buyer may sell them in the
ordinary
course of business, and assigns the claims from such sales to the supplier in advance.
10. Neither party is liable for delays that are caused by strikes, fires, floods or acts of authorities, for
as long as
they last. After two months of such a delay each party may withdraw from the order.
11. The supplier's certificates of quality and origin accompany each delivery.
"""

VERSION_TWO = """\
1. The supplier delivers within five working days after the order.
2. Invoices are payable within 30 days.
3. The supplier is liable up to the value of the order, and not beyond it.
4. The parties keep each other's secrets for three years.
6. The supplier keeps spare parts for all articles in stock for eight years after their last delivery.
7. Changes of prices are announced three months ahead, and do not concern orders that were confirmed before.
8. The buyer examines the goods on arrival and reports visible defects within five working days. Hidden
defects are
reported as soon as they are found.
9. Goods remain the property of the supplier until they are paid for in full. The buyer may sell them in the
ordinary
course of business, and assigns the claims from such sales to the supplier in advance.
10. Neither party is liable for delays that are caused by strikes, fires, floods or acts of authorities, for
as long as
they last. After two months of such a delay each party may withdraw from the order.
11. The supplier's certificates of quality and origin accompany each delivery.
12. Disputes are brought before a mediator first.
"""


class InvalidAddressError(Exception):
    """An address to which nothing can be sent."""


@dataclass
class Parcel:
    """A parcel on its way."""

    street: str
    zip_code: str
    city: str


class Refusal(BaseModel):
    """Why nothing is booked."""

    reason: Literal["too_heavy", "forbidden_content", "no_service"]
    advice: str


def book_parcel(city: str, weight_kg: float, *, insured: bool = False) -> int:
    """Book a parcel; gives its number."""
    return 1_000 + len(city) + round(weight_kg) + (500 if insured else 0)
