"""`stream_response`, `stream_node`: progress and results as server-sent events.

`CallStreams` answers requests for the progress of a call: one request begins the call, others resume its
stream.
"""

import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, cast, get_args

import anyio

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..observe import NodeView, TaskTree, Watch, find_tree
from .event_stream_call import NOBODY_CAME_BACK, Call, StreamedCall, StreamSettings, problem_event
from .event_stream_delivery import HEADERS, StreamClient
from .event_stream_encoding import StreamEvent
from .event_stream_live import LiveStream, StreamProfile, parse_event_id
from .problems import find_problem, is_cancellation, log_problem
from .protocol import Receive, Send
from .service import checked_count, checked_seconds
from .work import ActiveRequest, find_request


class CallStreams:
    """Answers requests with the progress of a call; each request begins the call unless it resumes a stream.

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
            NighthawkError: Clients may resume and there is no middleware.
            Exception: An error of the call before anything has begun; later, one that is not an error of the
                library, after it was reported to the client.
        """
        if client.request is None and self._settings.resume_seconds:
            raise NighthawkError("resume_seconds needs NighthawkMiddleware around the application")
        if client.seen:
            await self._resume(client)
        else:
            await self._begin(client)

    async def _begin(self, client: StreamClient) -> None:
        stream = LiveStream(
            profile=self._settings.profile,
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
        # The service also ends the call; the stream then reports that.
        delivery.on_disconnect = lambda: request.work.end_reason == "shut_down"
        stream.attach(delivery, seen=number)
        await delivery.carry_out()

    @contextmanager
    def _keeping(self, stream: LiveStream, request: ActiveRequest | None) -> Generator[None, None, None]:
        """Allow clients to resume the stream."""
        seconds = self._settings.resume_seconds
        if request is None or not seconds:
            yield
            return
        with request.work.outliving_client(), request.streams.keeping(stream, seconds):
            yield

    async def _wait_for_reader(self, stream: LiveStream) -> None:
        """Wait for the end, or until no client has read for too long. Clients without an id cannot resume."""
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
    """Return the given class, or one that is also Starlette's response when Starlette is loaded.

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
        if self.background is not None:  # background tasks of FastAPI's endpoints
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
    """Answers requests with the progress of a node.

    Args:
        tree: The tree.
        node_id: The id of the node.
        profile: The events that report progress.
        min_interval_seconds: The minimum time between two updates, in seconds.
        reveals_internals: Whether clients also receive internal data of the service.

    Raises:
        NodeNotFoundError: There is no such node, or it was dropped.
    """

    def __init__(
        self,
        tree: TaskTree,
        node_id: str,
        *,
        profile: StreamProfile,
        min_interval_seconds: float,
        reveals_internals: bool,
    ) -> None:
        self._profile: StreamProfile = profile
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
            NodeNotFoundError: The node was dropped.
        """
        if client.seen.endswith(f".{_END}"):
            await client.answer(HTTPStatus.NO_CONTENT)
            return
        stream = LiveStream(
            profile=self._profile,
            path=client.path,
            is_resumable=False,
            reveals_internals=self._reveals_internals,
            end_number=_END,
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
    """Handle a disconnect: return True when the request must end although its client may be there."""
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
        heartbeat_seconds: The number of seconds without an event after which a comment is sent; None for
            never.

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
            receive: Receives the next message of the server.
            send: Sends messages to the server.

        Raises:
            NighthawkError: It is not an HTTP request, clients may resume and there is no middleware, or the
                node was dropped.
            Exception: An error of the call before anything has begun; later, one that is not an error of the
                library, after it was reported to the client.
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
    profile: StreamProfile = "compact",
    heartbeat_seconds: float | None = 15.0,
    resume_seconds: float = 0.0,
    min_interval_seconds: float = 0.05,
    max_result_bytes: int = 1_048_576,
    tell_internals: bool = False,
    name: str = "stream",
) -> StreamResponse:
    """Respond with a stream of server-sent events: the progress of a call, and at last its result.

        async def endpoint(request):
            ticket = await request.json()
            return stream_response(lambda: triage(ticket))

    The return value is an ASGI application. Starlette, FastAPI and Litestar accept it as the response of an
    endpoint; elsewhere, call it with the three arguments of ASGI. The call runs when the request is served,
    below its own node, and ends when the client leaves.

    The data of an event is JSON. In the profile `compact`, `progress` has the numbers of units of work:
    `done`, `total` and `failed`. The units are the calls of `parallel.map` and the like, and the steps
    outside of these.

    In the profile `full`, `step` reports a node of the task tree that has begun or changed; `partial` reports
    the values of a step so far, while its model's answer streams; `text`, `reasoning`, `tool_call`,
    `tool_result`, `message` and `note` append to its transcript; `usage` reports its usage; `dropped` and
    `cut` report data that is no longer kept.

    The last event is `result`, whose `value` is the return value of the call, or `error`, a problem as
    `find_problem` returns it. An error that is raised within a second, before anything has begun, is raised
    here instead, so that it becomes a status as in any endpoint.

    A client that reads slowly misses nothing and blocks nothing: when it can take events, it receives the
    differences between the state that it knows and the newest one.

    With `resume_seconds` a client may resume the stream after it has lost the connection: it sends the id of
    the last event as `Last-Event-ID`, as browsers do, and continues with the next event, also when the call
    has ended in between. A client that has missed more than is kept receives `snapshot`, which says to
    discard everything, and then the whole state. It must use the path of the first request, and needs nothing
    but the id. The request that began the call counts as in progress until the call has ended, with its time
    limit and its slot, whichever client reads. So a client that resumes needs no slot. A request with
    `Last-Event-ID` never begins a call: when there is nothing to resume, the response is 204, at which
    browsers stop reconnecting.

    Args:
        call: The call: an async callable without arguments.
        profile: `compact` for counts, `full` for every node below the call.
        heartbeat_seconds: The number of seconds without an event after which a comment is sent, so that no
            proxy takes the connection for dead; None for never.
        resume_seconds: The number of seconds for which a client that has left may resume; meanwhile the call
            continues. 0 cancels the call at once. It needs `NighthawkMiddleware`.
        min_interval_seconds: The minimum time between two updates, in seconds. A longer one collects more
            text into an event.
        max_result_bytes: The maximum length of the result as JSON, in bytes; a longer one is an error.
        tell_internals: Whether clients also receive the messages of errors, including those of failed tools,
            the input of models, the arguments and return values of functions and tasks, the programs of
            steps, all attributes, sources, controls, notes and steering messages. Clients always receive the
            values that steps read and write, and the output of models and tools.
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
        profile=_checked_profile(profile),
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
    profile: StreamProfile = "compact",
    heartbeat_seconds: float | None = 15.0,
    min_interval_seconds: float = 0.05,
    tell_internals: bool = False,
) -> StreamResponse:
    """Respond with a stream of server-sent events: the progress of work that another request has begun.

        async def endpoint(request):
            job = jobs[request.path_params["id"]]
            return stream_node(job.node_id)

    It has the events of `stream_response`, for a node of the task tree and everything below it. The last
    event is `end`, whose `state` is the node's final state, or `error` when the request itself has to end
    before. A client that leaves ends only its own response.

    Many clients may observe a node. A client that has lost the connection receives `snapshot`, which says to
    discard everything, and then the whole state; one that comes back after `end` receives the status 204, at
    which browsers stop reconnecting. Anyone who may request the response sees everything that the node
    reports: the endpoint must check permissions.

    Args:
        node_id: The id of the node, as `observe.find_node_id` returns it within the work.
        tree: The tree that has the node; None for the active one.
        profile: The same as for `stream_response`, like those that follow.
        heartbeat_seconds: The same.
        min_interval_seconds: The same.
        tell_internals: The same.

    Returns:
        The response, for one request or for many.

    Raises:
        NodeNotFoundError: There is no such node, or it was dropped.
        NighthawkError: Nothing is recorded, or an argument has a bad value.
    """
    tree = tree or find_tree()
    if tree is None:
        raise NighthawkError("stream_node needs a task tree: an active one, or the argument tree")
    streams = NodeStreams(
        tree,
        node_id,
        profile=_checked_profile(profile),
        min_interval_seconds=checked_seconds(min_interval_seconds, "min_interval_seconds"),
        reveals_internals=tell_internals,
    )
    return _make_response(streams, heartbeat_seconds)


def _checked_profile(profile: StreamProfile) -> StreamProfile:
    if profile not in get_args(StreamProfile):
        raise NighthawkError(f"profile must be 'compact' or 'full', not {profile!r}")
    return profile


def _make_response(source: StreamSource, heartbeat_seconds: float | None) -> StreamResponse:
    if heartbeat_seconds is not None and not checked_seconds(heartbeat_seconds, "heartbeat_seconds"):
        raise NighthawkError("heartbeat_seconds must be more than 0, or None for no heartbeats")
    response_class = cast("type[StreamResponse]", find_response_class(StreamResponse))
    return response_class(source, heartbeat_seconds)
