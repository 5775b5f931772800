"""Descriptions of servers: a command to start, or an address."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from ..actors.errors import check_seconds
from ..errors import NighthawkError
from ..runtime.run_state import RunServices
from ..runtime.tool_scope import ToolSearch, ToolSet
from ..suggestions import did_you_mean

if TYPE_CHECKING:
    from .session import Session

@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerOptions:
    """The options of a server; see `ServerArguments`."""

    name: str
    connect_timeout: float = 30.0
    call_timeout: float | None = 120.0
    max_concurrent: int = 1
    max_restarts: int = 5
    only: tuple[str, ...] | None = None
    sampling: bool = False
    roots: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        """Whether a tool is used."""
        return self.only is None or any(fnmatchcase(tool, pattern) for pattern in self.only)


class Server:
    """The description of a server; `nighthawk_async.mcp.stdio` and `nighthawk_async.mcp.http` make it.

    It holds no connection, so many runs may use it at once; each opens a session of its own.

    Args:
        options: The options that all servers have.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options

    @property
    def name(self) -> str:
        """The name in errors, logs and the tree."""
        return self.options.name

    @property
    def target(self) -> str:
        """The command or the address, without arguments and secrets."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<server {self.name!r} ({self.target})>"

    def tools(self, *, prefix: str = "", deferred: bool = False, search: ToolSearch = "lexical") -> ToolSet:
        """Return the tools of the server as a tool set, for `tools=`: the model calls them itself.

            with nh.scope(tools=[tracker.tools(prefix="tracker_", deferred=True)]): ...

        The tools use the session of the run, which is opened at the first step if the run has none. A step
        sees the tools as they are at its beginning.

        Args:
            prefix: The beginning of their names.
            deferred: Whether models get the tools only when they look for them; see
                `nighthawk_async.tool_set`.
            search: The search for deferred tools; see `nighthawk_async.tool_set`.

        Raises:
            ToolRegistrationError: The prefix cannot begin a name, or the search is unknown.
        """
        from .server_tools import ServerTools  # here, because blocks that name the server need no tools

        return ServerTools(self, prefix=prefix, deferred=deferred, search=search)

    async def bind(self, name: str, services: RunServices) -> object:
        """Connect, for a run, and return the object that blocks know by a name; see `servers=`."""
        session = await self.session_in(services)
        return session.bound_as(name)

    async def session_in(self, services: RunServices) -> "Session":
        """Return the session of a run, which is opened at the first call.

        Raises:
            ServerUnavailableError: The server cannot be started or reached.
            ConfigurationError: The package `mcp` is not installed.
        """
        return cast("Session", await services.get(self, self.serve))

    def find_session(self, services: RunServices) -> "Session | None":
        """Return the session of a run; None if it has none."""
        return cast("Session | None", services.find(self))

    async def serve(self, services: RunServices) -> None:
        """Hold a session with the server, as a service of a run, until the run ends."""
        from .package import load_session_module

        await (await load_session_module()).Session(self).serve(services)


class StdioServer(Server):
    """A server that is started as a process, and spoken to over its standard input and output."""

    def __init__(
        self,
        command: str,
        arguments: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        folder: str | None,
        options: ServerOptions,
    ) -> None:
        super().__init__(options)
        self.command = command
        self.arguments = arguments
        self.environment = environment
        self.folder = folder

    @property
    def target(self) -> str:
        """The command, without arguments."""
        return PurePath(self.command).name


class HttpServer(Server):
    """A server that is reached over Streamable HTTP."""

    def __init__(self, url: str, *, headers: Mapping[str, str], auth: object, options: ServerOptions) -> None:
        super().__init__(options)
        self.url = url
        self.headers = headers
        self.auth = auth

    @property
    def target(self) -> str:
        """The address, without user, query and fragment."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class ServerArguments(TypedDict, total=False):
    """Options of `nighthawk_async.mcp.stdio` and `nighthawk_async.mcp.http`.

    Args:
        name: The name in errors, logs and the tree; by default that of the command or of the host.
        connect_timeout: The seconds in which the server has to start and list its tools; 30 by default.
        call_timeout: The seconds in which a call has to give a sign of life: its result, or progress; 120 by
            default, None for no limit. The time in which people are asked does not count.
        max_concurrent: The number of calls at the same time of tools that do not say `readOnlyHint`; 1 by
            default. Calls of the others run at the same time in any number.
        max_restarts: The number of times that the server is started again, or the session opened again,
            without a call that succeeds in between; 5 by default.
        only: The names of the tools to use, as patterns (`read_*`); all by default.
        sampling: Whether the server may ask the model of the run's executor. Its requests are charged to the
            run, and budgets and hooks see them.
        roots: The folders that the server is told to work in.
    """

    name: str
    connect_timeout: float
    call_timeout: float | None
    max_concurrent: int
    max_restarts: int
    only: Collection[str]
    sampling: bool
    roots: Sequence[str | os.PathLike[str]]


def stdio(
    command: str | os.PathLike[str],
    *arguments: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ServerArguments],
) -> Server:
    """Describe a server that is started as a process. Nothing is started here.

        files = nh.mcp.stdio("mcp-server-filesystem", "/data")
        async with nh.run(executor, servers={"files": files}): ...

    The process gets `HOME`, `PATH`, `USER` and the like from the environment, and no other variable; it and
    its children end with the run. Its standard error goes to the log `nighthawk.mcp`.

    Args:
        command: The command, looked up in `PATH`.
        arguments: Its arguments.
        env: Further environment variables.
        cwd: Its working directory; None for that of the program.
        options: See `nighthawk_async.mcp.ServerArguments`.

    Raises:
        NighthawkError: An argument is invalid.
    """
    texts = [os.fspath(each) for each in (command, *arguments)]
    variables = dict(env or {})
    for each in (*texts, *variables, *variables.values()):
        if not isinstance(cast("object", each), str) or "\0" in each:
            raise NighthawkError(f"The command, arguments and variables of a server are texts, not {each!r}.")
    if not texts[0]:
        raise NighthawkError("The command of a server must not be empty.")
    return StdioServer(
        texts[0],
        tuple(texts[1:]),
        environment=variables,
        folder=None if cwd is None else os.fspath(cwd),
        options=_checked_options(PurePath(texts[0]).name, options),
    )


def http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: object = None,
    **options: Unpack[ServerArguments],
) -> Server:
    """Describe a server that is reached over Streamable HTTP. Nothing is connected here.

        tracker = nh.mcp.http("https://mcp.example/mcp", headers={"Authorization": f"Bearer {token}"})

    Args:
        url: The address.
        headers: Headers of every request.
        auth: The authentication of every request, as the package `mcp` takes it: an `httpx2.Auth`, such as
            `mcp.client.auth.OAuthClientProvider`.
        options: See `nighthawk_async.mcp.ServerArguments`.

    Raises:
        NighthawkError: An argument is invalid.
    """
    parts = urlsplit(url) if isinstance(cast("object", url), str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise NighthawkError(f"The address of a server begins with http:// or https://, not {url!r}.")
    checked = _checked_options(parts.hostname, options)
    return HttpServer(url, headers=dict(headers or {}), auth=auth, options=checked)


def _checked_options(default_name: str, given: ServerArguments) -> ServerOptions:
    """Return the options of a server.

    Raises:
        NighthawkError: One is invalid, or there is none of that name.
    """
    name = given.get("name", default_name)
    for each in given:
        if each not in ServerArguments.__annotations__:
            hint = did_you_mean(each, ServerArguments.__annotations__)
            raise NighthawkError(f"Server {name!r}: there is no option {each!r}.{hint}")
    if not isinstance(cast("object", name), str) or not name:
        raise NighthawkError(f"The name of a server is a text that is not empty, not {name!r}.")
    try:
        check_seconds("connect_timeout", given.get("connect_timeout", 0))
        check_seconds("call_timeout", given.get("call_timeout"), or_none=True)
    except ValueError as error:
        raise NighthawkError(f"Server {name!r}: {error}") from None
    for option, least in (("max_concurrent", 1), ("max_restarts", 0)):
        number = given.get(option, least)
        if type(number) is not int or number < least:
            raise NighthawkError(f"Server {name!r}: {option} must be a number from {least}, not {number!r}")
    for option in ("only", "roots"):
        if isinstance(given.get(option, ()), str):
            raise NighthawkError(f"Server {name!r}: {option} must be a collection, not {given.get(option)!r}")
    only, roots = given.get("only"), given.get("roots", ())
    others = {each: value for each, value in given.items() if each not in ("name", "only", "roots")}
    return ServerOptions(
        name=name,
        only=None if only is None else tuple(only),
        roots=tuple(os.path.abspath(each) for each in roots),
        **cast("Any", others),
    )
