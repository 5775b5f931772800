"""`nighthawk-async view`: a recording that `observe.recording(to=…)` has written."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import nighthawk_async as nh

from ..errors import ConfigurationError
from ..observe import Recording, read_recording, view_as_page, view_as_text
from .dashboard_command import allowed_hosts, load_server, serve_page

_LEAST_WIDTH = 40  # of a line of text, in characters
_WIDTH_OF_FILES = 110  # of a line in a file or pipe


def view(
    file: Annotated[Path, typer.Argument(help="The file of the recording.", metavar="FILE")],
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
    """Show a recording of a program: as a tree in the terminal, or as the page of the dashboard."""
    try:
        recording = read_recording(file)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror or error}") from error
    if not recording.is_complete:
        typer.echo(
            f"nighthawk-async: {file} ends before its program did, or the program still runs", err=True
        )
    if export is not None:
        _export(recording, export, title=file.name)
    if page:
        _serve(recording, file, host, port)
        return
    if export is None:
        _print_tree(recording)


def _export(recording: Recording, path: Path, *, title: str) -> None:
    text = view_as_page(recording.snapshot(), title=title, now=recording.until)
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    typer.echo(f"Page: {path}")


def _print_tree(recording: Recording) -> None:
    root = recording.snapshot()
    if not root.children:
        typer.echo("nothing was recorded")
        return
    console = Console()
    width = max(_LEAST_WIDTH, console.width) if console.is_terminal else _WIDTH_OF_FILES
    typer.echo(view_as_text(root, width=width, is_ascii=console.options.ascii_only, now=recording.until))


def _serve(recording: Recording, file: Path, host: str, port: int) -> None:
    uvicorn = load_server()
    dashboard = nh.asgi.Dashboard(recording.tree, allowed_hosts=allowed_hosts(host), title=file.name)
    serve_page(
        uvicorn, dashboard, dashboard, host=host, port=port, announce=lambda address: f"Recording: {address}/"
    )
