"""What a change costs depends on how deep it is, never on how many siblings there are. Counted, not timed."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from nighthawk_async import observe
from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin

FOLDER = str(Path(observe.__file__).parent)

CHANGES: dict[str, Callable[[NodeWriter], object]] = {
    "begin": lambda writer: writer.begin_child("step", "s"),
    "state": lambda writer: writer.change_state("waiting"),
    "attributes": lambda writer: writer.set_attributes({"a": 1}),
    "text": lambda writer: writer.write("text", "t"),
    "usage": lambda writer: writer.set_usage(Usage(requests=1)),
    "retry": lambda writer: writer.count_retry(),
    "end": lambda writer: writer.end("completed"),
}


def lines_carried_out(function: Callable[[], object]) -> int:
    """How many lines of the room are carried out by a call."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    assert lines
    return lines


def nested(tree: TaskTree, depth: int) -> NodeWriter:
    writer = begin(tree)
    for level in range(depth - 1):
        writer = writer.begin_child("task", str(level))
    return writer


def new_views(before: NodeView, after: NodeView) -> int:
    known = {id(view) for view in before.walk()}
    return sum(id(view) not in known for view in after.walk())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_visits_what_is_above_and_not_what_is_beside(change: Callable[[NodeWriter], object]) -> None:
    costs: dict[tuple[int, int], int] = {}
    for depth in (2, 10, 18):
        for siblings in (100, 1_000):
            tree = TaskTree()
            parent = nested(tree, depth)
            for number in range(siblings):
                parent.begin_child("step", str(number)).end("completed")
            writer = parent.begin_child("step", "changed")
            tree.snapshot()
            costs[depth, siblings] = lines_carried_out(lambda writer=writer: change(writer))
    for depth in (2, 10, 18):
        assert costs[depth, 100] == costs[depth, 1_000]
    assert costs[18, 100] - costs[10, 100] == costs[10, 100] - costs[2, 100]  # so much for each level
    assert costs[10, 100] < 40 * 10


def test_a_snapshot_puts_together_anew_only_what_has_changed() -> None:
    tree = TaskTree()
    parent = nested(tree, 5)
    writers = [parent.begin_child("step", str(number)) for number in range(3_000)]
    before = tree.snapshot()
    writers[1_234].write("text", "changed")
    after: list[NodeView] = []
    lines = lines_carried_out(lambda: after.append(tree.snapshot()))
    assert new_views(before, after[0]) == 7  # the node and those above it
    assert lines < 2_000  # the node's chunk of 256, and not its 3,000 siblings


def test_looking_again_at_what_has_not_changed_costs_nothing() -> None:
    tree = TaskTree()
    parent = nested(tree, 5)
    for number in range(500):
        parent.begin_child("step", str(number))
    view = tree.snapshot()
    assert lines_carried_out(tree.snapshot) < 50
    assert tree.snapshot() is view


def test_children_are_found_by_number_without_looking_at_them_all() -> None:
    tree = TaskTree()
    parent = begin(tree)
    for number in range(3_000):
        parent.begin_child("step", str(number))
    children = tree.snapshot().children[0].children
    assert lines_carried_out(lambda: children[2_000]) < 10
