"""`nighthawk-async top`: a view of a running service in the terminal."""

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from ..errors import ConfigurationError, NighthawkError
from ..lazy_exports import LazyModule

if TYPE_CHECKING:
    from . import top_app, top_client
else:
    top_app = LazyModule("nighthawk_async.cli.top_app")  # needs the extra
    top_client = LazyModule("nighthawk_async.cli.top_client")  # other commands need no HTTP


def top(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the service's dashboard.")],
    token: Annotated[
        str | None,
        typer.Option(envvar="NIGHTHAWK_DASHBOARD_TOKEN", help="The dashboard's token, to act on nodes."),
    ] = None,
) -> None:
    """Watch a running service through its dashboard, and act on it."""
    if find_spec("textual") is None:
        raise ConfigurationError(
            "This needs the extra 'top'. Install it with: pip install 'nighthawk-async[top]'"
        )
    checked, checked_token = top_client.checked_url(url), top_client.checked_token(token)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise NighthawkError("This needs a terminal.")
    anyio.run(_show, checked, checked_token, backend="asyncio")


async def _show(url: str, token: str | None) -> None:
    async with top_client.DashboardClient(url, token) as client:
        failure = await top_app.TopApp(client, url).run_async()
    if failure is not None:
        raise ConfigurationError(
            f"{url}: {failure}. Give the address at which the dashboard is mounted, "
            "such as http://127.0.0.1:8000/dashboard"
        )
