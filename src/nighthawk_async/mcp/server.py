"""Servers that programs use: their tools are methods of objects, or tools of models."""

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Unpack
from urllib.parse import urlsplit

from ..errors import NighthawkError
from ..kernel.tools import ToolSearch, ToolSet
from ..types.json import is_text
from .description import (
    HttpDescription,
    ServerArguments,
    ServerDescription,
    StdioDescription,
    checked_options,
)
from .sessions import session_in_run


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
        from .server_tools import ServerTools  # here, because blocks that name the server need no tools

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
