"""Views as plain text."""

import pytest

from nighthawk_async.observe import TaskTree, view_as_text
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin, only


def recorded() -> TaskTree:
    tree = TaskTree()
    run = begin(tree)
    function = run.begin_child("function", "classify", inputs={"text": "Hello\x1b[2J", "tool": len})
    step = function.begin_child("step", "shop:4", inputs={"text": "Hello"})
    request = step.begin_child(
        "model_request", "openai-chat:large", inputs={"last_message": "<<<NH:PROGRAM>>>\nSay it."}
    )
    request.set_usage(Usage(requests=1, input_tokens=1200, output_tokens=34))
    request.end("completed")
    step.end("failed", error=ValueError("bad\nluck"))
    function.end("failed", error=ValueError("bad\nluck"))
    return tree


def test_one_line_for_each_node_and_one_for_the_function_and_its_step() -> None:
    root = recorded().snapshot()
    lines = view_as_text(root, now=root.began_at).splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines[:2]] == [
        "● run main",
        '└─ ✗ classify(text="Hello")',
    ]
    assert lines[2].strip() == "ValueError: bad luck"
    assert lines[3].lstrip().startswith('└─ ✓ model openai-chat:large(last_message="Say it.")')
    assert lines[3].endswith("1,234 tok")
    assert len(lines) == 4


def test_the_view_of_one_node_begins_with_that_node() -> None:
    run = recorded().snapshot().children[0]
    assert view_as_text(run.children[0]).startswith("✗ classify")


def test_the_row_of_a_function_has_the_state_of_its_step_while_it_goes_on() -> None:
    tree = TaskTree()
    function = begin(tree, "function", "classify")
    step = function.begin_child("step", "shop:4")
    step.change_state("suspended")
    assert view_as_text(only(tree)).startswith("‖ classify")
    step.end("raised", error=ValueError("no"))
    function.end("failed", error=ValueError("no"))
    assert view_as_text(only(tree)).startswith("✗ classify")


def test_widths_and_ascii() -> None:
    root = recorded().snapshot()
    lines = view_as_text(root, width=40, is_ascii=True).splitlines()
    assert max(map(len, lines)) <= 40
    assert all(line.isascii() for line in lines)
    assert any("..." in line for line in lines)
    with pytest.raises(ValueError, match="width must be at least 40"):
        view_as_text(root, width=10)


def test_an_empty_tree_is_an_empty_text() -> None:
    assert view_as_text(TaskTree().snapshot()) == ""
