"""Descriptions of servers: a command to start, or an address, and options."""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, TypedDict, cast
from urllib.parse import urlsplit

from ..actors.errors import check_seconds
from ..errors import NighthawkError
from ..suggestions import did_you_mean
from ..types.json import is_text


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
        max_message_bytes: The greatest size of a message from the server, in bytes; 64 MiB by default. A
            longer one ends the connection.
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
    max_message_bytes: int
    only: Collection[str]
    sampling: bool
    roots: Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerOptions:
    """The options of a server; see `ServerArguments`."""

    name: str
    connect_timeout: float = 30.0
    call_timeout: float | None = 120.0
    max_concurrent: int = 1
    max_restarts: int = 5
    max_message_bytes: int = 64 * 1024 * 1024
    only: tuple[str, ...] | None = None
    sampling: bool = False
    roots: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        """Whether a tool is used."""
        return self.only is None or any(fnmatchcase(tool, pattern) for pattern in self.only)


class ServerDescription(ABC):
    """The description of a server, which is its identity as well.

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
    @abstractmethod
    def target(self) -> str:
        """The command or the address, without arguments and secrets."""

    def __repr__(self) -> str:
        return f"<server {self.name!r} ({self.target})>"


class StdioDescription(ServerDescription):
    """A server that is started as a process, and spoken to over its standard input and output.

    Args:
        command: The command.
        arguments: Its arguments.
        environment: Its further environment variables.
        folder: Its working directory; None for that of the program.
        options: The options that all servers have.
    """

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


class HttpDescription(ServerDescription):
    """A server that is reached over Streamable HTTP.

    Args:
        url: The address.
        headers: Headers of every request.
        auth: The authentication of every request.
        options: The options that all servers have.
    """

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


def checked_options(default_name: str, given: ServerArguments) -> ServerOptions:
    """Return the options of a server.

    Raises:
        NighthawkError: One is invalid, or there is none of that name.
    """
    name = given.get("name", default_name)
    for each in given:
        if each not in ServerArguments.__annotations__:
            hint = did_you_mean(each, ServerArguments.__annotations__)
            raise NighthawkError(f"Server {name!r}: there is no option {each!r}.{hint}")
    if not is_text(name) or not name:
        raise NighthawkError(f"The name of a server is a text that is not empty, not {name!r}.")
    try:
        check_seconds("connect_timeout", given.get("connect_timeout", 0))
        check_seconds("call_timeout", given.get("call_timeout"), or_none=True)
    except ValueError as error:
        raise NighthawkError(f"Server {name!r}: {error}") from None
    for option, least in (("max_concurrent", 1), ("max_restarts", 0), ("max_message_bytes", 1)):
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
