"""The tree as plain state: what each thing that is told changes, and at which version.

Nothing here waits, locks or wakes anybody; one change is made at a time. A change visits the node and those
above it, never those beside it.
"""

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from ..observation import NodeState, TranscriptKind
from ..types.usage import Usage
from .controls import HeldControl
from .node import Node
from .previews import MAX_NAMES
from .retention import Retention
from .transcript_room import TranscriptRoom
from .usage_sums import amounts_of, difference, total
from .views import ErrorView
from .watched import Watcher

__all__ = ["MAX_DEPTH", "TreeState"]

MAX_DEPTH = 100
"""How deep the tree is at most. What begins deeper stands beside what brought it about, not below it."""


class TreeState:
    """All nodes that are kept.

    Args:
        root: The node above everything.
        retention: What says which nodes are dropped.
        transcripts: What writes transcripts.

    Attributes:
        version: The number of changes so far.
        nodes: The nodes by id.
        woken: The watchers that have something new to see, for the caller to take.
    """

    __slots__ = ("_retention", "_transcripts", "nodes", "root", "version", "woken")

    def __init__(self, *, root: Node, retention: Retention, transcripts: TranscriptRoom) -> None:
        self._retention = retention
        self._transcripts = transcripts
        self.root = root
        self.nodes: dict[str, Node] = {root.id: root}
        self.version = 0
        self.woken: dict[Watcher, None] = {}

    def begin(self, node: Node, parent: Node, *, speaks_above: bool) -> None:
        """A node begins below another; of one that was dropped, below what that was below.

        Args:
            node: The node.
            parent: What brought it about.
            speaks_above: Whether what it says stands in the transcript of that.
        """
        if speaks_above and not parent.is_dropped:
            node.speaks_in = parent
        while parent.is_dropped or parent.depth >= MAX_DEPTH:
            assert parent.parent is not None, "the node above everything is neither"
            parent = parent.parent
        parent.add_child(node)
        self.nodes[node.id] = node
        for above in parent.path():
            if not above.open_nodes:
                self._retention.reopen(above)
            above.open_nodes += 1
        self._changed(node)
        self._drop_what_is_too_much()

    def change_state(self, node: Node, state: NodeState) -> None:
        """It stands elsewhere, unless it has ended."""
        if node.ended_at is None and node.state != state:
            node.state = state
            self._changed(node)

    def set_attributes(self, node: Node, attributes: Mapping[str, str | int | float | bool]) -> None:
        """More is known of it."""
        merged = {**node.attributes, **attributes}
        node.attributes = MappingProxyType(dict(islice(merged.items(), MAX_NAMES)))
        self._changed(node)

    def set_control(self, node: Node, control: HeldControl | None) -> None:
        """It can be influenced in another way, unless it has ended."""
        if node.ended_at is None:
            node.control = control
            self._changed(node)

    def write(self, node: Node, kind: TranscriptKind, text: str, key: str | None) -> None:
        """Its transcript goes on."""
        above = node.speaks_in
        speaker = node if above is None else above
        if speaker.is_dropped:
            return
        shortened = self._transcripts.write(speaker, kind, text, key, None if above is None else node.id)
        self._changed(node)
        if node.parent is not above and above is not None:  # as deep as nodes stand beside what began them
            self._mark_way_up(above)
        self._mark_cut(speaker)
        for each in shortened:
            self._mark_way_up(each)
            self._mark_cut(each)

    def set_usage(self, node: Node, usage: Usage) -> None:
        """Set the usage of a node, and add the difference to its ancestors."""
        more = difference(amounts_of(usage), amounts_of(node.usage))
        node.usage = usage
        for each in node.path():
            each.amounts = total(each.amounts, more)
        self._changed(node)

    def set_outputs(self, node: Node, outputs: Mapping[str, str]) -> None:
        """Set the outputs of a node that has not ended."""
        if node.ended_at is None and node.outputs != outputs:
            node.outputs = outputs
            self._changed(node)

    def count_retry(self, node: Node) -> None:
        """It is tried again."""
        node.retries += 1
        for each in node.path():
            each.subtree_retries += 1
        self._changed(node)

    def end(
        self,
        node: Node,
        state: NodeState,
        ended_at: float,
        outputs: Mapping[str, str],
        error: ErrorView | None,
    ) -> None:
        """It has ended, unless it had before."""
        if node.ended_at is not None:
            return
        node.state, node.ended_at, node.control = state, ended_at, None
        node.outputs, node.error = outputs, error
        self._transcripts.end(node)
        finished: Node | None = None
        for each in node.path():
            each.open_nodes -= 1
            if not each.open_nodes:
                finished = each
        self._changed(node)
        if finished is not None:
            self._retention.add(finished)
            self._drop_what_is_too_much()

    def _changed(self, node: Node) -> None:
        """Number the change, and mark the way from the node up."""
        self.version += 1
        self._mark_way_up(node)

    def _mark_way_up(self, node: Node) -> None:
        for each in node.path():
            if each.is_dropped:  # its last view stays as it is
                continue
            each.mark_changed(self.version)
            if each.watched is not None and each.watched.waiting:
                self.woken.update(each.watched.waiting)
                each.watched.waiting.clear()

    def _mark_cut(self, node: Node) -> None:
        """Mark the nodes below as changed whose text was cut from a transcript."""
        if node.transcript is None or not node.transcript.cut_speakers:
            return
        for node_id in node.transcript.cut_speakers:
            if (speaker := self.nodes.get(node_id)) is not None:
                self._mark_way_up(speaker)
        node.transcript.cut_speakers.clear()

    def _drop_what_is_too_much(self) -> None:
        while (node := self._retention.next_to_drop(len(self.nodes) - 1)) is not None:
            self._drop(node)

    def _drop(self, node: Node) -> None:
        parent, subtree = node.parent, node.subtree()
        assert parent is not None, "the node above everything never ends"
        for each in subtree:
            if each.watched is not None:  # whoever watches it has its last view to see
                each.up_to_date_view()
        parent.drop_child(node)
        for each in subtree:
            each.is_dropped = True
            each.children = each.chunk = None  # no circle is left to the garbage collector
            if each.watched is None:
                each.view = None
            del self.nodes[each.id]
            self._retention.drop(each)
            self._transcripts.drop(each)
        self._mark_way_up(parent)
