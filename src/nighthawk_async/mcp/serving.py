"""`serve` and `serve_stdio`: natural functions, and any others, as the tools of an MCP server.

While it serves, descriptor 0 is at its end and descriptor 1 leads to standard error, so that whatever
functions and their child processes print cannot get among the messages. The messages travel over duplicates.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TypedDict, Unpack, cast

import anyio
import anyio.to_thread
from anyio import RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct

from ..asgi.admission import Admission
from ..asgi.problems import MOST_RETRY_AFTER_SECONDS
from ..asgi.protocol import AsgiScope
from ..asgi.service import Service, Settings, checked_budget, checked_count, checked_seconds
from ..errors import NighthawkError
from ..kernel.run import Run
from ..observe.tree import TaskTree
from ..policies.budgets.budget import Budget
from ..types.json import is_sequence, is_text
from .package import check_package
from .serving_http import (
    ANY,
    LOOPBACK_HOSTS,
    Description,
    HttpSettings,
    McpApplication,
    ServedProtocol,
    checked_run,
    load_package,
)
from .serving_tools import Served, made_tools

_CHUNK_BYTES = 65_536
_claimed = threading.Lock()


class Wire(Struct, frozen=True):
    """Duplicates of the descriptors of standard input and output.

    Args:
        source: The descriptor to read from. Its reader closes it.
        sink: The descriptor to write to.
    """

    source: int
    sink: int


@contextmanager
def claimed_stdio() -> Generator[Wire, None, None]:
    """Claim standard input and output for the protocol during the `with` statement.

    Raises:
        NighthawkError: They are claimed already.
    """
    if not _claimed.acquire(blocking=False):
        raise NighthawkError("Another MCP server of this process serves standard input and output.")
    try:
        sys.stdout.flush()
        saved = os.dup(0), os.dup(1)
        wire = Wire(os.dup(0), saved[1])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield wire
        finally:
            sys.stdout.flush()  # what was written past the redirection
            for number, descriptor in enumerate(saved):
                os.dup2(descriptor, number)
                os.close(descriptor)
    finally:
        _claimed.release()


class Lines:
    """The lines that a descriptor gives, for `async for`.

    A thread that waits for input cannot be interrupted. So it is one of its own, which does not keep the
    process alive, and holds no lock of Python's standard input.

    Args:
        source: The descriptor.
    """

    def __init__(self, source: int) -> None:
        send, self._received = anyio.create_memory_object_stream[str](0)
        thread = threading.Thread(
            target=_read, args=(source, send, current_token()), name="stdin of MCP", daemon=True
        )
        thread.start()

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        try:
            return await self._received.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Take no more lines."""
        self._received.close()


def _read(source: int, send: MemoryObjectSendStream[str], loop: EventLoopToken) -> None:
    rest = bytearray()
    with suppress(RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while chunk := _read_chunk(source):
            *lines, last = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
            rest = bytearray(last)
            for line in lines:
                if line.strip():
                    from_thread.run(send.send, line.decode("utf-8", "replace"), token=loop)
        from_thread.run_sync(send.close, token=loop)
    os.close(source)


def _read_chunk(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK_BYTES)
    except OSError:  # a terminal that has gone
        return b""


class Output:
    """Writes texts to a descriptor, for the package `mcp`.

    Args:
        sink: The descriptor.
    """

    def __init__(self, sink: int) -> None:
        self._sink = sink

    async def write(self, text: str) -> None:
        """Write a text, all of it."""
        await anyio.to_thread.run_sync(_write, self._sink, text.encode(), abandon_on_cancel=True)

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]


def as_files(wire: Wire) -> tuple[Lines, Any]:
    """Return standard input and output as the package `mcp` takes them.

    Args:
        wire: The descriptors.
    """
    return Lines(wire.source), Output(wire.sink)


_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_SESSIONS = 10_000
_SESSION_IDLE_SECONDS = 1_800.0


class ServingArguments(TypedDict, total=False):
    """Arguments of `serve` and `serve_stdio`, with the names and meanings of `NighthawkMiddleware`.

    A request is a call of a tool here.

    Args:
        name: The name of the server, for clients; by default `nighthawk-async`.
        version: The version of the server, for clients; by default empty.
        instructions: A text for the models of clients: the purpose of the tools, and their order.
        max_concurrent_requests: The maximum number of calls in progress at once; None for no limit.
        max_queued_requests: The maximum number of calls that wait; by default 100. Beyond it the result of a
            call is an error that says when to try again.
        request_timeout: The time limit of a call, in seconds, with its wait; None for no limit.
        request_budget: The budget of each call, by an account of its own.
        grace_seconds: The grace period of calls in progress when the server ends; by default 10 seconds.
        retry_after_seconds: The number of seconds after which a refused client may try again; by default 1.
        tree: A task tree of `nighthawk_async.observe`, which records each call as a top-level node.
        max_body_bytes: The maximum size of a request, and of the arguments of a call; by default 4 MiB.
    """

    name: str
    version: str
    instructions: str | None
    max_concurrent_requests: int | None
    max_queued_requests: int
    request_timeout: float | None
    request_budget: Budget | None
    grace_seconds: float
    retry_after_seconds: float
    tree: TaskTree | None
    max_body_bytes: int


def serve(
    functions: Sequence[Callable[..., Any] | Served],
    *,
    run: Callable[[], Run],
    path: str = "/mcp",
    token: str | None = None,
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    client_of: Callable[[AsgiScope], str | None] | None = None,
    max_requests_per_client: int | None = None,
    **arguments: Unpack[ServingArguments],
) -> McpApplication:
    """Make an MCP server of functions: an ASGI application, over streamable HTTP.

        app = nh.mcp.serve([triage, summarize], run=lambda: nh.run(executor))

    Each call is a task in one run, which lasts as long as the application's lifespan. It ends with an error
    for the model of the client when an argument does not fit, when the function raises, and when the server
    is busy. It is cancelled when the client cancels it or leaves. Clients that ask for progress get it, and
    `nighthawk_async.ask_user` asks the person at a client that shows forms. The server speaks version
    2026-07-28 of the protocol and the earlier ones.

    Args:
        functions: Natural functions, and any other functions with annotated parameters; `Served` adds facts
            about one. `def` functions run in worker threads.
        run: Returns a new run: `lambda: nighthawk_async.run(executor)`.
        path: The path of the endpoint, below that of an application that mounts it.
        token: The token that clients must send, as `Authorization: Bearer …`; None for none.
        allowed_hosts: The values of `Host` that are served, with any port unless they name one; `["*"]` for
            any. None: those of this machine, or any when there is a token. Pages of other sites cannot reach
            the server then, not even by their own name for this machine's address.
        allowed_origins: The values of `Origin` that are served, such as `https://example.org`, for pages that
            call the server; None: those of this machine.
        client_of: Returns the client of an ASGI connection, or None; see `NighthawkMiddleware`.
        max_requests_per_client: The maximum number of calls of one client in progress and waiting; None for
            no limit. It needs `client_of`.
        arguments: The name of the server, and limits; see `ServingArguments`.

    Raises:
        ToolRegistrationError: A function cannot be served, or two have the same name.
        ConfigurationError: The package `mcp` is not installed.
        NighthawkError: An argument has a bad value.
    """
    if max_requests_per_client is not None and client_of is None:
        raise NighthawkError("max_requests_per_client needs client_of, which identifies the client")
    hosts = (LOOPBACK_HOSTS if token is None else (ANY,)) if allowed_hosts is None else allowed_hosts
    origins = [f"http://{host}" for host in LOOPBACK_HOSTS] if allowed_origins is None else allowed_origins
    max_per_client = max_requests_per_client
    if max_per_client is not None:
        max_per_client = checked_count(max_per_client, "max_requests_per_client", least=1)
    protocol = _protocol_of(functions, run, arguments, client_of=client_of, max_per_client=max_per_client)
    return McpApplication(
        protocol,
        HttpSettings(
            path=_checked_path(path),
            token=_checked_token(token),
            allowed_hosts=_checked_names(hosts, "allowed_hosts"),
            allowed_origins=_checked_names(origins, "allowed_origins"),
            max_body_bytes=_max_bytes(arguments),
            max_sessions=_MAX_SESSIONS,
            session_idle_seconds=_SESSION_IDLE_SECONDS,
        ),
    )


async def serve_stdio(
    functions: Sequence[Callable[..., Any] | Served],
    *,
    run: Callable[[], Run],
    **arguments: Unpack[ServingArguments],
) -> None:
    """Serve functions over standard input and output, for a client that starts this process.

    It returns when the client closes the input, and then cancels the calls in progress. Meanwhile everything
    that is printed goes to standard error, and reading standard input finds its end.

    Args:
        functions: The functions, as for `serve`.
        run: Returns a new run: `lambda: nighthawk_async.run(executor)`.
        arguments: The name of the server, and limits; see `ServingArguments`.

    Raises:
        ToolRegistrationError: A function cannot be served, or two have the same name.
        ConfigurationError: The package `mcp` is not installed.
        NighthawkError: An argument has a bad value, or another server serves standard input and output.
    """
    protocol = _protocol_of(functions, run, arguments)
    with claimed_stdio() as wire:
        await serve_wire(protocol, wire)


def _protocol_of(
    functions: Sequence[Callable[..., Any] | Served],
    run: Callable[[], Run],
    arguments: ServingArguments,
    *,
    client_of: Callable[[AsgiScope], str | None] | None = None,
    max_per_client: int | None = None,
) -> ServedProtocol:
    check_package()
    if not callable(cast("object", run)):
        raise NighthawkError(
            f"run must be a function that returns a new run, such as lambda: nighthawk_async.run(executor), "
            f"not {run!r}"
        )
    timeout = arguments.get("request_timeout")
    settings = Settings(
        make_run=lambda: checked_run(run()),
        request_timeout=None if timeout is None else checked_seconds(timeout, "request_timeout"),
        request_budget=checked_budget(arguments.get("request_budget")),
        grace_seconds=checked_seconds(arguments.get("grace_seconds", 10.0), "grace_seconds"),
        retry_after_seconds=checked_seconds(
            arguments.get("retry_after_seconds", 1.0), "retry_after_seconds", most=MOST_RETRY_AFTER_SECONDS
        ),
        client_of=client_of,
        tree=arguments.get("tree"),
        durable=None,
    )
    return ServedProtocol(
        made_tools(functions),
        Service(settings, _admission_of(arguments, max_per_client)),
        Description(
            name=arguments.get("name", "nighthawk-async"),
            version=arguments.get("version", ""),
            instructions=arguments.get("instructions"),
        ),
        max_argument_bytes=_max_bytes(arguments),
    )


def _admission_of(arguments: ServingArguments, max_per_client: int | None) -> Admission:
    most = arguments.get("max_concurrent_requests")
    queued = arguments.get("max_queued_requests", 100)
    return Admission(
        max_concurrent=None if most is None else checked_count(most, "max_concurrent_requests", least=1),
        max_queued=checked_count(queued, "max_queued_requests", least=0),
        max_per_client=max_per_client,
    )


def _max_bytes(arguments: ServingArguments) -> int:
    return checked_count(arguments.get("max_body_bytes", _MAX_BODY_BYTES), "max_body_bytes", least=1)


def _checked_path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        raise NighthawkError(f"path must begin with a slash, as /mcp does, not {path!r}")
    return path.rstrip("/")


def _checked_token(token: object) -> str | None:
    if token is None:
        return None
    if not isinstance(token, str) or not token or not token.isascii() or token != token.strip():
        raise NighthawkError("token must be a text of printable ASCII characters that is not empty")
    return token


def _checked_names(names: object, argument: str) -> tuple[str, ...]:
    if isinstance(names, str) or not is_sequence(names) or not all(map(is_text, names)):
        raise NighthawkError(f"{argument} must be a list of texts, not {names!r}")
    return tuple(filter(is_text, names))


async def serve_wire(protocol: ServedProtocol, wire: Wire) -> None:
    """Serve one client over two descriptors until it closes the input.

    Args:
        protocol: The tools, and the calls in progress.
        wire: The descriptors.
    """
    await load_package()
    from mcp.server.stdio import stdio_server

    source, sink = as_files(wire)
    try:
        async with (
            protocol.active() as server,
            stdio_server(cast("anyio.AsyncFile[str]", source), sink) as (received, sent),
        ):
            await server.run(received, sent, server.create_initialization_options())
    finally:
        source.close()
