"""What the tests of WebSockets share: a server that writes raw frames, and steps of several turns."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping, Pong, TextMessage
from wsproto.utilities import generate_accept_token

import nighthawk_async as nh
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from nighthawk_async.testing.model_server_websocket import frames_of

SECRET = "sk-very-secret-key"
LANES = {"endpoint_rules": "openai-responses"}
"""Settings of an endpoint with several lanes on a socket."""


async def look_up(number: int) -> str:
    """Look up what belongs to a number."""
    return f"what belongs to {number}"


@nh.natural_function(tools=[look_up])
async def work(topic: str) -> str:
    result = ""
    """natural
    Use look_up as often as you need, then set <:result> to what you have learned about <topic>.
    """
    return result


def after_calls(most: int, **fields: Any) -> Callable[[RecordedRequest], ModelReply]:
    """Replies that call a tool a number of times and then end the step."""

    def reply(request: RecordedRequest) -> ModelReply:
        items = [*request.earlier_items, *request.body["input"]]
        calls = sum(item.get("type") == "function_call" for item in items)
        if calls < most:
            call = tool_call("look_up", number=calls)
            return ModelReply(reasoning=f"step {calls}", tool_calls=(call,), **fields)
        return end(f"{calls} calls", **fields)

    return reply


def end(result: str, **fields: Any) -> ModelReply:
    return ModelReply(
        tool_calls=(tool_call("nh_outcome", kind="pass", bindings={"result": result}),), **fields
    )


def executor_at(
    base_url: str, transport: str = "websocket", *, max_turns: int | None = None, **settings: Any
) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(
        model="openai-responses:gpt-5.2",
        model_settings={"base_url": base_url, "api_key": SECRET, "transport": transport, **settings},
        **({} if max_turns is None else {"max_turns": max_turns}),
    )
    return nh.AgentStepExecutor.from_configuration(configuration)


def socket_model(base_url: str, transport: str = "websocket", **settings: Any) -> Model:
    """A model at a server, without retries unless told."""
    own = {"base_url": base_url, "api_key": SECRET, "transport": transport, "max_retries": 0, **settings}
    return create_model("openai-responses:tested", settings=own, environment={})


def sent_items(server: ModelServer) -> list[list[str]]:
    """The types of the items of each request, as they arrived."""
    return [[str(item.get("type")) for item in request.body["input"]] for request in server.requests]


class RawSocket:
    """The server's end of a WebSocket, which may write anything."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._protocol = Connection(ConnectionType.SERVER)
        self.closed_with: CloseConnection | None = None
        self.pongs: list[bytes] = []

    async def accept(self) -> bytes:
        """Answer the handshake, and return it."""
        head = b""
        while b"\r\n\r\n" not in head:
            head += await self.stream.receive()
        lines = dict(line.partition(": ")[::2] for line in head.decode().split("\r\n"))
        token = generate_accept_token(lines["sec-websocket-key"].encode()).decode()
        await self.stream.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {token}\r\n\r\n".encode()
        )
        return head

    async def read(self) -> dict[str, Any] | None:
        """The next message of the client; None when it has left."""
        parts: list[str] = []
        while True:
            for event in self._protocol.events():
                if isinstance(event, TextMessage):
                    parts.append(event.data)
                    if event.message_finished:
                        return json.loads("".join(parts))
                elif isinstance(event, Pong):
                    self.pongs.append(bytes(event.payload))
                elif isinstance(event, Ping):
                    await self.stream.send(self._protocol.send(event.response()))
                elif isinstance(event, CloseConnection):
                    self.closed_with = event
                    return None
            try:
                self._protocol.receive_data(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return None

    async def write(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.stream.send(frames_of(json.dumps(message).encode()))


@asynccontextmanager
async def _until_left() -> AsyncGenerator[None, None]:
    with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
        yield


@asynccontextmanager
async def raw_sockets(serve: Callable[[RawSocket], Awaitable[None]]) -> AsyncGenerator[str, None]:
    """A server that does with each WebSocket what a function says; gives its base URL."""

    async def handle(stream: SocketStream) -> None:
        # A client leaves as soon as it has seen enough.
        async with stream, _until_left():
            socket = RawSocket(stream)
            await socket.accept()
            await serve(socket)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as task_group:
        task_group.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        task_group.cancel_scope.cancel()


def hello(lane: str | None = None, name: str = "resp_1", text: str = "Hello") -> list[dict[str, Any]]:
    """The messages of a response that says something."""
    of_lane = {} if lane is None else {"stream_id": lane}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    response = {"id": name, "status": "completed", "output": [message], "usage": None}
    return [
        {"type": "response.created", "response": {"id": name}, **of_lane},
        {"type": "response.output_text.delta", "output_index": 0, "delta": text, **of_lane},
        {"type": "response.completed", "response": response, **of_lane},
    ]
