"""`nighthawk-async journal verify`, `prune` and `reencrypt`: the care of a store."""

import re
from datetime import timedelta
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..journal import JournalAuditError
from .journal_commands import STORE, check_run
from .journal_store import open_store

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_care_commands(journal: typer.Typer) -> None:
    """Add the commands to the group.

    Args:
        journal: The group `nighthawk-async journal`.
    """
    journal.command("verify")(verify_runs)
    journal.command("prune")(prune_runs)
    journal.command("reencrypt")(reencrypt_runs)


def verify_runs(
    store: STORE,
    run: Annotated[
        str | None, typer.Argument(help="The id of a run; all runs without it.", metavar="RUN")
    ] = None,
) -> None:
    """Check that no record was changed, removed or inserted. The exit code is 1 when one was."""
    failures = verified = records = unlinked = 0
    with open_store(store) as opened:
        if run is not None:
            check_run(opened, run)
        for run_id in [row.run_id for row in opened.runs()] if run is None else [run]:
            try:
                (checked,) = opened.verify(run_id)
            except JournalAuditError as error:
                failures += 1
                typer.echo(str(error))
                continue
            verified += 1
            records += 0 if checked.is_pruned else checked.records
            unlinked += not checked.is_linked
    typer.echo(f"{_counted(verified, 'run')} with {_counted(records, 'record')} verified")
    if unlinked:
        typer.echo(f"{_counted(unlinked, 'run')} of an earlier version without a chain")
    if failures:
        typer.echo(f"{_counted(failures, 'run')} with records that do not fit")
        raise typer.Exit(1)


def prune_runs(
    store: STORE,
    older: Annotated[
        str, typer.Option("--older", help="The time since the runs have ended: 30d, 12h, 2w.", metavar="TIME")
    ],
    failed: Annotated[
        bool, typer.Option("--failed", help="Prune runs that failed or were cancelled, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
) -> None:
    """Delete the records of runs that have ended. The list of runs keeps them."""
    statuses = ("ended", "failed", "cancelled") if failed else ("ended",)
    with open_store(store) as opened:
        report = opened.prune(_duration(older), statuses=statuses, dry_run=dry_run)
    if dry_run:
        for run_id in report.runs:
            typer.echo(run_id)
    verb = "would be pruned" if dry_run else "pruned"
    typer.echo(
        f"{_counted(len(report.runs), 'run')} {verb}: {_counted(report.records, 'record')}, "
        f"{_counted(report.messages, 'message')}"
        + (f", {_counted(report.queue_entries, 'call')} of queues" if report.queue_entries else "")
        + (f", {_counted(report.questions, 'question')}" if report.questions else "")
        + (f", {_counted(report.topic_messages, 'message')} of topics" if report.topic_messages else "")
        + (f", {_counted(report.blobs, 'large body', 'large bodies')}" if report.blobs else "")
    )
    if not report.releases_space:
        typer.echo(
            "The file was made by an earlier version and keeps its size; later records use the space. To "
            'shrink it, stop all programs and run: sqlite3 FILE "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"'
        )


def reencrypt_runs(store: STORE) -> None:
    """Encrypt and chain everything anew, with the first key. Stop all programs that use the journal first."""
    with open_store(store) as opened:
        typer.echo(f"{_counted(opened.reencrypt(), 'run')} written anew")


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if match is None:
        raise ConfigurationError(f"{text!r} is no time; write 30d, 12h, 90m, 2w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _counted(count: int, word: str, plural: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else plural or f'{word}s'}"
