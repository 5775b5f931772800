"""Agents written by hand that take data out of texts."""

from typing import Annotated

from pydantic import BaseModel, Field
from pydantic_ai import Agent

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
    Card,
    Cash,
    Comment,
    Contact,
    ContractTerms,
    Event,
    Invoice,
    LogEntry,
    Person,
    Product,
    Rating,
    Shipment,
    Stop,
    Transfer,
)
from .asking import Asked

__all__ = ["ASKED"]


class Reading(BaseModel):
    """What a meter shows."""

    meter_id: str
    value: float
    unit: str = "kWh"


class Marks(BaseModel):
    """A guest's words as marks."""

    room: Rating
    breakfast: Rating
    staff: Rating


Payment = Annotated[Card | Transfer | Cash, Field(discriminator="kind")]

METER_NOTE = (
    "Basement: no. E-4471 stands at 10,233.5, the heat pump's E-4472 at 877. Water W-09 says 412.25 m3."
)

ASKED = {
    "nested-invoice": Asked(
        Agent(output_type=Invoice, instructions="Extract the invoice from the mail."), INVOICE_MAIL
    ),
    "typed-dict": Asked(
        Agent(
            output_type=Contact,
            instructions="Return the contact that the signature of a mail shows. Leave out what it does not "
            "say.",
        ),
        SIGNATURE,
    ),
    "dataclass": Asked(
        Agent(
            output_type=Event,
            instructions="Extract the meeting that the message invites to. Those who may not come are guests "
            "too.",
        ),
        f"Times are local: 1 hour from UTC.\n\n{INVITATION}",
    ),
    "optional-fields": Asked(
        Agent(output_type=Person, instructions="What does the text say about the person? Do not guess."),
        BIOGRAPHY,
    ),
    "aliases": Asked(
        Agent(
            output_type=Shipment,
            instructions="Fill in the shipment from the note. The tracking number is the carrier's "
            "reference.",
        ),
        ORDER_JSON,
    ),
    "discriminated-union": Asked(
        Agent(output_type=list[Payment], instructions="List all payments in the mail, in their order."),
        BANK_MAIL,
    ),
    "recursive-tree": Asked(
        Agent(
            output_type=Comment,
            instructions="The text is a discussion; each `>` is one level of replies. Return it as a tree.",
        ),
        THREAD,
    ),
    "named-tuple": Asked(Agent(output_type=list[Stop], instructions="List the stops in the text."), TRIP),
    "msgspec-struct": Asked(
        Agent(output_type=list[Reading], instructions="Take the readings of all meters from the note."),
        METER_NOTE,
    ),
    "constraints": Asked(
        Agent(output_type=Marks, instructions="Turn the guest's words into marks."), REVIEW_FORM
    ),
    "table": Asked(
        Agent(output_type=list[Product], instructions="Convert the table, row by row."), PRICE_LIST
    ),
    "log": Asked(
        Agent(
            output_type=list[LogEntry],
            instructions="Look through the log and list the lines that are no successful request: a missing "
            "service is an outage, a failed attempt is trouble, and everything else that is unusual a "
            "notice. The message leaves out the time and the service.",
        ),
        ACCESS_LOG,
    ),
    "dates-and-decimals": Asked(
        Agent(output_type=ContractTerms, instructions="Find the terms of the contract in the text."), CONTRACT
    ),
}
