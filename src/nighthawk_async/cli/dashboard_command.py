"""`nighthawk-async dashboard`: the dashboard of an application, of the runs of a store, or of evaluations."""

import secrets
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from inspect import isawaitable
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import anyio
import typer

import nighthawk_async as nh

from ..errors import ConfigurationError
from ..observe import TaskTree
from .journal_store import open_store

_POLL_SECONDS = 0.1
_FOLLOW_SECONDS = 1.0
_GRACE_SECONDS = 3
"""The seconds to finish requests on shutdown; later ones are cut off."""


_EVALUATION = Annotated[
    Path | None,
    typer.Option(help="A report of an evaluation to show instead of an application.", metavar="REPORT"),
]
_BASELINE = Annotated[
    Path | None,
    typer.Option(help="With --evaluation: an earlier report to show beside it.", metavar="REPORT"),
]


def dashboard(
    app: Annotated[
        str | None,
        typer.Argument(help="The ASGI application: module:attribute, or file.py:attribute.", metavar="APP"),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            help="A store of durable runs to show instead of an application: its file, or its address.",
            metavar="STORE",
        ),
    ] = None,
    evaluation: _EVALUATION = None,
    baseline: _BASELINE = None,
    host: Annotated[str, typer.Option(help="The address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = 8000,
    path: Annotated[str, typer.Option(help="The path of the dashboard.")] = "/dashboard",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="NIGHTHAWK_DASHBOARD_TOKEN",
            help="The token that people need to cancel, steer, suspend, resume and answer.",
        ),
    ] = None,
    allow_actions: Annotated[
        bool, typer.Option("--allow-actions", help="Generate a token and put it into the printed address.")
    ] = False,
    protect_reading: Annotated[
        bool, typer.Option("--protect-reading", help="Require the token for viewing, too.")
    ] = False,
) -> None:
    """Serve an ASGI application, and a dashboard page that shows its natural functions at work.

    People who act there also answer the questions and approvals of runs without another handler.

    With --journal, the page shows the durable runs of a store instead, of all processes, past, parked and in
    progress, and people answer their questions. With --evaluation, it shows the report of an
    evaluation, and follows it while trials are appended.
    """
    _check_shown(app, journal, evaluation, baseline)
    uvicorn = load_server()
    made_up = secrets.token_urlsafe(24) if allow_actions and token is None else None
    end = "" if made_up is None else f"#token={made_up}"
    with ExitStack() as resources:
        store = None if journal is None else resources.enter_context(open_store(journal))
        page = nh.asgi.Dashboard(
            None if evaluation is None else resources.enter_context(_followed(evaluation, baseline)),
            journal=store,
            token=token or made_up,
            protect_reading=protect_reading,
            allowed_hosts=allowed_hosts(host),
            title=_title(app, store, evaluation),
        )
        served: Any = page
        if app is not None:
            served = page.beside(_load_application(app), path=path)

        def announce(address: str) -> str:
            if app is None:
                return f"Dashboard: {address}/{end}"
            return f"Application: {address}/\nDashboard:   {address}{path}/{end}"

        serve_app(uvicorn, served, page.end_streams, host=host, port=port, announce=announce)


def _check_shown(
    app: str | None, journal: str | None, evaluation: Path | None, baseline: Path | None
) -> None:
    if sum(each is not None for each in (app, journal, evaluation)) != 1:
        raise ConfigurationError(
            "Give the application, or the store of runs with --journal, or a report with --evaluation."
        )
    if baseline is not None and evaluation is None:
        raise ConfigurationError("--baseline needs the report that it is compared with: --evaluation REPORT.")


def _title(app: str | None, store: nh.journal.JournalStore | None, evaluation: Path | None) -> str:
    if store is not None:
        return store.address
    if evaluation is not None:
        return evaluation.name
    return (app or "").rpartition(":")[0] or app or ""


@contextmanager
def _followed(evaluation: Path, baseline: Path | None) -> Generator[TaskTree, None, None]:
    """Follow the file of a report, to which an evaluation may append, and yield its tree.

    Raises:
        ReportError: A file cannot be read.
    """
    followed, has_ended = nh.evals.FollowedReport(evaluation, baseline=baseline), Event()

    def follow() -> None:
        while not has_ended.wait(_FOLLOW_SECONDS):
            with suppress(nh.evals.ReportError):  # another one takes its place
                followed.refresh()

    thread = Thread(target=follow, name="nighthawk-report", daemon=True)
    thread.start()
    try:
        yield followed.tree
    finally:
        has_ended.set()
        thread.join()


def serve_app(
    uvicorn: Any,
    app: Any,
    end_streams: Callable[[], object],
    *,
    host: str,
    port: int,
    announce: Callable[[str], str],
) -> None:
    """Serve an application until Ctrl-C.

    Args:
        uvicorn: The server's package; see `load_server`.
        app: The application.
        end_streams: Ends the streams that last as long as the server, async or not; called when it stops.
        host: The address to serve on.
        port: The port; 0 for any that is free.
        announce: Returns the text to print for the address at which it is served.
    """
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=_GRACE_SECONDS
    )
    socket = config.bind_socket()
    socket.listen(config.backlog)  # a reader of the addresses may connect at once
    shown_host = f"[{host}]" if ":" in host else host
    typer.echo(announce(f"http://{shown_host}:{socket.getsockname()[1]}"))
    sys.stdout.flush()  # a pipe would keep it until the end
    _make_server(uvicorn, config, end_streams).run(sockets=[socket])


def _make_server(uvicorn: Any, config: Any, end_streams: Callable[[], object]) -> Any:
    """A server that does not wait for open streams when it stops. Another Ctrl-C ends it at once."""
    server = uvicorn.Server(config)
    shut_down = server.shutdown

    async def end_streams_and_shut_down(sockets: Any = None) -> None:
        ended = end_streams()
        if isawaitable(ended):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_forced, server, tasks.cancel_scope)
                await ended
                tasks.cancel_scope.cancel()
        await shut_down(sockets)

    server.shutdown = end_streams_and_shut_down
    return server


async def _cancel_when_forced(server: Any, scope: anyio.CancelScope) -> None:
    while True:
        await anyio.sleep(_POLL_SECONDS)  # the server has no event for it
        if server.force_exit:
            scope.cancel()


def load_server() -> Any:
    """Import Uvicorn, which is not a dependency of the library.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigurationError(
            "serving needs Uvicorn: install nighthawk-async[cli,dashboard], or mount "
            "nighthawk_async.asgi.Dashboard in an application of your own"
        ) from None
    return uvicorn


def _load_application(name: str) -> Any:
    """Import the application of that name.

    Raises:
        ConfigurationError: It cannot be found, or cannot be called.
    """
    from uvicorn.importer import ImportFromStringError, import_from_string

    place, _, attribute = name.rpartition(":") if ":" in name else (name, "", "app")
    folder = Path.cwd()
    if place.endswith(".py"):
        folder, place = Path(place).resolve().parent, Path(place).stem
    sys.path.insert(0, str(folder))
    try:
        found = import_from_string(f"{place}:{attribute}")
    except ImportFromStringError as error:
        raise ConfigurationError(str(error)) from None
    if not callable(found):
        raise ConfigurationError(
            f"{place}:{attribute} is no ASGI application but of type {type(found).__name__}, "
            "which cannot be called"
        )
    return found


def allowed_hosts(host: str) -> list[str] | None:
    """The allowed host names: on this machine its own, so that no page of another site leads here.

    Args:
        host: The address to serve on.
    """
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return ["localhost", "127.0.0.1", "::1", host] if is_local else None
