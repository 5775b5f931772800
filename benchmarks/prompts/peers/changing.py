"""Agents written by hand that change objects, join records and look at pictures."""

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, RunContext

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
    Hours,
    Settings,
    old_hours,
    picture_of_red,
    project_board,
)
from .asking import Asked, as_json, called

__all__ = ["ASKED"]


class Redacted(BaseModel):
    """A mail without personal data."""

    mail: str
    removed: list[str]


def add_card(run: RunContext[Board], title: str, assignee: str | None = None) -> None:
    """Add a task at the end."""
    run.deps.add(title, assignee=assignee)


def change_card(
    run: RunContext[Board], title: str, assignee: str | None = None, is_done: bool | None = None
) -> None:
    """Change a task; an empty assignee takes it off somebody."""


ASKED = {
    "edit-in-place": Asked(
        Agent(
            deps_type=Board,
            output_type=str,
            tools=[add_card, change_card],
            instructions="Bring the board up to date with the notes of the meeting.",
        ),
        f"Board: {as_json(project_board())}\n\nNotes:\n{MEETING_NOTES}",
        project_board(),
        [
            [
                called("change_card", title="Login page", is_done=True),
                called("change_card", title="Dark mode", assignee=""),
                called("change_card", title="Import of old orders", assignee="Piet"),
                called("add_card", title="Translate the help pages", assignee="Joao"),
            ]
        ],
    ),
    "merge": Asked(
        Agent(
            output_type=Customer,
            instructions="Both records are the same customer. Merge them: newer data wins, names are "
            "written in full, addresses of mail in small letters; tags of both without those of fairs; one "
            "sentence of notes.",
        ),
        f"Older: {as_json(CRM_RECORD)}\nNewer: {as_json(SHOP_RECORD)}",
    ),
    "deduplicate": Asked(
        Agent(
            output_type=list[list[int]],
            instructions="Some guests are there twice, spelled differently. Return the ids of each such "
            "group.",
        ),
        as_json(GUESTS),
    ),
    "settings": Asked(
        Agent(
            output_type=Settings,
            instructions="Change the settings as the wish says and leave the rest as it is.",
        ),
        f"Settings: {as_json(SETTINGS)}\nWish: Bigger letters, say 14, for my tired eyes; dark; never "
        f"autosave.",
    ),
    "mapping": Asked(
        Agent(
            output_type=dict[str, Hours],
            instructions="Return the opening hours in the notice, with the keys of the present hours.",
        ),
        f"Present hours: {as_json(old_hours())}\nNotice: {NEW_HOURS}",
    ),
    "redact": Asked(
        Agent(
            output_type=Redacted,
            instructions="Replace names, dates of birth, numbers of cards, phone numbers and addresses of "
            "mail by [NAME], [BIRTH], [CARD], [PHONE] and [MAIL]. Return the mail, which is otherwise "
            "unchanged, and what was replaced, in its order.",
        ),
        PERSONAL_MAIL,
    ),
    "picture": Asked(
        Agent(output_type=Color, instructions="Which color has the picture?"),
        [BinaryContent(data=picture_of_red(), media_type="image/png")],
    ),
}
