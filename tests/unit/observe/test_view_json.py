"""A view as JSON says the same as the view."""

import json
from dataclasses import fields
from decimal import Decimal

from nighthawk_async.observe import NodeView, TaskTree, view_as_json
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin, only


def recorded() -> TaskTree:
    tree = TaskTree()
    run = begin(tree)
    step = run.begin_child("step", "s", inputs={"a": 1}, attributes={"x": float("inf"), "n": 1.5, "b": True})
    step.write("tool_call", "{}", key="f 1")
    step.set_usage(Usage(requests=1, cost=Decimal("0.0010")))
    step.begin_child("model_request", "m")
    step.end("failed", error=ValueError("no"))
    return tree


def test_a_view_as_json_has_every_field_of_the_view() -> None:
    view = only(recorded())
    names = {field.name for field in fields(NodeView)}
    for each in view.walk():
        assert view_as_json(each).keys() == names | {"child_count"}


def test_a_view_as_json_says_what_the_view_says() -> None:
    view = only(recorded()).children[0]
    shown = json.loads(json.dumps(view_as_json(view), allow_nan=False))
    assert (shown["id"], shown["parent_id"], shown["kind"], shown["state"]) == ("2", "1", "step", "failed")
    assert shown["error"] == {"type": "ValueError", "message": "no"}
    assert shown["inputs"] == {"a": "1"}
    assert shown["attributes"] == {"x": "inf", "n": 1.5, "b": True}
    assert shown["transcript"] == [{"kind": "tool_call", "text": "{}", "key": "f 1", "is_cut": False}]
    assert shown["usage"]["cost"] == "0.0010"
    assert shown["usage"]["is_complete"] is True
    assert shown["controls"] == []
    assert shown["version"] == view.version
    assert [child["name"] for child in shown["children"]] == ["m"]


def test_levels_that_are_not_asked_for_are_counted_only() -> None:
    view = recorded().snapshot()
    assert "children" not in view_as_json(view, depth=0)
    assert view_as_json(view, depth=0)["child_count"] == 1
    one = view_as_json(view, depth=1)["children"]
    assert isinstance(one, list)
    assert [("children" in child, child["child_count"]) for child in one if isinstance(child, dict)] == [
        (False, 1)
    ]
    assert view_as_json(view, depth=4) == view_as_json(view)
