"""The process of a server: messages over its standard input and output, its standard error as a log.

The package `mcp` has such a transport too. This one ends every process of the server's group, also those
that it leaves behind; it bounds what it reads, and keeps the last lines of the standard error for errors.
"""

import json
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from ..line_process import GONE, LineProcess, text_of
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
