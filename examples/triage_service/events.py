"""Server-sent events of a step that another request has begun."""

import json
from collections.abc import Iterable

import anyio
from starlette.types import Receive, Scope, Send

from nighthawk_async.asgi import StreamEvent, events_between
from nighthawk_async.observe import NodeView, TaskTree, Watch

__all__ = ["NodeEvents"]

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

HIDDEN = ("attributes", "controls", "error", "source")


class NodeEvents:
    """A response that tells how a node of the task tree goes on, until it has ended or the client leaves.

    A client that reads slowly holds nobody up: each time it is told what lies between what it knows and what
    is newest. One that comes back is told everything again. The middleware cancels the response when the
    client has left, so nothing here looks for that.

    Args:
        tree: The tree.
        node_id: The node.
        heartbeat_seconds: After how many seconds without anything new a comment is sent.
    """

    def __init__(self, tree: TaskTree, node_id: str, *, heartbeat_seconds: float = 15.0) -> None:
        self._watch = tree.watch(node_id)
        self._heartbeat_seconds = heartbeat_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        known: NodeView | None = None
        async with self._watch as changes:
            while known is None or not known.is_ended:
                view = await self._newer(changes)
                if view is None:
                    await _send_body(send, b":\n\n")
                    continue
                await _send_body(send, encode(events_between(known, view)))
                known = view
        await _send_body(send, b"event: end\ndata: {}\n\n", more_body=False)

    async def _newer(self, changes: Watch) -> NodeView | None:
        with anyio.move_on_after(self._heartbeat_seconds):
            return await anext(changes)
        return None


def encode(events: Iterable[StreamEvent]) -> bytes:
    """Events as the bytes of an event stream. JSON has no line ends in it."""
    return b"".join(f"event: {each.name}\ndata: {_shown(each)}\n\n".encode() for each in events)


def _shown(event: StreamEvent) -> str:
    """What clients get of an event: the words of errors and the attributes may quote prompts and paths."""
    return json.dumps({name: value for name, value in event.data.items() if name not in HIDDEN})


async def _send_body(send: Send, body: bytes, *, more_body: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more_body})
