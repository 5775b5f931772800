"""A server of the protocol, whatever its transport, and its run."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from ..actors import BareTaskGroup
from ..asgi.service import Service
from ..errors import NighthawkError
from ..kernel.run import Run
from .package import load_modules
from .serving_calls import ServedCalls
from .serving_rounds import Rounds
from .serving_tools import ServedTool

_LIST_SECONDS = 60
"""The number of seconds for which clients may keep the list of tools."""


class Description(Struct, frozen=True, kw_only=True):
    """A server as clients see it.

    Args:
        name: Its name.
        version: Its version.
        instructions: A text for the models of clients; None for none.
    """

    name: str
    version: str
    instructions: str | None


async def load_package() -> None:
    """Import what servers need of the package `mcp`."""
    await load_modules(*(f"mcp.server.{name}" for name in ("lowlevel", "stdio", "streamable_http_manager")))


class ServedProtocol:
    """The tools of a server, its run, and the calls in progress.

    Args:
        tools: The tools by name.
        service: The run, and the calls in progress.
        description: The server as clients see it.
        max_argument_bytes: The maximum size of the arguments of a call.
    """

    def __init__(
        self,
        tools: Mapping[str, ServedTool],
        service: Service,
        description: Description,
        *,
        max_argument_bytes: int,
    ) -> None:
        self.service = service
        self._description = description
        self._calls = ServedCalls(tools, service, max_argument_bytes=max_argument_bytes)

    @asynccontextmanager
    async def active(self) -> AsyncGenerator[Any, None]:
        """Serve during the `async with` statement, with one run; yields the server of the package.

        Raises:
            NighthawkError: The function that makes the run has made something else.
        """
        async with self.service.lifespan(), BareTaskGroup() as tasks:
            self._calls.rounds = Rounds(tasks)
            try:
                yield self._made_server()
            finally:
                self._calls.rounds = None
                tasks.cancel_scope.cancel()

    def _made_server(self) -> Any:
        from mcp.server.caching import CacheHint
        from mcp.server.lowlevel import Server

        handlers: dict[str, Any] = {  # these return JSON, which the package takes as well as its own types
            "on_list_tools": self._calls.list_tools,
            "on_call_tool": self._calls.call_tool,
        }
        return Server[Any](
            self._description.name,
            version=self._description.version,
            instructions=self._description.instructions,
            cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_SECONDS * 1000, scope="private")},
            get_tool_input_schema=self._calls.find_schema,
            **handlers,
        )


def checked_run(made: object) -> Run:
    """Check the run that a factory has made, and return it.

    Args:
        made: The value that it has returned.

    Raises:
        NighthawkError: It is no run.
    """
    if not isinstance(made, Run):
        raise NighthawkError(
            f"run must be a function that returns a new run, such as lambda: nighthawk_async.run(executor); "
            f"it has returned {made!r}"
        )
    return made
