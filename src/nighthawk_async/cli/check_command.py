"""The command `check`: natural functions are checked without running them."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from ..errors import ConfigurationError
from ..natural.checking import Finding, check_paths


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files, and folders to search.")],
    output_format: Annotated[
        Literal["concise", "json"], typer.Option(help="The format: that of ruff, or JSON.")
    ] = "concise",
) -> None:
    """Check natural functions without running them.

    The exit code is 1 when there is a mistake, and 0 when there are only notes.
    """
    try:
        findings = check_paths(paths)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: {error.strerror}") from error
    if output_format == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode([_as_json(each) for each in findings])).decode())
    else:
        for each in findings:
            typer.echo(str(each))
    mistakes = [each for each in findings if each.severity != "note"]
    if output_format == "concise":
        count = len(mistakes)
        typer.echo(f"Found {count} mistake{'s' if count > 1 else ''}." if mistakes else "All checks passed!")
    sys.stdout.flush()
    if mistakes:
        raise typer.Exit(1)


def _as_json(finding: Finding) -> dict[str, object]:
    """A finding with the names that ruff's JSON has."""
    return {
        "code": finding.code,
        "filename": finding.filename,
        "location": {"row": finding.line, "column": finding.column},
        "end_location": {"row": finding.last_line},
        "message": finding.message,
        "severity": finding.severity,
    }
