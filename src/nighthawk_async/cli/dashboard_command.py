"""`nighthawk-async dashboard`: serve an application with the dashboard beside it."""

import secrets
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer

import nighthawk_async as nh

from ..errors import ConfigurationError

_GRACE_SECONDS = 3
"""The seconds to finish requests on shutdown; later ones are cut off."""


def dashboard(
    app: Annotated[
        str,
        typer.Argument(help="The ASGI application: module:attribute, or file.py:attribute.", metavar="APP"),
    ],
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
    """
    uvicorn = _load_server()
    loaded = _load_application(app)
    made_up = secrets.token_urlsafe(24) if allow_actions and token is None else None
    page = nh.asgi.Dashboard(
        token=token or made_up,
        protect_reading=protect_reading,
        allowed_hosts=_allowed_hosts(host),
        title=app.rpartition(":")[0] or app,
    )
    config = uvicorn.Config(
        page.beside(loaded, path=path),
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    socket = config.bind_socket()
    socket.listen(config.backlog)  # a reader of the addresses may connect at once
    shown_host = f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{socket.getsockname()[1]}"
    typer.echo(f"Application: {address}/")
    typer.echo(f"Dashboard:   {address}{path}/{'' if made_up is None else f'#token={made_up}'}")
    sys.stdout.flush()  # a pipe would keep it until the end
    _make_server(uvicorn, config, page).run(sockets=[socket])


def _make_server(uvicorn: Any, config: Any, page: "nh.asgi.Dashboard") -> Any:
    """A server that does not wait for open pages when it stops."""
    server = uvicorn.Server(config)
    shut_down = server.shutdown

    async def end_streams_and_shut_down(sockets: Any = None) -> None:
        page.end_streams()
        await shut_down(sockets)

    server.shutdown = end_streams_and_shut_down
    return server


def _load_server() -> Any:
    """Import Uvicorn, which is not a dependency of the library.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigurationError(
            "serving needs Uvicorn: install nighthawk-async[dashboard], or mount "
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


def _allowed_hosts(host: str) -> list[str] | None:
    """The allowed host names: on this machine its own, so that no page of another site leads here."""
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return ["localhost", "127.0.0.1", "::1", host] if is_local else None
