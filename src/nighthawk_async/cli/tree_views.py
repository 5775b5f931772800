"""Trees that commands show: in the terminal, as the page of the dashboard, or as that page in a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import nighthawk_async as nh

from ..errors import ConfigurationError
from ..observe import NodeView, TaskTree, view_as_page, view_as_text
from .dashboard_command import allowed_hosts, load_server, serve_app

EXPORT = Annotated[
    Path | None,
    typer.Option(
        help="Write the page of the dashboard to one file, which opens without a server.", metavar="FILE"
    ),
]
PAGE = Annotated[bool, typer.Option("--page", help="Serve the page of the dashboard instead.")]
HOST = Annotated[str, typer.Option(help="With --page: the address to serve on.")]
PORT = Annotated[int, typer.Option(min=0, max=65_535, help="With --page: the port; 0 for any that is free.")]

_LEAST_WIDTH = 40  # of a line of text, in characters
_WIDTH_OF_FILES = 110  # of a line in a file or pipe


def print_tree(root: NodeView, *, now: float, outputs: bool = False) -> None:
    """Print a tree.

    Args:
        root: Its root.
        now: The time until which running nodes are shown, in seconds since 1970.
        outputs: Whether to show the outputs of nodes.
    """
    console = Console()
    width = max(_LEAST_WIDTH, console.width) if console.is_terminal else _WIDTH_OF_FILES
    is_ascii = console.options.ascii_only
    typer.echo(view_as_text(root, width=width, is_ascii=is_ascii, now=now, outputs=outputs))


def write_page(root: NodeView, path: Path, *, title: str, now: float | None = None) -> None:
    """Write the page of a tree to a file, and print where it is.

    Args:
        root: Its root.
        path: The file.
        title: The title of the page.
        now: The time until which running nodes are shown, in seconds since 1970; None for the present time.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        path.write_text(view_as_page(root, title=title, now=now), encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    typer.echo(f"Page: {path}")


def serve_tree(tree: TaskTree, *, title: str, name: str, host: str, port: int) -> None:
    """Serve the page of a tree until Ctrl-C.

    Args:
        tree: The tree.
        title: The title of the page.
        name: The word for the tree in the line with its address.
        host: The address to serve on.
        port: The port; 0 for any that is free.
    """
    uvicorn = load_server()
    dashboard = nh.asgi.Dashboard(tree, allowed_hosts=allowed_hosts(host), title=title)
    serve_app(
        uvicorn,
        dashboard,
        dashboard.end_streams,
        host=host,
        port=port,
        announce=lambda address: f"{name}: {address}/",
    )
