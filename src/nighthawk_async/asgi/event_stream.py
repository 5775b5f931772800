"""`stream_response`, `stream_node`: what goes on and what comes of it as server-sent events."""

from http import HTTPStatus
from typing import Any, Protocol, cast

from ..errors import NighthawkError
from ..observe import TaskTree, find_tree
from .event_stream_call import Call, StreamSettings
from .event_stream_client import StreamClient
from .event_stream_delivery import HEADERS
from .event_stream_frameworks import find_response_class
from .event_stream_node import NodeStreams
from .event_stream_serving import CallStreams
from .protocol import Receive, Send
from .request_in_force import find_request
from .settings import checked_count, checked_seconds

__all__ = ["StreamResponse", "stream_node", "stream_response"]

_ASK_FOR_NOTHING = ("OPTIONS", "TRACE", "CONNECT")


class StreamSource(Protocol):
    """Answers requests with event streams."""

    async def serve(self, client: StreamClient) -> None:
        """Answer one request."""
        ...


class StreamResponse:
    """An ASGI application that answers with an event stream; `stream_response` and `stream_node` make it.

    Args:
        source: What is told.
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
            scope: What ASGI calls a scope: the request.
            receive: Gives the next message of the server.
            send: Takes the messages for the server.

        Raises:
            NighthawkError: It is no HTTP request, clients may come back and no middleware is there, or the
                node is no longer kept.
            Exception: What the call raises before anything has begun, and later what is none of the
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
        call: What is carried out: an async callable without arguments.
        heartbeat_seconds: After how many seconds without an event a comment is sent, so that nobody on the
            way takes the connection for dead; None for never.
        resume_seconds: For how many seconds a client that has left may come back; meanwhile the call goes on.
            0 cancels the call at once. It needs `NighthawkMiddleware`.
        min_interval_seconds: How much time there is at least between two looks at what is new. More gathers
            more text into an event.
        max_result_bytes: How many bytes the result may have as JSON; a longer one is an error.
        tell_internals: Whether clients also get the words of errors, those of failed tools among them, what
            models are asked, what functions and tasks are called with and return, the programs of steps, all
            attributes, sources, controls, notes and steering messages. What steps read and write, and what
            models and tools say, clients get in any case.
        name: What the node of the call is called.

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
        tells_internals=tell_internals,
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
        tells_internals=tell_internals,
    )
    return _make_response(streams, heartbeat_seconds)


def _make_response(source: StreamSource, heartbeat_seconds: float | None) -> StreamResponse:
    if heartbeat_seconds is not None and not checked_seconds(heartbeat_seconds, "heartbeat_seconds"):
        raise NighthawkError("heartbeat_seconds must be more than 0, or None for no heartbeats")
    response_class = cast("type[StreamResponse]", find_response_class(StreamResponse))
    return response_class(source, heartbeat_seconds)
