"""The tree as plain state: the effect of each report, and the version at which it took effect.

Nothing here waits, locks or wakes watchers; one change is made at a time. A change visits the node and its
ancestors, never its siblings.

A subtree is finished when every node in it has ended. The finished subtrees that are not part of a larger one
are listed in the order in which they finished.

Transcripts share a total number of characters. Those of ended nodes matter least to observers and are removed
first, in the order in which the nodes ended. Then others are shortened, beginning with those to which nothing
was added for the longest time.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType

from ..observation import NodeState, TranscriptKind
from ..types.usage import Usage
from .controls import HeldControl
from .node import NO_AMOUNTS, Node, amounts_of, difference, total
from .previews import MAX_NAMES
from .transcript import Transcript
from .views import ErrorView
from .watched import Watcher


class Retention:
    """Keeps finished subtrees in the order in which they finished.

    Args:
        max_nodes: The maximum number of nodes, unless more than that have not ended.
        max_finished_trees: The maximum number of finished trees.
    """

    __slots__ = ("_max_finished_trees", "_max_nodes", "_passed_over", "_subtrees", "_trees")

    def __init__(self, *, max_nodes: int, max_finished_trees: int) -> None:
        self._max_nodes = max_nodes
        self._max_finished_trees = max_finished_trees
        self._subtrees: OrderedDict[Node, None] = OrderedDict()
        self._trees: OrderedDict[Node, None] = OrderedDict()
        self._passed_over: dict[Node, list[Node]] = {}  # parts of finished subtrees, by parent

    def add(self, node: Node) -> None:
        """Record that every node in the subtree of a node has ended."""
        self._subtrees[node] = None
        if node.depth == 1:
            self._trees[node] = None

    def reopen(self, node: Node) -> None:
        """Record that a node begins below it again, so that its finished parts count by themselves."""
        self._forget(node)
        for each in reversed(self._passed_over.pop(node, ())):
            if not each.open_nodes:
                self._subtrees[each] = None
                self._subtrees.move_to_end(each, last=False)

    def drop(self, node: Node) -> None:
        """Forget a node that is no longer kept."""
        self._forget(node)
        self._passed_over.pop(node, None)

    def _forget(self, node: Node) -> None:
        self._subtrees.pop(node, None)
        self._trees.pop(node, None)

    def next_to_drop(self, nodes: int) -> Node | None:
        """Return the subtree to drop when there are so many nodes; None for none."""
        if len(self._trees) > self._max_finished_trees:
            return next(iter(self._trees))
        while nodes > self._max_nodes and self._subtrees:
            node, _ = self._subtrees.popitem(last=False)
            if node.parent is not None and node.parent.open_nodes:
                return node
            if node.parent is not None:  # part of a finished subtree, which has its own, later position
                self._passed_over.setdefault(node.parent, []).append(node)
        return None


class TranscriptRoom:
    """Writes transcripts, and keeps their total length within its limit.

    Args:
        max_characters: The number of characters of each transcript that are kept.
        max_total_characters: The number of characters of all transcripts together that are kept.
    """

    __slots__ = ("_ended", "_max_characters", "_max_total_characters", "_open", "_total")

    def __init__(self, *, max_characters: int, max_total_characters: int) -> None:
        self._max_characters = max_characters
        self._max_total_characters = max_total_characters
        self._total = 0
        self._open: OrderedDict[Node, None] = OrderedDict()
        self._ended: OrderedDict[Node, None] = OrderedDict()

    def write(
        self, node: Node, kind: TranscriptKind, text: str, key: str | None, speaker: str | None
    ) -> list[Node]:
        """Append to the transcript of a node; return the nodes whose transcripts were shortened for it."""
        transcript = node.transcript
        if transcript is None:
            transcript = node.transcript = Transcript(self._max_characters)
        order = self._open if node.ended_at is None else self._ended
        order[node] = None
        order.move_to_end(node)
        before = transcript.characters
        transcript.write(kind, text, key, speaker)
        self._total += transcript.characters - before
        if self._total <= self._max_total_characters:
            return []
        return [*self._shorten_ended(), *self._shorten_open()]

    def end(self, node: Node) -> None:
        """Record that a node has ended."""
        if node in self._open:
            del self._open[node]
            self._ended[node] = None

    def reopen(self, node: Node) -> None:
        """Record that a node has not ended after all."""
        if node in self._ended:
            del self._ended[node]
            self._open[node] = None

    def drop(self, node: Node) -> None:
        """Forget a node that is no longer kept."""
        if node.transcript is not None:
            self._total -= node.transcript.characters
        self._ended.pop(node, None)
        self._open.pop(node, None)

    def _shorten_ended(self) -> Iterator[Node]:
        while self._total > self._max_total_characters and self._ended:
            node, _ = self._ended.popitem(last=False)
            if self._shorten(node, 0):
                yield node

    def _shorten_open(self) -> Iterator[Node]:
        for _ in range(len(self._open)):
            if self._total <= self._max_total_characters:
                return
            node = next(iter(self._open))
            self._open.move_to_end(node)
            if self._shorten(node, self._max_total_characters // (2 * len(self._open))):
                yield node

    def _shorten(self, node: Node, max_characters: int) -> bool:
        assert node.transcript is not None, "only nodes with a transcript are kept here"
        before = node.transcript.characters
        node.transcript.shorten(max_characters)
        self._total += node.transcript.characters - before
        return node.transcript.characters < before


MAX_DEPTH = 100
"""The maximum depth of the tree. A deeper node becomes a sibling of the node that started it."""


class TreeState:
    """All nodes that are kept.

    Args:
        root: The root node.
        retention: The policy that chooses the nodes to drop.
        transcripts: The writer of transcripts.

    Attributes:
        version: The number of changes so far.
        nodes: The nodes by id.
        woken: The watchers to wake, because something they observe has changed; the caller takes them out.
    """

    __slots__ = ("_retention", "_transcripts", "nodes", "root", "version", "woken")

    def __init__(self, *, root: Node, retention: Retention, transcripts: TranscriptRoom) -> None:
        self._retention = retention
        self._transcripts = transcripts
        self.root = root
        self.nodes: dict[str, Node] = {root.id: root}
        self.version = 0
        self.woken: dict[Watcher, None] = {}

    def begin(self, node: Node, parent: Node, speaks_above: bool) -> None:
        """Begin a node below its parent; below the nearest ancestor that is kept when the parent was dropped.

        Args:
            node: The node.
            parent: The node that started it.
            speaks_above: Whether its text is written to the transcript of that node.
        """
        if speaks_above and not parent.is_dropped:
            node.speaks_in = parent
        while parent.is_dropped or parent.depth >= MAX_DEPTH:
            assert parent.parent is not None, "the root node is neither"
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
        """Change the state of a node, unless it has ended."""
        if node.ended_at is None and node.state != state:
            node.state = state
            self._changed(node)

    def set_attributes(self, node: Node, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes, or replace those of the same names."""
        merged = {**node.attributes, **attributes}
        node.attributes = MappingProxyType(dict(islice(merged.items(), MAX_NAMES)))
        self._changed(node)

    def set_control(self, node: Node, control: HeldControl | None) -> None:
        """Replace the control of a node, unless it has ended."""
        if node.ended_at is None:
            node.control = control
            self._changed(node)

    def write(self, node: Node, kind: TranscriptKind, text: str, key: str | None) -> None:
        """Append to the transcript of a node."""
        above = node.speaks_in
        speaker = node if above is None else above
        if speaker.is_dropped:
            return
        shortened = self._transcripts.write(speaker, kind, text, key, None if above is None else node.id)
        self._changed(node)
        if node.parent is not above and above is not None:  # both are at the maximum depth
            self._mark_way_up(above)
        self._mark_cut(speaker)
        for each in shortened:
            self._mark_way_up(each)
            self._mark_cut(each)

    def set_usage(self, node: Node, usage: Usage, model: str | None) -> None:
        """Set the usage of a model by a node, and add the difference to its ancestors."""
        model = model or node.name
        more = difference(amounts_of(usage), node.own_amounts.get(model, NO_AMOUNTS))
        node.own_amounts = {**node.own_amounts, model: amounts_of(usage)}
        for each in node.path():
            each.amounts = {**each.amounts, model: total(each.amounts.get(model, NO_AMOUNTS), more)}
        self._changed(node)

    def set_outputs(self, node: Node, outputs: Mapping[str, str]) -> None:
        """Set the outputs of a node that has not ended."""
        if node.ended_at is None and node.outputs != outputs:
            node.outputs = outputs
            self._changed(node)

    def count_retry(self, node: Node) -> None:
        """Count a retry."""
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
        """End a node, unless it has ended already."""
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

    def reopen(self, node: Node) -> None:
        """Take back that a node has ended; nothing for one that has not. It counts as changed in any case."""
        if node.ended_at is not None:
            node.ended_at, node.error, node.state = None, None, "running"
            self._transcripts.reopen(node)
            for each in node.path():
                if not each.open_nodes:
                    self._retention.reopen(each)
                each.open_nodes += 1
        self._changed(node)

    def clear_transcript(self, node: Node) -> None:
        """Remove the transcript of a node."""
        self._transcripts.drop(node)
        node.transcript = None
        self._changed(node)

    def remove(self, node: Node) -> None:
        """Remove a node and everything below it, and what they have used from the sums of its ancestors."""
        assert node.parent is not None, "the root node stays"
        for each in reversed(node.subtree()):
            self.end(each, "cancelled", time.time(), each.outputs, None)
        for each in node.parent.path():
            more = {model: difference(each.amounts[model], used) for model, used in node.amounts.items()}
            each.amounts = {**each.amounts, **more}
            each.subtree_retries -= node.subtree_retries
        self.version += 1
        self._drop(node)

    def _changed(self, node: Node) -> None:
        """Number the change, and mark the node and its ancestors."""
        self.version += 1
        self._mark_way_up(node)

    def _mark_way_up(self, node: Node) -> None:
        for each in node.path():
            if each.is_dropped:  # its last view does not change
                continue
            each.mark_changed(self.version)
            if each.watched is not None and each.watched.waiting:
                self.woken.update(each.watched.waiting)
                each.watched.waiting.clear()

    def _mark_cut(self, node: Node) -> None:
        """Mark the nodes whose text was cut from this transcript as changed."""
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
        assert parent is not None, "the root node never ends"
        for each in subtree:
            if each.watched is not None:  # its watchers still have to see its last view
                each.up_to_date_view()
        parent.drop_child(node)
        for each in subtree:
            each.is_dropped = True
            each.children = each.chunk = None  # leaves no reference cycle to the garbage collector
            if each.watched is None:
                each.view = None
            del self.nodes[each.id]
            self._retention.drop(each)
            self._transcripts.drop(each)
        self._mark_way_up(parent)
