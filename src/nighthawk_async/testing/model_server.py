"""A model server on loopback that answers from a script, and misbehaves on request.

It is a real HTTP/1.1 server, for tests of everything between a program and a real endpoint: time limits,
retries, cancellation, broken streams and many connections at once. It supports Chat Completions, OpenAI
Responses, Anthropic Messages and the Gemini API, streamed, whole and in batches, and their endpoints for
files; the path of a request selects the protocol. If none of that matters, use `ScriptedModel`, which needs
no sockets.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import anyio
import h11
from anyio.from_thread import start_blocking_portal

from .model_reply import ModelReply, RecordedRequest, ReplyProtocol, failure, to_json
from .model_server_anthropic import AnthropicReplies
from .model_server_batches import ServedBatches
from .model_server_chat import ChatReplies
from .model_server_files import ServedFiles
from .model_server_google import GoogleReplies
from .model_server_http import (
    HttpResponse,
    ServerListener,
    ServerSocket,
    compose_document,
    compose_response,
    render_reply,
)
from .model_server_responses import ResponsesReplies
from .model_server_rules import checks_of, find_refusal


class ServerConnection:
    """Serves one client until it leaves or a reply ends the connection.

    Args:
        connection: The connection; the caller closes it.
        answer: Returns the reply to a request, and its response.
        serve_socket: Serves a WebSocket from its handshake on; returns whether it has done so.
    """

    def __init__(
        self,
        connection: ServerSocket,
        answer: Callable[[RecordedRequest], Awaitable[tuple[ModelReply, HttpResponse]]],
        serve_socket: Callable[[ServerSocket, RecordedRequest, bytes], Awaitable[bool]],
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._serve_socket = serve_socket
        self._http = h11.Connection(h11.SERVER)
        self._client_keeps = True

    async def serve(self) -> None:
        """Serve the client."""
        with suppress(ConnectionError, h11.ProtocolError):  # the client left, or does not use HTTP
            while (request := await self._read_request()) is not None:
                if "sec-websocket-key" in request.headers and await self._serve_socket(
                    self._connection, request, self._http.trailing_data[0]
                ):
                    return
                if not await self._reply_unless_left(request):
                    return
                self._start_next_request()

    async def _read_request(self) -> RecordedRequest | None:
        head: h11.Request | None = None
        content: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._connection.receive())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                content.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                self._client_keeps = self._http.their_state is h11.DONE
                return _record(head, b"".join(content))
            else:
                return None

    def _start_next_request(self) -> None:
        """Parse with the HTTP library requests only: it refuses to write responses with faults."""
        received, is_closed = self._http.trailing_data
        self._http = h11.Connection(h11.SERVER)
        if received:
            self._http.receive_data(received)
        if is_closed:
            self._http.receive_data(b"")

    async def _reply_unless_left(self, request: RecordedRequest) -> bool:
        """Reply, but stop at once when the client leaves; return whether the connection stays open."""
        goes_on = False
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._wait_until_left, task_group.cancel_scope)
            reply, response = await self._answer(request)
            with suppress(ConnectionError):  # the client left
                await self._write(reply, response)
                goes_on = await self._end(reply, response)
            task_group.cancel_scope.cancel()
        return goes_on

    async def _wait_until_left(self, scope: anyio.CancelScope) -> None:
        while data := await self._connection.receive():
            self._http.receive_data(data)
        scope.cancel()

    async def _write(self, reply: ModelReply, response: HttpResponse) -> None:
        await anyio.sleep(reply.pacing.first_byte_seconds)
        if reply.ending_after == "request":
            return
        await self._connection.send(response.head)
        for number, data in enumerate(response.writes):
            if number:
                await anyio.sleep(reply.pacing.between_writes_seconds)
            await self._connection.send(data)

    async def _end(self, reply: ModelReply, response: HttpResponse) -> bool:
        if reply.ending == "hang":
            await anyio.sleep_forever()
        if reply.ending == "reset":
            self._connection.reset_at_end()
        if reply.ending != "complete":
            return False
        await self._connection.send(response.end)
        return response.is_kept and self._client_keeps


def _record(head: h11.Request, content: bytes) -> RecordedRequest:
    try:
        body: Any = json.loads(content)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        body = None
    return RecordedRequest(
        method=head.method.decode(),
        path=head.target.decode(),
        headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
        content=content,
        body=body,
    )


ReplyHandler: TypeAlias = Callable[[RecordedRequest], ModelReply | Awaitable[ModelReply]]
"""Decides the reply to a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServerConnections:
    """The connections of a server at one moment.

    Args:
        open: Connections that are open now.
        total: Connections that were made so far.
    """

    open: int
    total: int


class ModelServer:
    """Serves scripted replies on loopback while its context lasts.

        async with ModelServer([ModelReply(text="Hello")]) as server:
            settings = {"base_url": server.base_url}
            configuration = StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)

    Without an event loop of your own, use `in_thread`.

    Args:
        replies: The replies, each used once in the order in which requests arrive, or a function, async or
            not, that returns the reply to a request. A request beyond the last reply gets the HTTP status
            400, and one whose reply cannot be made or written gets 500 with the reason; neither stops the
            server.
        checks_requests: Whether requests that a real endpoint would refuse get its error and use no reply:
            tool results without their call, calls without their result, reasoning that is missing, changed or
            unknown, strict tools whose schemas OpenAI does not enforce.
        rules: The provider whose endpoint refuses more than its protocol does, such as `"deepseek"` or
            `"mistral"`: a request that breaks one of its rules gets its error, and uses no reply. None for no
            such rules.
        port: The port on the loopback; 0 for any that is free.
        has_websocket: Whether it serves OpenAI Responses over a WebSocket too; this needs the extra
            `websocket`.
        responses_per_socket: The number of responses after which a WebSocket has reached its limit, which
            providers give in minutes; None for no limit.
        has_steering: Whether responses on a WebSocket can be steered while they run.

    Raises:
        ValueError: There is no provider of the name that `rules` gives.
    """

    def __init__(
        self,
        replies: Iterable[ModelReply] | ReplyHandler,
        *,
        checks_requests: bool = True,
        rules: str | None = None,
        port: int = 0,
        has_websocket: bool = True,
        responses_per_socket: int | None = None,
        has_steering: bool = True,
    ) -> None:
        self._handler = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)
        self._checks_requests = checks_requests
        self._has_websocket = has_websocket
        self._responses_per_socket = responses_per_socket
        self._has_steering = has_steering
        self._rules = checks_of(rules)
        self._protocols: tuple[ReplyProtocol, ...] = (
            ChatReplies(),
            ResponsesReplies(),
            AnthropicReplies(),
            GoogleReplies(),
        )
        self._files = ServedFiles()
        self._batches = ServedBatches(self._files, self._decide_item)
        self._requests: list[RecordedRequest] = []
        self._open = 0
        self._total = 0
        self._wanted_port, self._port = port, 0
        self._resources = AsyncExitStack()
        self._closed: anyio.Event  # belongs to an event loop: replaced when the server is entered

    @classmethod
    @contextmanager
    def in_thread(
        cls,
        replies: Iterable[ModelReply] | ReplyHandler,
        *,
        checks_requests: bool = True,
        rules: str | None = None,
        backend: Literal["asyncio", "trio"] = "asyncio",
    ) -> Generator[Self, None, None]:
        """Return a server with its own event loop in a thread, for programs without one.

        Args:
            replies: The replies, as for the class itself; a function is called in that thread.
            checks_requests: As for the class itself.
            rules: As for the class itself.
            backend: The event loop.
        """
        with (
            start_blocking_portal(backend) as portal,
            portal.wrap_async_context_manager(
                cls(replies, checks_requests=checks_requests, rules=rules)
            ) as server,
        ):
            yield server

    async def __aenter__(self) -> Self:
        """Open the port; connections are accepted when this returns."""
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(ServerListener(self._wanted_port))
            self._closed = anyio.Event()
            self._batches.begin()
            self._files.begin()
            self._port = listener.port
            task_group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(task_group.cancel_scope.cancel)
            task_group.start_soon(listener.serve, self._serve_connection, task_group)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the port and every connection, even during replies."""
        # Without the program's own exception, which the task group would wrap in a group.
        await self._resources.aclose()

    @property
    def base_url(self) -> str:
        """The base URL for clients, for example as the model setting `base_url`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, in the order in which they arrived."""
        return list(self._requests)

    @property
    def batches(self) -> ServedBatches:
        """The batches that clients have submitted; their requests are answered like single ones."""
        return self._batches

    @property
    def files(self) -> ServedFiles:
        """The files that clients have uploaded."""
        return self._files

    @property
    def connections(self) -> ModelServerConnections:
        """The present numbers of connections."""
        return ModelServerConnections(open=self._open, total=self._total)

    async def wait_until_open(self, at_most: int) -> None:
        """Wait until clients have closed connections so that at most a number of them is open.

        Args:
            at_most: The number of connections.
        """
        while self._open > at_most:
            await self._closed.wait()

    async def _serve_connection(self, connection: ServerSocket) -> None:
        self._open += 1
        self._total += 1
        try:
            with connection:
                await ServerConnection(connection, self._answer, self._serve_socket).serve()
        finally:
            self._open -= 1
            self._closed.set()
            self._closed = anyio.Event()

    async def _answer(self, request: RecordedRequest) -> tuple[ModelReply, HttpResponse]:
        """Return the reply to a request and its response. No content of either may stop the server."""
        self._requests.append(request)
        path = request.path.partition("?")[0]
        if (reply := await self._serve_beside(request)) is not None:
            return reply, compose_document(reply)
        protocol = next((each for each in self._protocols if each.serves(path)), None)
        if protocol is None or request.method != "POST":
            message = f"nothing here speaks {request.method} {request.path}"
            return _compose(ModelReply(status=404, text=message), protocol or self._protocols[0], request)
        return _compose(await self._decide(request, protocol), protocol, request)

    async def _serve_socket(
        self, connection: ServerSocket, request: RecordedRequest, received: bytes
    ) -> bool:
        """Serve a WebSocket; return whether there is one at that path."""
        if not self._has_websocket or not self._protocols[1].serves(request.path.partition("?")[0]):
            return False
        from .model_server_websocket import ServedSocket  # here, because it needs an extra

        most = self._responses_per_socket
        socket = ServedSocket(
            connection,
            request,
            self._answer_on_socket,
            most_responses=most,
            has_steering=self._has_steering,
        )
        await socket.serve(received)
        return True

    async def _answer_on_socket(
        self, request: RecordedRequest, whole: RecordedRequest
    ) -> tuple[ModelReply, Iterable[bytes]]:
        """Return the reply to a request on a WebSocket, and its events."""
        self._requests.append(request)
        protocol = self._protocols[1]
        reply = await self._decide(request, protocol, whole)
        try:
            return reply, render_reply(reply, protocol, whole, is_streamed=reply.status == 200)
        except Exception as error:
            instead = failure("the reply cannot be written:", error)
            return instead, render_reply(instead, protocol, whole, is_streamed=False)

    async def _serve_beside(self, request: RecordedRequest) -> ModelReply | None:
        """Return the reply to a request about files or batches; None for another one."""
        try:
            reply = await self._files.serve(request, f"http://127.0.0.1:{self._port}")
            return await self._batches.serve(request) if reply is None else reply
        except Exception as error:
            message = f"the request cannot be understood: {error!r}"
            return ModelReply(status=400, body=to_json({"error": {"message": message}}))

    async def _decide_item(self, request: RecordedRequest) -> tuple[ModelReply, ReplyProtocol]:
        """Return the reply to a request of a batch, and its protocol."""
        path = request.path.partition("?")[0]
        protocol = next(each for each in self._protocols if each.serves(path))
        return await self._decide(request, protocol), protocol

    async def _decide(
        self, request: RecordedRequest, protocol: ReplyProtocol, whole: RecordedRequest | None = None
    ) -> ModelReply:
        """Return the reply to a request.

        Args:
            request: The request as it arrived.
            protocol: Its protocol.
            whole: The same with the whole conversation; None if it arrived so.
        """
        if not isinstance(request.body, dict):
            return ModelReply(status=400, text="the body is no JSON object")
        checked = whole or request
        refused = _check(checked, protocol) if self._checks_requests else None
        refused = refused or find_refusal(checked, self._rules)
        reply: object = refused or await self._next_reply(request)
        return reply if isinstance(reply, ModelReply) else failure(f"{reply!r} is no ModelReply")

    async def _next_reply(self, request: RecordedRequest) -> object:
        if self._handler is not None:
            return await _handle(self._handler, request)
        try:
            return next(self._replies)
        except StopIteration:
            text = f"the script has no reply for request {len(self._requests)}"
            return ModelReply(status=400, text=text)
        except Exception as error:
            return failure("the script of replies raised", error)


async def _handle(handler: ReplyHandler, request: RecordedRequest) -> object:
    """Return the reply of the handler; its exception becomes an error reply that is not retried."""
    try:
        reply = handler(request)
        return await reply if inspect.isawaitable(reply) else reply
    except Exception as error:
        return failure("the reply handler raised", error)


def _check(request: RecordedRequest, protocol: ReplyProtocol) -> ModelReply | None:
    """Return the refusal of a request; None for a valid one. Malformed requests are refused too."""
    try:
        return protocol.check(request)
    except Exception as error:
        return failure("the request cannot be understood:", error, status=400)


def _compose(
    reply: ModelReply, protocol: ReplyProtocol, request: RecordedRequest
) -> tuple[ModelReply, HttpResponse]:
    """Return a reply and its response; an error reply if the response cannot be written."""
    try:
        return reply, compose_response(reply, protocol, request)
    except Exception as error:
        instead = failure("the reply cannot be written:", error)
        return instead, compose_response(instead, protocol, request)
