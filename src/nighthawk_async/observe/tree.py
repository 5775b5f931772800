"""Recording a running program as a tree, and reading and controlling that tree.

Reports about a node reach the tree through its writer. Slow work, above all reading values, happens here,
before the tree is locked.
"""

import os
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count

from msgspec import Struct

from ..actors.errors import check_whole_number
from ..observation import (
    NodeControl,
    NodeKind,
    NodeState,
    TranscriptKind,
    find_node_writer,
    using_node_writer,
    using_node_writer_everywhere,
)
from ..prompt.plain_text import clean_text, type_name
from ..types.usage import Usage
from .controls import HeldControl
from .errors import NodeNotFoundError, NotControllableError, NotRecordingError
from .node import Node
from .previews import (
    UNSPEAKABLE,
    PreviewLimits,
    preview_attributes,
    preview_error,
    preview_name,
    preview_values,
    shorten,
)
from .shared_tree import SharedTree
from .transcript import LEAST_CHARACTERS
from .tree_state import Retention, TranscriptRoom, TreeState
from .views import ControlName, ErrorView, NodeView, ViewedKind
from .watching import Watch


class Recorder(Struct, frozen=True, kw_only=True, eq=False):
    """State shared by the writers of one tree.

    Args:
        owner: The tree, as programs see it.
        tree: The state of the tree, which threads share.
        ids: The source of node ids.
        max_preview_characters: The number of characters of a value that are kept.
        max_transcript_characters: The number of characters of a transcript that are kept.
    """

    owner: "TaskTree"
    tree: SharedTree
    ids: "count[int]"
    max_preview_characters: int
    max_transcript_characters: int


class TreeNodeWriter:
    """Records the reports about one node; see `observation.NodeWriter`.

    Args:
        recorder: The state that it shares with the other writers.
        node: The node.
    """

    __slots__ = ("_node", "_recorder")

    def __init__(self, recorder: Recorder, node: Node) -> None:
        self._recorder = recorder
        self._node = node

    @property
    def tree(self) -> "TaskTree":
        """The tree of the node."""
        return self._recorder.owner

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._node.id

    @property
    def kind(self) -> ViewedKind:
        """The kind of the node."""
        return self._node.kind

    @property
    def limits(self) -> PreviewLimits:
        """The numbers of characters that are kept of values and of a transcript."""
        recorder = self._recorder
        return PreviewLimits(recorder.max_preview_characters, recorder.max_transcript_characters)

    @property
    def is_watched(self) -> bool:
        """Whether a watcher observes the node or one of its ancestors."""
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
        at: float | None = None,
    ) -> "TreeNodeWriter":
        """Begin a child of the node."""
        recorder = self._recorder
        limit = recorder.max_preview_characters
        node = Node(
            id=str(next(recorder.ids)),
            kind=kind,
            name=preview_name(name),
            state=state,
            began_at=time.time() if at is None else at,
            source=None if source is None else shorten(source, limit),
            inputs=preview_values(inputs, limit),
            attributes=preview_attributes(attributes, limit),
            control=None if control is None else HeldControl(control),
        )
        recorder.tree.change(recorder.tree.state.begin, node, self._node, speaks_above)
        return TreeNodeWriter(recorder, node)

    def change_state(self, state: NodeState) -> None:
        """Set whether it waits, runs or is suspended."""
        tree = self._recorder.tree
        tree.change(tree.state.change_state, self._node, state)

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes, or replace those of the same names."""
        tree = self._recorder.tree
        shown = preview_attributes(attributes, self._recorder.max_preview_characters)
        tree.change(tree.state.set_attributes, self._node, shown)

    def set_control(self, control: NodeControl | None) -> None:
        """Replace its control; None for no control."""
        tree = self._recorder.tree
        tree.change(tree.state.set_control, self._node, None if control is None else HeldControl(control))

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """Append to its transcript."""
        tree = self._recorder.tree
        shown_key = None if key is None else preview_name(key)
        limit = self._recorder.max_transcript_characters
        if len(text) > 2 * limit:  # the rest would be removed
            text = text[:limit] + text[-limit:]
        tree.change(tree.state.write, self._node, kind, clean_text(text), shown_key)

    def set_usage(self, usage: Usage, *, model: str | None = None) -> None:
        """Set its own usage of a model so far."""
        tree = self._recorder.tree
        tree.change(tree.state.set_usage, self._node, usage, None if model is None else preview_name(model))

    def set_outputs(self, outputs: Mapping[str, object]) -> None:
        """Set its outputs so far."""
        tree = self._recorder.tree
        shown = preview_values(outputs, self._recorder.max_preview_characters)
        tree.change(tree.state.set_outputs, self._node, shown)

    def count_retry(self) -> None:
        """Count a retry."""
        tree = self._recorder.tree
        tree.change(tree.state.count_retry, self._node)

    def end(
        self,
        state: NodeState,
        *,
        outputs: Mapping[str, object] | None = None,
        error: BaseException | None = None,
        at: float | None = None,
    ) -> None:
        """End it; only the first end counts."""
        tree, limit = self._recorder.tree, self._recorder.max_preview_characters
        if self._node.ended_at is not None:
            return
        shown = preview_values(outputs, limit)
        shown_error = None if error is None else ErrorView(type=type_name(type(error)), message=UNSPEAKABLE)
        try:
            shown_error = preview_error(error, limit)
        finally:  # reading an error's message may end the program
            ended_at = time.time() if at is None else at
            tree.change(tree.state.end, self._node, state, ended_at, shown, shown_error)


class TaskTree:
    """A recorded tree of runs, natural functions, steps, model requests, tool calls and tasks.

    Each of these has a node below the one that started it. A service can record into one tree permanently.
    Finished subtrees are kept up to the limits; then the oldest are dropped whole, and their parents count
    them. Nodes that have not ended are never dropped. All methods are thread-safe.

    Args:
        max_nodes: The maximum number of nodes that are kept, unless more than that have not ended.
        max_finished_trees: The maximum number of finished top-level trees that are kept.
        max_preview_characters: The number of characters of each input, output, attribute and error that are
            kept.
        max_transcript_characters: The number of characters of the transcript of each node that are kept: half
            of them from its beginning, half from its end. A part counts 64 besides its text.
        max_total_transcript_characters: The number of characters of all transcripts together that are kept.
            Transcripts of ended nodes are removed first, the oldest before others.

    Raises:
        ValueError: A limit is not a whole number, or too small.
    """

    def __init__(
        self,
        *,
        max_nodes: int = 20_000,
        max_finished_trees: int = 1_000,
        max_preview_characters: int = 2_000,
        max_transcript_characters: int = 65_536,
        max_total_transcript_characters: int = 67_108_864,
    ) -> None:
        check_whole_number("max_nodes", max_nodes, least=1)
        check_whole_number("max_finished_trees", max_finished_trees, least=0)
        check_whole_number("max_preview_characters", max_preview_characters, least=16)
        check_whole_number("max_transcript_characters", max_transcript_characters, least=LEAST_CHARACTERS)
        check_whole_number(
            "max_total_transcript_characters", max_total_transcript_characters, least=LEAST_CHARACTERS
        )
        root = Node(id="0", kind="tree", name="", state="running", began_at=time.time())
        state = TreeState(
            root=root,
            retention=Retention(max_nodes=max_nodes, max_finished_trees=max_finished_trees),
            transcripts=TranscriptRoom(
                max_characters=max_transcript_characters,
                max_total_characters=max_total_transcript_characters,
            ),
        )
        self._shared = SharedTree(state)
        recorder = Recorder(
            owner=self,
            tree=self._shared,
            ids=count(1),
            max_preview_characters=max_preview_characters,
            max_transcript_characters=max_transcript_characters,
        )
        self._writer = TreeNodeWriter(recorder, root)

    @contextmanager
    def recording(self, *, everywhere: bool = False) -> Generator["TaskTree", None, None]:
        """Record the body of the `with` statement, including the tasks and worker threads that it starts.

        Work that begins directly in the `with` statement becomes a child of the root node.

        Args:
            everywhere: Whether the rest of the process is recorded too, where no other tree is active.
                Without it, a `threading.Thread` is recorded from Python 3.14 on.
        """
        in_process = using_node_writer_everywhere(self._writer) if everywhere else nullcontext()
        with using_node_writer(self._writer), in_process:
            yield self

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._shared.state.version

    def snapshot(self, node_id: str | None = None) -> NodeView:
        """Return the view of a node and of everything below it, all at one version.

        Args:
            node_id: The id of the node; None for the root node, whose children are the top-level nodes.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
        """
        return self._shared.read(lambda: self._node(node_id).up_to_date_view())

    def watch(
        self, node_id: str | None = None, since: int | None = None, min_interval: float = 0.05
    ) -> Watch:
        """Yield newer snapshots of a node as it changes: an `async with` object to iterate over.

        In a thread without an event loop, use `with` and `for`; `close()` ends it from another thread.

        The first comes at once. A slow reader skips the snapshots in between: the next one is always the
        newest. Iteration ends after the snapshot in which the node has ended; the root node never ends.

        Args:
            node_id: The id of the node; None for the root node.
            since: The version of the last snapshot that was seen: the first one to come is newer. None, or a
                version that this tree has not had, for the newest.
            min_interval: The minimum time between two snapshots, in seconds.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
            ValueError: The interval is not a number of seconds.
        """
        node = self._shared.read(self._node, node_id)
        return Watch(self._shared, node, since=since, min_interval=min_interval)

    def cancel(self, node_id: str, reason: str | None = None) -> None:
        """Cancel a node. This and the other actions return at once; the node reacts on its event loop.

        Args:
            node_id: The id of the node.
            reason: The reason; None for no reason.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
            NotControllableError: It has ended, or cannot be cancelled.
        """
        self._control(node_id, "cancel", reason)

    def steer(self, node_id: str, text: str) -> None:
        """Send a message to the model of a step, for its next turn.

        Args:
            node_id: The id of the node.
            text: The message.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
            NotControllableError: It has ended, or cannot be steered.
        """
        self._control(node_id, "steer", text)

    def suspend(self, node_id: str) -> None:
        """Suspend a node at its next boundary.

        Args:
            node_id: The id of the node.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
            NotControllableError: It has ended, or cannot be suspended.
        """
        self._control(node_id, "suspend")

    def resume(self, node_id: str) -> None:
        """Resume a suspended node.

        Args:
            node_id: The id of the node.

        Raises:
            NodeNotFoundError: There is no such node, or it was dropped.
            NotControllableError: It has ended, cannot be resumed, or is not suspended.
        """
        self._control(node_id, "resume")

    def _control(self, node_id: str, name: ControlName, *arguments: object) -> None:
        control = self._shared.read(lambda: self._node(node_id).control)
        if control is None:
            raise NotControllableError(node_id, f"it has ended or cannot be asked to {name}")
        control.carry_out(node_id, name, *arguments)

    def _node(self, node_id: str | None) -> Node:
        state = self._shared.state
        node = state.root if node_id is None else state.nodes.get(node_id)
        if node is None:
            raise NodeNotFoundError(node_id or "")
        return node


def find_tree() -> TaskTree | None:
    """Return the tree that records in the caller's context; None when nothing is recorded."""
    writer = find_node_writer()
    return writer.tree if isinstance(writer, TreeNodeWriter) else None


def recording(
    *,
    to: str | os.PathLike[str] | None = None,
    max_nodes: int = 20_000,
    max_finished_trees: int = 1_000,
    max_preview_characters: int = 2_000,
    max_transcript_characters: int = 65_536,
    max_total_transcript_characters: int = 67_108_864,
) -> AbstractContextManager[TaskTree]:
    """Record the body of the `with` statement, including the tasks and threads that it starts.

        with observe.recording(to="triage.jsonl"):
            ...

    With `to`, a thread writes every change to the file, in lines of JSON: the command
    `nighthawk-async view triage.jsonl` and `read_recording` show them later, also when the program was
    killed. When the disk fails, an error is logged, the file ends there, and the program continues.

    Args:
        to: The path of a file to write, which is replaced when it exists; None for no file.
        max_nodes: The maximum number of nodes that are kept, unless more than that have not ended.
        max_finished_trees: The maximum number of finished top-level trees that are kept.
        max_preview_characters: The number of characters of each input, output, attribute and error that are
            kept.
        max_transcript_characters: The number of characters of the transcript of each node that are kept.
        max_total_transcript_characters: The number of characters of all transcripts together that are kept.

    Returns:
        A context manager that returns the tree.

    Raises:
        ValueError: A limit is not a whole number, or too small.
        OSError: On entering, the file cannot be written.
    """
    tree = TaskTree(
        max_nodes=max_nodes,
        max_finished_trees=max_finished_trees,
        max_preview_characters=max_preview_characters,
        max_transcript_characters=max_transcript_characters,
        max_total_transcript_characters=max_total_transcript_characters,
    )
    return tree.recording() if to is None else _recording_to(tree, to)


@contextmanager
def _recording_to(tree: TaskTree, path: str | os.PathLike[str]) -> Generator[TaskTree, None, None]:
    from .recording_file import INTERVAL, writing_changes  # here, because few programs write a file

    with writing_changes(tree.watch(min_interval=INTERVAL), path), tree.recording():
        yield tree


def get_tree() -> TaskTree:
    """Return the tree that records in the caller's context.

    Raises:
        NotRecordingError: Nothing is recorded.
    """
    tree = find_tree()
    if tree is None:
        raise NotRecordingError("nothing is recorded here: use `with observe.recording()`")
    return tree


def find_node_id() -> str | None:
    """Return the id of the caller's node; "0" outside any other node, None when nothing is recorded."""
    writer = find_node_writer()
    return writer.node_id if isinstance(writer, TreeNodeWriter) else None


def snapshot(node: str | None = None) -> NodeView:
    """Return the view of a node of the active tree; see `TaskTree.snapshot`.

    Args:
        node: The id of the node; None for the root node.

    Raises:
        NotRecordingError: Nothing is recorded.
        NodeNotFoundError: There is no such node, or it was dropped.
    """
    return get_tree().snapshot(node)


def watch(node: str | None = None, since: int | None = None, min_interval: float = 0.05) -> Watch:
    """Yield newer snapshots of a node of the active tree; see `TaskTree.watch`.

    Args:
        node: The id of the node; None for the root node.
        since: The version of the last snapshot that was seen; None for none.
        min_interval: The minimum time between two snapshots, in seconds.

    Raises:
        NotRecordingError: Nothing is recorded.
        NodeNotFoundError: There is no such node, or it was dropped.
        ValueError: The interval is not a number of seconds.
    """
    return get_tree().watch(node, since, min_interval)
