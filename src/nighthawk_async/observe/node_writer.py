"""Reports about one node, on their way into the tree.

Whatever takes long, above all looking at values, happens here, before the tree is touched.
"""

import time
from collections.abc import Mapping
from functools import partial
from itertools import count

from msgspec import Struct

from ..observation import NodeControl, NodeKind, NodeState, TranscriptKind
from ..prompt.introspection import type_name
from ..prompt.plain_text import clean_text
from ..types.usage import Usage
from .controls import HeldControl
from .node import Node
from .previews import UNSPEAKABLE, preview_attributes, preview_error, preview_name, preview_values, shorten
from .shared_tree import SharedTree
from .views import ErrorView

__all__ = ["Recorder", "TreeNodeWriter"]


class Recorder(Struct, frozen=True, kw_only=True, eq=False):
    """Common state of the writers of one tree.

    Args:
        tree: The tree.
        ids: Gives the ids of nodes.
        max_preview_characters: How many characters of a value are kept.
        max_transcript_characters: How many characters of a transcript are kept.
    """

    tree: SharedTree
    ids: "count[int]"
    max_preview_characters: int
    max_transcript_characters: int


class TreeNodeWriter:
    """Takes what is told of one node; see `observation.NodeWriter`.

    Args:
        recorder: What it shares with the other writers.
        node: The node.
    """

    __slots__ = ("_node", "_recorder")

    def __init__(self, recorder: Recorder, node: Node) -> None:
        self._recorder = recorder
        self._node = node

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._node.id

    @property
    def is_watched(self) -> bool:
        """Whether somebody waits for changes in it, or in what it is below."""
        return any(node.watched is not None for node in self._node.path())

    def begin_child(
        self,
        kind: NodeKind,
        name: str,
        *,
        state: NodeState = "running",
        source: str | None = None,
        inputs: Mapping[str, object] | None = None,
        attributes: Mapping[str, str | int | float | bool] | None = None,
        control: NodeControl | None = None,
        speaks_above: bool = False,
    ) -> "TreeNodeWriter":
        """Something begins below the node."""
        recorder = self._recorder
        limit = recorder.max_preview_characters
        node = Node(
            id=str(next(recorder.ids)),
            kind=kind,
            name=preview_name(name),
            state=state,
            began_at=time.time(),
            source=None if source is None else shorten(source, limit),
            inputs=preview_values(inputs, limit),
            attributes=preview_attributes(attributes, limit),
            control=None if control is None else HeldControl(control),
        )
        recorder.tree.change(partial(recorder.tree.state.begin, speaks_above=speaks_above), node, self._node)
        return TreeNodeWriter(recorder, node)

    def change_state(self, state: NodeState) -> None:
        """It waits, runs or is suspended from now on."""
        tree = self._recorder.tree
        tree.change(tree.state.change_state, self._node, state)

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """More is known of it."""
        tree = self._recorder.tree
        shown = preview_attributes(attributes, self._recorder.max_preview_characters)
        tree.change(tree.state.set_attributes, self._node, shown)

    def set_control(self, control: NodeControl | None) -> None:
        """It can be influenced in another way from now on, or no longer."""
        tree = self._recorder.tree
        tree.change(tree.state.set_control, self._node, None if control is None else HeldControl(control))

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """Continue its transcript."""
        tree = self._recorder.tree
        shown_key = None if key is None else preview_name(key)
        limit = self._recorder.max_transcript_characters
        if len(text) > 2 * limit:  # the rest would be left out
            text = text[:limit] + text[-limit:]
        tree.change(tree.state.write, self._node, kind, clean_text(text), shown_key)

    def set_usage(self, usage: Usage) -> None:
        """Set its own usage so far."""
        tree = self._recorder.tree
        tree.change(tree.state.set_usage, self._node, usage)

    def set_outputs(self, outputs: Mapping[str, object]) -> None:
        """Set its outputs so far."""
        tree = self._recorder.tree
        shown = preview_values(outputs, self._recorder.max_preview_characters)
        tree.change(tree.state.set_outputs, self._node, shown)

    def count_retry(self) -> None:
        """It is tried again."""
        tree = self._recorder.tree
        tree.change(tree.state.count_retry, self._node)

    def end(
        self,
        state: NodeState,
        *,
        outputs: Mapping[str, object] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """It has ended; only the first end counts."""
        tree, limit = self._recorder.tree, self._recorder.max_preview_characters
        if self._node.ended_at is not None:
            return
        shown = preview_values(outputs, limit)
        told = None if error is None else ErrorView(type=type_name(type(error)), message=UNSPEAKABLE)
        try:
            told = preview_error(error, limit)
        finally:  # an error may end the program where it is asked what it says
            tree.change(tree.state.end, self._node, state, time.time(), shown, told)
