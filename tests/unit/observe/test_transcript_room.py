"""All transcripts of a tree together are bounded; requests show their parts of what their step says."""

from hypothesis import given, strategies as st

from nighthawk_async.observation import NodeWriter
from nighthawk_async.observe import NodeView, TaskTree, TranscriptPart
from tests.unit.observe.recorded import begin, only

PART = 64
"""What a part counts besides its text."""

LEFT_OUT = (TranscriptPart(kind="note", text="", is_cut=True),)


def characters(view: NodeView) -> int:
    """What is kept of all transcripts, those of requests apart, which are in those of their steps."""
    return sum(
        PART + len(part.text)
        for each in view.walk()
        if each.kind != "model_request"
        for part in each.transcript
        if part.text
    )


def request_of(step: NodeWriter) -> NodeWriter:
    return step.begin_child("model_request", "m", speaks_above=True)


def texts(view: NodeView) -> list[str]:
    return [part.text for part in view.transcript]


def test_what_ended_first_is_left_out_first() -> None:
    tree = TaskTree(max_total_transcript_characters=1_100)
    run = begin(tree)
    for name in "bac":
        run.begin_child("step", name).write("text", name * 200)
    steps = {view.name: view for view in only(tree).children}
    assert [len(view.transcript) for view in steps.values()] == [1, 1, 1]
    writers = [run.begin_child("step", name) for name in "de"]
    for writer in writers:
        writer.write("text", "x" * 50)
    writers[1].end("completed")
    writers[0].end("completed")
    run.begin_child("step", "f").write("text", "f" * 100)
    kept = {view.name: view.transcript for view in only(tree).children}
    assert kept["e"] == LEFT_OUT
    assert kept["d"][0].text == "x" * 50
    assert kept["b"] == steps["b"].transcript


def test_the_view_of_a_transcript_that_was_left_out_says_so_and_is_new() -> None:
    tree = TaskTree(max_total_transcript_characters=1_000)
    run = begin(tree)
    step = run.begin_child("step", "s")
    request = request_of(step)
    request.write("text", "x" * 500)
    request.end("completed")
    step.end("completed")
    before = only(tree)
    run.begin_child("step", "t").write("text", "y" * 500)
    after = only(tree).children[0]
    assert before.children[0].transcript[0].text == "x" * 500
    assert after.transcript == after.children[0].transcript == LEFT_OUT


@given(
    st.lists(
        st.tuples(
            st.integers(0, 7), st.sampled_from(["write", "write", "write", "end"]), st.integers(1, 400)
        ),
        max_size=120,
    ),
    st.integers(256, 2_000),
)
def test_all_together_stay_within_the_limit(told: list[tuple[int, str, int]], limit: int) -> None:
    tree = TaskTree(max_transcript_characters=1_000, max_total_transcript_characters=limit)
    run = begin(tree)
    steps = [run.begin_child("step", str(number)) for number in range(8)]
    requests = [request_of(step) for step in steps[:4]]
    for number, what, length in told:
        if what == "end":
            steps[number].end("completed")
            continue
        (requests + steps[4:])[number].write("text", str(number) * length)
        assert characters(tree.snapshot()) <= limit
    for view in only(tree).children:
        assert all(set(text) <= {view.name} for text in texts(view))
        for request in view.children:
            assert texts(request) == texts(view)


def test_what_was_dropped_makes_room() -> None:
    tree = TaskTree(max_nodes=3, max_total_transcript_characters=1_000)
    run = begin(tree)
    for number in range(50):
        step = run.begin_child("step", str(number))
        step.write("text", "x" * 300)
        step.end("completed")
    assert [texts(view) for view in only(tree).children] == [["x" * 300], ["x" * 300]]


def test_requests_show_their_parts_of_what_is_said_in_a_step() -> None:
    tree = TaskTree()
    step = begin(tree, "step")
    first, second = request_of(step), request_of(step)
    first.write("text", "a")
    second.write("text", "b")
    first.write("text", "c")
    step.write("tool_result", "d", key="t#1")
    second.write("text", "e")
    view = only(tree)
    assert texts(view) == ["a", "b", "c", "d", "e"]
    assert [texts(request) for request in view.children] == [["a", "c"], ["b", "e"]]
    assert view.transcript[0] is view.children[0].transcript[0]


def test_a_request_says_whether_something_of_its_own_is_left_out() -> None:
    tree = TaskTree(max_transcript_characters=1_000)
    step = begin(tree, "step")
    first, second, third = (request_of(step) for _ in range(3))
    first.write("text", "a" * 300)
    second.write("text", "b" * 300)
    only(tree)
    third.write("text", "c" * 400)
    views = only(tree).children
    assert only(tree).transcript[-1].is_cut
    assert [any(part.is_cut for part in view.transcript) for view in views] == [False, True, False]
    third.write("text", "c" * 200)
    assert [any(part.is_cut for part in view.transcript) for view in only(tree).children] == [
        False,
        True,
        True,
    ]


def test_a_request_whose_step_is_kept_no_longer_says_nothing_any_more() -> None:
    tree = TaskTree(max_finished_trees=0)
    step = begin(tree, "step")
    request = request_of(step)
    request.end("completed")
    step.end("completed")
    request.write("text", "late")
    assert not tree.snapshot().children


def test_a_request_deep_down_is_still_told_in_its_step() -> None:
    tree = TaskTree()
    writer = begin(tree)
    for _ in range(99):
        writer = writer.begin_child("step", "s")
    request = request_of(writer)
    step_id = [view.id for view in tree.snapshot().walk()][-2]
    request.write("text", "a")
    assert texts(tree.snapshot(step_id)) == ["a"]
    before = tree.snapshot(step_id)
    request.write("text", "b")
    assert texts(before) == ["a"]
    assert texts(tree.snapshot(step_id)) == ["ab"]
    assert [texts(view) for view in tree.snapshot().walk()][-1] == ["ab"]
