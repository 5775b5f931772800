"""Blocks that write: summaries, translations, mails, code and queries."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial

import nighthawk_async as nh

from ..block import Block, returns, sets
from ..data.writing import (
    COMMITS,
    COMPLAINT,
    FAQ,
    FUNCTION_TASK,
    GLOSSARY,
    MANUAL,
    SCHEMA,
    SPEECH,
    Commit,
    Note,
    Query,
)
from ..facts import fields, said

__all__ = ["BLOCKS"]


@nh.natural_function
async def summarize(report: str) -> str:
    """natural
    Summarize <report> for citizens in three sentences: what changes for them, with all figures and dates.
    """


@nh.natural_function
async def translate(text: str, glossary: dict[str, str], language: str = "German") -> str:
    translation: str
    f"""natural
    Translate <text> into {language} with the words of <glossary>. Set <:translation>.
    """
    return translation


@nh.natural_function
async def reply_to(complaint: str, name: str) -> Note:
    note: Note
    """natural
    Answer <complaint> as <name> from support. Quote the words from the customer's second sentence that name a
    file, exactly, each on a line of its own in double quotes. Set <:note>.
    """
    return note


@nh.natural_function
async def write_function(task: str) -> str:
    """natural
    Write Python: <task>. Return only the source.
    """


@nh.natural_function
async def write_query(schema: str, question: str) -> Query:
    query: Query
    """natural
    Write SQL that answers <question> on the tables of <schema>, with named parameters such as :name for
    values.
    Set <:query>.
    """
    return query


@nh.natural_function
async def write_changelog(commits: list[Commit]) -> str:
    """natural
    Write a changelog in Markdown from <commits>: the headings Added, Changed, Fixed and Removed as needed,
    one
    bullet each, and nothing of what users do not notice.
    """


@nh.natural_function
async def answer_all(questions: list[str], rules: str) -> AsyncIterator[str]:
    answer = ""
    for question in questions:
        """natural
        Set <:answer> to a short answer to <question> by <rules>.
        """
        yield answer


async def answers_to(questions: list[str], rules: str) -> list[str]:
    """All answers."""
    return [answer async for answer in answer_all(questions, rules)]


def _works(source: str) -> bool:
    names: dict[str, object] = {}
    exec(source, names)
    slugify = names["slugify"]
    return callable(slugify) and slugify("  Hello,  World! ") == "hello-world" and bool(slugify.__doc__)


PURCHASES = (  # the customer, the time, the state, the cents
    ("Ada", "NO", "2025-01-01 00:00:00", "paid", 1_000),
    ("Ada", "NO", "2025-12-31 23:59:59", "paid", 250),
    ("Bo", "NO", "2025-06-15 12:00:00", "paid", 30),
    ("Bo", "NO", "2025-06-16 12:00:00", "open", 500),
    ("Cy", "NO", "2025-06-17 12:00:00", "void", 700),
    ("Di", "NO", "2024-12-31 23:59:59", "paid", 900),
    ("Di", "NO", "2026-01-01 00:00:00", "paid", 900),
    ("Ed", "SE", "2025-06-15 12:00:00", "paid", 800),
)
"""What customers have bought, in tables of `SCHEMA`: two from Norway have paid 1,280 cents in 2025."""


def _found(query: Query) -> list[tuple[int, ...]]:
    """What a query finds in a database with `PURCHASES`: rows of numbers, the greatest first."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO country VALUES (?, ?, 'EUR')", [("NO", "Norway"), ("SE", "Sweden")])
        people = {name: country for name, country, *_ in PURCHASES}
        for key, (name, country) in enumerate(people.items()):
            mail = f"{name}@example.org"
            database.execute(
                "INSERT INTO customer VALUES (?, ?, ?, ?, '2020-01-01')", (key, name, mail, country)
            )
        database.executemany("INSERT INTO article VALUES (?, ?, 1, 1)", [("pen", "Pen"), ("ink", "Ink")])
        for number, (name, _, made_at, state, cents) in enumerate(PURCHASES):
            buyer = [*people].index(name)
            database.execute("INSERT INTO purchase VALUES (?, ?, ?, ?)", (number, buyer, made_at, state))
            database.execute("INSERT INTO purchase_line VALUES (?, 'pen', 2, ?)", (number, cents // 4))
            rest = cents - 2 * (cents // 4)
            database.execute("INSERT INTO purchase_line VALUES (?, 'ink', 1, ?)", (number, rest))
        try:
            rows = database.execute(query.sql, query.parameters).fetchall()
            return [tuple(sorted(row, reverse=True)) for row in rows]
        except (sqlite3.Error, TypeError):  # no query of these tables, or one that finds texts or nothing
            return []


RULES = "Returns within 30 days. Delivery to the EU, Norway and Switzerland. Invoices for businesses only."

SLUGIFY = '''\
import re


def slugify(title: str) -> str:
    """Turn a title into a slug, for example "Hello, World!" into "hello-world"."""
    return re.sub(r"[\\W_]+", "-", title.lower()).strip("-")
'''

BLOCKS = (
    Block(
        name="summarize",
        what="summarize a text of several pages",
        call=partial(summarize, SPEECH),
        is_right=lambda text: all(each in text for each in ("March", "2029", "2.00", "2.4")),
        facts=(
            said("The ferry to the island stops at the end of March 2027", what="its beginning"),
            said("to turn it into a library by 2029, at a cost of 2.4 million", what="its middle"),
            said("rises from 1.50 to 2.00 an hour on 1 January", what="its end"),
        ),
        answers=(
            returns(
                "The ferry to the island stops at the end of March 2027. The old granary becomes a library "
                "by 2029, "
                'for 2.4 million: "We will not sell the old granary", the mayor said.\nParking costs '
                "2.00 instead of 1.50 an hour from 1 January."
            ),
        ),
    ),
    Block(
        name="glossary",
        what="translate with a glossary, in an f-string block",
        call=partial(translate, MANUAL, GLOSSARY),
        is_right=lambda text: all(
            each in text
            for each in ("Werkzeugaufnahme", "Not-Halt", "Arbeitsspindel", "Werkstück", "Kühlschmierstoff")
        ),
        facts=(
            said("into German with"),
            said(MANUAL, what="the whole text"),
            said("Werkzeugaufnahme", "Not-Halt", "Arbeitsspindel", "Werkstück", "Kühlschmierstoff"),
        ),
        answers=(
            sets(
                translation="Drücken Sie vor dem Wechsel der Werkzeugaufnahme den Not-Halt, und warten "
                "Sie, bis die Arbeitsspindel stillsteht. Greifen Sie nie nach dem Werkstück, solange "
                "Kühlschmierstoff fließt.\n\nZiehen Sie den Futterschlüssel vom Spannfutter ab, bevor Sie "
                "die Schutzhaube schließen; mit offener Schutzhaube läuft die Maschine nicht an. Wählen "
                "Sie die Drehzahl am Drehschalter, mit der kleinsten beginnend. Stützen Sie das Werkstück "
                "mit dem Reitstock, wenn es länger als sein dreifacher Durchmesser ist. Prüfen Sie nach "
                "dem Spannen die Rundlaufabweichung.\n\nLeeren Sie am Ende des Tages die Spänewanne, und "
                "wischen Sie das Maschinenbett ab. Benutzen Sie keine Druckluft."
            ),
        ),
    ),
    Block(
        name="quotes",
        what="write a text of several lines with quotes and backslashes",
        call=partial(reply_to, COMPLAINT, "Tom"),
        is_right=lambda note: (
            '"C:\\Users\\me\\label.pdf"\n' in note.body and '"label.png"' in note.body and "Tom" in note.body
        ),
        facts=(
            fields("Note", subject="str", body="str"),
            said("there's no button", "who reads this?"),
            said("C:\\Users\\me\\label.pdf", '"label.png"', what="the names of the files"),
        ),
        answers=(
            sets(
                note={
                    "subject": "Your label",
                    "body": "Dear Nadia,\n\nI am sorry, the button is missing. "
                    'You tried:\n"C:\\Users\\me\\label.pdf"\n'
                    '"label.png"\n\nIt\'s me who reads this.\n\nTom',
                }
            ),
        ),
    ),
    Block(
        name="code",
        what="write source code",
        call=partial(write_function, FUNCTION_TASK),
        is_right=_works,
        facts=(said("slugify(title: str) -> str", "become one", "none at the ends", what="the task"),),
        answers=(returns(SLUGIFY),),
    ),
    Block(
        name="sql",
        what="write SQL for a schema",
        call=partial(
            write_query,
            SCHEMA,
            "What did customers from Norway pay in 2025, in all, and how many of them are there?",
        ),
        is_right=lambda query: query.parameters != {} and _found(query) == [(1_280, 2)],
        facts=(
            fields("Query", sql="str", parameters="dict[str, str | int]"),
            said("country CHAR(2) NOT NULL REFERENCES country", what="the table customer"),
            said("state IN ('open', 'paid', 'void')", what="the table purchase"),
            said("unit_cents INTEGER NOT NULL", what="the table purchase_line"),
        ),
        answers=(
            sets(
                query={
                    "sql": "SELECT sum(l.quantity * l.unit_cents), count(DISTINCT c.id)\nFROM customer c\n"
                    "JOIN purchase p ON p.customer_id = c.id\nJOIN purchase_line l ON l.purchase_id = p.id\n"
                    "WHERE c.country = :country AND p.state = 'paid' AND p.made_at >= :first AND p.made_at "
                    "< :after",
                    "parameters": {"country": "NO", "first": "2025-01-01", "after": "2026-01-01"},
                }
            ),
        ),
    ),
    Block(
        name="changelog",
        what="write Markdown from a list of objects",
        call=partial(write_changelog, COMMITS),
        is_right=lambda text: (
            all(word in text for word in ("Added", "Fixed", "Removed", "--follow", "3.9"))
            and "ruff" not in text.lower()
            and "typo" not in text.lower()
        ),
        facts=(said(*(commit.message for commit in COMMITS), what="all messages"),),
        answers=(
            returns(
                "### Added\n\n- `logs --follow` goes on until Ctrl-C.\n\n### Changed\n\n- Exports take half "
                "the time.\n\n"
                "### Fixed\n\n- No crash when a list of rows is empty.\n\n### Removed\n\n- Python 3.9.\n"
            ),
        ),
    ),
    Block(
        name="generator",
        what="yield what blocks set, one after the other",
        call=partial(answers_to, FAQ, RULES),
        is_right=lambda answers: (
            len(answers) == 3 and "30" in answers[0] and "es" in answers[1].lower() and answers[2] != ""
        ),
        facts=(said(RULES), said(FAQ[0])),
        answers=(
            sets(answer="30 days."),
            sets(answer="Yes, we do."),
            sets(answer="Only if you are a business."),
        ),
    ),
)
