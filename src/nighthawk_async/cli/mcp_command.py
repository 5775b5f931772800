"""`nighthawk-async mcp serve`: functions as the tools of an MCP server."""

import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import anyio
import typer
from anyio.abc import TaskStatus

import nighthawk_async as nh

from ..errors import ConfigurationError, ToolRegistrationError
from .dashboard_command import allowed_hosts, load_server, serve_app
from .demo_command import DEMO_MODEL
from .run_command import output_of_its_own
from .run_script import Backend, load_function
from .worker_command import executor_of, refuse_nan

_Run = Annotated[
    str | None,
    typer.Option(
        help="A function instead that makes the run: it returns nighthawk_async.run(…).",
        metavar="MODULE:FUNCTION",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        envvar="NIGHTHAWK_MCP_TOKEN",
        help="The token that clients must send. Needed for other addresses than those of this machine.",
    ),
]

mcp = typer.Typer(help="Serve functions over the Model Context Protocol.", no_args_is_help=True)


@mcp.callback()
def _describe() -> None:  # pyright: ignore[reportUnusedFunction]
    """Serve functions over the Model Context Protocol."""


@mcp.command()
def serve(
    functions: Annotated[
        list[str],
        typer.Argument(help="The functions: module:function, or file.py:function.", metavar="FUNCTION"),
    ],
    model: Annotated[
        str | None, typer.Option(help=f"The model, provider:name. [default: {DEMO_MODEL}]")
    ] = None,
    run: _Run = None,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve standard input and output instead of HTTP.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = 8000,
    path: Annotated[str, typer.Option(help="The path of the endpoint.")] = "/mcp",
    token: _Token = None,
    name: Annotated[str, typer.Option(help="The name of the server, for clients.")] = "nighthawk-async",
    most: Annotated[
        int | None, typer.Option("--max-concurrent", min=1, help="The most calls in progress; others wait.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, callback=refuse_nan, help="The time limit of a call, in seconds.")
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="The seconds that calls in progress get when the server is to end.")
    ] = 10.0,
    backend: Annotated[
        Backend, typer.Option(help="With --stdio: what the server runs on. HTTP runs on asyncio.")
    ] = Backend.trio,
) -> None:
    """Serve functions as the tools of an MCP server, over HTTP or over standard input and output.

    Clients are Claude Code, Codex, the MCP inspector and others. Ctrl-C ends the server: it admits no more
    calls, and those in progress get the grace time.
    """
    if run is not None and model is not None:
        raise ConfigurationError("--model and --run exclude each other: the function chooses the model")
    options: dict[str, Any] = {
        "name": name,
        "max_concurrent_requests": most,
        "request_timeout": timeout,
        "grace_seconds": grace,
    }
    if stdio:
        if token is not None:
            raise ConfigurationError("--token is for HTTP: the client of --stdio starts this process itself")
        with output_of_its_own():  # modules may print when they are imported
            loaded, make_run = _load(functions, model, run)
        anyio.run(partial(_serve_stdio, loaded, run=make_run, **options), backend=backend.value)
        return
    if token is None and allowed_hosts(host) is None:
        raise ConfigurationError(
            f"{host} can be reached from other machines: give a token that clients must send, with --token "
            "or in NIGHTHAWK_MCP_TOKEN"
        )
    loaded, make_run = _load(functions, model, run)
    app = _checked(lambda: nh.mcp.serve(loaded, run=make_run, path=path, token=token, **options))
    _serve_http(app, host=host, port=port)


def _load(
    names: Sequence[str], model: str | None, run: str | None
) -> tuple[list[Callable[..., Any]], Callable[[], Any]]:
    """Load the functions, and what makes the run.

    Raises:
        ConfigurationError: There is no such function, or the model is not available.
    """
    loaded = [load_function(name) for name in names]
    if run is not None:
        return loaded, load_function(run)
    executor = executor_of(model)
    return loaded, lambda: nh.run(executor)


def _checked(make: Callable[[], "nh.mcp.McpApplication"]) -> "nh.mcp.McpApplication":
    try:
        return make()
    except ToolRegistrationError as error:  # of the command line
        raise ConfigurationError(str(error)) from error


def _serve_http(app: "nh.mcp.McpApplication", *, host: str, port: int) -> None:
    def announce(address: str) -> str:
        return f"MCP server: {address}{app.path}"

    try:
        serve_app(load_server(), app, app.drain, host=host, port=port, announce=announce)
    except SystemExit as end:  # Uvicorn has printed the reason
        if end.code:
            raise ConfigurationError(f"{host}:{port} cannot be served") from None


async def _serve_stdio(functions: Sequence[Callable[..., Any]], **options: Any) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_cancel_on_signals, tasks.cancel_scope)
            await nh.mcp.serve_stdio(functions, **options)
            tasks.cancel_scope.cancel()
    except* ToolRegistrationError as group:
        raise ConfigurationError(str(group.exceptions[0])) from group


async def _cancel_on_signals(
    scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
