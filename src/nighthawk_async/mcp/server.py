"""Servers that programs use: their sessions in runs, and their tools for models."""

import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast
from urllib.parse import urlsplit

from ..errors import NighthawkError
from ..kernel.environment import find_environment
from ..kernel.tool_sets import ForeignTool, check_set_arguments, valid_tool_name
from ..kernel.tools import PROVIDED_TOOL_NAMES, Tool, ToolSearch, ToolSet
from ..parallel.resources import use_resource
from ..parallel.task_node import ResourceKeeper
from ..types.json import is_text
from .description import (
    HttpDescription,
    ServerArguments,
    ServerDescription,
    StdioDescription,
    checked_options,
)
from .methods import ToolFacts
from .package import load_modules

if TYPE_CHECKING:
    from .session import Session

_LOGGER = logging.getLogger("nighthawk.mcp")
_SESSION = f"{__name__.rpartition('.')[0]}.session"
_NO_NAME = re.compile(r"[/\[\]]")  # characters that places in the tree use
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
"""The names of parameters that every provider takes."""
_LOCAL_ONLY = (
    "its session with a server of the Model Context Protocol belongs to this process. Enter a run with the "
    "server in the function that the worker runs."
)


@asynccontextmanager
async def open_session(description: ServerDescription) -> "AsyncGenerator[Session, None]":
    """Open a session with a server, which ends with the `async with` statement.

    Args:
        description: The server.

    Raises:
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
    """
    await load_modules(_SESSION)
    from .session import Session

    async with Session(description).opened() as session:
        yield session


async def session_in_run(description: ServerDescription) -> "Session":
    """Return the session of the run with a server, which is opened by the first caller.

    Args:
        description: The server.

    Raises:
        NighthawkError: The run was not entered with `async with`, or belongs to another event loop.
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
    """
    keeper = find_run_keeper()
    if keeper is None:
        raise NighthawkError(
            "Servers belong to an active run that was entered with `async with`: "
            "`async with nighthawk_async.run(…): …`."
        )
    if not keeper.is_here:
        raise NighthawkError(
            "The servers of a run can be used on its event loop only, and this call comes from another one. "
            "Call it in an async function, or from a thread of anyio.to_thread."
        )
    name = f"server {_NO_NAME.sub('_', description.name)}"
    opener = partial(open_session, description)
    return await use_resource(keeper, description, name, opener, ends_last=True)


def find_session(description: ServerDescription) -> "Session | None":
    """Return the session of the run with a server; None if it has none.

    Args:
        description: The server.
    """
    keeper = find_run_keeper()
    return None if keeper is None else cast("Session | None", keeper.find(description))


def find_run_keeper() -> ResourceKeeper | None:
    """The keeper of the resources of the innermost run; None where there is none."""
    environment = find_environment()
    return None if environment is None else environment.run_state.find_keeper()


class Server:
    """A server; `nighthawk_async.mcp.stdio` and `nighthawk_async.mcp.http` make it.

    It holds no connection, so many runs may use it at once; each opens a session of its own.

    Args:
        description: The description.
    """

    def __init__(self, description: ServerDescription) -> None:
        self._description = description

    @property
    def description(self) -> ServerDescription:
        """The command or the address, and the options."""
        return self._description

    @property
    def name(self) -> str:
        """The name in errors, logs and the tree."""
        return self._description.name

    def __repr__(self) -> str:
        return repr(self._description)

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
        return ServerTools(self._description, prefix=prefix, deferred=deferred, search=search)

    async def bind(self, name: str) -> object:
        """Connect, for the current run, and return the object that blocks know by a name.

        Args:
            name: The name.

        Raises:
            ServerUnavailableError: The server cannot be started or reached.
            ConfigurationError: The package `mcp` is not installed.
        """
        session = await session_in_run(self._description)
        return session.bound_as(name)


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
        if not is_text(each) or "\0" in each:
            raise NighthawkError(f"The command, arguments and variables of a server are texts, not {each!r}.")
    if not texts[0]:
        raise NighthawkError("The command of a server must not be empty.")
    return Server(
        StdioDescription(
            texts[0],
            tuple(texts[1:]),
            environment=variables,
            folder=None if cwd is None else os.fspath(cwd),
            options=checked_options(PurePath(texts[0]).name, options),
        )
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
    parts = urlsplit(url) if is_text(url) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise NighthawkError(f"The address of a server begins with http:// or https://, not {url!r}.")
    checked = checked_options(parts.hostname, options)
    return Server(HttpDescription(url, headers=_checked_headers(headers or {}), auth=auth, options=checked))


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of every request. Errors quote no value: it may be a key."""
    for name, value in headers.items():
        for text, role in ((name, "name"), (value, "value")):
            if not is_text(text):
                raise NighthawkError(
                    f"The {role} of the header {name!r} is a text, not {type(text).__name__}."
                )
            if not text.isascii() or not text.isprintable():
                raise NighthawkError(
                    f"The {role} of the header {name!r} has characters that HTTP does not allow: use ASCII."
                )
    return dict(headers)


@dataclass(kw_only=True, eq=False)
class ServerTool(ForeignTool):
    """A tool of a server. It calls the session of the run that it is called in.

    Args:
        name: See `ForeignTool`.
        description: See `ForeignTool`.
        function: See `ForeignTool`.
        metadata: See `ForeignTool`.
        parameters: See `ForeignTool`.
        source: See `ForeignTool`.
        definition_digest: See `ForeignTool`.
        server: The server.
    """

    server: ServerDescription

    local_only_reason: ClassVar[str] = _LOCAL_ONLY

    def is_same(self, other: Tool) -> bool:
        """Whether another one is the same tool of the same server."""
        return (
            isinstance(other, ServerTool) and other.server is self.server and other.own_name == self.own_name
        )


class ServerTools(ToolSet):
    """The tools of a server; see `Server.tools`.

    Args:
        server: The server.
        prefix: The beginning of their names.
        deferred: Whether models have to look for them.
        search: The search for deferred tools.

    Raises:
        ToolRegistrationError: The prefix cannot begin a name, or the search is unknown.
    """

    local_only_reason = _LOCAL_ONLY

    def __init__(self, server: ServerDescription, *, prefix: str, deferred: bool, search: ToolSearch) -> None:
        check_set_arguments(prefix, deferred=deferred, search=search)
        super().__init__(deferred=deferred, search=search)
        self._server = server
        self._prefix = prefix
        self._digests: list[str] = []

    async def prepare(self) -> None:
        """Take the tools that the server has by now; connects to it if the run has not."""
        session = await session_in_run(self._server)
        await session.refresh()
        digests = [tool.digest for tool in session.tools.values()]
        if digests != self._digests:
            made = [self._tool(each) for each in session.tools.values()]
            self.tools = [each for each in made if each.name not in PROVIDED_TOOL_NAMES]
            for each in made:
                if each.name in PROVIDED_TOOL_NAMES:
                    text = "%s: tool %r is left out: it has the name of a provided tool; set prefix="
                    _LOGGER.warning(text, self._server.name, each.name)
            self._digests = digests

    def _tool(self, facts: ToolFacts) -> Tool:
        from .session import as_effect  # here, because journals are not loaded before the package mcp is

        own_names = _own_names(facts)

        async def call(tool: ToolFacts, arguments: dict[str, object]) -> object:
            session = await session_in_run(self._server)
            given = {own_names.get(name, name): value for name, value in arguments.items()}
            return await session.call_tool(tool, given)

        tool = ServerTool(
            name=facts.name,
            description=facts.description,
            function=as_effect(self._server.name, facts, call),
            parameters=_parameters(facts, own_names),
            source=f"server {self._server.name!r}",
            definition_digest=partial(self._definition_now, facts.name),
            server=self._server,
        )
        return tool.with_prefix(self._prefix) if self._prefix else tool

    def _definition_now(self, tool: str) -> object:
        """The definition of a tool in the run of the caller; None if there is no session."""
        session = find_session(self._server)
        return None if session is None else session.shown_to_people(tool)


def _own_names(facts: ToolFacts) -> Mapping[str, str]:
    """The names of parameters that some provider refuses, by those that models use in their place."""
    own_names: dict[str, str] = {}
    for own_name in facts.properties:
        if _PARAMETER.fullmatch(own_name) is None:
            name = valid_tool_name(own_name)
            while name in own_names or name in facts.properties:
                name += "_"
            own_names[name] = own_name
    return own_names


def _parameters(facts: ToolFacts, own_names: Mapping[str, str]) -> dict[str, Any]:
    """The JSON Schema of the arguments, with the names that models use."""
    schema: dict[str, Any] = {name: each for name, each in facts.input_schema.items() if name != "$schema"}
    if own_names:
        names = {own_name: name for name, own_name in own_names.items()}
        schema["properties"] = {names.get(own, own): each for own, each in facts.properties.items()}
        schema["required"] = [names.get(own, own) for own in facts.required]
    return schema
