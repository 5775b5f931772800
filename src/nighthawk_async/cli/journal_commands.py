"""`nighthawk-async journal`: the runs of a store, and the records of one."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..errors import ConfigurationError
from ..journal import JournalStore, TopicRow
from ..journal.topic_rows import status_of
from ..journal.topic_table import read_messages
from .journal_store import open_store
from .model_description import wide_console

journal = typer.Typer(help="Show, replay, check and prune durable runs.", no_args_is_help=True)

STORE = Annotated[str, typer.Argument(help="The file or the address of the journal.", metavar="STORE")]
RUN = Annotated[str, typer.Argument(help="The id of the run.", metavar="RUN")]


@journal.command("list")
def list_runs(store: STORE) -> None:
    """List the runs of a journal."""
    with open_store(store) as opened:
        rows = opened.runs()
    if not rows:
        typer.echo("no runs")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("RUN", "STATUS", "LIVES", "BEGAN", "CHANGED", "ERROR"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            escape(row.run_id),
            row.status if row.pruned_at is None else f"{row.status}, pruned",
            str(row.lives),
            time_text(row.created_at),
            time_text(row.updated_at),
            escape(row.error.partition("\n")[0]),
        )
    wide_console().print(table)


@journal.command("queue")
def list_entries(store: STORE) -> None:
    """List the calls that were enqueued, in that order."""
    with open_store(store) as opened:
        entries = opened.queue_entries()
    if not entries:
        typer.echo("no calls")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("RUN", "QUEUE", "FUNCTION", "STATUS", "PRIORITY", "DUE", "LIVES", "LOST"):
        table.add_column(heading)
    for entry in entries:
        table.add_row(
            escape(entry.run_id),
            escape(entry.queue),
            escape(entry.function),
            f"{entry.status}, suspect" if entry.is_suspect else entry.status,
            str(entry.priority),
            time_text(entry.due_at),
            f"{entry.lives} of {entry.max_lives}",
            f"{entry.losses}, {entry.losses_alone} alone" if entry.losses else "",
        )
    wide_console().print(table)


@journal.command("topics")
def list_topics(
    store: STORE,
    topic: Annotated[
        str | None, typer.Argument(help="A topic, to list its messages.", metavar="TOPIC")
    ] = None,
) -> None:
    """List the topics and their subscriptions, or the messages of one topic without their values."""
    with open_store(store) as opened:
        topics = opened.topics()
        if topic is not None and topic not in [each.name for each in topics]:
            known = ", ".join(each.name for each in topics[:20]) or "none"
            raise ConfigurationError(f"{opened.address} has no topic {topic!r}; its topics: {known}")
        rows = _subscription_rows(topics) if topic is None else _message_rows(opened, topic)
    if not topics:
        typer.echo("no topics")
        return
    headings = ("TOPIC", "MESSAGES", "FUNCTION", "QUEUE", "BATCH", "WAITING", "STUCK")
    table = Table(box=None, pad_edge=False)
    for heading in headings if topic is None else ("NUMBER", "ID", "PUBLISHED", "STATUS", "RUNS"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(escape, row))
    wide_console().print(table)


def _subscription_rows(topics: Sequence[TopicRow]) -> Iterator[tuple[str, ...]]:
    for topic in topics:
        start = topic.name, str(topic.messages)
        if not topic.subscriptions:
            yield *start, "", "", "", "", ""
        for each in topic.subscriptions:
            options = each.options
            batch = [
                *(["" if options.count is None else f"{options.count:,}"] if options.is_batch else []),
                "" if options.window is None else f"{options.window:g} s",
                "" if options.key is None else f"by {options.key}",
            ]
            shown = ", ".join(filter(None, batch))
            yield *start, each.function, each.queue, shown, str(each.waiting), str(each.stuck)


def _message_rows(store: JournalStore, topic: str) -> list[tuple[str, ...]]:
    stored = store.thread.perform(lambda: read_messages(store.thread.opened(), topic, 0)).wait_in_thread()
    return [
        (
            str(each.number),
            each.id,
            time_text(each.at),
            status_of(each.deliveries),
            ", ".join(sorted({delivery.run_id for delivery in each.deliveries if delivery.run_id})),
        )
        for each in stored
    ]


@journal.command("budgets")
def list_budgets(store: STORE) -> None:
    """List the budgets that processes share through the journal, and what they have left."""
    with open_store(store) as opened:
        rows = opened.budgets()
    if not rows:
        typer.echo("no budgets")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("BUDGET", "LIMIT", "SPENT", "RESERVED", "LEFT", "IN"):
        table.add_column(heading)
    for row in rows:
        for window in row.windows:
            table.add_row(
                escape(row.name),
                f"{window.limit:,} {'US dollars' if window.resource == 'cost' else window.resource}",
                f"{window.spent:,}",
                f"{window.reserved:,}",
                f"{window.remaining:,}",
                window.window,
            )
    wide_console().print(table)


@journal.command("export")
def export_run(
    store: STORE,
    run: RUN,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            help="The file to write; standard output without it. With the ending .journal, a store with this "
            "run alone, for nighthawk_async.testing.replay.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Write the records of a run as lines of JSON, without secrets that are known by their name or form."""
    with open_store(store) as opened:
        check_run(opened, run)
        if to is not None and to.suffix == ".journal":
            opened.copy(run, to)
            return
        lines = "".join(f"{line}\n" for line in opened.export(run))
    if to is None:
        typer.echo(lines, nl=False)
        return
    try:
        to.write_text(lines, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{to}: {error.strerror or error}") from error


def check_run(store: JournalStore, run: str) -> None:
    """Check that a store has a run.

    Raises:
        ConfigurationError: It has none of this id.
    """
    runs = [row.run_id for row in store.runs()]
    if run not in runs:
        known = ", ".join(runs[:20]) or "none"
        raise ConfigurationError(f"{store.address} has no run {run!r}; its runs: {known}")


def time_text(seconds: float) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
