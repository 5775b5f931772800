"""Texts of blocks that write."""

from dataclasses import dataclass

from pydantic import BaseModel

__all__ = [
    "COMMITS",
    "COMPLAINT",
    "FAQ",
    "FUNCTION_TASK",
    "GLOSSARY",
    "MANUAL",
    "SCHEMA",
    "SPEECH",
    "Commit",
    "Note",
    "Query",
]


def _speech() -> str:
    """A long report, with what matters at the beginning, in the middle and at the end."""
    filler = (
        "The committee met {count} times in this quarter and heard the reports of the {part} group. Its "
        "members thanked all who had prepared the papers. Minutes of the meetings are kept at the office "
        "and may be read there on weekdays. Questions about them are answered by the secretary, as before."
    )
    parts = ("harbor", "library", "bridge", "school", "garden", "market", "archive", "theater")
    paragraphs = [filler.format(count=3 + number % 4, part=parts[number % 8]) for number in range(24)]
    paragraphs[0] = (
        "REPORT OF THE TOWN COUNCIL, autumn 2026. The ferry to the island stops at the end of March 2027."
    )
    paragraphs[11] = (
        'The mayor said: "We will not sell the old granary." The council then voted, nine to four, '
        "to turn it into a library by 2029, at a cost of 2.4 million."
    )
    paragraphs[23] = "In closing, the fee for parking rises from 1.50 to 2.00 an hour on 1 January."
    return "\n\n".join(paragraphs)


SPEECH = _speech()

GLOSSARY = {
    "backlash": "Umkehrspiel",
    "bed": "Maschinenbett",
    "carriage": "Bettschlitten",
    "chip tray": "Spänewanne",
    "chuck": "Spannfutter",
    "chuck key": "Futterschlüssel",
    "collet": "Spannzange",
    "coolant": "Kühlschmierstoff",
    "cross slide": "Planschlitten",
    "dial": "Skalenring",
    "emergency stop": "Not-Halt",
    "feed rate": "Vorschub",
    "guard": "Schutzhaube",
    "lead screw": "Leitspindel",
    "parting tool": "Abstechstahl",
    "rotary switch": "Drehschalter",
    "runout": "Rundlaufabweichung",
    "spindle": "Arbeitsspindel",
    "spindle speed": "Drehzahl",
    "tailstock": "Reitstock",
    "tool holder": "Werkzeugaufnahme",
    "turret": "Revolver",
    "wipe down": "abwischen",
    "workpiece": "Werkstück",
}

MANUAL = """\
Before you change the tool holder, press the emergency stop and wait until the spindle stands still. Never
reach for the
workpiece while coolant is flowing.

Take the chuck key out of the chuck before you close the guard; the machine does not start with an open
guard. Choose the
spindle speed with the rotary switch, beginning with the lowest one. If the workpiece is longer than three
times its
diameter, support it with the tailstock. Check the runout after clamping.

At the end of the day, empty the chip tray and wipe down the bed. Do not use compressed air.
"""


@dataclass
class Note:
    """A mail to a customer."""

    subject: str
    body: str


COMPLAINT = """\
Hello,
your shop's "Easy Return" page says 'upload your label', but there's no button. I tried
C:\\Users\\me\\label.pdf and
"label.png". Also: who reads this?
- Nadia
"""

FUNCTION_TASK = (
    "a function slugify(title: str) -> str with a docstring: small letters, runs of what is no letter or "
    "digit "
    'become one "-", none at the ends; use a regular expression with \\W or the like'
)

SCHEMA = """\
CREATE TABLE country (code CHAR(2) PRIMARY KEY, name TEXT NOT NULL, currency CHAR(3) NOT NULL);
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
    country CHAR(2) NOT NULL REFERENCES country (code), joined DATE NOT NULL);
CREATE TABLE address (customer_id INTEGER NOT NULL REFERENCES customer (id), kind TEXT NOT NULL, street TEXT
    NOT NULL,
    zip_code TEXT NOT NULL, city TEXT NOT NULL, PRIMARY KEY (customer_id, kind));
CREATE TABLE article (sku TEXT PRIMARY KEY, title TEXT NOT NULL, list_cents INTEGER NOT NULL, weight_grams
    INTEGER);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer (id),
    made_at TIMESTAMP NOT NULL, state TEXT NOT NULL CHECK (state IN ('open', 'paid', 'void')));
CREATE TABLE purchase_line (purchase_id INTEGER NOT NULL REFERENCES purchase (id),
    sku TEXT NOT NULL REFERENCES article (sku), quantity INTEGER NOT NULL,
    unit_cents INTEGER NOT NULL, PRIMARY KEY (purchase_id, sku));
CREATE TABLE parcel (number TEXT PRIMARY KEY, purchase_id INTEGER NOT NULL REFERENCES purchase (id), sent_at
    TIMESTAMP,
    carrier TEXT NOT NULL);
CREATE TABLE refund (id INTEGER PRIMARY KEY, purchase_id INTEGER NOT NULL REFERENCES purchase (id),
    cents INTEGER NOT NULL, made_at TIMESTAMP NOT NULL, reason TEXT);
CREATE INDEX purchase_by_customer ON purchase (customer_id, made_at);
"""


class Query(BaseModel):
    """A query with its parameters."""

    sql: str
    parameters: dict[str, str | int]


@dataclass(frozen=True)
class Commit:
    """A change of a program."""

    sha: str
    message: str
    files: list[str]


COMMITS = [
    Commit("1f0c2aa", "Fix crash when a list of rows is empty", ["table.py", "tests/test_table.py"]),
    Commit("9be77d1", "Bump ruff", ["requirements-dev.txt"]),
    Commit("77e01c3", "Add --follow to `logs`, which goes on until Ctrl-C", ["cli.py", "docs/cli.md"]),
    Commit("c4410fe", "Typo", ["README.md"]),
    Commit("5d2b9b0", "Drop Python 3.9", ["pyproject.toml", "ci.yml", "compat.py"]),
    Commit("aa83c55", "Read settings once, not for each row: exports take half the time", ["export.py"]),
    Commit("03d9f1e", "Split table.py in two", ["table.py", "columns.py", "tests/test_columns.py"]),
    Commit("be2207c", "Retry flaky test on Windows", ["tests/test_cli.py"]),
    Commit(
        "412ac90",
        "Write numbers with the separators of the locale if --locale is given",
        ["cli.py", "format.py"],
    ),
    Commit("e55d1b8", "Do not lose the last line of a file that does not end in a line break", ["reader.py"]),
    Commit("6c7f3a4", "Cache wheels in CI", ["ci.yml"]),
    Commit("d01e9b7", "Explain exit codes", ["docs/cli.md"]),
]

FAQ = [
    "How long may I send something back?",
    "Do you deliver to Norway?",
    "Can I pay by invoice?",
]
