"""`nighthawk-async worker`: makes the calls of a queue, until a signal ends it."""

import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import anyio
import typer
from anyio.abc import TaskStatus
from rich.console import Console

import nighthawk_async as nh

from ..configuration import StepExecutorConfiguration, parse_model_id
from ..errors import ConfigurationError
from ..journal import JournalStore, Worker
from .demo_command import DEMO_MODEL, prepare_local_model
from .journal_store import open_store
from .run_command import ExecutorOnDemand
from .run_script import Backend, load_function

_MOST_PORT = 65_535


def refuse_nan(value: float | None) -> float | None:
    """Refuse, as the callback of an option, what is no number: not every release of typer does."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


_Run = Annotated[
    str | None,
    typer.Option(
        help="A function instead that makes each run, from its id and the store: "
        "it returns nighthawk_async.run(…, journal=store, run_id=run_id).",
        metavar="MODULE:FUNCTION",
    ),
]


def worker(
    functions: Annotated[
        list[str],
        typer.Argument(help="The functions: module:function, or file.py:function.", metavar="FUNCTION"),
    ],
    journal: Annotated[
        str,
        typer.Option(
            envvar="NIGHTHAWK_JOURNAL",
            help="The store: its file, or its address, as postgresql://user@host/database.",
            metavar="STORE",
        ),
    ],
    queue: Annotated[str, typer.Option(help="The queue.")] = "default",
    most: Annotated[int, typer.Option("--max-concurrent", min=1, help="The most runs in progress.")] = 8,
    model: Annotated[
        str | None, typer.Option(help=f"The model, provider:name. [default: {DEMO_MODEL}]")
    ] = None,
    run: _Run = None,
    park_after: Annotated[
        float,
        typer.Option(
            min=0,
            callback=refuse_nan,
            help="The seconds after which a run in which everything waits gives its place back. With --run, "
            "the function decides.",
        ),
    ] = 60.0,
    grace: Annotated[
        float, typer.Option(min=0, help="The seconds that runs in progress get when the worker is to end.")
    ] = 30.0,
    health: Annotated[
        str | None,
        typer.Option(help="Serve /health and /metrics there. Needs Uvicorn.", metavar="HOST:PORT"),
    ] = None,
    backend: Annotated[Backend, typer.Option(help="What the worker runs on.")] = Backend.trio,
) -> None:
    """Make the calls of a queue, each in a durable run of its own.

    SIGTERM or Ctrl-C drains the worker: it claims no more, and ends when its runs have. After the grace time,
    they go back into the queue. A second signal ends it at once; other workers take its runs over.
    """
    if run is not None and model is not None:
        raise ConfigurationError("--model and --run exclude each other: the function chooses the model")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    loaded = [load_function(name) for name in functions]
    make = _run_factory(run, model, park_after)
    with open_store(journal) as store, ExitStack() as stack:
        made = Worker(
            store,
            loaded,
            run=lambda run_id: make(run_id, store),
            queue=queue,
            max_concurrent=most,
            grace_seconds=grace,
        )
        lines = [f"Queue: {queue} ({', '.join(functions)})"]
        if health is not None:
            lines.append(f"Health: {stack.enter_context(_serving(made.app, health))}/health")
        typer.echo("\n".join(lines))
        sys.stdout.flush()
        anyio.run(_serve, made, backend=backend.value)


async def _serve(worker: Worker) -> None:
    async with anyio.create_task_group() as group:
        await group.start(_drain_on_signals, worker)
        await worker.serve()
        group.cancel_scope.cancel()


async def _drain_on_signals(
    worker: Worker, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if worker.statistics().is_draining:
                os._exit(128 + number)
            typer.echo("draining; another signal ends the worker at once", err=True)
            worker.drain()


def _run_factory(run: str | None, model: str | None, park_after: float) -> Callable[[str, JournalStore], Any]:
    """The function that makes each run, from its id and the store.

    Raises:
        ConfigurationError: There is no such function, or the model is not available.
    """
    if run is not None:
        return load_function(run)
    executor = executor_of(model)
    return lambda run_id, store: nh.run(
        executor, journal=store, run_id=run_id, park_after=park_after, human=store.people()
    )


def executor_of(model: str | None) -> Any:
    """Return the executor for the model of a command line, or for the default one when a step needs it.

    Args:
        model: The model, `provider:name`; None for the default.

    Raises:
        ConfigurationError: The model is not available.
    """
    configuration = StepExecutorConfiguration(
        model=str(parse_model_id(DEMO_MODEL if model is None else model))
    )
    if model is None:
        return ExecutorOnDemand(configuration)
    # What is wrong with a model that was asked for ends the process, not each run.
    prepare_local_model(configuration.model, Console(file=sys.stderr, force_terminal=False))
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


@contextmanager
def _serving(app: Any, address: str) -> Generator[str, None, None]:
    """Serve an application in a thread with an event loop of its own meanwhile; yield its address.

    Raises:
        ConfigurationError: The address is wrong or in use, or Uvicorn is not installed.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MOST_PORT:
        raise ConfigurationError(f"--health takes HOST:PORT, such as 127.0.0.1:8080, not {address!r}")
    try:
        import uvicorn
    except ImportError:
        raise ConfigurationError("--health needs Uvicorn: install nighthawk-async[worker]") from None
    config = uvicorn.Config(
        app, host=host.strip("[]"), port=int(port), log_level="error", lifespan="off", access_log=False
    )
    try:
        bound = config.bind_socket()
    except SystemExit:  # it has printed the reason
        raise ConfigurationError(f"--health: {address} cannot be served") from None
    bound.listen(config.backlog)  # a reader of the address may connect at once
    server = uvicorn.Server(config)
    sockets: Sequence[Any] = [bound]
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, name="health", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
