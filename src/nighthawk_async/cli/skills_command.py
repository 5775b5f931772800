"""`nighthawk-async skills`: checks folders of skills."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from .. import skills as skill_folders
from ..configuration import StepContextLimits
from ..prompt.tokens import TokenCounter
from .model_description import wide_console

skills = typer.Typer(help="Check folders of skills.", no_args_is_help=True)

_DEFAULT_LIMIT = StepContextLimits().skills_max_tokens


@skills.command("check")
def check_skills(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders of skills, and skills themselves.")
    ],
    max_tokens: Annotated[
        int, typer.Option(help="The tokens that all names and descriptions may have (skills_max_tokens).")
    ] = _DEFAULT_LIMIT,
) -> None:
    """Check skills, and print their sizes.

    The exit code is 1 when there is a fault, or when the names and descriptions are too long.
    """
    from ..skills.scope import skill_line, skill_list  # here, because most commands need no skills

    try:
        loaded = skill_folders.load(*folders)
    except skill_folders.SkillsError as error:
        for fault in error.faults:
            typer.echo(str(fault))
        count = len(error.faults)
        typer.echo(f"Found {count} fault{'s' if count > 1 else ''}.")
        raise typer.Exit(1) from None
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    lines = {name: counter.count(skill_line(skill)) for name, skill in loaded.items()}
    wide_console().print(_table(loaded, lines, counter))
    total = counter.count(skill_list(loaded))
    typer.echo(f"The names and descriptions have {total:,} tokens; the most is {max_tokens:,}.")
    if total > max_tokens:
        raise typer.Exit(1)


def _table(
    loaded: Mapping[str, "skill_folders.Skill"], lines: Mapping[str, int], counter: TokenCounter
) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("SKILL", "TOKENS IN LIST", "TOKENS OF TEXT", "FILES", "BYTES", "ALLOWED TOOLS"):
        table.add_column(heading, justify="left" if heading in ("SKILL", "ALLOWED TOOLS") else "right")
    for name, skill in loaded.items():
        table.add_row(
            name,
            f"{lines[name]:,}",
            f"{counter.count(skill.text):,}",
            f"{len(skill.files):,}",
            f"{sum(skill.files.values()):,}",
            escape(" ".join(each.text for each in skill.allowed_tools)) or "all",
        )
    return table
