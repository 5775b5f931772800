"""The transports of connections: the process of a server, or HTTP with its authentication and limits.

The package `mcp` has a transport to processes too. This one ends every process of the server's group, also
those that it leaves behind; it bounds what it reads, and keeps the last lines of the standard error.
"""

import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

import anyio
import anyio.lowlevel
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.auth import OAuthFlowError
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from ..credentials.errors import CredentialError, error_of_function
from ..line_process import GONE, LineProcess, text_of
from ..policies.egress.policy import ActiveEgress, host_of
from ..threads import call_in_thread
from ..types.json import is_json_object
from .description import StdioDescription
from .json_data import with_characters

Streams: TypeAlias = tuple[Any, Any]

_LOGGER = logging.getLogger("nighthawk.mcp")
_MAX_BYTES_AT_ONCE = 256 * 1024
"""The size of a message that is read on the event loop; a longer one is read in a thread."""
_MAX_DIGITS = 4_000
_MAX_QUOTED_CHARACTERS = 200
_FLUSH_SECONDS = 0.5
_END_SECONDS = 2.0
_TERMINATE_SECONDS = 1.0


class ServerProcess:
    """The process of one connection.

    Args:
        server: The server.

    Attributes:
        garbage: The beginning of the first line of its standard output that is no message; None for none.
    """

    def __init__(self, server: StdioDescription) -> None:
        self._server = server
        self.garbage: str | None = None
        self._process: LineProcess | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; known before its event loop has noticed."""
        return self._process is not None and self._process.has_ended

    @property
    def last_lines(self) -> Sequence[str]:
        """The last lines of its standard error."""
        return () if self._process is None else self._process.last_lines

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Streams, None]:
        """Start the process, and end it with its group; the messages as the package `mcp` takes them.

        Raises:
            OSError: It cannot be started.
        """
        server = self._server
        process = self._process = await LineProcess.start(
            server.name,
            [server.command, *server.arguments],
            environment={**get_default_environment(), **server.environment},
            folder=server.folder,
            logger=_LOGGER,
        )
        to_client, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        is_written = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, process, to_client)
            group.start_soon(_write, process, from_client, to_client, is_written)
            group.start_soon(process.read_log)
            try:
                yield received, sent
            finally:
                with anyio.CancelScope(shield=True):  # every wait in it is bounded
                    received.close()
                    sent.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await is_written.wait()
                    await process.end(close_seconds=_END_SECONDS, terminate_seconds=_TERMINATE_SECONDS)
                    for stream in (to_client, from_client):
                        stream.close()
                group.cancel_scope.cancel()
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def _read(
        self, process: LineProcess, to_client: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        with suppress(*GONE, anyio.EndOfStream), to_client:
            async for line in process.lines(self._server.options.max_message_bytes):
                is_long = len(line) > _MAX_BYTES_AT_ONCE
                message = await call_in_thread(self._message, line) if is_long else self._message(line)
                if message is not None:
                    await to_client.send(message)
        await process.drain()

    def _message(self, line: bytes) -> SessionMessage | None:
        """Return the message of a line; None for a line that is none, which servers should not write."""
        try:
            return SessionMessage(_read(line))
        except (ValueError, RecursionError):
            text = text_of(line)
            if self.garbage is None and text:
                self.garbage = text
                _LOGGER.warning("%s wrote a line that is no message: %s", self._server.name, text)
            return None


def _read(line: bytes) -> JSONRPCMessage:
    """Return the message of a line, also where a part of it is no strict JSON, such as half a character.

    Characters that are none are question marks then, and a number of thousands of digits is infinite.

    Raises:
        ValueError: It is none.
        RecursionError: It is nested too deeply.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        data = with_characters(json.loads(line.decode(errors="replace"), parse_int=_number))
    try:
        return jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValueError:
        return _refusal(data)


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else math.copysign(math.inf, -(digits[0] == "-"))


def _refusal(data: object) -> JSONRPCError:
    """Return an error in place of an answer that is none, so that its request does not wait for another.

    Raises:
        ValueError: The data is no answer.
    """
    given = data if is_json_object(data) else {}
    if not isinstance(given.get("id"), int | str) or not given.keys() & {"result", "error"}:
        raise ValueError("it is no message")
    text = f"its answer is no message of the protocol: {json.dumps(given)[:_MAX_QUOTED_CHARACTERS]}"
    return JSONRPCError(jsonrpc="2.0", id=given["id"], error=ErrorData(code=INVALID_REQUEST, message=text))


async def _write(
    process: LineProcess,
    from_client: MemoryObjectReceiveStream[SessionMessage],
    to_client: MemoryObjectSendStream[SessionMessage | Exception],
    is_written: anyio.Event,
) -> None:
    try:
        with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.send(text.encode())
    except GONE:
        to_client.close()  # no answer will come, although the process may still be there
    finally:
        is_written.set()


class Authentication(httpx2.Auth):
    """Authenticates as another one does. Its errors are shown by type and place: they may quote a token.

    Those of the package `mcp` stay as they are.

    Args:
        auth: What the program has given: an `httpx2.Auth`, or a function of a request.
    """

    def __init__(self, auth: Any) -> None:
        self._auth = auth if isinstance(auth, httpx2.Auth) else httpx2.FunctionAuth(auth)
        self._name = f"auth={getattr(auth, '__name__', type(auth).__name__)}"

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the flow of the other one."""
        flow = self._auth.async_auth_flow(request)
        failed: CredentialError | None = None
        try:
            sent = await anext(flow)
            while True:
                sent = await flow.asend((yield sent))
        except (StopAsyncIteration, GeneratorExit):
            pass
        except OAuthFlowError:
            raise
        except Exception as error:
            failed = error_of_function(self._name, error)
        finally:
            await flow.aclose()
        if failed is not None:  # here, where it gets no context: that error may hold a secret
            raise failed


def screened(auth: object) -> Any:
    """Return what `httpx2` takes for an authentication; pairs of a name and a password run no code."""
    if isinstance(auth, httpx2.Auth) or callable(auth):
        return Authentication(auth)
    return cast("Any", auth)


_EVENT_STREAM = "text/event-stream"


def bound(response: httpx2.Response, max_bytes: int) -> None:
    """Let the body of a response end with an error where it gets too large; streams of events have no end.

    Args:
        response: The response, whose body is not read yet.
        max_bytes: The most bytes.

    Raises:
        ReadError: It is compressed, which was not asked for.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise httpx2.ReadError(f"its answer is compressed ({encoding!r}), which was not asked for")
    if not response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
        assert isinstance(response.stream, httpx2.AsyncByteStream), "the client is asynchronous"
        response.stream = _BoundedStream(response.stream, max_bytes)


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that raises where it gets too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.ReadError(
                    f"its answer has more than {self._max_bytes:,} bytes (max_message_bytes)"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class EgressTransport(httpx2.AsyncHTTPTransport):
    """Sends requests to hosts that may be reached, also those that a server or an authentication names.

    The addresses of a host are resolved here, checked, and connected to as they were checked. No proxies of
    the environment are used.

    Args:
        egress: The hosts that may be reached.
    """

    def __init__(self, egress: ActiveEgress) -> None:
        super().__init__()
        self._egress = egress

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address that accepts a connection.

        Raises:
            EgressDeniedError: The host may not be reached.
            ConnectError: It cannot be resolved, or no address accepts a connection.
        """
        host, port = host_of(str(request.url))
        try:
            addresses = await self._egress.addresses_of(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error}", request=request) from error
        failure = httpx2.ConnectError(f"{host} has no address", request=request)
        for address in addresses:
            sent = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await super().handle_async_request(sent)
            except httpx2.ConnectError as error:
                failure = error
        raise failure
