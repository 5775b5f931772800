"""One connection to a server: its transport, the client of the package `mcp` on it, and what went wrong."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from types import TracebackType
from typing import Any, cast

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, Implementation, JSONRPCError, JSONRPCResponse, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..causes import leaves_of
from ..policies.egress.policy import ActiveEgress
from ..values.error_text import describe_error
from .callbacks import Callbacks
from .description import HttpDescription, ServerDescription, StdioDescription
from .errors import ServerUnavailableError
from .json_data import characters
from .methods import ToolFacts
from .screening import MAX_ENTRIES, RefusedResultError, Screen
from .transports import EgressTransport, ServerProcess, Streams, bound, screened

_LOGGER = logging.getLogger("nighthawk.mcp")
_READ_SECONDS = 300.0
_OTHER_SECONDS = 30.0
_MAX_PAGES = 1_000


class Connection:
    """One connection to a server. Its client is entered and left in the same task.

    Args:
        server: The server.
        callbacks: Answers the server's requests, and takes its notifications.
        egress: The hosts that may be reached; None for all.

    Attributes:
        client: The client.
        is_lost: Set when no further message will come.
        failed_status: The last status of HTTP that was an error; None for none.
    """

    def __init__(
        self, server: ServerDescription, callbacks: Callbacks, egress: ActiveEgress | None = None
    ) -> None:
        self._server = server
        self._egress = egress
        self._process = ServerProcess(server) if isinstance(server, StdioDescription) else None
        self.is_lost = anyio.Event()
        self.failed_status: int | None = None
        self._screen = Screen(server, self._find_version)
        self.client = Client(
            cast("Any", self._transport()),
            sampling_callback=callbacks.sample if server.options.sampling else None,
            list_roots_callback=callbacks.list_roots if server.options.roots else None,
            logging_callback=callbacks.log,
            log_level="info",
            message_handler=callbacks.note,
            elicitation_callback=callbacks.elicit,
            client_info=Implementation(name="nighthawk-async", version=version("nighthawk-async")),
            cache=None,
        )

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Streams, None]:
        opened = self._http_transport() if self._process is None else self._process.transport()
        async with opened as (received, sent):
            yield _Received(received, self.is_lost, self._screen), sent

    def _find_version(self) -> str | None:
        try:
            return self.client.session.protocol_version
        except RuntimeError:  # there is no session yet
            return None

    @asynccontextmanager
    async def _http_transport(self) -> AsyncGenerator[Streams, None]:
        server = cast("HttpDescription", self._server)
        limit = server.options.call_timeout
        read = None if limit is None else max(_READ_SECONDS, limit)
        client = httpx2.AsyncClient(
            transport=None if self._egress is None else EgressTransport(self._egress),
            headers={"accept-encoding": "identity", **server.headers},
            auth=screened(server.auth),
            timeout=httpx2.Timeout(_OTHER_SECONDS, read=read),
            event_hooks={"response": [self._note_response]},
        )
        most = server.options.max_message_bytes
        async with (
            client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as streams,
        ):
            yield streams

    async def _note_response(self, response: httpx2.Response) -> None:
        bound(response, self._server.options.max_message_bytes)
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            self.failed_status = response.status_code

    @property
    def has_ended(self) -> bool:
        """Whether no further message will come; also where only the process knows of its end yet."""
        if self._process is not None and self._process.has_ended:
            self.is_lost.set()
        return self.is_lost.is_set()

    @property
    def failed_status_text(self) -> str:
        """The last status of HTTP that was an error, in words; empty for none."""
        if self.failed_status is None:
            return ""
        try:
            return f"HTTP {self.failed_status} {HTTPStatus(self.failed_status).phrase}"
        except ValueError:
            return f"HTTP {self.failed_status}"

    @property
    def says(self) -> str:
        """The name and the version that the server gives of itself."""
        info = self.client.server_info
        return characters(f"{info.name} {info.version}") if info is not None else ""

    @property
    def announces_changes(self) -> bool:
        """Whether changes of the tools have to be listened for; earlier versions send them unasked."""
        tools = self.client.server_capabilities.tools
        is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        return is_modern and tools is not None and bool(tools.list_changed)

    async def list_tools(self) -> list[ToolFacts]:
        """Return the tools of the server that are used, all pages."""
        if self.client.server_capabilities.tools is None:
            return []
        self._screen.begin_list_of_tools()
        found: dict[str, ToolFacts] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            for tool in page.tools:  # those that are used: the others are left out before
                found[tool.name] = _facts_of(tool, self._screen.definition_of(tool.name).get("outputSchema"))
            cursor = page.next_cursor
            if len(found) > MAX_ENTRIES:
                _LOGGER.warning("%s: only %d of its tools are used", self._server.name, MAX_ENTRIES)
                return list(found.values())[:MAX_ENTRIES]
            if cursor is None:
                break
        else:
            _LOGGER.warning("%s: only %d pages of its list of tools are used", self._server.name, _MAX_PAGES)
        return list(found.values())

    def failure_to_open(self, error: BaseException | None) -> ServerUnavailableError:
        """Return the error for a connection that could not be opened.

        Args:
            error: The error; None if it took too long.
        """
        options = self._server.options
        if error is None:
            reason = f"it did not answer in {options.connect_timeout:g} seconds (connect_timeout)"
        else:
            reason = self._reason_of(error)
        if self.failed_status is not None:
            reason += f"; its last answer was {self.failed_status_text}"
        process = self._process
        if process is not None and process.garbage is not None:
            reason += f"; it wrote to its standard output what is no message: {process.garbage!r}"
        if process is not None and process.last_lines:
            reason += "; the end of its standard error: " + " | ".join(process.last_lines)
        return ServerUnavailableError(f"Server {options.name!r} cannot be used: {reason}").without_content(
            f"Server {options.name!r} cannot be used"
        )

    def _reason_of(self, error: BaseException) -> str:
        leaves = list(leaves_of(error))
        server = self._server
        for leaf in leaves:
            if isinstance(leaf, OSError) and isinstance(server, StdioDescription):
                if isinstance(leaf, FileNotFoundError) and leaf.filename in (server.command, None):
                    return f"there is no command {server.command!r}"
                return f"{server.command!r} cannot be started: {leaf}"
        if isinstance(server, HttpDescription):
            for leaf in leaves:
                if isinstance(leaf, httpx2.HTTPError):
                    return f"{server.target} cannot be reached: {describe_error(leaf)}"
        leaf = next((each for each in leaves if not isinstance(each, MCPError)), leaves[0])
        return str(leaf) if isinstance(leaf, MCPError) else describe_error(leaf)


def _facts_of(tool: Tool, output_schema: Mapping[str, Any] | None) -> ToolFacts:
    definition = tool.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta", "icons"})
    if output_schema is not None:
        definition["outputSchema"] = output_schema
    return ToolFacts(
        tool.name,
        tool.description or tool.title or "",
        input_schema=tool.input_schema,
        output_schema=output_schema,
        hints=definition.get("annotations", {}),
        definition=definition,
    )


class _Received:
    """The messages from a server; reports their end.

    Args:
        stream: The stream of the transport.
        ended: Set at its end.
        screen: Screens results.
    """

    def __init__(self, stream: Any, ended: anyio.Event, screen: Screen) -> None:
        self._stream = stream
        self._ended = ended
        self._screen = screen

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last message, where the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        try:
            received = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise
        if isinstance(received, SessionMessage) and isinstance(received.message, JSONRPCResponse):
            try:
                received.message.result = await self._screen.screened(received.message.result)
            except RefusedResultError as error:
                answer = ErrorData(code=INVALID_REQUEST, message=str(error))
                received.message = JSONRPCError(jsonrpc="2.0", id=received.message.id, error=answer)
        return received

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Received":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
