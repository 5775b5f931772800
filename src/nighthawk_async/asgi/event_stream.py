"""`stream_response`, `stream_node`: what goes on and what comes of it as server-sent events.

Requests for the progress of a call: one begins it, others come back to it.
"""

import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, cast

import anyio

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..observe import NodeView, TaskTree, Watch, find_tree
from .event_stream_call import NOBODY_CAME_BACK, Call, StreamedCall, StreamSettings, problem_event
from .event_stream_delivery import HEADERS, StreamClient
from .event_stream_encoding import StreamEvent
from .event_stream_live import LiveStream, parse_event_id
from .problems import find_problem, is_cancellation, log_problem
from .protocol import Receive, Send
from .service import checked_count, checked_seconds
from .work import ActiveRequest, find_request


class CallStreams:
    """Answers requests with the progress of a call, which each of them begins unless it comes back.

    Args:
        call: The call.
        settings: The settings of `stream_response`.
    """

    def __init__(self, call: Call, settings: StreamSettings) -> None:
        self._call = call
        self._settings = settings

    async def serve(self, client: StreamClient) -> None:
        """Answer one request.

        Args:
            client: The request.

        Raises:
            NighthawkError: Clients may come back and no middleware is there.
            Exception: An error of the call before anything has begun, and later one that is none of the
                library's own errors, after the client was told.
        """
        if client.request is None and self._settings.resume_seconds:
            raise NighthawkError("resume_seconds needs NighthawkMiddleware around the application")
        if client.seen:
            await self._resume(client)
        else:
            await self._begin(client)

    async def _begin(self, client: StreamClient) -> None:
        stream = LiveStream(
            path=client.path,
            is_resumable=self._settings.resume_seconds > 0,
            reveals_internals=self._settings.reveals_internals,
        )
        streamed = StreamedCall(self._call, stream, self._settings, client.request)
        delivery = client.delivery(stream)
        delivery.on_disconnect = streamed.end_with_request
        stream.attach(delivery)
        with self._keeping(stream, client.request):
            async with BareTaskGroup() as tasks:
                tasks.start_soon(streamed.carry_out)
                await delivery.carry_out(lambda: streamed.error is not None)
                await self._wait_for_reader(stream)
                streamed.cancel(NOBODY_CAME_BACK)
        if streamed.error is not None:
            problem = find_problem(streamed.error)
            if not delivery.is_started or problem is None:
                raise streamed.error
            log_problem(
                "the call of an event stream has failed",
                problem,
                streamed.error,
                is_expected=client.has_left and is_cancellation(streamed.error),
            )

    async def _resume(self, client: StreamClient) -> None:
        request = client.request
        stream_id, number = parse_event_id(client.seen) or ("", 0)
        stream = None if request is None else request.streams.find(stream_id, client.path)
        if request is None or stream is None or stream.has_sent_all(number):
            await client.answer(HTTPStatus.NO_CONTENT)
            return
        delivery = client.delivery(stream)
        # The call ends with the service too, which is then told.
        delivery.on_disconnect = lambda: request.work.end_reason == "shut_down"
        stream.attach(delivery, seen=number)
        await delivery.carry_out()

    @contextmanager
    def _keeping(self, stream: LiveStream, request: ActiveRequest | None) -> Generator[None, None, None]:
        """Let clients come back."""
        seconds = self._settings.resume_seconds
        if request is None or not seconds:
            yield
            return
        with request.work.outliving_client(), request.streams.keeping(stream, seconds):
            yield

    async def _wait_for_reader(self, stream: LiveStream) -> None:
        """Wait for the end, or until nobody has read for too long. Nobody can come back who has got no id."""
        while not stream.is_ended and stream.is_known:
            if stream.reader is not None:
                await stream.wait_for_change()
                continue
            with anyio.move_on_after(self._settings.resume_seconds):
                while stream.reader is None and not stream.is_ended:
                    await stream.wait_for_change()
            if stream.reader is None:
                return


def find_response_class(own: type) -> type:
    """A class of one's own, or the one that is Starlette's response too when Starlette is loaded.

    Args:
        own: The class. Its `raw_headers` are the headers, as in Starlette.
    """
    responses = sys.modules.get("starlette.responses")
    base: type | None = getattr(responses, "Response", None)
    return own if base is None else _join(own, base)


@lru_cache(maxsize=8)
def _join(own: type, base: type) -> type:
    async def serve(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await cast("Any", own).__call__(self, scope, receive, send)
        if self.background is not None:  # what FastAPI's endpoints have put off
            await self.background()

    members = {
        "__call__": serve,
        "__doc__": own.__doc__,
        "__module__": own.__module__,
        "background": None,
        "media_type": None,
        "status_code": 200,
    }
    return type(own.__name__, (own, base), members)


_END = "end"


class NodeStreams:
    """Answers requests with how a node goes on.

    Args:
        tree: The tree.
        node_id: The id of the node.
        min_interval_seconds: The least time between two looks at news, in seconds.
        reveals_internals: Whether clients are told what is the service's own too.

    Raises:
        NodeNotFoundError: There is no such node, or no more.
    """

    def __init__(
        self, tree: TaskTree, node_id: str, *, min_interval_seconds: float, reveals_internals: bool
    ) -> None:
        self._tree = tree
        self._node_id = node_id
        self._min_interval_seconds = min_interval_seconds
        self._reveals_internals = reveals_internals
        self._watch()

    async def serve(self, client: StreamClient) -> None:
        """Answer one request.

        Args:
            client: The request.

        Raises:
            NodeNotFoundError: The node is no longer kept.
        """
        if client.seen.endswith(f".{_END}"):
            await client.answer(HTTPStatus.NO_CONTENT)
            return
        stream = LiveStream(
            path=client.path, is_resumable=False, reveals_internals=self._reveals_internals, end_number=_END
        )
        if client.seen:
            stream.send_anew()
        delivery = client.delivery(stream)
        delivery.on_disconnect = lambda: _end_with_request(stream, client)
        stream.attach(delivery)
        async with self._watch() as changes, BareTaskGroup() as watching:
            watching.start_soon(_publish, stream, changes)
            await delivery.carry_out()
            watching.cancel_scope.cancel()

    def _watch(self) -> Watch:
        return self._tree.watch(self._node_id, min_interval=self._min_interval_seconds)


async def _publish(stream: LiveStream, changes: AsyncIterator[NodeView]) -> None:
    async for view in changes:
        if stream.is_ended:
            return
        if view.is_ended:
            stream.end(StreamEvent(name="end", data={"id": view.id, "state": view.state}), view)
        else:
            stream.publish(view)


def _end_with_request(stream: LiveStream, client: StreamClient) -> bool:
    """The client seems to have left; gives whether it is there, but its request is to end."""
    problem = None if client.request is None else client.request.work.problem
    if problem is not None and not stream.is_ended:
        stream.end(problem_event(problem, request_id=client.request_id))
    return problem is not None


_ASK_FOR_NOTHING = ("OPTIONS", "TRACE", "CONNECT")


class StreamSource(Protocol):
    """Answers requests with event streams."""

    async def serve(self, client: StreamClient) -> None:
        """Answer one request."""
        ...


class StreamResponse:
    """An ASGI application that answers with an event stream; `stream_response` and `stream_node` make it.

    Args:
        source: The source of the events.
        heartbeat_seconds: After how many seconds without an event a comment is sent; None for never.

    Attributes:
        raw_headers: The headers of the response.
    """

    def __init__(self, source: StreamSource, heartbeat_seconds: float | None) -> None:
        self._source = source
        self._heartbeat_seconds = heartbeat_seconds
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in HEADERS.items()
        ]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one request.

        Args:
            scope: The scope of ASGI: the request.
            receive: Gives the next message of the server.
            send: Takes the messages for the server.

        Raises:
            NighthawkError: It is no HTTP request, clients may come back and no middleware is there, or the
                node is no longer kept.
            Exception: An error of the call before anything has begun, and later one that is none of the
                library's own errors, after the client was told.
        """
        if scope["type"] != "http":
            raise NighthawkError("event streams answer HTTP requests")
        client = StreamClient(
            asgi_scope=scope,
            receive=receive,
            send=send,
            request=find_request(),
            headers=self.raw_headers,
            heartbeat_seconds=self._heartbeat_seconds,
        )
        if scope["method"] == "HEAD":
            await client.answer(HTTPStatus.OK, self.raw_headers)
        elif scope["method"] in _ASK_FOR_NOTHING:
            await client.answer(HTTPStatus.METHOD_NOT_ALLOWED, [(b"allow", b"GET, HEAD, POST")])
        else:
            await self._source.serve(client)


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
    `partial` tells the values of a step so far, while its model's answer streams; `text`, `reasoning`,
    `tool_call`, `tool_result`, `message` and `note` go on with its transcript; `usage` tells what it has
    consumed; `dropped` and `cut` tell what is no longer kept. The last event is `result`, whose `value` is
    what the call has returned, or `error`, a problem as `find_problem` gives it. An error that is raised
    before anything has begun, within a second, is raised here instead, so that it becomes a status like that
    of any endpoint.

    A client that reads slowly misses nothing and holds nothing up: it is told the differences between what it
    knows and what is newest when it can take them.

    With `resume_seconds` a client may come back after it has lost the connection: it sends the id of the last
    event as `Last-Event-ID`, as browsers do, and goes on with the next event, also when the call has ended in
    between. One that has missed more than is kept gets `snapshot`, which says to forget everything, and then
    everything. It comes back with the path of the first request, and needs nothing but the id. The request
    that began the call counts as in progress until the call has ended, whoever reads, with its time and its
    place, so that whoever comes back needs no place. A request with `Last-Event-ID` never begins a call: when
    there is nothing to go on with, the answer is 204, at which browsers stop asking.

    Args:
        call: The call: an async callable without arguments.
        heartbeat_seconds: After how many seconds without an event a comment is sent, so that nobody on the
            way takes the connection for dead; None for never.
        resume_seconds: For how many seconds a client that has left may come back; meanwhile the call goes on.
            0 cancels the call at once. It needs `NighthawkMiddleware`.
        min_interval_seconds: The least time between two looks at news, in seconds. More gathers
            more text into an event.
        max_result_bytes: The greatest length of the result as JSON, in bytes; a longer one is an error.
        tell_internals: Whether clients also get the words of errors, those of failed tools among them, what
            models are asked, what functions and tasks are called with and return, the programs of steps, all
            attributes, sources, controls, notes and steering messages. What steps read and write, and what
            models and tools say, clients get in any case.
        name: The name of the node of the call.

    Returns:
        The response, for one request or for many.

    Raises:
        NighthawkError: An argument has a bad value.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    if not callable(call):
        raise NighthawkError(f"stream_response takes an async callable without arguments, not {call!r}")
    settings = StreamSettings(
        name=name,
        resume_seconds=checked_seconds(resume_seconds, "resume_seconds"),
        min_interval_seconds=checked_seconds(min_interval_seconds, "min_interval_seconds"),
        max_result_bytes=checked_count(max_result_bytes, "max_result_bytes", least=1),
        reveals_internals=tell_internals,
    )
    return _make_response(CallStreams(call, settings), heartbeat_seconds)


def stream_node(
    node_id: str,
    *,
    tree: TaskTree | None = None,
    heartbeat_seconds: float | None = 15.0,
    min_interval_seconds: float = 0.05,
    tell_internals: bool = False,
) -> StreamResponse:
    """Answer with a stream of server-sent events: how something goes on that another request has begun.

        async def endpoint(request):
            job = jobs[request.path_params["id"]]
            return stream_node(job.node_id)

    It is told with the events of `stream_response`, of a node of the task tree and of everything below it.
    The last event is `end`, whose `state` says how the node has ended, or `error` when the request itself has
    to end before. A client that leaves ends nothing but its own response.

    Many clients may watch a node. One that has lost the connection gets `snapshot`, which says to forget
    everything, and then everything; one that comes back after `end` gets the answer 204, at which browsers
    stop asking. Whoever may ask for the response sees everything that is told in the node: the endpoint
    decides who may.

    Args:
        node_id: The id of the node, as `observe.find_node_id` gives it to what goes on.
        tree: The tree that has it; None for the one in force.
        heartbeat_seconds: As `stream_response` takes it, like those that follow.
        min_interval_seconds: The same.
        tell_internals: The same.

    Returns:
        The response, for one request or for many.

    Raises:
        NodeNotFoundError: There is no such node, or no more.
        NighthawkError: Nothing is recorded, or an argument has a bad value.
    """
    tree = tree or find_tree()
    if tree is None:
        raise NighthawkError("stream_node needs a task tree: the one in force, or the argument tree")
    streams = NodeStreams(
        tree,
        node_id,
        min_interval_seconds=checked_seconds(min_interval_seconds, "min_interval_seconds"),
        reveals_internals=tell_internals,
    )
    return _make_response(streams, heartbeat_seconds)


def _make_response(source: StreamSource, heartbeat_seconds: float | None) -> StreamResponse:
    if heartbeat_seconds is not None and not checked_seconds(heartbeat_seconds, "heartbeat_seconds"):
        raise NighthawkError("heartbeat_seconds must be more than 0, or None for no heartbeats")
    response_class = cast("type[StreamResponse]", find_response_class(StreamResponse))
    return response_class(source, heartbeat_seconds)
