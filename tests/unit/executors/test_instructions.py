"""What the system prompt says."""

from typing import Any

import pytest

from nighthawk_async.agent.answer_form import AnswerForm
from nighthawk_async.agent.outcome_codec import answer_from_mapping
from nighthawk_async.agent.prompt import answer_instructions, tool_instructions
from nighthawk_async.errors import ExecutionError

TEXT = {"type": "string"}


def told(
    transport: Any = "tool",
    *,
    return_type: str = "object",
    types: dict[str, str] | None = None,
    tools: tuple[str, ...] = ("nh_eval", "nh_assign", "nh_exec"),
    has_tools: bool = True,
    plain: frozenset[str] = frozenset(),
    **form: Any,
) -> str:
    return answer_instructions(
        transport,
        AnswerForm(**form),
        binding_types=tuple((types or {}).items()),
        return_type=return_type,
        plain=plain,
        provided_tools=tools,
        has_tools=has_tools,
    )


def test_how_tools_are_used_names_none_of_them_because_their_definitions_do() -> None:
    text = tool_instructions(100)
    assert "nh_" not in text
    assert "100 tokens" in text


def test_every_allowed_outcome_is_described_and_no_other() -> None:
    text = told(allowed_kinds=("pass", "raise"), raise_error_types=("ValueError", "KeyError"))
    assert "- pass: " in text
    assert "ValueError or KeyError" in text
    assert "- break: " not in text
    assert "nh_outcome" in text
    assert "nh_outcome" not in told("native", allowed_kinds=("pass",))


def test_the_type_of_the_return_value_is_told_where_the_block_may_return() -> None:
    assert "return_value (int) or" in told(return_type="int", allowed_kinds=("return",), return_value=TEXT)
    assert "return_value, which stays JSON, or" in told(allowed_kinds=("return",), return_value=TEXT)
    assert "the Python expression return_expression (int)." in told(
        return_type="int", allowed_kinds=("return",)
    )
    assert "int" not in told(return_type="int", allowed_kinds=("pass",))


def test_the_variables_to_set_are_told_with_their_types_and_how_they_are_set() -> None:
    types = {"label": "Literal['a', 'b']", "log": "TextIO", "anything": "object"}
    text = told(
        allowed_kinds=("pass",),
        bindings={"label": TEXT, "anything": {}},
        expressions={"log": "no JSON Schema"},
        types=types,
        plain=frozenset({"anything"}),
    )
    assert text.splitlines()[-5:] == [
        "Set in bindings, as JSON; what is left out stays as it is:",
        "- label: Literal['a', 'b']",
        "- anything (stays JSON; set objects with nh_assign or nh_exec)",
        "Set these by expressions, with nh_assign or nh_exec:",
        "- log: TextIO",
    ]
    assert "bindings" not in told(allowed_kinds=("pass",))


@pytest.mark.parametrize(
    ("tools", "takes_expressions", "note"),
    [
        (("nh_exec",), True, " (stays JSON; set objects with nh_exec)"),
        ((), True, " (stays JSON)"),
        (("nh_assign",), False, " (stays JSON)"),
    ],
)
def test_objects_are_spoken_of_only_where_a_tool_can_set_them(
    tools: tuple[str, ...], takes_expressions: bool, note: str
) -> None:
    form: dict[str, Any] = {"bindings": {"answer": {}}, "takes_expressions": takes_expressions}
    text = told(allowed_kinds=("pass",), tools=tools, plain=frozenset({"answer"}), **form)
    assert text.endswith(f"- answer{note}")


def test_the_return_outcome_ends_the_whole_function() -> None:
    text = told(return_type="int", allowed_kinds=("pass", "return"), bindings={"total": TEXT})
    assert "- return: end the whole function with the Python expression return_expression (int)." in text


def test_only_the_tools_on_offer_are_named_for_what_needs_an_expression() -> None:
    form: dict[str, Any] = {"allowed_kinds": ("pass",), "expressions": {"log": "no JSON Schema"}}
    assert "Set these by expressions, with nh_exec:\n- log" in told(tools=("nh_exec",), **form)
    assert "These stay as they are:\n- log" in told(tools=(), **form)


def test_other_calls_are_spoken_of_only_where_there_are_tools() -> None:
    assert "beside calls" in told(allowed_kinds=("pass",))
    assert "beside calls" not in told(allowed_kinds=("pass",), has_tools=False)
    assert "nh_outcome" in told(allowed_kinds=("pass",), has_tools=False)
    assert told("native", allowed_kinds=("pass",)) == told("native", allowed_kinds=("pass",), has_tools=False)


def test_null_leaves_a_variable_alone_where_the_schema_makes_the_model_name_all() -> None:
    text = told(allowed_kinds=("pass",), bindings={"label": TEXT}, is_strict=True)
    assert "as JSON; what is null stays as it is:" in text


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
def test_every_transport_is_told_in_the_same_sentences(transport: str) -> None:
    first, rest = told(transport, allowed_kinds=("pass", "break"), bindings={"label": TEXT}).split("\n", 1)
    assert ("nh_outcome" in first) is (transport == "tool")
    assert ('{"result": {"kind": KIND' in first) is (transport != "tool")
    same = told("tool", allowed_kinds=("pass", "break"), bindings={"label": TEXT})
    assert rest == same.split("\n", 1)[1]


def test_a_direct_answer_takes_no_expressions() -> None:
    text = told("direct", allowed_kinds=("return", "raise"), return_value=TEXT, takes_expressions=False)
    assert "return_value." in text
    assert "raise_message" in text
    assert "expression" not in text


def test_an_error_type_is_refused_where_none_is_allowed() -> None:
    data = {"kind": "raise", "raise_message": "m", "raise_error_type": "ValueError"}
    with pytest.raises(ExecutionError, match="allowed: none, leave it out"):
        answer_from_mapping(data, AnswerForm(allowed_kinds=("raise",)))
