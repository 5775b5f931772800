"""`nighthawk-async journal`: the runs of a store, and the records of one."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.markup import escape
from rich.table import Table

from ..errors import ConfigurationError
from ..journal import JournalStore
from ..journal import open as open_journal
from ..journal.description import describe_record
from .model_description import wide_console

journal = typer.Typer(help="The runs of a journal and their records.", no_args_is_help=True)

_FILE = Annotated[Path, typer.Argument(help="The file of the journal.", metavar="FILE")]
_RUN = Annotated[str, typer.Argument(help="The id of the run.", metavar="RUN")]


@journal.command("list")
def list_runs(file: _FILE) -> None:
    """List the runs of a journal."""
    with _store(file) as store:
        rows = store.runs()
    if not rows:
        typer.echo("no runs")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("RUN", "STATUS", "LIVES", "BEGAN", "CHANGED", "ERROR"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            escape(row.run_id),
            row.status,
            str(row.lives),
            _time(row.created_at),
            _time(row.updated_at),
            escape(row.error.partition("\n")[0]),
        )
    wide_console().print(table)


@journal.command("show")
def show_run(
    file: _FILE,
    run: _RUN,
) -> None:
    """Show the records of a run, in order: the time, the life, the kind, the place, the content."""
    with _store(file) as store:
        _check_run(store, file, run)
        records = store.records(run)
    for record in records:
        content = describe_record(record)
        line = f"{_time(record.at)}  {record.epoch:>3}  {record.kind:<8}  {record.place}"
        typer.echo(f"{line}  {content}" if content else line)


@journal.command("export")
def export_run(
    file: _FILE,
    run: _RUN,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The file to write; standard output without it.", metavar="FILE"),
    ] = None,
) -> None:
    """Write the records of a run as lines of JSON, without secrets that are known by their name or form."""
    with _store(file) as store:
        _check_run(store, file, run)
        lines = "".join(f"{line}\n" for line in store.export(run))
    if to is None:
        typer.echo(lines, nl=False)
        return
    try:
        to.write_text(lines, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{to}: {error.strerror or error}") from error


def _check_run(store: JournalStore, file: Path, run: str) -> None:
    runs = [row.run_id for row in store.runs()]
    if run not in runs:
        known = ", ".join(runs[:20]) or "none"
        raise ConfigurationError(f"{file} has no run {run!r}; its runs: {known}")


def open_journal_file(file: Path) -> JournalStore:
    """Open the journal in a file, which may be new."""
    return open_journal(f"sqlite:///{quote(str(file))}")


def _store(file: Path) -> JournalStore:
    if not file.is_file():
        raise ConfigurationError(f"{file}: No such file")
    return open_journal_file(file)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
