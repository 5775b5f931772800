"""What is told of what goes on is seen in the tree."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context

import anyio
import anyio.to_thread
import pytest

from nighthawk_async import observe
from nighthawk_async.observation import NodeState, find_node_writer, observed, using_node_writer
from nighthawk_async.observe import NodeNotFoundError, NotRecordingError, TaskTree
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin, ids_below, only, top_writer


def test_everything_that_is_told_is_seen() -> None:
    tree = TaskTree()
    step = begin(tree).begin_child(
        "step",
        "classify",
        state="waiting",
        source="reviews:12",
        inputs={"review": "good", "limit": 3},
        attributes={"gen_ai.operation.name": "invoke_agent"},
    )
    step.change_state("running")
    step.set_attributes({"turns": 2})
    step.write("text", "It is ")
    step.write("text", "good.")
    step.write("tool_call", '{"x": 1}', key="nh_eval call_1")
    step.set_usage(Usage(requests=1, input_tokens=20))
    step.count_retry()
    step.end("raised", outputs={"label": "positive"}, error=ValueError("too short"))

    (view,) = only(tree).children
    assert (view.kind, view.name, view.source, view.state) == ("step", "classify", "reviews:12", "raised")
    assert view.inputs == {"review": '"good"', "limit": "3"}
    assert view.outputs == {"label": '"positive"'}
    assert view.attributes == {"gen_ai.operation.name": "invoke_agent", "turns": 2}
    assert view.error == observe.ErrorView(type="ValueError", message="too short")
    assert view.transcript == (
        observe.TranscriptPart(kind="text", text="It is good."),
        observe.TranscriptPart(kind="tool_call", text='{"x": 1}', key="nh_eval call_1"),
    )
    assert view.usage == view.subtree_usage == Usage(requests=1, input_tokens=20)
    assert view.retries == 1
    assert view.ended_at is not None
    assert view.began_at <= view.ended_at
    assert view.is_ended
    assert view.parent_id == only(tree).id


def test_the_node_above_everything_has_those_with_nothing_above_them() -> None:
    tree = TaskTree()
    begin(tree, "run", "a")
    begin(tree, "request", "b")
    top = tree.snapshot()
    assert (top.id, top.kind, top.parent_id, top.state) == ("0", "tree", None, "running")
    assert [(child.kind, child.name, child.parent_id) for child in top.children] == [
        ("run", "a", "0"),
        ("request", "b", "0"),
    ]
    assert tree.snapshot("0") is top


def test_a_snapshot_of_a_node_is_what_the_whole_shows_of_it() -> None:
    tree = TaskTree()
    run = begin(tree)
    run.begin_child("step", "a").begin_child("tool_call", "b")
    run.begin_child("step", "c")
    whole = tree.snapshot()
    assert [view.name for view in whole.walk()] == ["", "main", "a", "b", "c"]
    for view in whole.walk():
        assert tree.snapshot(view.id) is view is whole.find(view.id)
    assert whole.find("99") is None
    assert whole.children[0].children[1].find(whole.children[0].id) is None


def test_only_the_first_end_counts() -> None:
    tree = TaskTree()
    step = begin(tree, "step")
    step.end("cancelled")
    ended = only(tree)
    step.end("completed", outputs={"late": 1})
    step.change_state("running")
    assert only(tree) is ended
    assert ended.state == "cancelled"


def test_what_is_told_after_the_end_is_still_counted() -> None:
    tree = TaskTree()
    run = begin(tree)
    request = run.begin_child("model_request", "m")
    request.end("cancelled")
    request.set_usage(Usage(requests=1, output_tokens=7, is_complete=False))
    request.write("note", "cut off")
    (view,) = only(tree).children
    assert view.transcript[0].text == "cut off"
    assert only(tree).subtree_usage == Usage(requests=1, output_tokens=7, is_complete=False)


def test_usage_that_becomes_complete_is_complete_above_too() -> None:
    tree = TaskTree()
    run = begin(tree)
    first, second = (run.begin_child("model_request", name) for name in "ab")
    first.set_usage(Usage(requests=1, is_complete=False))
    second.set_usage(Usage(requests=1, is_complete=False))
    first.set_usage(Usage(requests=1, input_tokens=5))
    assert not only(tree).subtree_usage.is_complete
    second.set_usage(Usage(requests=1, input_tokens=6))
    assert only(tree).subtree_usage == Usage(requests=2, input_tokens=11)
    assert only(tree).usage == Usage()


def test_what_begins_below_something_that_has_ended_is_below_it() -> None:
    tree = TaskTree()
    run = begin(tree)
    run.end("completed")
    run.begin_child("task", "late").end("completed")
    assert [child.name for child in only(tree).children] == ["late"]
    assert only(tree).state == "completed"


def test_a_chain_without_end_becomes_no_deeper_than_a_hundred() -> None:
    """A task that starts the next one and ends; and nothing here may need a stack as deep as the tree."""
    tree = TaskTree()
    writer = top_writer(tree)
    for number in range(300):
        before, writer = writer, writer.begin_child("task", str(number))
        before.end("completed")
    deepest, depth = tree.snapshot(), 0
    while deepest.children:
        deepest, depth = deepest.children[0], depth + 1
    assert depth == 100
    assert len(ids_below(tree.snapshot())) == 300
    shown = observe.view_as_json(tree.snapshot())
    assert shown["child_count"] == 1


def test_children_are_a_sequence() -> None:
    tree = TaskTree()
    run = begin(tree)
    for number in range(700):
        run.begin_child("step", str(number))
    children = only(tree).children
    names = [str(number) for number in range(700)]
    assert len(children) == 700
    assert [child.name for child in children] == names
    assert [children[index].name for index in range(-700, 700)] == names * 2
    assert [child.name for child in children[254:600:3]] == names[254:600:3]
    assert children[3] in children
    for index in (700, -701):
        with pytest.raises(IndexError):
            children[index]
    assert list(children[5].children) == []
    with pytest.raises(IndexError):
        children[5].children[0]


def test_a_view_cannot_be_changed() -> None:
    view = TaskTree().snapshot()
    with pytest.raises(AttributeError):
        view.name = "other"  # type: ignore[misc]
    for mapping in (view.inputs, view.outputs, view.attributes):
        with pytest.raises(TypeError):
            mapping["x"] = "y"  # type: ignore[index]


def test_an_unknown_node_is_refused() -> None:
    tree = TaskTree()
    for ask in (tree.snapshot, tree.watch, tree.cancel, tree.suspend, tree.resume):
        with pytest.raises(NodeNotFoundError, match="no node '7'"):
            ask("7")
    with pytest.raises(LookupError):
        tree.steer("7", "hello")


@pytest.mark.parametrize(
    "limits",
    [
        {"max_nodes": 0},
        {"max_nodes": True},
        {"max_finished_trees": -1},
        {"max_preview_characters": 1.5},
        {"max_transcript_characters": 10},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        observe.recording(**limits)


def test_nothing_is_recorded_by_default() -> None:
    assert find_node_writer() is None
    assert observe.find_tree() is None
    assert observe.find_node_id() is None
    with observed("step", "s") as writer:
        assert writer is None
    with pytest.raises(NotRecordingError, match="recording"):
        observe.snapshot()
    with pytest.raises(NotRecordingError):
        observe.watch()


def test_the_tree_in_force_is_looked_at_without_naming_it() -> None:
    with observe.recording() as tree:
        assert observe.get_tree() is tree is observe.find_tree()
        assert observe.find_node_id() == "0"
        with observed("run", "r"):
            node_id = observe.find_node_id()
            assert node_id is not None
            assert observe.snapshot(node_id).name == "r"
            assert observe.snapshot() is tree.snapshot()
    assert tree.snapshot().children[0].state == "completed"


def test_a_tree_records_again_and_inside_another() -> None:
    outer, inner = TaskTree(), TaskTree()
    with outer.recording(), observed("run", "outer"):
        with inner.recording(), observed("run", "inner"):
            pass
        with observed("step", "s"):
            pass
    with inner.recording(), observed("run", "again"):
        pass
    assert [view.name for view in outer.snapshot().walk()] == ["", "outer", "s"]
    assert [view.name for view in inner.snapshot().walk()] == ["", "inner", "again"]


def test_what_nobody_shall_see_is_not_recorded() -> None:
    with observe.recording() as tree, using_node_writer(None), observed("step", "secret"):
        assert observe.find_node_id() is None
    assert not tree.snapshot().children


@pytest.mark.parametrize(
    ("error", "state"),
    [(None, "completed"), (ValueError(), "failed"), (KeyboardInterrupt(), "cancelled")],
)
def test_what_is_observed_ends_as_its_block_does(error: BaseException | None, state: NodeState) -> None:
    with observe.recording() as tree, suppress(ValueError, KeyboardInterrupt), observed("step", "s"):
        if error is not None:
            raise error
    assert only(tree).state == state


def test_a_generator_that_is_closed_elsewhere_still_ends_what_it_observed() -> None:
    def generate():
        with observed("task", "generator"):
            yield 1

    with observe.recording() as tree:
        generator = copy_context().run(lambda: (made := generate(), next(made))[0])
        copy_context().run(generator.close)
        assert observe.find_node_id() == "0"
    assert only(tree).state == "cancelled"


@pytest.mark.anyio
async def test_what_begins_in_tasks_and_threads_is_below_what_started_them() -> None:
    def in_thread() -> None:
        with observed("function", "thread"):
            pass

    async def in_task() -> None:
        with observed("step", "task"):
            await anyio.to_thread.run_sync(in_thread)

    with observe.recording() as tree:
        with observed("run", "r"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(in_task)
        assert [view.name for view in tree.snapshot().walk()] == ["", "r", "task", "thread"]


def test_what_goes_on_in_other_threads_is_recorded_where_that_is_wanted() -> None:
    found: list[object] = []

    def in_thread() -> None:
        with observed("function", "thread"):
            found.append(observe.get_tree())
        with TaskTree().recording(), observed("function", "elsewhere"):
            pass

    tree = TaskTree()
    with ThreadPoolExecutor() as threads:
        with tree.recording(everywhere=True), observed("run", "r"):
            threads.submit(Context().run, in_thread).result()
        with pytest.raises(NotRecordingError):
            threads.submit(Context().run, observe.get_tree).result()
    assert [view.name for view in tree.snapshot().walk()] == ["", "r", "thread"]
    assert tree.snapshot().children[1].parent_id == tree.snapshot().id
    assert found == [tree]


class ToldAmid:
    """A usage that, while the tree adds it up, does what a finalizer may do at any moment."""

    def __init__(self, does) -> None:
        self._does = does

    def __getattr__(self, name: str) -> object:
        does, self._does = self._does, lambda: None
        does()
        return getattr(Usage(requests=1), name)


def test_what_a_finalizer_tells_amid_a_change_is_recorded_after_it() -> None:
    tree = TaskTree()
    run = begin(tree)

    def finalizer() -> None:
        run.begin_child("task", "collected").end("cancelled")

    run.set_usage(ToldAmid(finalizer))  # type: ignore[arg-type]
    view = only(tree)
    assert view.subtree_usage.requests == 1
    assert [(child.name, child.state) for child in view.children] == [("collected", "cancelled")]


def test_a_finalizer_that_looks_amid_a_change_is_refused() -> None:
    tree = TaskTree()
    run = begin(tree)
    with pytest.raises(observe.ObserveError, match="finalizer"):
        run.set_usage(ToldAmid(tree.snapshot))  # type: ignore[arg-type]
    run.end("completed")
    assert only(tree).state == "completed"


def test_every_snapshot_is_consistent_while_threads_publish() -> None:
    tree = TaskTree()
    start = threading.Barrier(5)
    usage = Usage(requests=1, input_tokens=10)

    def publish() -> None:
        start.wait()
        run = begin(tree)
        for number in range(100):
            step = run.begin_child("step", str(number))
            step.write("text", "a")
            step.set_usage(usage)
            step.write("text", "b")
            step.end("completed", outputs={"n": number})
        run.end("completed")

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    versions = [-1]
    while any(thread.is_alive() for thread in threads):
        top = tree.snapshot()
        assert top.version >= versions[-1]
        versions.append(top.version)
        for run in top.children:
            told = [step for step in run.children if step.usage.requests]
            assert run.subtree_usage == sum((step.usage for step in told), Usage())
            assert all(step in told for step in run.children[:-1])
            assert all(step.is_ended for step in run.children[:-1])
            assert all(step.version <= run.version <= top.version for step in run.children)
            assert not run.is_ended or len(run.children) == 100
    for thread in threads:
        thread.join()
    top = tree.snapshot()
    assert top.subtree_usage == Usage(requests=400, input_tokens=4_000)
    assert tree.version == top.version == 4 * (2 + 100 * 5)
    assert len({view.id for view in top.walk()}) == 405
