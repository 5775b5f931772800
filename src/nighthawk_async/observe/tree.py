"""Recording what goes on as a tree, looking at it, and influencing it."""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from itertools import count

from ..actors.argument_checks import check_whole_number
from ..observation import using_node_writer, using_node_writer_everywhere
from .errors import NodeNotFoundError, NotControllableError
from .node import Node
from .node_writer import Recorder, TreeNodeWriter
from .retention import Retention
from .shared_tree import SharedTree
from .transcript import LEAST_CHARACTERS
from .transcript_room import TranscriptRoom
from .tree_state import TreeState
from .views import ControlName, NodeView
from .watching import Watch

__all__ = ["TaskTree", "find_tree"]

_tree: ContextVar["TaskTree | None"] = ContextVar("nighthawk_async_task_tree")
_everywhere: "TaskTree | None" = None


class TaskTree:
    """A recorded tree of runs, natural functions, steps, model requests, tool calls and tasks.

    Everything that begins has a node below what brought it about. A service records into one tree all the
    time. Finished subtrees are kept up to the limits; then the oldest are dropped whole, and those above
    count them. What goes on is never dropped. Every method may be called from any thread.

    Args:
        max_nodes: How many nodes are kept, unless more of them go on.
        max_finished_trees: How many finished trees are kept, of those that have nothing above them.
        max_preview_characters: How many characters of each input, output, attribute and error are kept.
        max_transcript_characters: How many characters of the transcript of each node are kept: half of them
            from its beginning, half from its end. A part counts 64 besides its text.
        max_total_transcript_characters: How many characters of all transcripts together are kept. Those of
            what has ended are left out first, the oldest before others.

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
            tree=self._shared,
            ids=count(1),
            max_preview_characters=max_preview_characters,
            max_transcript_characters=max_transcript_characters,
        )
        self._writer = TreeNodeWriter(recorder, root)

    @contextmanager
    def recording(self, *, everywhere: bool = False) -> Generator["TaskTree", None, None]:
        """Record what goes on in the `with` statement, also in the tasks and worker threads that it starts.

        What begins directly in it has no node above it but the tree's own.

        Args:
            everywhere: Whether what goes on elsewhere in the process is recorded too, where no other tree is
                in force. Without it, a `threading.Thread` is recorded from Python 3.14 on.
        """
        token = _tree.set(self)
        try:
            with ExitStack() as stack:
                stack.enter_context(using_node_writer(self._writer))
                if everywhere:
                    stack.enter_context(using_node_writer_everywhere(self._writer))
                    stack.enter_context(_everywhere_in_force(self))
                yield self
        finally:
            _tree.reset(token)

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._shared.state.version

    def snapshot(self, node_id: str | None = None) -> NodeView:
        """Return the view of a node and of everything below it, all at one version.

        Args:
            node_id: Which node; None for the node above everything, whose children have nothing above them.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
        """
        return self._shared.read(lambda: self._node(node_id).up_to_date_view())

    def watch(
        self, node_id: str | None = None, since: int | None = None, min_interval: float = 0.05
    ) -> Watch:
        """Newer snapshots of a node as they come to be: an `async with` object to iterate over.

        The first comes at once. Who is slow misses those between: the next one is always the newest. It ends
        after the snapshot in which the node has ended; the node above everything never does.

        Args:
            node_id: Which node; None for the node above everything.
            since: The version of the snapshot that was seen last: the first one to come is newer. None, or a
                version that this tree has not had, for the newest.
            min_interval: How much time there is between two snapshots at least, in seconds.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
            ValueError: The interval is no number of seconds.
        """
        node = self._shared.read(self._node, node_id)
        return Watch(self._shared, node, since=since, min_interval=min_interval)

    def cancel(self, node_id: str, reason: str | None = None) -> None:
        """Ask a node to end. This and the like return at once; the node obeys on its event loop.

        Args:
            node_id: Which node.
            reason: Why; None for no reason.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
            NotControllableError: It has ended, or cannot be asked.
        """
        self._control(node_id, "cancel", reason)

    def steer(self, node_id: str, text: str) -> None:
        """Tell the model of a step something, at its next turn.

        Args:
            node_id: Which node.
            text: The message.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
            NotControllableError: It has ended, or cannot be steered.
        """
        self._control(node_id, "steer", text)

    def suspend(self, node_id: str) -> None:
        """Ask a node to wait at its next boundary.

        Args:
            node_id: Which node.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
            NotControllableError: It has ended, or cannot be suspended.
        """
        self._control(node_id, "suspend")

    def resume(self, node_id: str) -> None:
        """Let a suspended node go on.

        Args:
            node_id: Which node.

        Raises:
            NodeNotFoundError: There is no such node, or no more.
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
    """The tree into which is recorded where the caller is; None when nothing is recorded."""
    return _tree.get(_everywhere)


@contextmanager
def _everywhere_in_force(tree: TaskTree) -> Generator[None, None, None]:
    global _everywhere
    before, _everywhere = _everywhere, tree
    try:
        yield
    finally:
        _everywhere = before
