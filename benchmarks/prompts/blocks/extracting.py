"""Blocks that take data out of texts."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial

import msgspec

import nighthawk_async as nh

from ..block import Block, returns, sets
from ..data.extracting import (
    ACCESS_LOG,
    BANK_MAIL,
    BIOGRAPHY,
    CONTRACT,
    INVITATION,
    INVOICE_MAIL,
    ORDER_JSON,
    PRICE_LIST,
    REVIEW_FORM,
    SIGNATURE,
    THREAD,
    TRIP,
    Address,
    Card,
    Cash,
    Comment,
    Contact,
    ContractTerms,
    Event,
    Invoice,
    InvoiceLine,
    Level,
    LogEntry,
    Person,
    Product,
    Rating,
    Shipment,
    Stop,
    Transfer,
)
from ..facts import bounds, fields, members, said

__all__ = ["BLOCKS", "Reading"]


@nh.natural_function
async def read_invoice(mail: str) -> Invoice:
    """natural
    Extract the invoice from <mail>.
    """


@nh.natural_function
async def read_contact(signature: str) -> Contact:
    """natural
    Return the contact that the <signature> of a mail shows. Leave out what it does not say.
    """


@nh.natural_function
async def read_event(message: str, utc_offset_hours: int = 1) -> Event:
    event: Event
    """natural
    Set <:event> to the meeting that <message> invites to. Times are local: <utc_offset_hours> from UTC. Those
    who may not come are guests too.
    """
    return event


@nh.natural_function
async def read_person(text: str) -> Person:
    """natural
    What does <text> say about the person? Do not guess.
    """


@nh.natural_function
async def read_shipment(note: str) -> Shipment:
    """natural
    Fill in the shipment from <note>. The tracking number is the carrier's reference.
    """


@nh.natural_function
async def read_payments(mail: str) -> list[Card | Transfer | Cash]:
    payments: list[Card | Transfer | Cash]
    """natural
    Set <:payments> to all payments in <mail>, in their order.
    """
    return payments


@nh.natural_function
async def read_thread(text: str) -> Comment:
    """natural
    <text> is a discussion; each `>` is one level of replies. Return it as a tree.
    """


@nh.natural_function
async def read_trip(text: str) -> list[Stop]:
    """natural
    Return the stops in <text>.
    """


class Reading(msgspec.Struct):
    """What a meter shows."""

    meter_id: str
    value: float
    unit: str = "kWh"


@nh.natural_function
async def read_meters(note: str) -> list[Reading]:
    readings: list[Reading]
    """natural
    Take the <:readings> of all meters from <note>.
    """
    return readings


@nh.natural_function
async def rate_stay(form: str) -> tuple[Rating, Rating, Rating]:
    room: Rating
    breakfast: Rating
    staff: Rating
    """natural
    Turn the guest's words in <form> into marks: <:room>, <:breakfast> and <:staff>.
    """
    return room, breakfast, staff


@nh.natural_function
async def read_price_list(table: str) -> list[Product]:
    """natural
    Convert <table>, row by row.
    """


@nh.natural_function
async def read_log(log: str) -> list[LogEntry]:
    entries: list[LogEntry]
    """natural
    Look through <log> and set <:entries> to the lines that are no successful request: a missing service is an
    outage, a failed attempt is trouble, and everything else that is unusual a notice. The message leaves out
    the time and the service.
    """
    return entries


@nh.natural_function
async def read_contract(text: str) -> ContractTerms:
    """natural
    Find the terms of the contract in <text>.
    """


METER_NOTE = (
    "Basement: no. E-4471 stands at 10,233.5, the heat pump's E-4472 at 877. Water W-09 says 412.25 m3."
)

BLOCKS = (
    Block(
        name="nested-invoice",
        what="extract an invoice with nested models from a mail",
        call=partial(read_invoice, INVOICE_MAIL),
        is_right=lambda invoice: (
            invoice
            == Invoice(
                number="RE-2026-0815",
                issued_on=date(2026, 11, 6),
                due_on=date(2026, 11, 20),
                seller=Address(street="Lindenallee 17", zip_code="20259", city="Hamburg"),
                lines=[
                    InvoiceLine(article=invoice.lines[0].article, quantity=4, unit_price=Decimal("39.90")),
                    InvoiceLine(article=invoice.lines[1].article, quantity=12, unit_price=Decimal("4.25")),
                    InvoiceLine(article=invoice.lines[2].article, quantity=1, unit_price=Decimal(45)),
                ],
                vat_percent=Decimal(19),
                total=Decimal("304.16"),
            )
            and "Polar" in invoice.lines[0].article
        ),
        facts=(
            fields("Invoice", number="str", issued_on="date", due_on="date", vat_percent="Decimal"),
            fields("Invoice, the rest", seller="Address", lines="list[InvoiceLine]", total="Decimal"),
            fields("InvoiceLine", article="str", quantity="int", unit_price="Decimal"),
            fields("Address", street="str", zip_code="str", city="str", country="str"),
            said("including VAT", "five digits", what="the descriptions of fields"),
            said("RE-2026-0815 of 6 November 2026", "at  4.25 EUR each", "Total       304.16 EUR"),
            said("Lindenallee 17, 20259 Hamburg", "due within 14 days"),
        ),
        answers=(
            returns(
                {
                    "number": "RE-2026-0815",
                    "issued_on": "2026-11-06",
                    "due_on": "2026-11-20",
                    "seller": {"street": "Lindenallee 17", "zip_code": "20259", "city": "Hamburg"},
                    "lines": [
                        {"article": 'desk lamp "Polar", black', "quantity": 4, "unit_price": "39.90"},
                        {"article": "box of A4 paper, 80 g/m2", "quantity": 12, "unit_price": "4.25"},
                        {"article": "delivery and assembly", "quantity": 1, "unit_price": "45.00"},
                    ],
                    "vat_percent": "19",
                    "total": "304.16",
                }
            ),
        ),
    ),
    Block(
        name="typed-dict",
        what="fill a TypedDict with fields that may be left out",
        call=partial(read_contact, SIGNATURE),
        is_right=lambda contact: (
            "Amina Okafor" in contact["full_name"]
            and contact["email"] == "amina.okafor@lumen-optics.example"
            and "7946" in contact["phone"]
            and contact["position"].startswith("Head of Procurement")
        ),
        facts=(
            fields("Contact", full_name="str", email="str", phone="str", position="str"),
            said("Dr. Amina Okafor", "Head of Procurement", "+44 20 7946 0018", "amina.okafor@lumen-opti"),
        ),
        answers=(
            returns(
                {
                    "full_name": "Dr. Amina Okafor",
                    "email": "amina.okafor@lumen-optics.example",
                    "phone": "+44 20 7946 0018",
                    "position": "Head of Procurement",
                }
            ),
        ),
    ),
    Block(
        name="dataclass",
        what="fill a data class with a time, a duration and a list",
        call=partial(read_event, INVITATION),
        is_right=lambda event: (
            event.starts_at.replace(tzinfo=None) == datetime(2026, 12, 1, 14, 30)
            and event.duration == timedelta(minutes=90)
            and "4.12" in event.place
            and set(event.guests) == {"Tomoko", "Rashid", "Lena"}
        ),
        facts=(
            fields("Event", title="str", starts_at="datetime", duration="timedelta"),
            fields("Event, the rest", place="str", guests="list[str]"),
            said("1 December 2026, half past two, in room 4.12", "an hour and a half", "Lena joins"),
        ),
        answers=(
            sets(
                event={
                    "title": "Kick-off Project Heron",
                    "starts_at": "2026-12-01T14:30:00+01:00",
                    "duration": "PT1H30M",
                    "place": "room 4.12",
                    "guests": ["Tomoko", "Rashid", "Lena"],
                }
            ),
        ),
    ),
    Block(
        name="optional-fields",
        what="leave what a text does not say at None",
        call=partial(read_person, BIOGRAPHY),
        is_right=lambda person: (
            (person.name, person.born_on, person.birth_place) == ("Ida Marlowe", date(1871, 3, 9), "Whitby")
            and person.spouse is None
            and person.profession == "surveyor"
        ),
        facts=(
            fields("Person", name="str", born_on="date", birth_place="str", profession="str"),
            fields("Person, the rest", spouse="str", children="int"),
            said("Ida Marlowe was a surveyor", "9 March 1871 in Whitby", "she never married"),
        ),
        answers=(
            returns(
                {
                    "name": "Ida Marlowe",
                    "born_on": "1871-03-09",
                    "birth_place": "Whitby",
                    "profession": "surveyor",
                }
            ),
        ),
    ),
    Block(
        name="aliases",
        what="fill a pydantic model whose fields have aliases",
        call=partial(read_shipment, ORDER_JSON),
        is_right=lambda shipment: (
            shipment.order_id == "7731-B"
            and shipment.tracking_number == "JD0002231179944"
            and shipment.weight_grams == 2350
            and shipment.is_express
        ),
        facts=(
            said("orderId", "trackingNo", "weightG", '"express"', what="the aliases of Shipment"),
            said("ORDER 7731-B", "gross 2.35 kg", "JD0002231179944", "EXP (express"),
        ),
        answers=(
            returns(
                {
                    "orderId": "7731-B",
                    "trackingNo": "JD0002231179944",
                    "weightG": 2350,
                    "express": True,
                }
            ),
        ),
    ),
    Block(
        name="discriminated-union",
        what="extract a list of a union told apart by a field",
        call=partial(read_payments, BANK_MAIL),
        is_right=lambda payments: (
            payments
            == [
                Cash(kind="cash", amount=Decimal(80), counter=3),
                Card(kind="card", last_digits="4242", amount=Decimal("1249.99")),
                Transfer(
                    kind="transfer",
                    iban="DE89370400440532013000",
                    amount=Decimal("310.50"),
                    reference="rent December",
                ),
            ]
        ),
        facts=(
            members("kind", "card", "transfer", "cash"),
            fields("Card", last_digits="str", amount="Decimal"),
            fields("Transfer and Cash", iban="str", reference="str", counter="int"),
            said("80.00 at counter 3", "card ending in 4242", "DE89370400440532013000 sent 310.50"),
        ),
        answers=(
            sets(
                payments=[
                    {"kind": "cash", "amount": "80.00", "counter": 3},
                    {"kind": "card", "last_digits": "4242", "amount": "1249.99"},
                    {
                        "kind": "transfer",
                        "iban": "DE89370400440532013000",
                        "amount": "310.50",
                        "reference": "rent December",
                    },
                ]
            ),
        ),
    ),
    Block(
        name="recursive-tree",
        what="build a tree of a type that holds itself",
        call=partial(read_thread, THREAD),
        is_right=lambda root: (
            root.author == "kim"
            and [reply.author for reply in root.replies] == ["arjun", "zoe"]
            and root.replies[1].replies[0].replies[0].text.startswith("I'll ask")
        ),
        facts=(
            fields("Comment", author="str", text="str", replies="list[Comment]"),
            said("kim: Should we move", "> > > zoe: I'll ask."),
        ),
        answers=(
            returns(
                {
                    "author": "kim",
                    "text": "Should we move the release to Thursday?",
                    "replies": [
                        {
                            "author": "arjun",
                            "text": "Fine with me.",
                            "replies": [{"author": "kim", "text": "Great, thanks."}],
                        },
                        {
                            "author": "zoe",
                            "text": "The translators need until Friday.",
                            "replies": [
                                {
                                    "author": "arjun",
                                    "text": "Can they do the short strings first?",
                                    "replies": [{"author": "zoe", "text": "I'll ask."}],
                                }
                            ],
                        },
                    ],
                }
            ),
        ),
    ),
    Block(
        name="named-tuple",
        what="extract a list of named tuples",
        call=partial(read_trip, TRIP),
        is_right=lambda stops: stops == [Stop("Porto", 2), Stop("Coimbra", 1), Stop("Lisbon", 4)],
        facts=(
            fields("Stop", city="str", nights="int"),
            said("two nights in Porto", "the last four in Lisbon"),
        ),
        answers=(returns([["Porto", 2], ["Coimbra", 1], ["Lisbon", 4]]),),
    ),
    Block(
        name="msgspec-struct",
        what="extract a list of msgspec structs",
        call=partial(read_meters, METER_NOTE),
        is_right=lambda readings: (
            readings == [Reading("E-4471", 10233.5), Reading("E-4472", 877.0), Reading("W-09", 412.25, "m3")]
        ),
        facts=(
            fields("Reading", meter_id="str", value="float", unit="str"),
            said("E-4471 stands at 10,233.5", "E-4472 at 877", "W-09 says 412.25 m3"),
        ),
        answers=(
            sets(
                readings=[
                    {"meter_id": "E-4471", "value": 10233.5},
                    {"meter_id": "E-4472", "value": 877.0},
                    {"meter_id": "W-09", "value": 412.25, "unit": "m3"},
                ]
            ),
        ),
    ),
    Block(
        name="constraints",
        what="set several variables within bounds that an annotation gives",
        call=partial(rate_stay, REVIEW_FORM),
        is_right=lambda marks: marks[0] == 5 and marks[1] <= 2 and marks[2] == 3,
        facts=(
            bounds("a Rating", 1, 5),
            said("1 is worst"),
            said("spotless", "cold coffee, never again", "neither friendly nor rude"),
        ),
        answers=(sets(room=5, breakfast=1, staff=3),),
    ),
    Block(
        name="table",
        what="transform a table in a text into records",
        call=partial(read_price_list, PRICE_LIST),
        is_right=lambda rows: (
            len(rows) == 12
            and rows[0]["price_cents"] == 1290
            and [row["sku"] for row in rows if not row["in_stock"]] == ["HX-200", "DR-012", "PL-160"]
        ),
        facts=(
            fields("Product", sku="str", title="str", price_cents="int", in_stock="bool"),
            said("HX-100;Hex key set, 9 pieces;12.90;34", "LV-600;Spirit level, 600 mm;24.50;3"),
        ),
        answers=(
            returns(
                [
                    {"sku": sku, "title": title, "price_cents": cents, "in_stock": stock}
                    for sku, title, cents, stock in (
                        ("HX-100", "Hex key set, 9 pieces", 1290, True),
                        ("HX-200", "Hex key set, long, 9 pieces", 1750, False),
                        ("DR-010", "Drill bit 10 mm, HSS", 380, True),
                        ("DR-012", "Drill bit 12 mm, HSS", 460, False),
                        ("SW-330", 'Coping saw "Filigree"', 2100, True),
                        ("GL-001", "Wood glue, 750 g", 895, True),
                        ("HM-300", "Claw hammer, 300 g", 1420, True),
                        ("HM-500", "Claw hammer, 500 g", 1680, True),
                        ("PL-160", "Combination pliers, 160 mm", 1990, False),
                        ("SD-PH2", "Screwdriver PH 2", 640, True),
                        ("CL-150", "Bar clamp, 150 mm", 1130, True),
                        ("LV-600", "Spirit level, 600 mm", 2450, True),
                    )
                ]
            ),
        ),
    ),
    Block(
        name="log",
        what="pick the unusual lines of a log of sixty",
        call=partial(read_log, ACCESS_LOG),
        is_right=lambda entries: (
            [entry.level for entry in entries] == [Level.TROUBLE, Level.OUTAGE, Level.NOTICE]
            and [entry.service for entry in entries] == ["gateway", "billing", "mailer"]
            and entries[1].at == datetime(2026, 11, 22, 8, 38, 5, tzinfo=UTC)
        ),
        facts=(
            members("Level", "notice", "trouble", "outage"),
            fields("LogEntry", at="datetime", level="Level", service="str", message="str"),
            said("upstream 10.0.3.7 timed out", what="the first line that matters"),
            said("billing: database connection refused", what="the second line that matters"),
            said("template 'welcome_v2' not found", what="the third line that matters"),
        ),
        answers=(
            sets(
                entries=[
                    {
                        "at": "2026-11-22T08:17:05Z",
                        "level": "trouble",
                        "service": "gateway",
                        "message": "upstream 10.0.3.7 timed out after 30 s, retrying",
                    },
                    {
                        "at": "2026-11-22T08:38:05Z",
                        "level": "outage",
                        "service": "billing",
                        "message": "database connection refused, all workers down, rejecting requests",
                    },
                    {
                        "at": "2026-11-22T08:52:05Z",
                        "level": "notice",
                        "service": "mailer",
                        "message": "template 'welcome_v2' not found, used 'welcome'",
                    },
                ]
            ),
        ),
    ),
    Block(
        name="dates-and-decimals",
        what="extract dates, a duration and amounts of money",
        call=partial(read_contract, CONTRACT),
        is_right=lambda terms: (
            terms
            == ContractTerms(
                begins_on=date(2027, 2, 1),
                ends_on=date(2029, 1, 31),
                notice=timedelta(weeks=6),
                monthly_fee=Decimal("129.50"),
                deposit=Decimal("388.50"),
                auto_renews=False,
            )
        ),
        facts=(
            fields("ContractTerms", begins_on="date", ends_on="date", notice="timedelta"),
            fields("ContractTerms, the rest", monthly_fee="Decimal", deposit="Decimal", auto_renews="bool"),
            said("first of February 2027", "ends without notice", "six weeks' notice", "EUR 129.50 a month"),
            said("three monthly fees"),
        ),
        answers=(
            returns(
                {
                    "begins_on": "2027-02-01",
                    "ends_on": "2029-01-31",
                    "notice": "P42D",
                    "monthly_fee": "129.50",
                    "deposit": "388.50",
                    "auto_renews": False,
                }
            ),
        ),
    ),
)
