"""`nighthawk-async journal show` and `tail`: runs as a tree, and their records as they come."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import nighthawk_async as nh

from ..errors import ConfigurationError
from ..journal import JournalStore, Record
from ..journal.description import describe_record
from ..journal.records import begins_life
from ..journal.run_tree import records_until
from ..observe import NodeView, view_as_page, view_as_text
from .dashboard_command import allowed_hosts, load_server, serve_page
from .journal_commands import RUN, STORE, check_run, time_text
from .journal_store import open_store

_LEAST_WIDTH = 40  # of a line of text, in characters
_WIDTH_OF_FILES = 110  # of a line in a file or pipe
_POLL_SECONDS = 0.5


def add_views(journal: typer.Typer) -> None:
    """Add the commands to the group.

    Args:
        journal: The group `nighthawk-async journal`.
    """
    journal.command("show")(show_run)
    journal.command("tail")(tail_runs)


def show_run(
    store: STORE,
    run: RUN,
    records: Annotated[
        bool, typer.Option("--records", help="Show the records, one line each, in place of the tree.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            help="The moment to show: the number of a record, a time (2026-01-31T12:00, UTC), or a place."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the page of the dashboard to one file, which opens without a server.", metavar="FILE"
        ),
    ] = None,
    page: Annotated[bool, typer.Option("--page", help="Serve the page of the dashboard instead.")] = False,
    host: Annotated[str, typer.Option(help="With --page: the address to serve on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="With --page: the port; 0 for any that is free.")
    ] = 0,
) -> None:
    """Show a run as a tree, now or at any moment, as observers saw it while it ran."""
    with open_store(store) as opened:
        check_run(opened, run)
        found = opened.records(run)
        shown = found if at is None else records_until(found, at)
        if records:
            for record in shown:
                typer.echo(_line(record))
            return
        tree = opened.tree(run, at=at)
    root = tree.snapshot()
    if export is not None:
        _export(root, export, title=run)
    if page:
        uvicorn = load_server()
        dashboard = nh.asgi.Dashboard(tree, allowed_hosts=allowed_hosts(host), title=run)
        serve_page(
            uvicorn, dashboard, dashboard, host=host, port=port, announce=lambda address: f"Run: {address}/"
        )
    elif export is None:
        _print_tree(root)
        for line in _describe_lives(shown):
            typer.echo(line)


def _print_tree(root: NodeView) -> None:
    console = Console()
    width = max(_LEAST_WIDTH, console.width) if console.is_terminal else _WIDTH_OF_FILES
    run = root.children[0]
    until = max((node.ended_at or node.began_at for node in run.walk()), default=run.began_at)
    typer.echo(view_as_text(root, width=width, is_ascii=console.options.ascii_only, now=until, outputs=True))


def _export(root: NodeView, path: Path, *, title: str) -> None:
    try:
        path.write_text(view_as_page(root, title=title), encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    typer.echo(f"Page: {path}")


def _describe_lives(records: Sequence[Record]) -> list[str]:
    """A line for each life of a run that has had several; none for a run with one."""
    begun = [*filter(begins_life, records)]
    if len(begun) < 2:
        return []
    return [f"life {record.epoch} began {time_text(record.at)} with record {record.seq}" for record in begun]


def _line(record: Record) -> str:
    content = describe_record(record)
    line = f"{record.seq:>5}  {time_text(record.at)}  {record.epoch:>3}  {record.kind:<8}  {record.place}"
    return f"{line}  {content}" if content else line


def tail_runs(
    store: STORE,
    run: Annotated[
        str | None, typer.Argument(help="The id of the run; all without it.", metavar="RUN")
    ] = None,
    lines: Annotated[
        int,
        typer.Option("--lines", "-n", min=0, help="The number of records to show of those that are there."),
    ] = 10,
) -> None:
    """Show the records of a run, or of all runs, as they are written. Ctrl-C ends it."""
    with open_store(store) as opened:
        if run is not None:
            check_run(opened, run)
        try:
            for run_id, record in _follow(opened, run, lines):
                typer.echo(_line(record) if run is not None else f"{run_id}  {_line(record)}")
                sys.stdout.flush()
        except KeyboardInterrupt:
            return


def _follow(store: JournalStore, run: str | None, lines: int) -> Iterator[tuple[str, Record]]:
    """Yield the latest records, and each new one, without an end."""
    known: dict[str, tuple[object, ...]] = {}
    seen: dict[str, int] = {}
    is_first = True
    while True:
        found: list[tuple[str, Record]] = []
        for row in store.runs():
            state = (row.updated_at, row.status, row.lives)
            is_same = known.get(row.run_id) == state and row.status != "running"
            if is_same or run not in (None, row.run_id):
                continue
            known[row.run_id] = state
            new = store.records(row.run_id, after=seen.get(row.run_id, 0))
            found += ((row.run_id, record) for record in new)
            if new:
                seen[row.run_id] = new[-1].seq
        found.sort(key=lambda each: each[1].at)
        yield from found[max(0, len(found) - lines) :] if is_first else found
        is_first = False
        time.sleep(_POLL_SECONDS)
