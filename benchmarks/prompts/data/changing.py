"""Types and inputs of blocks that change objects, join records and look at pictures."""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

__all__ = [
    "CRM_RECORD",
    "GUESTS",
    "MEETING_NOTES",
    "NEW_HOURS",
    "PERSONAL_MAIL",
    "SETTINGS",
    "SHOP_RECORD",
    "Board",
    "Card",
    "Color",
    "Customer",
    "Guest",
    "Hours",
    "Settings",
    "old_hours",
    "picture_of_red",
    "project_board",
]


@dataclass
class Card:
    """A task on a board."""

    title: str
    assignee: str | None = None
    labels: list[str] = field(default_factory=list)
    is_done: bool = False


@dataclass
class Board:
    """The tasks of a project."""

    name: str
    cards: list[Card]

    def add(self, title: str, *, assignee: str | None = None) -> Card:
        """Add a task at the end."""
        card = Card(title, assignee)
        self.cards.append(card)
        return card


MEETING_NOTES = """\
- Hanna has finished the login page. Nobody has time for the dark mode; take Piet off it, he does the import
instead.
- New: translate the help pages. Joao wants to do that.
"""


class Customer(BaseModel):
    """A customer, from several systems."""

    name: str
    email: str
    phone: str | None = None
    plan: Literal["free", "pro", "enterprise"] = "free"
    tags: list[str] = []
    notes: str = Field(default="", max_length=200)


CRM_RECORD = Customer(
    name="M. Castellano",
    email="marta@castellano.example",
    phone=None,
    plan="free",
    tags=["newsletter", "fair-2025"],
    notes="Asked about single sign-on at the fair.",
)

SHOP_RECORD = Customer(
    name="Marta Castellano",
    email="Marta@Castellano.example",
    phone="+39 06 5550 1234",
    plan="enterprise",
    tags=["newsletter", "invoice-by-mail"],
    notes="Signed in October; wants SSO.",
)


class Guest(TypedDict):
    """Somebody on the list."""

    id: int
    name: str
    company: str


GUESTS: list[Guest] = [
    {"id": 1, "name": "Robert Miles", "company": "ACME Corp."},
    {"id": 2, "name": "Yuki Tanaka", "company": "Sakura KK"},
    {"id": 3, "name": "Bob Miles", "company": "Acme Corporation"},
    {"id": 4, "name": "Fatima El-Sayed", "company": "Nile Foods"},
    {"id": 5, "name": "Tanaka Yuki", "company": "Sakura"},
    {"id": 6, "name": "Robert Miller", "company": "ACME Corp."},
    {"id": 7, "name": "F. El Sayed", "company": "Nile Foods Ltd"},
    {"id": 8, "name": "Ana Ruiz", "company": "Delta"},
    {"id": 9, "name": "Noor Haddad", "company": "Blue Whale"},
    {"id": 10, "name": "Peter Olsen", "company": "Fjord Line"},
    {"id": 11, "name": "Emma Stone-Ward", "company": "Ward & Sons"},
    {"id": 12, "name": "Li Wei", "company": "Pearl River Trading"},
    {"id": 13, "name": "Carlos Mendes", "company": "Atlântico"},
    {"id": 14, "name": "Ingrid Bauer", "company": "Bauer KG"},
    {"id": 15, "name": "Tom O'Neill", "company": "Shamrock Foods"},
    {"id": 16, "name": "Grace Mbeki", "company": "Savanna Tours"},
    {"id": 17, "name": "Peter Olson", "company": "Olson Timber"},
    {"id": 18, "name": "Ravi Kumar", "company": "Monsoon Textiles"},
    {"id": 19, "name": "Ravi Kumar", "company": "Kumar Consulting"},
    {"id": 20, "name": "Sofia Rossi", "company": "Rossi & Figli"},
    {"id": 21, "name": "Hugo Lefèvre", "company": "Maison Lefèvre"},
    {"id": 22, "name": "Maja Nowak", "company": "Vistula Glass"},
    {"id": 23, "name": "Ali Rezaei", "company": "Caspian Fish"},
    {"id": 24, "name": "Kenji Mori", "company": "Mori Steel"},
    {"id": 25, "name": "Olga Petrova", "company": "Northern Lights"},
]


class Settings(TypedDict, total=False):
    """Settings of an editor."""

    theme: Literal["light", "dark", "contrast"]
    font_size: int
    autosave_seconds: int | None
    rulers: list[int]


SETTINGS: Settings = {"theme": "light", "font_size": 12, "autosave_seconds": 30, "rulers": [80]}


class Hours(BaseModel):
    """Opening hours of one day; None for a day on which it is closed."""

    opens: str | None = Field(pattern=r"^\d\d:\d\d$")
    closes: str | None = Field(pattern=r"^\d\d:\d\d$")


NEW_HOURS = "We open at nine and close at six, on Saturdays at two. Mondays and Sundays we are closed."

PERSONAL_MAIL = """\
Hello,

this is Gregor Haas again (born 14.02.1980). My new card is 4556 7375 8689 9855, good until 08/29, and the
old phone
number does not work any more, use +43 660 1234567. My wife Ilse (ilse.haas@post.example) may also call about
order
55-1207.

About that order: of the twelve chairs eleven arrived, and the one that is missing is of course the one with
the
armrests, for which we waited since September. The driver said that it was "on the other van". It was not. I
do not mind
waiting until the 28th, but I would like to know whether it exists. If it does not, please refund the 189.00
for it and
let me know which other model goes with the table (article 7741, oak). The invoice should go to my wife's
address of
mail, too.

Thank you for your trouble

Gregor
"""

Color = Literal["red", "green", "blue", "yellow", "none of these"]


def picture_of_red(size: int = 8) -> bytes:
    """A PNG that is red all over."""
    row = b"\0" + bytes((220, 20, 30)) * size
    parts: list[tuple[bytes, bytes]] = [
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * size)),
        (b"IEND", b""),
    ]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def project_board() -> Board:
    """A board as it is before the meeting."""
    return Board(
        "Relaunch",
        [
            Card("Login page", "Hanna", ["frontend"]),
            Card("Dark mode", "Piet", ["frontend", "nice to have"]),
            Card("Import of old orders", None, ["backend"]),
        ],
    )


def old_hours() -> dict[str, Any]:
    """Opening hours before the change."""
    days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    return {day: Hours(opens="10:00", closes="18:00") for day in days}
