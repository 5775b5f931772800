"""What has finished is kept up to limits; then the oldest is dropped whole, and counted."""

import gc

from nighthawk_async.observe import NodeView, TaskTree
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin, only, top_writer


def objects_of_the_room() -> int:
    """How many objects there are whose classes the room defines."""
    return sum(str(type(each).__module__).startswith("nighthawk_async.observe") for each in gc.get_objects())


def names(view: NodeView) -> list[str]:
    return [child.name for child in view.children]


def test_the_oldest_finished_tree_is_dropped_first() -> None:
    tree = TaskTree(max_finished_trees=2)
    writers = {name: begin(tree, "request", name) for name in "abcd"}
    for name in "bcad":
        writers[name].end("completed")
    assert names(tree.snapshot()) == ["a", "d"]
    assert tree.snapshot().dropped_children == 2


def test_without_any_finished_tree_to_keep_only_what_goes_on_is_there() -> None:
    tree = TaskTree(max_finished_trees=0)
    running, finished = begin(tree, name="a"), begin(tree, name="b")
    finished.end("completed")
    assert names(tree.snapshot()) == ["a"]
    running.end("completed")
    assert names(tree.snapshot()) == []


def test_what_goes_on_is_not_dropped_however_much_it_is() -> None:
    tree = TaskTree(max_nodes=3)
    run = begin(tree)
    for number in range(10):
        run.begin_child("step", str(number))
    assert len(only(tree).children) == 10


def test_the_finished_children_of_what_goes_on_are_dropped() -> None:
    tree = TaskTree(max_nodes=4)
    run = begin(tree)
    for number in range(10):
        run.begin_child("step", str(number)).end("completed")
    assert names(only(tree)) == ["7", "8", "9"]
    assert only(tree).dropped_children == 7


def test_a_finished_subtree_is_dropped_whole_and_stays_in_the_sums() -> None:
    tree = TaskTree(max_nodes=4)
    run = begin(tree)
    step = run.begin_child("step", "first")
    request = step.begin_child("model_request", "m")
    request.set_usage(Usage(requests=1, input_tokens=9))
    request.count_retry()
    request.end("completed")
    step.end("completed")
    for number in range(2):
        run.begin_child("step", str(number))
    view = only(tree)
    assert names(view) == ["0", "1"]
    assert view.dropped_children == 1
    assert (view.subtree_usage, view.subtree_retries) == (Usage(requests=1, input_tokens=9), 1)
    assert tree.snapshot().subtree_usage.requests == 1


def test_a_node_that_has_ended_is_kept_while_something_below_it_goes_on() -> None:
    tree = TaskTree(max_nodes=1, max_finished_trees=0)
    run = begin(tree)
    task = run.begin_child("task", "background")
    run.end("completed")
    assert names(only(tree)) == ["background"]
    task.end("completed")
    assert names(tree.snapshot()) == []


def test_what_is_told_of_a_dropped_node_counts_above_it() -> None:
    tree = TaskTree(max_nodes=1)
    run = begin(tree)
    step = run.begin_child("step", "s")
    step.end("cancelled")
    assert only(tree).dropped_children == 1
    step.set_usage(Usage(requests=1))
    step.write("text", "late")
    step.begin_child("task", "late").begin_child("step", "later")
    view = only(tree)
    assert view.subtree_usage.requests == 1
    assert [each.name for each in view.walk()] == ["main", "late", "later"]
    assert view.children[0].parent_id == view.id


def test_something_that_begins_below_a_finished_tree_keeps_it() -> None:
    tree = TaskTree(max_finished_trees=1)
    first = begin(tree, name="a")
    first.end("completed")
    late = first.begin_child("task", "late")
    for name in "bc":
        begin(tree, name=name).end("completed")
    assert names(tree.snapshot()) == ["a", "c"]
    late.end("completed")
    assert names(tree.snapshot()) == ["a"]


def test_views_of_what_was_dropped_stay_as_they_are() -> None:
    tree = TaskTree(max_finished_trees=0)
    run = begin(tree)
    run.begin_child("step", "s").end("completed")
    before = only(tree)
    run.end("completed")
    assert not tree.snapshot().children
    assert names(before) == ["s"]


def test_memory_is_flat_over_many_steps_under_one_run() -> None:
    """Without help of the garbage collector. Objects are counted, by type."""
    tree = TaskTree(max_nodes=200)
    run = begin(tree)

    def carry_out(steps: int) -> int:
        for number in range(steps):
            step = run.begin_child("step", "s", inputs={"number": number})
            step.begin_child("model_request", "m").end("completed")
            step.write("text", "done")
            step.end("completed")
        tree.snapshot()
        return objects_of_the_room()

    gc.collect()
    gc.disable()
    try:
        after_some = carry_out(1_000)
        after_many = carry_out(20_000)
    finally:
        gc.enable()
    assert after_many <= after_some + 5  # there may be one chunk of children more
    assert only(tree).dropped_children + len(only(tree).children) == 21_000


def test_memory_is_flat_over_many_small_trees() -> None:
    """Fewer nodes than are kept in all, so only the number of trees limits them."""
    tree = TaskTree(max_finished_trees=10)
    top = top_writer(tree)

    def carry_out(runs: int) -> int:
        for _ in range(runs):
            run = top.begin_child("run", "r")
            run.begin_child("step", "s").end("completed")
            run.end("completed")
        tree.snapshot()
        return objects_of_the_room()

    gc.collect()
    gc.disable()
    try:
        assert carry_out(100) == carry_out(5_000)
    finally:
        gc.enable()


def test_what_was_finished_in_a_subtree_that_goes_on_again_is_dropped_before_what_is_newer() -> None:
    tree = TaskTree(max_nodes=20)
    run = begin(tree)
    group = run.begin_child("group", "g")
    for number in range(10):
        group.begin_child("task", f"old{number}").end("completed")
    for number in range(8):
        run.begin_child("step", str(number)).end("completed")
    group.end("completed")
    for number in range(5):
        run.begin_child("step", str(number)).end("completed")
    assert sum(view.name.startswith("old") for view in only(tree).walk()) == 10
    late = group.begin_child("task", "late")
    for number in range(100):
        run.begin_child("step", f"new{number}").end("completed")
    kept = [view.name for view in only(tree).walk()]
    assert [name for name in kept if name.startswith("old")] == []
    assert [name for name in kept if name.startswith("new")] == [f"new{number}" for number in range(83, 100)]
    late.end("completed")


def test_a_subtree_that_goes_on_again_and_again_is_dropped_in_the_end() -> None:
    tree = TaskTree(max_nodes=10)
    run = begin(tree)
    group = run.begin_child("group", "g")
    group.end("completed")
    for number in range(100):
        group.begin_child("task", str(number)).end("completed")
        run.begin_child("step", "s").end("completed")
        assert sum(1 for _ in tree.snapshot().walk()) <= 12
    for _ in range(20):
        run.begin_child("step", "s").end("completed")
    assert names(only(tree)) == ["s"] * 9
