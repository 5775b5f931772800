"""Search in inputs, outputs and errors: by a text, and by a binding and the beginning of its value."""

import pytest

from nighthawk_async.observe import TaskTree
from nighthawk_async.observe.page.search import nodes_with
from tests.unit.observe.recorded import begin


@pytest.fixture
def tree() -> TaskTree:
    tree = TaskTree()
    step = begin(tree, "step", "classify")
    step.begin_child("tool_call", "find_order", inputs={"order": 4711, "Note": "x=1"}).end(
        "failed", error=LookupError("no order, limit=5")
    )
    step.end("completed", outputs={"label": "Refund wanted", "score": 0.25, "tags": ["late", "angry"]})
    return tree


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("refund", ["1"]),
        ("label=refund w", ["1"]),
        ('label="Refund', ["1"]),
        ("LABEL=REFUND", ["1"]),
        ("label=wanted", []),
        ("labe=refund", []),
        ("=refund", ["1"]),
        ("=wanted", []),
        ("score=0.2", ["1"]),
        ('tags=["late"', ["1"]),
        ("order=47", ["2"]),
        ("note=x=1", ["2"]),
        ("limit=5", ["2"]),
        ("order: 4711", ["2"]),
        ("=", ["2"]),
        ("label=", []),
        ("nothing", []),
    ],
)
def test_a_text_finds_the_nodes(tree: TaskTree, text: str, found: list[str]) -> None:
    assert nodes_with(tree.snapshot(), text) == found


@pytest.mark.parametrize("text", ["hunter2", "password=hunter2", "=hunter", "=<hid", "<hidden>", "=s3cret"])
def test_hidden_values_are_not_found(text: str) -> None:
    tree = TaskTree()
    step = begin(tree, "step", "log in")
    step.begin_child("tool_call", "log_in", inputs={"password": "hunter2", "user": "ada"})
    step.end("completed", outputs={"api_key": "s3cret"})
    assert nodes_with(tree.snapshot(), text) == []
    assert nodes_with(tree.snapshot(), "user=ada") == ["2"]
    assert nodes_with(tree.snapshot(), "password") == ["2"], "its name is no secret"
