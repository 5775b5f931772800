"""The WebSocket of a `ModelServer`, for OpenAI Responses. It needs the extra `websocket`.

A connection keeps the last response of each lane, and forgets it when a response of the lane fails. Lanes run
at once, up to a limit; the requests of one lane run in order.

A running response can be steered: it ends after its next item, and the server goes on with what the user
said; or it ends with calls of tools, and what was said waits for their results.
"""

import json
import re
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, generate_accept_token

from ..types.json import is_json_object
from .model_reply import ModelReply, RecordedRequest, as_objects, to_json
from .model_server_http import ServerSocket

_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_MOST_LANES = 32
_MOST_IN_FLIGHT = 16
_CONNECTION_LIMIT = "websocket_connection_limit_reached"
_GOOD_ENDS = ("response.completed", "response.incomplete")

Answer: TypeAlias = Callable[
    [RecordedRequest, RecordedRequest], Awaitable[tuple[ModelReply, Iterable[bytes]]]
]
"""Returns the reply to a request, and its events.

The second argument is the request with the whole conversation in its body, as HTTP would bring it.
"""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A response that a connection keeps: its id, and the conversation up to its end."""

    response_id: str
    items: tuple[Any, ...]
    said: tuple[Any, ...] = ()


class _Running:
    """A response in flight, and what the user said meanwhile, as messages of their input."""

    def __init__(self, lane: str | None) -> None:
        self.lane = lane
        self.response_id = ""
        self.said: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.done: list[Any] = []
        self.is_ending = False


class ServedSocket:
    """Serves one WebSocket.

    Args:
        connection: The connection; the caller closes it.
        request: The request that opens the socket.
        answer: Answers the requests on it.
        most_responses: The responses after which it has reached its limit; None for no limit.
        has_steering: Whether running responses can be steered.
    """

    def __init__(
        self,
        connection: ServerSocket,
        request: RecordedRequest,
        answer: Answer,
        *,
        most_responses: int | None,
        has_steering: bool,
    ) -> None:
        self._connection = connection
        self._request = request
        self._answer = answer
        self._most_responses = most_responses
        self._has_steering = has_steering
        self._protocol = Connection(ConnectionType.SERVER)
        self._writing = anyio.Lock()
        self._kept: dict[str | None, _Kept] = {}
        self._lanes: dict[str | None, MemoryObjectSendStream[dict[str, Any]]] = {}
        self._in_flight = anyio.Semaphore(_MOST_IN_FLIGHT)
        self._responses = 0
        self._running: dict[str | None, _Running] = {}
        self._steers = 0

    async def serve(self, received: bytes) -> None:
        """Serve the client until it leaves, or a reply ends the connection.

        Args:
            received: Bytes that came together with the request.
        """
        token = generate_accept_token(self._request.headers["sec-websocket-key"].encode()).decode()
        await self._connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            + f"sec-websocket-accept: {token}\r\n\r\n".encode()
        )
        with suppress(ConnectionError, LocalProtocolError):
            async with anyio.create_task_group() as task_group:
                await self._read(received, task_group)
                task_group.cancel_scope.cancel()

    async def _read(self, data: bytes, task_group: TaskGroup) -> None:
        parts: list[str] = []
        while True:
            if data:
                self._protocol.receive_data(data)
            for event in self._protocol.events():
                if isinstance(event, CloseConnection):
                    with suppress(ConnectionError, LocalProtocolError):
                        await self._send(event.response())
                    return
                if isinstance(event, Ping):
                    await self._send(event.response())
                elif isinstance(event, TextMessage):
                    parts.append(event.data)
                    if event.message_finished:
                        await self._take("".join(parts), task_group)
                        parts.clear()
            data = await self._connection.receive()
            if not data:
                return

    async def _take(self, text: str, task_group: TaskGroup) -> None:
        message = _as_object(text)
        if message is not None and message.get("type") == "response.steer":
            await self._steer(message)
            return
        if message is None or message.get("type") != "response.create":
            await self._refuse("The message is no 'response.create' event.", "invalid_request", None)
            return
        lane: object = message.get("stream_id")
        if lane is not None and not (isinstance(lane, str) and _STREAM_ID.fullmatch(lane)):
            await self._refuse("The 'stream_id' field must be a non-empty string.", "invalid_stream_id", None)
        else:
            await self._queue(lane, {**message, "": text}, task_group)

    async def _steer(self, message: dict[str, Any]) -> None:
        name, said = message.get("previous_response_id"), message.get("input")
        running = next((each for each in self._running.values() if each.response_id == name), None)
        steer = {"previous_response_id": name}
        if running is None or not self._has_steering:
            code = "response_not_active" if self._has_steering else "steering_not_supported"
            error = {"type": "invalid_request_error", "code": code, "message": "It cannot be steered."}
            failed = {"type": "response.steer.failed", "steer": {**steer, "input": said}, "error": error}
            await self._send_message(failed if running is None else {**failed, **_of(running.lane)})
            return
        self._steers += 1
        steer["id"] = f"steer_{self._steers}"
        messages = as_objects(said) or [{"role": "user", "content": said}]
        running.said += [{"type": "message", **each} for each in messages]
        running.names.append(steer["id"])
        await self._send_message({"type": "response.steer.accepted", "steer": steer, **_of(running.lane)})

    async def _queue(self, lane: str | None, message: dict[str, Any], task_group: TaskGroup) -> None:
        if lane not in self._lanes:
            if lane is not None and len(self._lanes.keys() - {None}) >= _MOST_LANES:
                text = f"This WebSocket connection has reached its {_MOST_LANES} distinct stream IDs."
                await self._refuse(text, "websocket_stream_limit_reached", lane)
                return
            send, receive = anyio.create_memory_object_stream[dict[str, Any]](1000)
            self._lanes[lane] = send
            task_group.start_soon(self._serve_lane, lane, send, receive, task_group)
        await self._lanes[lane].send(message)

    async def _serve_lane(self, lane: str | None, send: Any, receive: Any, task_group: TaskGroup) -> None:
        with send, receive, suppress(ConnectionError, LocalProtocolError):
            async for message in receive:
                async with self._in_flight:
                    if not await self._respond(lane, message):
                        break
            task_group.cancel_scope.cancel()

    async def _respond(self, lane: str | None, message: dict[str, Any]) -> bool:
        """Answer a request; return whether the connection goes on."""
        if self._most_responses is not None and self._responses >= self._most_responses:
            text = "Responses websocket connection limit reached (60 minutes)."
            await self._refuse(text, _CONNECTION_LIMIT, lane)
            await self._send(CloseConnection(code=1000))
            return False
        self._responses += 1
        request = self._recorded(message)
        if request is None:
            self._kept.pop(lane, None)
            name = message["previous_response_id"]
            text = f"Previous response with id '{name}' not found."
            await self._refuse(text, "previous_response_not_found", lane, param="previous_response_id")
            return True
        whole = _whole(request)
        reply, events = await self._answer(request, whole)
        await anyio.sleep(reply.pacing.first_byte_seconds)
        if reply.ending_after == "request":
            return await self._end(reply)
        if reply.status != 200:
            self._kept.pop(lane, None)
            return await self._send_error(reply, events, lane)
        running = self._running[lane] = _Running(lane)
        try:
            goes_on = await self._send_events(reply, events, request, running)
        finally:
            del self._running[lane]
        if not goes_on or not running.said:
            return goes_on
        return await self._go_on(running, message)

    async def _go_on(self, running: _Running, message: dict[str, Any]) -> bool:
        """Answer what the user said while a response was running, or let it wait for the results of calls."""
        kept = self._kept.get(running.lane)
        if kept is None or kept.response_id != running.response_id:
            return True
        if calls := [item for item in running.done if item.get("type") == "function_call"]:
            self._kept[running.lane] = replace(kept, said=tuple(running.said))
            stubs = [
                {"type": "function_call_output", "call_id": each.get("call_id"), "name": each.get("name")}
                for each in calls
            ]
            for name in running.names:
                steer = {"id": name, "previous_response_id": running.response_id}
                pending = {"type": "response.steer.pending", "steer": steer, "required_input": stubs}
                reason = {"reason": "waiting_for_required_input"}
                await self._send_message({**pending, **reason, **_of(running.lane)})
            return True
        again = {**message, "previous_response_id": running.response_id, "input": running.said}
        again[""] = json.dumps({name: each for name, each in again.items() if name})
        return await self._respond(running.lane, again)

    def _recorded(self, message: dict[str, Any]) -> RecordedRequest | None:
        """The request as it arrived; None if it continues a response that is not kept."""
        body = {name: each for name, each in message.items() if name not in ("", "type", "stream_id")}
        earlier: tuple[Any, ...] = ()
        if (name := body.get("previous_response_id")) is not None:
            kept = next((each for each in self._kept.values() if each.response_id == name), None)
            if kept is None:
                return None
            earlier = (*kept.items, *kept.said)
        return replace(
            self._request,
            method="WEBSOCKET",
            content=message[""].encode(errors="surrogatepass"),
            body={**body, "stream": True},
            earlier_items=earlier,
            stream_id=message.get("stream_id"),
        )

    async def _send_error(self, reply: ModelReply, events: Iterable[bytes], lane: str | None) -> bool:
        content = _as_object(b"".join(events)) or {}
        error: object = content.get("error", content)
        message: dict[str, Any] = {"type": "error", "status": reply.status, "error": error}
        if reply.headers:
            message["headers"] = dict(reply.headers)
        await self._send_message({**message, **_of(lane)})
        return True

    async def _send_events(
        self, reply: ModelReply, events: Iterable[bytes], request: RecordedRequest, running: _Running
    ) -> bool:
        lane = running.lane
        for number, event in enumerate(_messages(events)):
            if number:
                await anyio.sleep(reply.pacing.between_writes_seconds)
            rest = None if not isinstance(reply.ending_after, int | float) else reply.ending_after - number
            if rest is not None and rest <= 0:
                return await self._end(reply)
            data = _data_of(event)
            if data is None:  # a comment shows that the server is there
                await self._send(Ping(payload=b"still here"))
                continue
            content = _as_object(data)
            if content is not None:
                content = _steered(content, running)
                if content is None:
                    continue
                _note(content, running)
                data = to_json({**content, **_of(lane)})
                self._keep(content, request, lane)
            if rest is not None and rest < 1:
                frame = frames_of(data)
                await self._write(frame[: int(len(frame) * rest)])
                return await self._end(reply)
            await self._write(frames_of(data, reply.pacing.write_bytes))
            if reply.fault == "broken_chunks" and number + 1 == reply.fault_after:
                await self._write(b"\x87\x04oops")  # a control frame that nobody knows
                return False
        return reply.ending == "complete" or await self._end(reply)

    def _keep(self, event: dict[str, Any], request: RecordedRequest, lane: str | None) -> None:
        """Keep the response with its last event."""
        kind: object = event.get("type")
        response: object = event.get("response")
        if kind in _GOOD_ENDS and is_json_object(response):
            new = as_objects(request.body.get("input"))
            items = (*request.earlier_items, *new, *as_objects(response.get("output")))
            self._kept[lane] = _Kept(str(response.get("id")), items)
        elif kind in ("error", "response.failed"):
            self._kept.pop(lane, None)

    async def _end(self, reply: ModelReply) -> bool:
        if reply.ending == "hang":
            await anyio.sleep_forever()
        if reply.ending == "reset":
            self._connection.reset_at_end()
        return reply.ending == "complete"

    async def _refuse(self, text: str, code: str, lane: str | None, param: str | None = None) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": text, "param": param}
        await self._send_message({"type": "error", "status": 400, "error": error, **_of(lane)})

    async def _send_message(self, message: dict[str, Any]) -> None:
        await self._write(frames_of(to_json(message)))

    async def _send(self, event: Event) -> None:
        await self._write(self._protocol.send(event))

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await self._connection.send(data)


def _note(event: dict[str, Any], running: _Running) -> None:
    response: object = event.get("response")
    if is_json_object(response):
        running.response_id = str(response.get("id"))
        running.done = as_objects(response.get("output")) or running.done
    elif event.get("type") == "response.output_item.done":
        running.done.append(event.get("item") or {})


def _steered(event: dict[str, Any], running: _Running) -> dict[str, Any] | None:
    """An event of a response; once the user steers it, none of another item, and then its end.

    An item in progress is finished, and after calls of tools the response ends as it would.
    """
    has_calls = any(item.get("type") == "function_call" for item in running.done)
    if event.get("type") == "response.output_item.added" and running.said and not has_calls:
        running.is_ending = True
    if not running.is_ending:
        return event
    response: object = event.get("response")
    if event.get("type") not in _GOOD_ENDS or not is_json_object(response):
        return None
    while running.done and running.done[-1].get("type") == "reasoning":  # it led to nothing
        running.done.pop()
    details = {"incomplete_details": {"reason": "steered"}, "status": "incomplete", "output": running.done}
    return {**event, "type": "response.incomplete", "response": {**response, **details}}


def _whole(request: RecordedRequest) -> RecordedRequest:
    if not request.earlier_items:
        return request
    body = {**request.body, "input": [*request.earlier_items, *as_objects(request.body.get("input"))]}
    body.pop("previous_response_id", None)
    # What the server knows itself cannot have been changed by the client.
    return replace(request, body=body, content=request.content + to_json(request.earlier_items))


def _of(lane: str | None) -> dict[str, Any]:
    return {} if lane is None else {"stream_id": lane}


def _data_of(event: bytes) -> bytes | None:
    """The data of a server-sent event, or what takes its place; None for a comment."""
    if event.startswith(b":"):
        return None
    lines = [line for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(line[5:].lstrip() for line in lines) if lines else event


def _as_object(data: bytes | str) -> dict[str, Any] | None:
    try:
        decoded: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return decoded if is_json_object(decoded) else None


def _messages(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events of a stream, each in one piece."""
    pieces: list[bytes] = []
    for piece in events:
        pieces.append(piece)
        if piece.endswith((b"\n\n", b"\r\n\r\n")):
            yield b"".join(pieces)
            pieces.clear()
    if pieces:
        yield b"".join(pieces)


_TEXT, _CONTINUATION, _FINAL = 0x1, 0x0, 0x80


def frames_of(data: bytes, at_once: int | None = None) -> bytes:
    """Return a text message as frames; it need not be UTF-8, as faults require, so no library writes them.

    Args:
        data: The message.
        at_once: Bytes per frame; None for a single one.
    """
    size = at_once or max(len(data), 1)
    starts = range(0, len(data), size) or range(1)
    frames: list[bytes] = []
    for start in starts:
        part = data[start : start + size]
        final = _FINAL if start + size >= len(data) else 0
        opcode = _CONTINUATION if start else _TEXT
        frames.append(bytes([final | opcode]) + _length(len(part)) + part)
    return b"".join(frames)


def _length(size: int) -> bytes:
    if size < 126:
        return bytes([size])
    return b"\x7e" + struct.pack("!H", size) if size < 1 << 16 else b"\x7f" + struct.pack("!Q", size)
