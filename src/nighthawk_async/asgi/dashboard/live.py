"""Changes of a tree, and of one node, as server-sent events.

Nothing is queued for a reader: when one event is taken, the next is made of what there is then.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress

import anyio

from ...actors import BareTaskGroup
from ...observe.tree import TaskTree
from ...observe.views import NodeView, TranscriptPart
from ...observe.watching import Watch
from ...runtime.loop_event import LoopEvent
from ..event_stream_encoding import HEARTBEAT, StreamEvent, encode_event
from ..event_stream_transcript import transcript_events
from ..protocol import Message, Receive, Send
from .briefs import Brief, brief_node
from .details import node_details
from .differences import Changes, changes_between, changes_since, everything
from .identity import stream_id
from .responses import encode_headers

__all__ = ["HEARTBEAT_SECONDS", "OpenStreams", "node_changes", "tree_changes"]

HEARTBEAT_SECONDS = 15.0
_MIN_INTERVAL_SECONDS = 0.1
_STREAM_SECONDS = 30.0
"""Then a stream ends and its reader goes on with a new one: servers wait for streams when they shut down."""

_NODES_PER_EVENT = 250


async def tree_changes(
    tree: TaskTree, since: str | None, greeting: Brief, heartbeat_seconds: float
) -> AsyncGenerator[bytes, None]:
    """A tree, and its changes as they come to be.

    An event `reset` says that whatever was known before does not hold; `nodes` has `nodes`, `gone` and
    `kept`, see `differences.Changes`. Where what belongs together takes several events, only the last one
    has a new id, so that nobody goes on in between.

    Args:
        tree: The tree.
        since: The id of the event that was seen last.
        greeting: What `reset` tells besides.
        heartbeat_seconds: After how many seconds without anything new something is sent nevertheless.
    """
    known: NodeView | None = None
    event_id = ""
    pace = _Pace(heartbeat_seconds)
    async with tree.watch(min_interval=_MIN_INTERVAL_SECONDS) as watch:
        while (view := await pace.next_view(watch)) is not None:
            if isinstance(view, bytes):
                yield view
                continue
            if known is not None:
                changes = changes_between(known, view)
            elif since is not None and (version := _known_version(since, view)) is not None:
                event_id = since
                changes = changes_since(view, version)
            else:
                yield _encode("reset", {**greeting, "stream": stream_id(view)}, event_id)
                changes = everything(view)
            for event in _change_events(changes, view, event_id):
                yield event
            known, event_id = view, _event_id(view)


async def node_changes(
    tree: TaskTree, node_id: str | None, describe: Callable[[str], Brief | None], heartbeat_seconds: float
) -> AsyncGenerator[bytes, None]:
    """A node whole, and its changes as they come to be.

    An event `node` has what `node_details` says, but of the transcript only how many parts it has. Those of
    `event_stream_transcript` tell of it; `end` is the last one.

    Args:
        tree: The tree.
        node_id: The node; None for the node above everything.
        describe: Says what can be answered at a node.
        heartbeat_seconds: After how many seconds without anything new something is sent nevertheless.
    """
    told: Brief = {}
    transcript: tuple[TranscriptPart, ...] = ()
    event_id = ""
    pace = _Pace(heartbeat_seconds)
    async with tree.watch(node_id, min_interval=_MIN_INTERVAL_SECONDS) as watch:
        while (view := await pace.next_view(watch)) is not None:
            if isinstance(view, bytes):
                yield view
                continue
            event_id = str(view.version)
            details = node_details(view, describe(view.id))
            if (shown := _without_noise(details)) != told:
                yield _encode("node", {**shown, "transcript_parts": len(view.transcript)}, event_id)
            for event in transcript_events(view.id, transcript, view.transcript):
                yield encode_event(event, event_id)
            told, transcript = shown, view.transcript
    if not pace.is_over:
        yield _encode("end", {}, event_id)


def _start() -> Message:
    headers = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    return {"type": "http.response.start", "status": 200, "headers": encode_headers(headers)}


class OpenStreams:
    """The event streams in progress, on any event loop."""

    def __init__(self) -> None:
        self._endings: set[LoopEvent] = set()

    def end(self) -> None:
        """End them all; may be called from any thread."""
        for ending in tuple(self._endings):
            ending.set()

    async def send(self, events: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
        """Send events until they end, the streams are ended, or the client leaves.

        Args:
            events: The events, encoded.
            receive: Tells when the client leaves.
            send: Takes the messages.
        """
        ending = LoopEvent()
        self._endings.add(ending)
        try:
            async with BareTaskGroup() as tasks:
                tasks.start_soon(_leave_with_client, receive, tasks.cancel_scope)
                with suppress(OSError):  # what some servers raise when the client has left
                    await send(_start())
                    await _send_until(ending, events, send)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                tasks.cancel_scope.cancel()
        finally:
            self._endings.discard(ending)


async def _leave_with_client(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send_until(ending: LoopEvent, events: AsyncGenerator[bytes, None], send: Send) -> None:
    async def leave_at_end() -> None:
        await ending.wait()
        tasks.cancel_scope.cancel()

    async with BareTaskGroup() as tasks:
        tasks.start_soon(leave_at_end)
        async with aclosing(events):
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        tasks.cancel_scope.cancel()


class _Pace:
    """Timing of a stream: its signs of life, and its end.

    Args:
        heartbeat_seconds: After how many seconds without anything new there is a sign of life.
    """

    def __init__(self, heartbeat_seconds: float) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._end = anyio.current_time() + _STREAM_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the stream has lasted long enough."""
        return anyio.current_time() >= self._end

    async def next_view(self, watch: Watch) -> NodeView | bytes | None:
        """The next view, or a heartbeat when there is none for long; None at the end."""
        if self.is_over:
            return None
        with anyio.move_on_after(min(self._heartbeat_seconds, self._end - anyio.current_time())):
            return await anext(watch, None)
        return None if self.is_over else HEARTBEAT


def _change_events(changes: Changes, view: NodeView, earlier_id: str) -> Iterator[bytes]:
    """Events of a bounded number of nodes each."""
    nodes = changes.nodes
    for begin in range(0, max(1, len(nodes)), _NODES_PER_EVENT):
        body: Brief = {"nodes": [*map(brief_node, nodes[begin : begin + _NODES_PER_EVENT])]}
        if begin + _NODES_PER_EVENT < len(nodes):
            yield _encode("nodes", body, earlier_id)
            continue
        body["gone"] = [*changes.gone]
        body["kept"] = {parent: [*children] for parent, children in changes.kept.items()}
        yield _encode("nodes", body, _event_id(view))


def _event_id(view: NodeView) -> str:
    return f"{stream_id(view)}.{view.version}"


def _known_version(since: str, view: NodeView) -> int | None:
    """The version that an event id of this tree names; None when it names none that the tree has had."""
    stream, _, version = since.partition(".")
    is_known = stream == stream_id(view) and version.isascii() and version.isdigit() and len(version) < 20
    return int(version) if is_known and int(version) <= view.version else None


def _without_noise(details: Brief) -> Brief:
    """Return the parts of the node itself, without its children and without the transcript."""
    left_out = {"version", "transcript", "child_count"}
    return {name: value for name, value in details.items() if name not in left_out}


def _encode(name: str, body: Brief, event_id: str) -> bytes:
    return encode_event(StreamEvent(name=name, data=body), event_id)
