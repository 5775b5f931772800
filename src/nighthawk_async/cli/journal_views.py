"""`nighthawk-async journal show` and `tail`: runs as a tree, and their records as they come."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from ..journal import JournalStore, Record
from ..journal.description import describe_record
from ..journal.records import begins_life
from ..journal.run_tree import records_until
from .journal_commands import RUN, STORE, check_run, time_text
from .journal_store import open_store
from .tree_views import EXPORT, HOST, PAGE, PORT, print_tree, serve_tree, write_page

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
    export: EXPORT = None,
    page: PAGE = False,
    host: HOST = "127.0.0.1",
    port: PORT = 0,
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
        write_page(root, export, title=run)
    if page:
        serve_tree(tree, title=run, name="Run", host=host, port=port)
    elif export is None:
        node = root.children[0]
        until = max((each.ended_at or each.began_at for each in node.walk()), default=node.began_at)
        print_tree(root, now=until, outputs=True)
        for line in _describe_lives(shown):
            typer.echo(line)


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
