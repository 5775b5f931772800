"""`nighthawk-async top`: a view of a running service, or of the runs of a store, in the terminal."""

import sys
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from ..errors import ConfigurationError, NighthawkError
from ..journal import JournalStore
from ..lazy_exports import LazyModule
from .journal_store import open_store

if TYPE_CHECKING:
    from . import top_app, top_client, top_store
else:
    top_app = LazyModule("nighthawk_async.cli.top_app")  # needs the extra
    top_client = LazyModule("nighthawk_async.cli.top_client")  # other commands need no HTTP
    top_store = LazyModule("nighthawk_async.cli.top_store")  # and no database


def top(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The address of the service's dashboard.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            help="A store of durable runs to watch instead of a service: its file, or its address.",
            metavar="STORE",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="NIGHTHAWK_DASHBOARD_TOKEN", help="The dashboard's token, to act on nodes."),
    ] = None,
) -> None:
    """Watch a running service through its dashboard, and act on it; or watch the durable runs of a store."""
    if (url is None) == (journal is None):
        raise ConfigurationError("Give the address of a dashboard, or the store of runs with --journal.")
    if find_spec("textual") is None:
        raise ConfigurationError(
            "This needs the extra 'top'. Install it with: pip install 'nighthawk-async[top]'"
        )
    with ExitStack() as resources:
        if journal is not None:
            store = resources.enter_context(open_store(journal))
            _check_is_terminal()
            _say_that_it_opens(store.address)
            anyio.run(_show_store, store, backend="asyncio")
        else:
            checked_url, checked_token = top_client.checked_url(url or ""), top_client.checked_token(token)
            _check_is_terminal()
            _say_that_it_opens(checked_url)
            anyio.run(_show, checked_url, checked_token, backend="asyncio")


def _check_is_terminal() -> None:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise NighthawkError("This needs a terminal.")


def _say_that_it_opens(address: str) -> None:
    """Fill the time in which the view is loaded and drawn for the first time."""
    print(f"opening {address} …", file=sys.stderr, flush=True)


async def _show_store(store: JournalStore) -> None:
    await top_app.TopApp(top_store.StoreClient(store), store.address).run_async()


async def _show(url: str, token: str | None) -> None:
    async with top_client.DashboardClient(url, token) as client:
        failure = await top_app.TopApp(client, url).run_async()
    if failure is not None:
        raise ConfigurationError(
            f"{url}: {failure}. Give the address at which the dashboard is mounted, "
            "such as http://127.0.0.1:8000/dashboard"
        )
