"""What the system prompt says."""

import pytest

from nighthawk_async.errors import ExecutionError
from nighthawk_async.executors.instructions import (
    direct_instructions,
    outcome_instructions,
    tool_instructions,
    variable_instructions,
)
from nighthawk_async.executors.outcome_codec import outcome_from_mapping


def test_only_the_tools_on_offer_are_mentioned() -> None:
    every = tool_instructions(("nh_eval", "nh_assign", "nh_exec"), 100)
    none = tool_instructions((), 100)
    assert "nh_eval" in every
    assert "nh_assign" in every
    assert "nh_" not in none
    assert "100 tokens" in none


def test_every_allowed_outcome_is_described_and_no_other() -> None:
    text = outcome_instructions("tool", ("pass", "raise"), ("ValueError", "KeyError"), "int")
    assert '"pass"' in text
    assert "ValueError, KeyError" in text
    assert '"break"' not in text
    assert "nh_outcome" in text
    assert "nh_outcome" not in outcome_instructions("native", ("pass",), (), "object")


def test_the_type_of_the_return_value_is_told_where_the_block_may_return() -> None:
    assert "the value must be int." in outcome_instructions("tool", ("return",), (), "int")
    assert "the value must be" not in outcome_instructions("tool", ("return",), (), "object")
    assert "int" not in outcome_instructions("tool", ("pass",), (), "int")


def test_the_variables_to_set_are_told_with_their_types() -> None:
    text = variable_instructions({"label": "Literal['a', 'b']", "anything": "object"})
    assert text.splitlines()[1:] == ["- label: Literal['a', 'b']", "- anything"]
    assert variable_instructions({}) == ""


def test_a_direct_answer_is_described_field_by_field() -> None:
    text = direct_instructions(("return", "raise"), ("KeyError",), {})
    assert "bindings empty" in text
    assert "return_value" in text
    assert "raise_message" in text
    assert "KeyError" in text
    assert "return_expression" not in text


def test_an_error_type_is_refused_where_none_is_allowed() -> None:
    data = {"kind": "raise", "raise_message": "m", "raise_error_type": "ValueError"}
    with pytest.raises(ExecutionError, match="allowed: none, leave it out"):
        outcome_from_mapping(data, allowed_kinds=("raise",), raise_error_types=())
