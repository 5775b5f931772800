"""Types and texts of blocks that take data out of texts."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, NamedTuple, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

__all__ = [
    "ACCESS_LOG",
    "BANK_MAIL",
    "BIOGRAPHY",
    "CONTRACT",
    "INVITATION",
    "INVOICE_MAIL",
    "ORDER_JSON",
    "PRICE_LIST",
    "REVIEW_FORM",
    "SIGNATURE",
    "THREAD",
    "TRIP",
    "Address",
    "Card",
    "Cash",
    "Comment",
    "Contact",
    "ContractTerms",
    "Event",
    "Invoice",
    "InvoiceLine",
    "Level",
    "LogEntry",
    "Person",
    "Product",
    "Rating",
    "Shipment",
    "Stop",
    "Transfer",
]


class Address(BaseModel):
    """A postal address."""

    street: str
    zip_code: str = Field(pattern=r"^\d{5}$", description="five digits")
    city: str
    country: str = Field(default="DE", description="ISO 3166 code of two letters")


class InvoiceLine(BaseModel):
    """One position of an invoice."""

    article: str
    quantity: int = Field(gt=0)
    unit_price: Decimal


class Invoice(BaseModel):
    """An invoice as bookkeeping needs it."""

    number: str
    issued_on: date
    due_on: date | None = None
    seller: Address
    lines: list[InvoiceLine]
    vat_percent: Decimal
    total: Decimal = Field(description="including VAT")


INVOICE_MAIL = """\
From: accounts@brandt-buero.example
To: buchhaltung@nordlicht.example
Subject: Your invoice RE-2026-0815

Dear Ms Petersen,

thank you for your order of 3 November. Please find the details of our invoice RE-2026-0815 of 6 November 2026
below. Payment is due within 14 days of the date of the invoice.

  4 x desk lamp "Polar", black      at 39.90 EUR each
 12 x box of A4 paper, 80 g/m2      at  4.25 EUR each
  1 x delivery and assembly         at 45.00 EUR

Net amount  255.60 EUR
VAT 19 %     48.56 EUR
Total       304.16 EUR

Please mention the number of the invoice when you pay. As always, what was delivered remains our property
until it is
paid in full.

Kind regards
Jonas Brandt

Brandt Bürobedarf GmbH, Lindenallee 17, 20259 Hamburg
Opening hours Mo-Fr 9:00-18:00, phone +49 40 5550 177
Register court Hamburg HRB 99999, managing director: Jonas Brandt, VAT id DE123456789

> On 3 November 2026, buchhaltung@nordlicht.example wrote:
> Dear Mr Brandt,
> please send us four of the lamps "Polar", in black if you have them, and a dozen boxes of paper. Last time
> the lamps
> were delivered without bulbs; could your driver put them together this time? Our address is still Nordlicht
> e. V.,
> Elbchaussee 9, 22765 Hamburg.
> We will pay by transfer as usual. Our invoice for the last order (RE-2026-0644, 88.20 EUR) was paid on 2
> October.
> Kind regards
> Wiebke Petersen
"""


class Contact(TypedDict):
    """A person to call back."""

    full_name: str
    email: str
    phone: NotRequired[str]
    position: NotRequired[str]


SIGNATURE = """\
Dear Mr Lindqvist,

thank you for the samples, which arrived in good order. Our laboratory needs about a week for the
measurements. Please
direct questions about the delivery to our warehouse (warehouse@lumen-optics.example, +44 20 7946 0991), and
everything
else to me.

Best,
Dr. Amina Okafor
Head of Procurement | Lumen Optics Ltd.
T +44 20 7946 0018 · amina.okafor@lumen-optics.example
Think before you print!
"""


@dataclass
class Event:
    """An entry of a calendar."""

    title: str
    starts_at: datetime
    duration: timedelta
    place: str | None = None
    guests: list[str] = field(default_factory=list)


INVITATION = """\
Hi all,

thanks for the lively discussion yesterday; I have put the minutes into the wiki. As agreed we postpone the
review of the
budget to the new year, and Oskar asks the suppliers for new offers until the 30th.

Now to what matters: let's have the kick-off for "Project Heron" on Tuesday, 1 December 2026, half past two,
in room 4.12.
(I first had the 3rd in mind, but the rooms are all taken.) We'll need an hour and a half. Tomoko and Rashid
please bring
the numbers; Lena joins if her flight is on time. Coffee is taken care of, cake is welcome.

Best
Ingrid
"""


class Person(BaseModel):
    """What is known of a person. What a text does not say stays None."""

    name: str
    born_on: date | None = None
    birth_place: str | None = None
    profession: str | None = None
    spouse: str | None = None
    children: int | None = None


BIOGRAPHY = """\
IDA MARLOWE, SURVEYOR

Ida Marlowe was a surveyor who mapped much of the northern coast. She was born on 9 March 1871 in Whitby,
where her
father kept the accounts of a shipyard. At sixteen she was allowed to hold the staff for a party of the
Ordnance Survey
that had lost its boy to a fever, and by the end of the summer she did the arithmetic for all of them. Her
employer, a
Mr Pell, wrote to the office in Southampton that he had "never seen a traverse close so well, nor so
quickly". The
office replied that it could not employ her, and that it would be obliged for her figures.

From 1894 on she worked on her own account, mostly for owners of quarries and for the small railways that
were being
built along the cliffs. She carried her theodolite herself. In the winter of 1897 a landslip near Kettleness
buried a
line that she had warned of in writing; the letter was read out at the inquiry, and after that she did not
lack work.
A map of the bay, in four sheets and at six inches to the mile, appeared in 1903 under her own name. It was
in use until
the nineteen-thirties, and fishermen are said to have preferred it to the charts.

Of her private life little is known: she never married. Letters to her sister Maud, who kept a school in
Scarborough,
speak of rain, of landladies, and of the price of chain. Her eyes failed her in 1926. Her field notebooks,
forty-one of
them, are kept at the county archive; a path along the cliffs has been named after her.
"""


class Shipment(BaseModel):
    """A parcel, with the names that the carrier uses."""

    model_config = ConfigDict(populate_by_name=False)

    order_id: str = Field(alias="orderId")
    tracking_number: str = Field(alias="trackingNo")
    weight_grams: int = Field(alias="weightG", ge=1)
    is_express: bool = Field(alias="express")


ORDER_JSON = """\
ORDER 7731-B :: picked 2026-11-20 :: gross 2.35 kg :: service EXP (express, next day)
carrier ref JD0002231179944 :: left hub 21:14
"""


class Card(BaseModel):
    """Paid by card."""

    kind: Literal["card"]
    last_digits: str = Field(min_length=4, max_length=4)
    amount: Decimal


class Transfer(BaseModel):
    """Paid by bank transfer."""

    kind: Literal["transfer"]
    iban: str
    amount: Decimal
    reference: str | None = None


class Cash(BaseModel):
    """Paid at the counter."""

    kind: Literal["cash"]
    amount: Decimal
    counter: int


BANK_MAIL = """\
Payments of the day: Mrs Quint paid 80.00 at counter 3. The 1,249.99 for order 88 came from the card ending
in 4242.
DE89370400440532013000 sent 310.50, reference "rent December".
"""


class Comment(BaseModel):
    """A comment with the answers to it, and theirs."""

    author: str
    text: str
    replies: "list[Comment]" = []


THREAD = """\
kim: Should we move the release to Thursday?
> arjun: Fine with me.
> > kim: Great, thanks.
> zoe: The translators need until Friday.
> > arjun: Can they do the short strings first?
> > > zoe: I'll ask.
"""


class Stop(NamedTuple):
    """A stop of a trip."""

    city: str
    nights: int


TRIP = "We stay two nights in Porto, then one in Coimbra, and the last four in Lisbon."

Rating = Annotated[int, Field(ge=1, le=5, description="1 is worst")]

REVIEW_FORM = """\
Room: spotless, I could not have wished for more. Breakfast: a slice of bread and cold coffee, never again.
Staff: they
were alright, neither friendly nor rude.
"""


class Product(TypedDict):
    """One line of a price list."""

    sku: str
    title: str
    price_cents: int
    in_stock: bool


PRICE_LIST = """\
Article;Description;Price EUR;Stock
HX-100;Hex key set, 9 pieces;12.90;34
HX-200;Hex key set, long, 9 pieces;17.50;0
DR-010;Drill bit 10 mm, HSS;3.80;112
DR-012;Drill bit 12 mm, HSS;4.60;0
SW-330;Coping saw "Filigree";21.00;7
GL-001;Wood glue, 750 g;8.95;51
HM-300;Claw hammer, 300 g;14.20;18
HM-500;Claw hammer, 500 g;16.80;22
PL-160;Combination pliers, 160 mm;19.90;0
SD-PH2;Screwdriver PH 2;6.40;75
CL-150;Bar clamp, 150 mm;11.30;9
LV-600;Spirit level, 600 mm;24.50;3
"""


class Level(Enum):
    """How bad a line of a log is."""

    NOTICE = "notice"
    TROUBLE = "trouble"
    OUTAGE = "outage"


class LogEntry(BaseModel):
    """One line of a log that somebody should look at."""

    at: datetime
    level: Level
    service: str
    message: str


def _access_log() -> str:
    """Sixty lines, of which three matter."""
    odd = {
        17: "gateway: upstream 10.0.3.7 timed out after 30 s, retrying",
        38: "billing: database connection refused, all workers down, rejecting requests",
        52: "mailer: template 'welcome_v2' not found, used 'welcome'",
    }
    lines: list[str] = []
    for number in range(60):
        text = odd.get(number, f"gateway: GET /api/v1/items/{4000 + 7 * number} 200 {11 + number % 9} ms")
        lines.append(f"2026-11-22T08:{number:02}:05Z {text}")
    return "\n".join(lines)


ACCESS_LOG = _access_log()


@dataclass(frozen=True)
class ContractTerms:
    """The numbers of a contract."""

    begins_on: date
    ends_on: date
    notice: timedelta
    monthly_fee: Decimal
    deposit: Decimal
    auto_renews: bool


CONTRACT = """\
RENTAL AGREEMENT (storage unit 27)

between Harbor Storage Ltd., 4 Quayside, hereinafter "the lessor", and Mr Viktor Ahlgren, hereinafter "the
lessee".

1. Object. The lessor lets unit 27, on the second floor, of 14 square meters, for the storage of household
goods. The lessee
has seen the unit and takes it over as it is. One key is handed over; a lost key is replaced for EUR 35.00.

2. Term. The agreement begins on the first of February 2027 and is made for two years. It ends without notice
after that
time. If the lessee goes on using the unit afterwards, this does not prolong the agreement; for each day
begun, a
thirtieth of the monthly fee is due then.

3. Termination. Within the two years, each party may terminate with six weeks' notice, in writing. The right
to terminate
for good cause, such as arrears of two fees, remains unaffected; no period has to be kept then.

4. Fee. The fee is EUR 129.50 a month, payable in advance by the third working day. Electricity is included
up to 20
kilowatt-hours a month; what exceeds that costs EUR 0.42 per kilowatt-hour. A reminder costs EUR 5.00.

5. Deposit. On signing, a deposit of three monthly fees is due. It bears no interest and is paid back within
60 days of
the return of the key, less what the lessor may claim.

6. Use. The unit must not be used to keep food, animals or anything that is easily inflammable. Subletting
needs the consent
of the lessor. The corridors are to be kept clear; what is left there may be removed after a notice of 48
hours.

7. Liability. The lessor is liable for intent and gross negligence only. The lessee is advised to insure the
goods, up to
EUR 10,000 of which can be covered by the lessor's group policy for EUR 7.90 a month; the lessee has not
taken this.

8. Access. The building is open from 6:00 to 22:00. Access outside of these hours costs EUR 15.00 each time.
"""
