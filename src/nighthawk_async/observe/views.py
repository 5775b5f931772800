"""Snapshots of a node and of everything below it.

Views are immutable values. Parts that have not changed are the same objects in the next view.

`view_as_json` converts them to JSON values, for pages, event streams and files.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, overload

from ..observation import NodeKind, NodeState, TranscriptKind
from ..types.json import JsonableValue
from ..types.usage import Usage

ViewedKind: TypeAlias = NodeKind | Literal["tree"]
"""The kind of a node; `tree` is the root node."""

ControlName: TypeAlias = Literal["cancel", "steer", "suspend", "resume"]
"""An action that controls a node."""

ENDS: frozenset[NodeState] = frozenset({"completed", "raised", "failed", "cancelled"})

NO_VALUES: Mapping[str, Any] = MappingProxyType({})
NO_CONTROLS: frozenset[ControlName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The error that ended a node.

    Args:
        type: The name of the exception's class.
        message: Its message, shortened.
    """

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPart:
    """Some text of one kind in a transcript.

    Args:
        kind: The kind of the text.
        text: The text, as far as it is kept.
        key: The name and id of a tool call, for its parts; None for others.
        is_cut: Whether something before the text was removed: the beginning of the part, or whole parts.
    """

    kind: TranscriptKind
    text: str
    key: str | None = None
    is_cut: bool = False


class Children(Sequence["NodeView"]):
    """The kept children of a node, in the order in which they began.

    Args:
        chunks: Slices of the children. Those in which nothing has changed are the same tuples in the next
            view.
    """

    __slots__ = ("_chunks", "_ends")

    def __init__(self, chunks: tuple[tuple["NodeView", ...], ...]) -> None:
        self._chunks = chunks
        self._ends = tuple(accumulate(map(len, chunks)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator["NodeView"]:
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, index: int) -> "NodeView": ...

    @overload
    def __getitem__(self, index: slice) -> Sequence["NodeView"]: ...

    def __getitem__(self, index: int | slice) -> "NodeView | Sequence[NodeView]":
        if isinstance(index, slice):
            return tuple(self)[index]
        position = range(len(self))[index]  # raises for an index out of range, and resolves negative ones
        chunk = bisect_right(self._ends, position)
        return self._chunks[chunk][position - self._ends[chunk]]

    def __repr__(self) -> str:
        return f"<{len(self)} children>"


NO_CHILDREN = Children(())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NodeView:
    """A node and everything below it, at one moment.

    Two views of a node are equal only when they are the same object. While nothing changes, they are.

    Args:
        id: Its id in the tree; "0" is the root node.
        parent_id: The id of its parent; None for the root node.
        kind: Its kind.
        name: Its name.
        source: The place in the program, `module:line`; None when it is unknown.
        state: Its state.
        began_at: The time at which it began, in Unix seconds.
        ended_at: The time at which it ended, in Unix seconds; None while it has not.
        inputs: Its inputs, as short texts by name.
        outputs: Its outputs, as short texts by name.
        error: The error that ended it; None for none.
        usage: Its own usage.
        usage_by_model: Its own usage by model id, for models that it used.
        subtree_usage: Its usage and that of everything below it, including nodes that were dropped since.
        subtree_usage_by_model: The usage of the subtree by model id.
        retries: The number of times that it was retried.
        subtree_retries: Its retries and those of everything below it.
        transcript: The parts of its transcript, in order.
        children: Its kept children, in the order in which they began.
        dropped_children: The number of its children that were dropped since, with everything below them.
        attributes: Its further attributes, under the names that traces use.
        controls: The actions that it currently offers.
        version: The number of the last change in it or below it, counted over the whole tree. For the root
            node, the number of changes so far.
    """

    id: str
    parent_id: str | None
    kind: ViewedKind
    name: str
    source: str | None
    state: NodeState
    began_at: float
    ended_at: float | None
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    error: ErrorView | None
    usage: Usage
    usage_by_model: Mapping[str, Usage]
    subtree_usage: Usage
    subtree_usage_by_model: Mapping[str, Usage]
    retries: int
    subtree_retries: int
    transcript: tuple[TranscriptPart, ...]
    children: Sequence["NodeView"]
    dropped_children: int
    attributes: Mapping[str, str | int | float | bool]
    controls: frozenset[ControlName]
    version: int

    @property
    def is_ended(self) -> bool:
        """Whether it has ended. Nodes below it may still be running."""
        return self.state in ENDS

    def walk(self) -> Iterator["NodeView"]:
        """Yield the node and everything below it, parents before children, in the order of beginning."""
        waiting: list[Iterator[NodeView]] = [iter((self,))]
        while waiting:
            view = next(waiting[-1], None)
            if view is None:
                waiting.pop()
                continue
            yield view
            if view.children:
                waiting.append(iter(view.children))

    def find(self, node_id: str) -> "NodeView | None":
        """Return the view of the node with this id, here or below; None when there is none.

        Args:
            node_id: The id.
        """
        return next((view for view in self.walk() if view.id == node_id), None)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id} {self.name!r}, {self.state}, {len(self.children)} children>"


_OWN_FORM = frozenset(
    {
        *("attributes", "children", "controls", "error", "inputs", "outputs", "transcript"),
        *("usage", "usage_by_model", "subtree_usage", "subtree_usage_by_model"),
    }
)
_AMOUNTS = tuple(field.name for field in fields(Usage))
_PLAIN = tuple(field.name for field in fields(NodeView) if field.name not in _OWN_FORM)


def view_as_json(view: NodeView, *, depth: int | None = None) -> dict[str, JsonableValue]:
    """Convert a view to values that `json.dumps` takes. Texts are not escaped: escape them to display them.

    The keys are the attributes of the view. Costs are decimal texts; numbers that JSON lacks are texts.

    Args:
        view: The view.
        depth: The number of levels below it that are included, 0 for none; None for all. Nodes whose children
            are left out have no `children`; `child_count` is always there.
    """
    top = _node_as_json(view)
    waiting = [(view, top, depth)]
    while waiting:
        node, shown, levels = waiting.pop()
        if levels == 0:
            continue
        below = [(child, _node_as_json(child)) for child in node.children]
        shown["children"] = [child for _, child in below]
        remaining = None if levels is None else levels - 1
        waiting += [(child, child_shown, remaining) for child, child_shown in below]
    return top


def _node_as_json(view: NodeView) -> dict[str, JsonableValue]:
    return {
        **{name: getattr(view, name) for name in _PLAIN},
        "inputs": dict(view.inputs),
        "outputs": dict(view.outputs),
        "error": None if view.error is None else asdict(view.error),
        "usage": _usage_as_json(view.usage),
        "subtree_usage": _usage_as_json(view.subtree_usage),
        "usage_by_model": _usages_as_json(view.usage_by_model),
        "subtree_usage_by_model": _usages_as_json(view.subtree_usage_by_model),
        "transcript": [asdict(part) for part in view.transcript],
        "attributes": _attributes_as_json(view.attributes),
        "controls": [*sorted(view.controls)],
        "child_count": len(view.children),
    }


def _usage_as_json(usage: Usage) -> dict[str, JsonableValue]:
    amounts = {name: getattr(usage, name) for name in _AMOUNTS}  # `asdict` would copy each deeply
    return {**amounts, "cost": str(usage.cost)}


def _usages_as_json(usages: Mapping[str, Usage]) -> dict[str, JsonableValue]:
    return {model: _usage_as_json(usage) for model, usage in usages.items()}


def _attributes_as_json(attributes: Mapping[str, str | int | float | bool]) -> dict[str, JsonableValue]:
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in attributes.items()
    }
