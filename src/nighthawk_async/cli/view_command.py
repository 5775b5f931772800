"""`nighthawk-async view`: a recording that `observe.recording(to=…)` has written."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..observe import read_recording
from .tree_views import EXPORT, HOST, PAGE, PORT, print_tree, serve_tree, write_page


def view(
    file: Annotated[Path, typer.Argument(help="The file of the recording.", metavar="FILE")],
    export: EXPORT = None,
    page: PAGE = False,
    host: HOST = "127.0.0.1",
    port: PORT = 0,
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
    root = recording.snapshot()
    if export is not None:
        write_page(root, export, title=file.name, now=recording.until)
    if page:
        serve_tree(recording.tree, title=file.name, name="Recording", host=host, port=port)
    elif export is None and root.children:
        print_tree(root, now=recording.until)
    elif export is None:
        typer.echo("nothing was recorded")
