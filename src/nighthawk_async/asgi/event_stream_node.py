"""Event stream of a node that something else has begun.

It is told anew to each client, also to one that comes back: the tree has it, so nothing is kept here.
"""

from collections.abc import AsyncIterator
from http import HTTPStatus

from ..actors import BareTaskGroup
from ..observe import NodeView, TaskTree, Watch
from .event_stream_client import StreamClient
from .event_stream_encoding import StreamEvent
from .event_stream_live import LiveStream
from .event_stream_outcome import problem_event

__all__ = ["NodeStreams"]

_END = "end"


class NodeStreams:
    """Answers requests with how a node goes on.

    Args:
        tree: The tree.
        node_id: The id of the node.
        min_interval_seconds: How much time there is between two looks at what is new, at least.
        tells_internals: Whether clients are told what is the service's own too.

    Raises:
        NodeNotFoundError: There is no such node, or no more.
    """

    def __init__(
        self, tree: TaskTree, node_id: str, *, min_interval_seconds: float, tells_internals: bool
    ) -> None:
        self._tree = tree
        self._node_id = node_id
        self._min_interval_seconds = min_interval_seconds
        self._tells_internals = tells_internals
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
            path=client.path, is_resumable=False, tells_internals=self._tells_internals, end_number=_END
        )
        if client.seen:
            stream.tell_anew()
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
