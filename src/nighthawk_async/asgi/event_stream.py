"""`stream_response`: a call's progress and its result as server-sent events. Floor 5."""

from http import HTTPStatus
from typing import cast

import anyio

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from .event_stream_call import Call, StreamedCall, StreamSettings
from .event_stream_delivery import HEADERS, Delivery
from .event_stream_frameworks import find_response_class
from .event_stream_live import LiveStream, parse_event_id
from .event_stream_outcome import log_error
from .problems import find_problem
from .protocol import AsgiScope, Message, Receive, Send, header_values
from .request_in_force import RequestInForce, find_request
from .settings import checked_count, checked_seconds

__all__ = ["StreamResponse", "stream_response"]


class StreamResponse:
    """An ASGI application that carries out a call and tells its progress; `stream_response` makes it.

    Args:
        call: The call.
        settings: What `stream_response` was told.

    Attributes:
        raw_headers: The headers of the response.
    """

    def __init__(self, call: Call, settings: StreamSettings) -> None:
        self._call = call
        self._settings = settings
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in HEADERS.items()
        ]

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request.

        Args:
            scope: What ASGI calls a scope: the request.
            receive: Gives the next message of the server.
            send: Takes the messages for the server.

        Raises:
            NighthawkError: It is no HTTP request, or clients may come back and no middleware is there.
            Exception: What the call raises before anything has begun, and later what is none of the
                library's own errors, after the client was told.
        """
        if scope["type"] != "http":
            raise NighthawkError("stream_response answers HTTP requests")
        request = find_request()
        if request is None and self._settings.resume_seconds:
            raise NighthawkError("resume_seconds needs NighthawkMiddleware around the application")
        seen = (header_values(scope, b"last-event-id") or [""])[-1]
        if scope["method"] == "HEAD":
            await self._answer(HTTPStatus.OK, send)
        elif seen:
            await self._resume(seen, request, scope, receive, send)
        else:
            await self._begin(request, scope, receive, send)

    async def _begin(
        self, request: RequestInForce | None, asgi_scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        stream = LiveStream(
            path=_path(asgi_scope),
            is_resumable=self._settings.resume_seconds > 0,
            tells_internals=self._settings.tells_internals,
        )
        streamed = StreamedCall(self._call, stream, self._settings, request)
        delivery = self._delivery(stream, receive, send)
        delivery.on_disconnect = streamed.end_with_request
        stream.attach(delivery)
        if request is not None and self._settings.resume_seconds:
            request.work.outlive_client()
            request.streams.add(stream)
        try:
            async with BareTaskGroup() as tasks:
                tasks.start_soon(streamed.carry_out)
                await delivery.carry_out(lambda: streamed.error is not None)
                await self._wait_for_reader(stream)
                tasks.cancel_scope.cancel()
        finally:
            if request is not None:
                request.streams.keep(stream, self._settings.resume_seconds if delivery.is_started else 0)
        if streamed.error is not None:
            if not delivery.is_started or find_problem(streamed.error) is None:
                raise streamed.error
            log_error(streamed.error)

    async def _resume(
        self,
        seen: str,
        request: RequestInForce | None,
        asgi_scope: AsgiScope,
        receive: Receive,
        send: Send,
    ) -> None:
        stream_id, number = parse_event_id(seen) or ("", 0)
        stream = None if request is None else request.streams.find(stream_id, _path(asgi_scope))
        if stream is None or stream.has_told_all(number):
            await self._answer(HTTPStatus.NO_CONTENT, send)
            return
        delivery = self._delivery(stream, receive, send)
        stream.attach(delivery, seen=number)
        await delivery.carry_out()

    async def _wait_for_reader(self, stream: LiveStream) -> None:
        """Wait for the end, or until nobody has read for too long."""
        while not stream.is_ended:
            if stream.reader is not None:
                await stream.wait_for_change()
                continue
            with anyio.move_on_after(self._settings.resume_seconds):
                while stream.reader is None and not stream.is_ended:
                    await stream.wait_for_change()
            if stream.reader is None:
                return

    def _delivery(self, stream: LiveStream, receive: Receive, send: Send) -> Delivery:
        return Delivery(
            stream,
            receive,
            send,
            start=self._start(HTTPStatus.OK),
            heartbeat_seconds=self._settings.heartbeat_seconds,
        )

    def _start(self, status: HTTPStatus) -> Message:
        headers = self.raw_headers if status is HTTPStatus.OK else []
        return {"type": "http.response.start", "status": status.value, "headers": list(headers)}

    async def _answer(self, status: HTTPStatus, send: Send) -> None:
        """A response without a body."""
        await send(self._start(status))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def stream_response(
    call: Call,
    *,
    heartbeat_seconds: float | None = 15.0,
    resume_seconds: float = 0.0,
    min_interval_seconds: float = 0.05,
    max_result_bytes: int = 1_048_576,
    tell_internals: bool = False,
    name: str = "stream",
) -> StreamResponse:
    """Answer with a stream of server-sent events: how a call goes on, and at last its result.

        async def endpoint(request):
            ticket = await request.json()
            return stream_response(lambda: triage(ticket))

    What this returns is an ASGI application. Starlette, FastAPI and Litestar take it as the response of an
    endpoint; elsewhere it is called with the three arguments of ASGI. The call is carried out when the
    request is served, below a node of its own, and ends when the client leaves.

    The data of an event is JSON. `step` tells of a node of the task tree that has begun or changed;
    `text`, `reasoning`, `tool_call`, `tool_result`, `message` and `note` go on with its transcript; `usage`
    tells what it has consumed; `dropped` and `cut` tell what is no longer kept. The last event is `result`,
    whose `value` is what the call has returned, or `error`, a problem as `find_problem` gives it. An error
    that is raised before anything has begun, within a second, is raised here instead, so that it becomes a
    status like that of any endpoint.

    A client that reads slowly misses nothing and holds nothing up: it is told the differences between what it
    knows and what is newest when it can take them.

    With `resume_seconds` a client may come back after it has lost the connection: it sends the id of the last
    event as `Last-Event-ID`, as browsers do, and goes on with the next event, also when the call has ended in
    between. One that has missed more than is kept gets `snapshot`, which says to forget everything, and then
    everything. It comes back with the path of the first request, and needs nothing but the id. The request
    that began the call counts as in progress meanwhile. A request with `Last-Event-ID` never begins a call:
    when there is nothing to go on with, the answer is 204, at which browsers stop asking.

    Args:
        call: What is carried out: an async callable without arguments.
        heartbeat_seconds: After how many seconds without an event a comment is sent, so that nobody on the
            way takes the connection for dead; None for never.
        resume_seconds: For how many seconds a client that has left may come back; meanwhile the call goes on.
            0 cancels the call at once. It needs `NighthawkMiddleware`.
        min_interval_seconds: How much time there is at least between two looks at what is new. More gathers
            more text into an event.
        max_result_bytes: How many bytes the result may have as JSON; a longer one is an error.
        tell_internals: Whether clients also get the words of errors, the programs of steps, all attributes,
            sources, controls, notes and steering messages. They quote prompts and providers. What steps read
            and write, and what models and tools say, clients get in any case.
        name: What the node of the call is called.

    Returns:
        The response, for one request or for many.

    Raises:
        NighthawkError: An argument has a bad value.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    if not callable(call):
        raise NighthawkError(f"stream_response takes an async callable without arguments, not {call!r}")
    if heartbeat_seconds is not None and not checked_seconds(heartbeat_seconds, "heartbeat_seconds"):
        raise NighthawkError("heartbeat_seconds must be more than 0, or None for no heartbeats")
    settings = StreamSettings(
        name=name,
        heartbeat_seconds=heartbeat_seconds,
        resume_seconds=checked_seconds(resume_seconds, "resume_seconds"),
        min_interval_seconds=checked_seconds(min_interval_seconds, "min_interval_seconds"),
        max_result_bytes=checked_count(max_result_bytes, "max_result_bytes", least=1),
        tells_internals=tell_internals,
    )
    response_class = cast("type[StreamResponse]", find_response_class(StreamResponse))
    return response_class(call, settings)


def _path(asgi_scope: AsgiScope) -> str:
    return str(asgi_scope.get("path", ""))
