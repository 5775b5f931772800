"""One event stream: its new events, the progress of its delivery, and its reader.

Nothing here waits for a client. New events are the difference between the last view that was sent and the
newest one, so a slow or absent client needs no queue. The last events that were sent are kept, up to a limit,
for a client that resumes without having received them. The compact profile reports progress as counts.
"""

import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct

from ..observation import PROGRESS_DONE, PROGRESS_TOTAL
from ..observe.node_words import progress_text
from ..observe.views import NodeView, view_as_json
from ..types.json import JsonableValue
from .event_stream_encoding import StreamEvent, encode_event, transcript_events
from .protocol import AsgiScope, header_values

_FAILED = ("failed", "raised")


class Counts(Struct, frozen=True):
    """Units of work below a node.

    Args:
        done: The number of units that have ended.
        total: The number of units; it may grow.
        failed: The number of those that have ended with an error.
    """

    done: int = 0
    total: int = 0
    failed: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.done + other.done, self.total + other.total, self.failed + other.failed)


def count_progress(view: NodeView) -> Counts:
    """Count the units of work below a node.

    The units are the calls of each `parallel.map`, `settle`, `stream` or `race`, where the number of its
    items counts from the beginning, and the steps outside of these. Units inside a unit are not counted.

    Args:
        view: The view of the node.
    """
    counts = Counts()
    waiting = [view]
    while waiting:
        for child in waiting.pop().children:
            if child.kind == "step":
                counts += _count_unit(child)
            elif child.kind == "group" and "items" in child.inputs:
                counts += _count_group(child)
            else:
                waiting.append(child)
    return counts


def _count_unit(view: NodeView) -> Counts:
    return Counts(int(view.is_ended), 1, int(view.state in _FAILED))


def _count_group(view: NodeView) -> Counts:
    """Count the calls of a group. Calls that the tree has dropped have ended."""
    begun = sum(map(_count_unit, view.children), Counts(view.dropped_children, view.dropped_children))
    items = view.inputs["items"]
    total = int(items) if items.isascii() and items.isdecimal() else 0
    return Counts(begun.done, max(begun.total, total), begun.failed)


class ProgressEvents:
    """The events of one stream in the compact profile."""

    def __init__(self) -> None:
        self._reported: tuple[Counts, Mapping[str, JsonableValue]] | None = None

    def between(self, old: NodeView | None, new: NodeView) -> Iterator[StreamEvent]:
        """Return the event of the progress of a node, if it is another one than was reported last.

        Args:
            old: The view that is known; None for none.
            new: A later view of the same node.
        """
        counts, reported = count_progress(new), reported_progress(new)
        if old is None or (counts, reported) != self._reported:
            self._reported = counts, reported
            data = {"id": new.id, "done": counts.done, "total": counts.total, "failed": counts.failed}
            yield StreamEvent(
                name="progress", data={**data, **({"reported": {**reported}} if reported else {})}
            )


def reported_progress(view: NodeView) -> Mapping[str, JsonableValue]:
    """The progress that code reports itself, in the newest activity that does: text, and numbers if given.

    Args:
        view: The view of the node.
    """
    found: Mapping[str, JsonableValue] = {}
    node: NodeView | None = view
    while node is not None:
        if text := progress_text(node):
            numbers = {
                "done": node.attributes.get(PROGRESS_DONE),
                "total": node.attributes.get(PROGRESS_TOTAL),
            }
            given = {name: each for name, each in numbers.items() if not isinstance(each, str | None)}
            found = {"text": text, **given}
        node = next((each for each in reversed(node.children) if not each.is_ended), None)
    return found


_NOT_TOLD = (
    *("transcript", "children", "child_count", "version"),
    *("usage_by_model", "subtree_usage_by_model"),
)
_USAGE = ("usage", "subtree_usage")
_TOLD_APART = (*_USAGE, "outputs")
_COMPARED = tuple(field.name for field in fields(NodeView) if field.name not in {*_NOT_TOLD, *_TOLD_APART})


def events_between(old: NodeView | None, new: NodeView) -> Iterator[StreamEvent]:
    """Return the events that lead from one view of a node to a later one.

    Parts of the two views that are the same objects are skipped.

    Args:
        old: The view that is known; None for none.
        new: A later view of the same node.
    """
    waiting: list[tuple[NodeView | None, NodeView]] = [(old, new)]
    while waiting:
        before, now = waiting.pop()
        if before is now:
            continue
        yield from _events_of_node(before, now)
        if before is not None and before.children is now.children:
            continue
        known = {} if before is None else {child.id: child for child in before.children}
        below = [(known.pop(child.id, None), child) for child in now.children]
        for dropped in known:
            yield StreamEvent(name="dropped", data={"id": dropped})
        waiting.extend(pair for pair in reversed(below) if pair[0] is not pair[1])


def _events_of_node(before: NodeView | None, now: NodeView) -> Iterator[StreamEvent]:
    if before is None or _is_changed(before, now, _COMPARED):
        yield StreamEvent(name="step", data=_without(view_as_json(now, depth=0), _NOT_TOLD))
    elif _is_changed(before, now, _TOLD_APART):
        shown = view_as_json(now, depth=0)
        for event, names in (("partial", ("outputs",)), ("usage", _USAGE)):
            if _is_changed(before, now, names):
                yield StreamEvent(name=event, data={"id": now.id, **{name: shown[name] for name in names}})
    yield from transcript_events(now.id, () if before is None else before.transcript, now.transcript)


def _is_changed(before: NodeView, now: NodeView, names: tuple[str, ...]) -> bool:
    for name in names:
        was, is_now = getattr(before, name), getattr(now, name)
        if was is not is_now and was != is_now:
            return True
    return False


def _without(shown: dict[str, JsonableValue], names: tuple[str, ...]) -> dict[str, JsonableValue]:
    return {name: value for name, value in shown.items() if name not in names}


_SHOWN_ATTRIBUTES = frozenset(
    {
        "gen_ai.request.model",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.model",
        "gen_ai.tool.call.id",
        "gen_ai.tool.name",
        "nighthawk.step.attempt",
        "nighthawk.step.outcome_kind",
    }
)
_SHOWN_INPUTS = frozenset({"group", "step", "tool_call"})
_SHOWN_OUTPUTS = frozenset({"model_request", "step", "tool_call"})
"""The visible values by kind of node: those that steps read and write, and the output of models and tools."""

_HIDDEN_TEXTS = ("message", "note")

_FAILED_CALL = '{"value": null, "error": {'
"""The beginning of the result of a failed tool call; see `kernel.tool_calls`."""


def without_internals(event: StreamEvent) -> StreamEvent:
    """Return the event without internal data.

    Errors keep only their types, few attributes stay, controls and sources are removed. Model requests lose
    their inputs, and functions and tasks their arguments and return values, which may be any internal data of
    the service. Parts of a transcript that steer or note something are emptied, so that the others keep their
    numbers; results of tools are emptied when they have failed, or when the beginning that would say so was
    removed.

    Args:
        event: The event.
    """
    data = event.data
    if event.name in _HIDDEN_TEXTS or (event.name == "tool_result" and _may_be_failure(data)):
        return StreamEvent(name=event.name, data={**data, "text": ""})
    if event.name != "step":
        return event
    hidden: dict[str, JsonableValue] = {
        "source": None,
        "error": _type_alone(data["error"]),
        "attributes": _shown_attributes(data["attributes"]),
        "controls": [],
    }
    if data["kind"] not in _SHOWN_INPUTS:
        hidden["inputs"] = {}
    if data["kind"] not in _SHOWN_OUTPUTS:
        hidden["outputs"] = {}
    return StreamEvent(name=event.name, data={**data, **hidden})


def _may_be_failure(data: Mapping[str, JsonableValue]) -> bool:
    return bool(data["is_cut"]) or str(data["text"]).startswith(_FAILED_CALL)


def _type_alone(error: JsonableValue) -> JsonableValue:
    return {**error, "message": ""} if isinstance(error, dict) else error


def _shown_attributes(attributes: JsonableValue) -> JsonableValue:
    if not isinstance(attributes, dict):
        return {}
    return {name: value for name, value in attributes.items() if name in _SHOWN_ATTRIBUTES}


_CHUNK_BYTES = 16 * 1024
"""Small events are sent together."""

_MAX_KEPT_BYTES = 256 * 1024
"""More bytes than lie between a server and a client that has just left."""


StreamProfile: TypeAlias = Literal["compact", "full"]
"""`compact` streams report counts of units of work, `full` ones every node below."""


class LiveStream:
    """An event stream.

    Args:
        profile: The events that report progress.
        path: The path of the request that began it.
        is_resumable: Whether a client may resume it.
        reveals_internals: Whether events are sent unchanged, or without internal data of the service.
        end_number: The number in the id of the last event; None for its own.
    """

    def __init__(
        self,
        *,
        profile: StreamProfile,
        path: str,
        is_resumable: bool,
        reveals_internals: bool,
        end_number: str | None = None,
    ) -> None:
        self._changes = ProgressEvents().between if profile == "compact" else events_between
        self.id = secrets.token_urlsafe(16)
        """Secret: knowing it is enough to read the stream."""
        self.path = path
        self.reader: object | None = None
        """The current reader. There is one at a time; a new one replaces the old one."""
        self._is_resumable = is_resumable
        self._reveals_internals = reveals_internals
        self._end_number = end_number
        self._view: NodeView | None = None
        self._sent_view: NodeView | None = None
        self._outcome: StreamEvent | None = None
        self._is_outcome_taken = False
        self._is_anew = False
        self._to_send: Iterator[StreamEvent] = iter(())
        self._again: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0
        self._count = 0
        self._changed = anyio.Event()

    @property
    def is_ended(self) -> bool:
        """Whether its subject has ended."""
        return self._outcome is not None

    @property
    def is_known(self) -> bool:
        """Whether a client may have received its id: at least one event was sent."""
        return self._count > 0

    @property
    def is_sent(self) -> bool:
        """Whether all events were sent, including the last."""
        return self._is_outcome_taken and not self._again

    @property
    def has_begun(self) -> bool:
        """Whether there is more to report than that it is running."""
        return self.is_ended or (self._view is not None and len(self._view.children) > 0)

    def publish(self, view: NodeView) -> None:
        """Set the newest view.

        Args:
            view: The newest view.
        """
        self._view = view
        self._change()

    def end(self, outcome: StreamEvent, view: NodeView | None = None) -> None:
        """End the stream.

        Args:
            outcome: The outcome; the last event.
            view: The last view; None for the newest that is there.
        """
        self._outcome = outcome
        self._view = view or self._view
        self._change()

    def attach(self, reader: object, *, seen: int | None = None) -> None:
        """Attach a reader, which replaces the earlier one.

        Args:
            reader: The reader.
            seen: The number of the last event that was received; None when there was none.
        """
        self.reader = reader
        if seen is not None:
            missed = self._count - seen
            if 0 <= missed <= len(self._sent):
                self._again = deque(list(self._sent)[len(self._sent) - missed :])
            else:
                self.send_anew()
        self._change()

    def detach(self, reader: object) -> None:
        """Detach a reader.

        Args:
            reader: The reader that left.
        """
        if self.reader is reader:
            self.reader = None
            self._change()

    def send_anew(self) -> None:
        """Start over, for a reader that has missed more events than are kept."""
        self._again.clear()
        self._sent_view = None
        self._is_outcome_taken = False
        self._is_anew = True
        self._to_send = iter(())

    def has_sent_all(self, seen: int) -> bool:
        """Whether a client that has received that event has received the last one.

        Args:
            seen: The number of the event.
        """
        return self._is_outcome_taken and seen == self._count

    def take(self) -> bytes:
        """Return the next events, encoded; empty when there is nothing new."""
        chunk: list[bytes] = []
        size = 0
        while size < _CHUNK_BYTES:
            event = self._again.popleft() if self._again else self._take_new()
            if event is None:
                break
            chunk.append(event)
            size += len(event)
        return b"".join(chunk)

    async def wait_for_change(self) -> None:
        """Wait until there is something new, or the reader has changed."""
        await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _take_new(self) -> bytes | None:
        event = next(self._to_send, None)
        if event is None and self._view is not None and self._view is not self._sent_view:
            self._to_send = self._changes_to(self._view)
            event = next(self._to_send, None)
        if event is not None:
            return self._number(event, None)
        if self._outcome is None or self._is_outcome_taken:
            return None
        self._is_outcome_taken = True
        return self._number(self._outcome, self._end_number)

    def _changes_to(self, view: NodeView) -> Iterator[StreamEvent]:
        before, self._sent_view = self._sent_view, view
        if self._is_anew:
            self._is_anew = False
            yield StreamEvent(name="snapshot", data={"id": view.id})
        yield from self._changes(before, view)

    def _number(self, event: StreamEvent, number: str | None) -> bytes:
        self._count += 1
        shown = event if self._reveals_internals else without_internals(event)
        encoded = encode_event(shown, f"{self.id}.{number or self._count}")
        if self._is_resumable:
            self._sent.append(encoded)
            self._sent_bytes += len(encoded)
            while self._sent_bytes > _MAX_KEPT_BYTES:
                self._sent_bytes -= len(self._sent.popleft())
        return encoded


def find_seen(asgi_scope: AsgiScope) -> str:
    """Return the id of the last event that a client has received; empty when it does not resume a stream.

    Args:
        asgi_scope: The request.
    """
    return (header_values(asgi_scope, b"last-event-id") or [""])[-1]


def parse_event_id(event_id: str) -> tuple[str, int] | None:
    """Return the id of the stream and the number of the event; None when it is malformed.

    Args:
        event_id: The id of the last event that a client claims to have received.
    """
    stream_id, _, number = event_id.rpartition(".")
    is_number = number.isascii() and number.isdecimal() and len(number) < 19
    return (stream_id, int(number)) if stream_id and is_number else None
