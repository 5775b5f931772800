"""Servers from Python: the object of a server, its resources and its prompts."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ..natural.program import is_usable_name
from .errors import McpError
from .json_data import NoJsonError, checked_data
from .methods import ConnectedServer, session_of
from .server import Server, find_run_keeper, open_session, session_in_run
from .values import LinkedResource, PromptDescription, PromptText, ResourceContent, ResourceTemplate

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt

    from .session import Session

_LOGGER = logging.getLogger("nighthawk.mcp")
_MAX_PAGES = 1_000
_MAX_ENTRIES = 5_000


class _Page(Protocol):
    """One page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None for the last one."""
        ...


Page = TypeVar("Page", bound=_Page)


@asynccontextmanager
async def connect(server: Server, *, name: str = "server") -> AsyncGenerator[Any, None]:
    """Use a server in Python: its tools are async methods of the object that this returns.

        async with nh.mcp.connect(files) as f:
            text = await f.read_text_file(path="/data/notes.txt")

    Inside a run, this is the session of the run, which stays open until the run ends. Outside of every run,
    the session ends with the `async with` statement.

    Args:
        server: The server.
        name: The name by which permissions, the tree and errors know the object: its class has this name in
            capitals.

    Raises:
        ServerUnavailableError: The server cannot be started or reached.
        ConfigurationError: The package `mcp` is not installed.
        McpError: An argument is invalid.
    """
    if not isinstance(cast("object", server), Server):
        raise McpError(f"connect takes a server, as nighthawk_async.mcp.stdio makes it, not {server!r}")
    if not is_usable_name(name):
        raise McpError(f"The name of a connected server must be an identifier, not {name!r}")
    if find_run_keeper() is not None:
        yield await server.bind(name)
        return
    async with open_session(server.description) as session:
        yield session.bound_as(name)


async def list_resources(server: ConnectedServer | Server) -> list[LinkedResource]:
    """List the resources of a server.

    Args:
        server: An object that blocks know a server by, or in a run the server itself.

    Raises:
        ServerCallError: The request failed.
    """
    pages = await _pages(
        server, lambda client, cursor: client.list_resources(cursor=cursor), lambda page: len(page.resources)
    )
    return [
        LinkedResource(
            uri=each.uri,
            name=each.title or each.name,
            description=each.description or "",
            media_type=each.mime_type,
            size=each.size,
        )
        for page in pages
        for each in page.resources
    ]


async def list_resource_templates(server: ConnectedServer | Server) -> list[ResourceTemplate]:
    """List the patterns of resources of a server.

    Args:
        server: See `list_resources`.

    Raises:
        ServerCallError: The request failed.
    """
    pages = await _pages(
        server,
        lambda client, cursor: client.list_resource_templates(cursor=cursor),
        lambda page: len(page.resource_templates),
    )
    return [
        ResourceTemplate(
            uri_template=each.uri_template,
            name=each.title or each.name,
            description=each.description or "",
            media_type=each.mime_type,
        )
        for page in pages
        for each in page.resource_templates
    ]


async def read_resource(server: ConnectedServer | Server, uri: str) -> list[ResourceContent]:
    """Read a resource of a server.

    Args:
        server: See `list_resources`.
        uri: The URI of the resource.

    Returns:
        Its contents: usually one, several for a folder.

    Raises:
        ServerCallError: The request failed.
        McpError: The URI has a lone surrogate.
    """
    from .results import resource_value

    _check_texts(uri)
    session = await _session_of(server)
    result = await session.ask(lambda connection, _: connection.client.read_resource(uri))
    return [resource_value(each) for each in result.contents]


async def list_prompts(server: ConnectedServer | Server) -> list[PromptDescription]:
    """List the prompts that a server offers.

    Args:
        server: See `list_resources`.

    Raises:
        ServerCallError: The request failed.
    """
    pages = await _pages(
        server, lambda client, cursor: client.list_prompts(cursor=cursor), lambda page: len(page.prompts)
    )
    return [_described(each) for page in pages for each in page.prompts]


def _described(prompt: "Prompt") -> PromptDescription:
    arguments = prompt.arguments or []
    return PromptDescription(
        name=prompt.name,
        description=prompt.description or prompt.title or "",
        required=tuple(each.name for each in arguments if each.required),
        optional=tuple(each.name for each in arguments if not each.required),
    )


async def get_prompt(server: ConnectedServer | Server, name: str, **arguments: str) -> list[PromptText]:
    """Get a prompt of a server.

    Args:
        server: See `list_resources`.
        name: The name of the prompt.
        arguments: Its arguments.

    Raises:
        ServerCallError: The request failed.
        McpError: A text has a lone surrogate.
    """
    from .results import prompt_texts

    _check_texts(name, *arguments, *arguments.values())
    session = await _session_of(server)
    result = await session.ask(lambda connection, _: connection.client.get_prompt(name, arguments))
    return prompt_texts(result.messages)


def _check_texts(*texts: str) -> None:
    try:
        checked_data(list(texts))
    except NoJsonError as error:
        raise McpError(f"A request cannot be sent: {error}") from None


async def _pages(
    server: ConnectedServer | Server,
    fetch: "Callable[[Client, str | None], Awaitable[Page]]",
    count: "Callable[[Page], int]",
) -> "list[Page]":
    """Fetch all pages of a list."""
    session = await _session_of(server)
    pages: list[Page] = []
    cursor: str | None = None
    entries = 0
    while len(pages) < _MAX_PAGES and entries < _MAX_ENTRIES:
        page = await session.ask(lambda connection, _, at=cursor: fetch(connection.client, at))
        pages.append(page)
        entries += count(page)
        if (cursor := page.next_cursor) is None:
            return pages
    _LOGGER.warning("%s: only %d pages of a list are used", session.server.name, len(pages))
    return pages


async def _session_of(server: ConnectedServer | Server) -> "Session":
    if isinstance(server, ConnectedServer):
        return session_of(server)
    if not isinstance(cast("object", server), Server):
        raise McpError(
            f"{server!r} is no server: give the object of `servers=`, or of nighthawk_async.mcp.connect"
        )
    if find_run_keeper() is None:
        raise McpError(f"{server!r} has no session here; use nighthawk_async.mcp.connect.")
    return await session_in_run(server.description)
