"""A client of event streams: it keeps what the events tell, as a page would."""

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from nighthawk_async.observe import NodeView, view_as_json
from nighthawk_async.wire.sse import ServerSentEventDecoder

__all__ = ["KnownNodes", "StreamReader", "told_of"]

_TRANSCRIPT_EVENTS = ("text", "reasoning", "tool_call", "tool_result", "message", "note")


class KnownNodes:
    """The nodes that a client knows, changed by nothing but events."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.root: str | None = None

    def take(self, name: str, data: dict[str, Any]) -> None:
        """Carry out one event."""
        if name == "step":
            self._take_step(data)
        elif name in ("partial", "usage"):
            self.nodes[data["id"]].update(data)
        elif name == "dropped":
            self._drop(data["id"])
        elif name == "cut":
            self._cut(**data)
        elif name in _TRANSCRIPT_EVENTS:
            self._take_text(name, data)
        elif name == "snapshot":
            self.nodes, self.root = {}, None
        else:
            raise AssertionError(f"no node is told of by {name}")

    def shown(self, node_id: str | None = None) -> dict[str, Any]:
        """A node and everything below it."""
        node = self.nodes[node_id or str(self.root)]
        return {**node, "children": [self.shown(child) for child in node["children"]]}

    def _take_step(self, data: dict[str, Any]) -> None:
        known = self.nodes.get(data["id"])
        if known is not None:
            known.update(data)
            return
        self.nodes[data["id"]] = {**data, "transcript": [], "children": []}
        if self.root is None:
            self.root = data["id"]
        else:
            self.nodes[data["parent_id"]]["children"].append(data["id"])

    def _take_text(self, kind: str, data: dict[str, Any]) -> None:
        transcript = self.nodes[data["id"]]["transcript"]
        about = {"kind": kind, "key": data["key"], "is_cut": data["is_cut"]}
        if data["part"] == len(transcript):
            transcript.append({**about, "text": ""})
        part = transcript[data["part"]]
        assert {name: part[name] for name in about} == about
        part["text"] += data["text"]

    def _cut(self, *, id: str, part: int, parts: int, characters: int) -> None:
        transcript = self.nodes[id]["transcript"]
        del transcript[part : part + parts]
        if part < len(transcript):
            transcript[part]["text"] = transcript[part]["text"][characters:]
            transcript[part]["is_cut"] = True

    def _drop(self, node_id: str) -> None:
        node = self.nodes.pop(node_id)
        if node["parent_id"] in self.nodes:
            self.nodes[node["parent_id"]]["children"].remove(node_id)
        for child in node["children"]:
            self._drop(child)


class StreamReader:
    """Reads an event stream, in pieces of any size.

    Args:
        after: What was read over an earlier connection.
    """

    def __init__(self, after: "StreamReader | None" = None) -> None:
        self._decoder = ServerSentEventDecoder()
        self.names: list[str] = []
        self.ids: list[str] = []
        self.told: list[Any] = []
        """The data of the events, in order."""
        self.known = KnownNodes()
        if after is not None:
            self.known = deepcopy(after.known)

    def until(self, event_id: str) -> "StreamReader":
        """What a client knows who has received no more than up to that event."""
        reader = StreamReader()
        for name, each, told in zip(self.names, self.ids, self.told, strict=True):
            reader.names.append(name)
            reader.ids.append(each)
            reader.told.append(told)
            reader.known.take(name, deepcopy(told))
            if each == event_id:
                return reader
        raise AssertionError("there is no such event")

    def feed(self, data: bytes) -> "StreamReader":
        """Take bytes in."""
        for event in self._decoder.feed(data):
            self.names.append(event.event)
            self.ids.append(event.id)
            self.told.append(json.loads(event.data))
            if event.event not in ("result", "error", "end"):
                self.known.take(event.event, self.told[-1])
        return self

    def text(self, name: str = "text") -> str:
        """All text of one kind."""
        return "".join(data["text"] for each, data in zip(self.names, self.told, strict=True) if each == name)


_NOT_TOLD = ("version", "child_count", "usage_by_model", "subtree_usage_by_model")


def told_of(view: NodeView | dict[str, Any]) -> dict[str, Any]:
    """What events tell of a view: all but its versions and numbers of children."""
    shown = view_as_json(view) if isinstance(view, NodeView) else view
    kept = {name: value for name, value in shown.items() if name not in _NOT_TOLD}
    return {**kept, "children": [told_of(child) for child in _children(shown)]}


def _children(shown: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return shown["children"]
