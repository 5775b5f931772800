"""Changes of a tree, and of one node, as server-sent events.

No events are queued for a reader: when one is taken, the next is made from the newest view.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress

import anyio
from msgspec import Struct, field

from ...actors import BareTaskGroup
from ...observe.page.summaries import Summary, is_own_request, node_details, summarize_node
from ...observe.tree import TaskTree
from ...observe.views import NodeView, TranscriptPart
from ...observe.watching import Watch
from ...parallel.event_loop import LoopEvent
from ..event_stream_encoding import HEARTBEAT, StreamEvent, encode_event, transcript_events
from ..protocol import Message, Receive, Send
from .request import stream_id
from .responses import encode_headers


class Changes(Struct, kw_only=True):
    """The changes that lead from one view to another.

    Args:
        nodes: The nodes that are new or have changed, parents before children, in the order of beginning.
        gone: The ids of the nodes that were removed, with everything below them.
        kept: The ids of the remaining children, by node: all others were removed.
    """

    nodes: list[NodeView] = field(default_factory=list[NodeView])
    gone: list[str] = field(default_factory=list[str])
    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def changes_between(old: NodeView, new: NodeView) -> Changes:
    """Return the changes that lead from the old view of a node to the new one.

    Args:
        old: The view that is known.
        new: A later view of the same node.
    """
    changes = Changes()
    waiting: list[tuple[NodeView | None, NodeView]] = [(old, new)]
    while waiting:
        before, view = waiting.pop()
        if before is view:
            continue
        if is_own_request(view):
            if before is not None and not is_own_request(before):
                changes.gone.append(view.id)
            continue
        changes.nodes.append(view)
        if before is None:
            waiting.extend((None, child) for child in reversed(view.children))
        else:
            waiting.extend(reversed(list(_changed_children(before, view, changes.gone))))
    if changes.gone:  # runs of a store leave the tree and come back
        there = {node.id for node in changes.nodes}
        changes.gone = [node_id for node_id in changes.gone if node_id not in there]
    return changes


def changes_since(view: NodeView, version: int) -> Changes:
    """Return the changes that lead from the view of an earlier version to this one.

    Args:
        view: The view.
        version: The version that is known.
    """
    changes = Changes()
    waiting = [view]
    while waiting:
        node = waiting.pop()
        if node.version <= version:
            continue
        if is_own_request(node):
            changes.gone.append(node.id)
            continue
        changes.nodes.append(node)
        if node.dropped_children:
            changes.kept[node.id] = [child.id for child in node.children]
        waiting.extend(reversed(node.children))
    return changes


def everything(view: NodeView) -> Changes:
    """Return the changes that lead from nothing to a view."""
    return changes_since(view, -1)


def _changed_children(
    old: NodeView, new: NodeView, gone: list[str]
) -> Iterator[tuple[NodeView | None, NodeView]]:
    """Return the children that differ, with their earlier views.

    New children are last, and the others keep their order: one pass finds those that were removed.
    """
    before = iter(old.children)
    for child in new.children:
        known = next(before, None)
        while known is not None and known.id != child.id:
            gone.append(known.id)
            known = next(before, None)
        if known is not child:
            yield known, child
    gone.extend(known.id for known in before)


HEARTBEAT_SECONDS = 15.0
_MIN_INTERVAL_SECONDS = 0.1
_STREAM_SECONDS = 30.0
"""The lifetime of a stream, whose reader then reconnects: servers wait for streams when they shut down."""

_NODES_PER_EVENT = 250


async def tree_changes(
    tree: TaskTree, since: str | None, greeting: Summary, heartbeat_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield a tree, and then its changes.

    An event `reset` says that all earlier data is invalid; `nodes` has `nodes`, `gone` and `kept`, see
    `Changes`. When one change takes several events, only the last one has a new id, so that no reader resumes
    in between.

    Args:
        tree: The tree.
        since: The id of the last event that was seen.
        greeting: The further data of `reset`.
        heartbeat_seconds: The number of seconds without an event after which a heartbeat is sent.
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
    tree: TaskTree, node_id: str | None, describe: Callable[[str], Summary | None], heartbeat_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield a whole node, and then its changes.

    An event `node` has the data of `node_details`, but only the number of parts of the transcript. The events
    of `event_stream_encoding` report those; `end` is the last event.

    Args:
        tree: The tree.
        node_id: The node; None for the root node.
        describe: Describes the question that can be answered at a node.
        heartbeat_seconds: The number of seconds without an event after which a heartbeat is sent.
    """
    sent: Summary = {}
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
            if (shown := _without_noise(details)) != sent:
                yield _encode("node", {**shown, "transcript_parts": len(view.transcript)}, event_id)
            for event in transcript_events(view.id, transcript, view.transcript):
                yield encode_event(event, event_id)
            sent, transcript = shown, view.transcript
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
    """The open event streams, on any event loop."""

    def __init__(self) -> None:
        self._endings: set[LoopEvent] = set()

    def end(self) -> None:
        """End all streams; thread-safe."""
        for ending in tuple(self._endings):
            ending.set()

    async def send(
        self,
        events: AsyncGenerator[bytes, None],
        receive: Receive,
        send: Send,
        follow: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Send events until they end, the streams are ended, or the client leaves.

        Args:
            events: The events, encoded.
            receive: Reports when the client leaves.
            send: Sends the messages.
            follow: Keeps the tree up to date meanwhile; when it returns, the stream ends. None for a tree
                that changes by itself.
        """
        ending = LoopEvent()
        self._endings.add(ending)
        try:
            async with BareTaskGroup() as tasks:
                tasks.start_soon(_leave_with_client, receive, tasks.cancel_scope)
                if follow is not None:
                    tasks.start_soon(_end_after, follow, ending)
                with suppress(OSError):  # some servers raise it when the client has left
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


async def _end_after(follow: Callable[[], Awaitable[None]], ending: LoopEvent) -> None:
    await follow()
    ending.set()


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
    """Timing of a stream: its heartbeats, and its end.

    Args:
        heartbeat_seconds: The number of seconds without an event after which a heartbeat is sent.
    """

    def __init__(self, heartbeat_seconds: float) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._end = anyio.current_time() + _STREAM_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the stream has reached its maximum duration."""
        return anyio.current_time() >= self._end

    async def next_view(self, watch: Watch) -> NodeView | bytes | None:
        """Return the next view, or a heartbeat when none comes in time; None at the end."""
        if self.is_over:
            return None
        with anyio.move_on_after(min(self._heartbeat_seconds, self._end - anyio.current_time())):
            return await anext(watch, None)
        return None if self.is_over else HEARTBEAT


def _change_events(changes: Changes, view: NodeView, earlier_id: str) -> Iterator[bytes]:
    """Split changes into events with a bounded number of nodes each."""
    nodes = changes.nodes
    for begin in range(0, max(1, len(nodes)), _NODES_PER_EVENT):
        body: Summary = {"nodes": [*map(summarize_node, nodes[begin : begin + _NODES_PER_EVENT])]}
        if begin + _NODES_PER_EVENT < len(nodes):
            yield _encode("nodes", body, earlier_id)
            continue
        body["gone"] = [*changes.gone]
        body["kept"] = {parent: [*children] for parent, children in changes.kept.items()}
        yield _encode("nodes", body, _event_id(view))


def _event_id(view: NodeView) -> str:
    return f"{stream_id(view)}.{view.version}"


def _known_version(since: str, view: NodeView) -> int | None:
    """Return the version that an event id names; None when this tree has not had it."""
    stream, _, version = since.partition(".")
    is_known = stream == stream_id(view) and version.isascii() and version.isdigit() and len(version) < 20
    return int(version) if is_known and int(version) <= view.version else None


def _without_noise(details: Summary) -> Summary:
    """Return the node's own details, without its children and its transcript."""
    left_out = {"version", "transcript", "child_count"}
    return {name: value for name, value in details.items() if name not in left_out}


def _encode(name: str, body: Summary, event_id: str) -> bytes:
    return encode_event(StreamEvent(name=name, data=body), event_id)
