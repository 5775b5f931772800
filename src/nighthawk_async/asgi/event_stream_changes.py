"""Events that lead from one view of a node to another. Pure.

Whoever carries out the events on the older view has the newer one, but for its numbers of versions. So nobody
has to keep events for a client that is slow: the newest view tells everything.

| event | what it says |
|---|---|
| `step` | A node is there, below the one with the id `parent_id`, or has changed: everything but its transcript and children. |
| `text`, `reasoning`, `tool_call`, `tool_result`, `message`, `note` | More of part `part` of the transcript of node `id`. The part begins with it when it is new. |
| `cut` | In the transcript of node `id`, from part `part` on, `parts` parts are left out, then the first `characters` characters of the part that follows, which is marked as cut. |
| `partial` | What has come so far of node `id`, which goes on: `outputs`, as `step` tells them. |
| `usage` | What node `id` has consumed, itself and with everything below it. |
| `dropped` | The tree no longer keeps node `id`, with everything below it. |
"""  # noqa: E501  (a table)

from collections.abc import Iterator
from dataclasses import fields

from ..observe.view_json import view_as_json
from ..observe.views import NodeView
from ..types.json import JsonableValue
from .event_stream_encoding import StreamEvent
from .event_stream_transcript import transcript_events

__all__ = ["events_between"]

_NOT_TOLD = ("transcript", "children", "child_count", "version")
_USAGE = ("usage", "subtree_usage")
_TOLD_APART = (*_USAGE, "outputs")
_COMPARED = tuple(field.name for field in fields(NodeView) if field.name not in {*_NOT_TOLD, *_TOLD_APART})


def events_between(old: NodeView | None, new: NodeView) -> Iterator[StreamEvent]:
    """Return the events that lead from one view of a node to a later one.

    Parts of the two that are the same objects are not looked into.

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
