"""Blocks that change objects, join records and look at pictures."""

from functools import partial

import nighthawk_async as nh

from ..block import Block, goes_on, returns, sets
from ..data.changing import (
    CRM_RECORD,
    GUESTS,
    MEETING_NOTES,
    NEW_HOURS,
    PERSONAL_MAIL,
    SETTINGS,
    SHOP_RECORD,
    Board,
    Color,
    Customer,
    Guest,
    Hours,
    Settings,
    old_hours,
    picture_of_red,
    project_board,
)
from ..facts import fields, members, said, signature

__all__ = ["BLOCKS"]


@nh.natural_function
async def update_board(board: Board, notes: str) -> Board:
    """natural
    ---
    deny: [return, raise]
    ---
    Bring <board> up to date with the <notes> of the meeting.
    """
    return board


@nh.natural_function
async def merge_customers(older: Customer, newer: Customer) -> Customer:
    """natural
    <older> and <newer> are the same customer. Merge them: newer data wins, names are written in full,
    addresses of
    mail in small letters; tags of both without those of fairs; one sentence of notes.
    """


@nh.natural_function
async def find_duplicates(guests: list[Guest]) -> list[list[int]]:
    """natural
    Some of <guests> are there twice, spelled differently. Return the ids of each such group.
    """


@nh.natural_function
async def change_settings(settings: Settings, wish: str) -> Settings:
    """natural
    Change <:settings> as <wish> says and leave the rest of <settings> as it is.
    """
    return settings


@nh.natural_function
async def change_hours(hours: dict[str, Hours], notice: str) -> dict[str, Hours]:
    """natural
    Set <:hours> to the opening hours in <notice>, with the keys of <hours>.
    """
    return hours


@nh.natural_function
async def redact(mail: str) -> tuple[str, list[str]]:
    removed: list[str]
    """natural
    Replace names, dates of birth, numbers of cards, phone numbers and addresses of mail in <mail> by [NAME],
    [BIRTH], [CARD], [PHONE] and [MAIL]. Set <:mail> to the result, which is otherwise unchanged, and
    <:removed>
    to what was replaced, in its order.
    """
    return mail, removed


@nh.natural_function
async def color_of(picture: nh.BinaryContent) -> Color:
    """natural
    Which color has <picture>?
    """


def _redacted(mail: str) -> str:
    for secret, word in (
        ("Gregor Haas", "[NAME]"),
        ("14.02.1980", "[BIRTH]"),
        ("4556 7375 8689 9855", "[CARD]"),
        ("+43 660 1234567", "[PHONE]"),
        ("Ilse", "[NAME]"),
        ("ilse.haas@post.example", "[MAIL]"),
        ("Gregor", "[NAME]"),
    ):
        mail = mail.replace(secret, word)
    return mail


def _is_up_to_date(board: Board) -> bool:
    login, dark, orders, *more = board.cards
    return (
        login.is_done
        and dark.assignee is None
        and orders.assignee == "Piet"
        and [card.assignee for card in more] == ["Joao"]
    )


OPEN_DAY, SHORT_DAY, CLOSED_DAY = (
    {"opens": "09:00", "closes": "18:00"},
    {"opens": "09:00", "closes": "14:00"},
    {"opens": None, "closes": None},
)

BLOCKS = (
    Block(
        name="edit-in-place",
        what="change an object by its methods and fields",
        call=lambda: update_board(project_board(), MEETING_NOTES),
        is_right=_is_up_to_date,
        facts=(
            said("Login page", "Dark mode", "Import of old orders", what="the cards"),
            fields("Card", title="str", assignee="str", is_done="bool"),
            signature("add", "title: str", "assignee: str", result="Card"),
            said("finished the login page", "Joao wants to do that"),
        ),
        answers=(
            goes_on(
                assignments={
                    "board.cards": "[type(c)(c.title, {'Dark mode': None, 'Import of old orders': 'Piet'}"
                    ".get(c.title, c.assignee), c.labels, c.title == 'Login page') for c in board.cards]"
                },
                evaluations=["board.add('Translate the help pages', assignee='Joao')"],
            ),
        ),
    ),
    Block(
        name="merge",
        what="merge two objects",
        call=partial(merge_customers, CRM_RECORD, SHOP_RECORD),
        is_right=lambda customer: (
            customer.name == "Marta Castellano"
            and customer.email == "marta@castellano.example"
            and customer.phone == "+39 06 5550 1234"
            and customer.plan == "enterprise"
            and set(customer.tags) == {"newsletter", "invoice-by-mail"}
        ),
        facts=(
            members("plan", "free", "pro", "enterprise"),
            fields("Customer", name="str", email="str", phone="str", tags="list[str]", notes="str"),
            said("M. Castellano", "Asked about single sign-on", "fair-2025", what="the older record"),
            said("+39 06 5550 1234", "wants SSO", "invoice-by-mail", what="the newer record"),
        ),
        answers=(
            returns(
                {
                    "name": "Marta Castellano",
                    "email": "marta@castellano.example",
                    "phone": "+39 06 5550 1234",
                    "plan": "enterprise",
                    "tags": ["newsletter", "invoice-by-mail"],
                    "notes": "Signed in October and wants single sign-on.",
                }
            ),
        ),
    ),
    Block(
        name="deduplicate",
        what="find records that mean the same",
        call=partial(find_duplicates, GUESTS),
        is_right=lambda groups: sorted(map(sorted, groups)) == [[1, 3], [2, 5], [4, 7]],
        facts=(
            said(*(guest["name"] for guest in GUESTS), what="all names"),
            said(*(guest["company"] for guest in GUESTS), what="all companies"),
        ),
        answers=(returns([[1, 3], [2, 5], [4, 7]]),),
    ),
    Block(
        name="settings",
        what="change some keys of a dictionary",
        call=lambda: change_settings(
            {**SETTINGS}, "Bigger letters, say 14, for my tired eyes; dark; never autosave."
        ),
        is_right=lambda settings: (
            settings == {"theme": "dark", "font_size": 14, "autosave_seconds": None, "rulers": [80]}
        ),
        facts=(
            members("theme", "light", "dark", "contrast"),
            fields("Settings", font_size="int", autosave_seconds="int", rulers="list[int]"),
            said("say 14, for my tired eyes; dark; never autosave"),
        ),
        answers=(
            sets(settings={"theme": "dark", "font_size": 14, "autosave_seconds": None, "rulers": [80]}),
        ),
    ),
    Block(
        name="mapping",
        what="set a dictionary of models",
        call=lambda: change_hours(old_hours(), NEW_HOURS),
        is_right=lambda hours: (
            hours["mon"].opens is None
            and hours["sun"].closes is None
            and hours["sat"].closes == "14:00"
            and all(
                hours[day] == Hours(opens="09:00", closes="18:00") for day in ("tue", "wed", "thu", "fri")
            )
        ),
        facts=(
            fields("Hours", opens="str", closes="str"),
            said("mon", "tue", "wed", "thu", "fri", "sat", "sun", what="the keys"),
            said(r"\d\d:\d\d", what="the form of a time"),
            said("Mondays and Sundays we are closed"),
        ),
        answers=(
            sets(
                hours={
                    "mon": CLOSED_DAY,
                    **dict.fromkeys(("tue", "wed", "thu", "fri"), OPEN_DAY),
                    "sat": SHORT_DAY,
                    "sun": CLOSED_DAY,
                }
            ),
        ),
    ),
    Block(
        name="redact",
        what="redact a text and say what was taken out",
        call=partial(redact, PERSONAL_MAIL),
        is_right=lambda result: (
            "4556" not in result[0]
            and "Haas" not in result[0]
            and "55-1207" in result[0]
            and len(result[1]) >= 6
        ),
        facts=(
            fields("the variables", mail="str", removed="list[str]"),
            said(PERSONAL_MAIL.strip(), what="the whole mail"),
        ),
        answers=(
            sets(
                mail=_redacted(PERSONAL_MAIL),
                removed=[
                    "Gregor Haas",
                    "14.02.1980",
                    "4556 7375 8689 9855",
                    "+43 660 1234567",
                    "Ilse",
                    "ilse.haas@post.example",
                    "Gregor",
                ],
            ),
        ),
    ),
    Block(
        name="picture",
        what="look at a picture",
        call=lambda: color_of(nh.BinaryContent(data=picture_of_red(), media_type="image/png")),
        is_right=lambda color: color == "red",
        facts=(
            members("Color", "red", "green", "blue", "yellow", "none of these"),
            said("data:image/png;base64,", what="the picture"),
        ),
        answers=(returns("red"),),
    ),
)
