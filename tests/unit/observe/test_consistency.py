"""Whatever happens in whatever order: a snapshot is what a plain model says, at every version, for ever."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import top_writer

STATES = ("waiting", "running", "suspended")
ENDS = ("completed", "raised", "failed", "cancelled")

Operation = tuple[str, int, int]


@dataclass(eq=False)
class ModelNode:
    """What should be seen of a node."""

    name: str
    parent: "ModelNode | None"
    state: str = "running"
    is_ended: bool = False
    usage: Usage = field(default_factory=Usage)
    retries: int = 0
    text: str = ""
    attributes: dict[str, int] = field(default_factory=dict[str, int])
    children: list["ModelNode"] = field(default_factory=list["ModelNode"])
    dropped: list["ModelNode"] = field(default_factory=list["ModelNode"])
    changed_at: int = 0
    finished_at: int = -1

    def kept(self) -> list["ModelNode"]:
        """Itself and what is kept below it."""
        return [self, *(each for child in self.children for each in child.kept())]

    def ever(self) -> list["ModelNode"]:
        """The same, with everything that was dropped."""
        return [self, *(each for child in [*self.children, *self.dropped] for each in child.ever())]

    def is_finished(self) -> bool:
        return all(node.is_ended for node in self.kept())


def seen(view: NodeView) -> dict[str, Any]:
    """A view as plain data."""
    return {
        "name": view.name,
        "state": view.state,
        "is_ended": view.ended_at is not None,
        "usage": view.usage,
        "subtree_usage": view.subtree_usage,
        "retries": (view.retries, view.subtree_retries),
        "text": "".join(part.text for part in view.transcript),
        "attributes": dict(view.attributes),
        "dropped": view.dropped_children,
        "version": view.version,
        "children": [seen(child) for child in view.children],
    }


def expected(node: ModelNode) -> dict[str, Any]:
    """What should be seen of a node, worked out in the simplest way."""
    return {
        "name": node.name,
        "state": node.state,
        "is_ended": node.is_ended,
        "usage": node.usage,
        "subtree_usage": sum((each.usage for each in node.ever()), Usage()),
        "retries": (node.retries, sum(each.retries for each in node.ever())),
        "text": node.text,
        "attributes": dict(node.attributes),
        "dropped": len(node.dropped),
        "version": max(each.changed_at for each in node.ever()),
        "children": [expected(child) for child in node.children],
    }


class Recording:
    """A tree and its model, told the same."""

    def __init__(self, *, max_nodes: int, max_finished_trees: int, may_begin_late: bool) -> None:
        self.tree = TaskTree(max_nodes=max_nodes, max_finished_trees=max_finished_trees)
        self.top = ModelNode("", None)
        self.max_nodes, self.max_finished_trees = max_nodes, max_finished_trees
        self.may_begin_late = may_begin_late
        self.nodes: list[tuple[NodeWriter, ModelNode]] = [(top_writer(self.tree), self.top)]
        self.version = 0

    def carry_out(self, operation: Operation) -> None:
        name, which, number = operation
        if name == "begin":
            self.begin(*self.nodes[which % len(self.nodes)])
        elif len(self.nodes) > 1:
            writer, node = self.nodes[1 + which % (len(self.nodes) - 1)]
            getattr(self, name)(writer, node, number)

    def begin(self, writer: NodeWriter, node: ModelNode) -> None:
        if node.is_ended and not self.may_begin_late:
            return
        child = ModelNode(str(len(self.nodes)), node)
        self.nodes.append((writer.begin_child("step", child.name), child))
        node.children.append(child)
        self.changed(child)

    def change(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        state = STATES[number % len(STATES)]
        writer.change_state(state)
        if not node.is_ended and node.state != state:
            node.state = state
            self.changed(node)

    def tell(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        writer.write("text", str(number))
        node.text += str(number)
        self.changed(node)

    def know(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        writer.set_attributes({f"a{number % 3}": number})
        node.attributes[f"a{number % 3}"] = number
        self.changed(node)

    def use(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        cost = Decimal(number) / 100
        node.usage = Usage(requests=1, input_tokens=number, cost=cost, is_complete=number % 2 == 0)
        writer.set_usage(node.usage)
        self.changed(node)

    def retry(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        writer.count_retry()
        node.retries += 1
        self.changed(node)

    def end(self, writer: NodeWriter, node: ModelNode, number: int) -> None:
        state = ENDS[number % len(ENDS)]
        writer.end(state)
        if not node.is_ended:
            node.state, node.is_ended = state, True
            self.changed(node)

    def changed(self, node: ModelNode) -> None:
        self.version += 1
        node.changed_at = self.version
        above: ModelNode | None = node
        while above is not None and above.is_finished():
            above.finished_at = self.version
            above = above.parent
        while (oldest := self.next_to_drop()) is not None:
            assert oldest.parent is not None
            oldest.parent.children.remove(oldest)
            oldest.parent.dropped.append(oldest)
            oldest.parent.changed_at = self.version
            dropped = set(map(id, oldest.kept()))
            self.nodes = [pair for pair in self.nodes if id(pair[1]) not in dropped]

    def next_to_drop(self) -> ModelNode | None:
        roots = sorted(filter(ModelNode.is_finished, self.top.children), key=lambda each: each.finished_at)
        if len(roots) > self.max_finished_trees:
            return roots[0]
        kept = self.top.kept()
        if len(kept) - 1 <= self.max_nodes:
            return None
        finished = [node for node in kept if node.parent and node.is_finished()]
        largest = [node for node in finished if node.parent and not node.parent.is_finished()]
        return min(largest, key=lambda each: each.finished_at, default=None)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "change", "tell", "know", "use", "retry", "end", "end", "look"]),
        st.integers(0, 1_000),
        st.integers(0, 20),
    ),
    max_size=60,
)


def look(recording: Recording, before: NodeView | None) -> NodeView:
    """Compare a snapshot with the model, and with the snapshot before it."""
    view = recording.tree.snapshot()
    assert view.version == recording.version == recording.tree.version
    assert seen(view) == expected(recording.top)
    if before is not None:
        earlier = {each.id: each for each in before.walk()}
        for each in view.walk():
            known = earlier.get(each.id)
            assert known is None or (known is each) == (known.version == each.version)
    return view


@given(OPERATIONS, st.booleans())
def test_a_snapshot_is_what_happened_so_far_and_never_changes(
    operations: list[Operation], looks_each_time: bool
) -> None:
    recording = Recording(max_nodes=1_000, max_finished_trees=1_000, may_begin_late=True)
    snapshots: list[tuple[NodeView, dict[str, Any]]] = []
    for operation in operations:
        if operation[0] != "look":
            recording.carry_out(operation)
        if looks_each_time or operation[0] == "look":
            view = look(recording, snapshots[-1][0] if snapshots else None)
            snapshots.append((view, seen(view)))
    look(recording, snapshots[-1][0] if snapshots else None)
    for view, was in snapshots:
        assert seen(view) == was


@given(OPERATIONS, st.integers(1, 6), st.integers(0, 3))
def test_what_is_too_much_is_dropped_in_the_order_of_finishing(
    operations: list[Operation], max_nodes: int, max_finished_trees: int
) -> None:
    recording = Recording(max_nodes=max_nodes, max_finished_trees=max_finished_trees, may_begin_late=False)
    before: NodeView | None = None
    for operation in operations:
        if operation[0] != "look":
            recording.carry_out(operation)
        before = look(recording, before)


@given(OPERATIONS, st.integers(1, 6), st.integers(0, 3))
def test_what_goes_on_is_kept_and_what_was_used_is_known_whatever_is_dropped(
    operations: list[Operation], max_nodes: int, max_finished_trees: int
) -> None:
    """Also when something begins below what has ended, or was dropped."""
    tree = TaskTree(max_nodes=max_nodes, max_finished_trees=max_finished_trees)
    writers = [top_writer(tree)]
    used: dict[int, int] = {}
    open_names: set[str] = set()
    for name, which, number in operations:
        index = which % len(writers)
        if name == "begin":
            open_names.add(str(len(writers)))
            writers.append(writers[index].begin_child("task", str(len(writers))))
        elif name == "use" and index:
            used[index] = number
            writers[index].set_usage(Usage(output_tokens=number))
        elif name == "end" and index:
            open_names.discard(str(index))
            writers[index].end("completed")
        view = tree.snapshot()
        assert view.subtree_usage.output_tokens == sum(used.values())
        assert {each.name for each in view.walk() if not each.is_ended} == open_names | {""}
