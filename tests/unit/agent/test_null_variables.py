"""Null for variables whose types take None, and for those that calls have set."""

from typing import Any, NotRequired

import pytest
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, tool_call
from tests.unit.agent.scripted_answers import MODELS, OFFICIAL, ending, schema_in, scripted

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Contact(TypedDict):
    name: str
    email: NotRequired[str]


@nh.natural_function
async def note_down(text: str) -> tuple[int, str | None]:
    count = 0
    note: str | None = "before"
    """natural
    Set <:count> and <:note> from <text>.
    """
    return count, note


@pytest.mark.parametrize("transport", ["tool", "native"])
@pytest.mark.parametrize("name", MODELS)
async def test_a_variable_that_takes_none_can_be_left_as_it_is_beside_data(name: str, transport: str) -> None:
    left = ending(transport, kind="pass", bindings={"count": 3})
    cleared = ending(transport, kind="pass", bindings={"count": 3, "note": None})
    model, executor = scripted(name, left, cleared, outcome_transport=transport)
    async with nh.run(executor):
        assert await note_down("a") == (3, "before")
        assert await note_down("a") == (3, None)
    schema = schema_in(model.requests[0])
    for bindings in ({"count": 3}, {"count": 3, "note": None}):
        fields = {"kind": "pass", "bindings": bindings}
        Draft202012Validator(schema).validate(fields if transport == "tool" else {"result": fields})
    assert "what is left out stays as it is" in model.requests[0].system_prompt


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "call",
    [
        tool_call("nh_assign", target_path="note", value="kept"),
        tool_call("nh_assign", target_path="note", expression="'kept'"),
        tool_call("nh_exec", statements="note = 'kept'"),
        tool_call("nh_eval", expression="(note := 'kept')"),
    ],
)
async def test_null_does_not_undo_a_call_of_the_same_response(call: Any, name: str) -> None:
    end = ending("tool", call, kind="pass", bindings={"count": 3, "note": None})
    _, executor = scripted(name, end)
    async with nh.run(executor):
        assert await note_down("a") == (3, "kept")


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("nulls", [{}, {"note": None}])
async def test_null_does_not_undo_a_call_after_an_answer_was_refused(
    nulls: dict[str, None], hooked: bool
) -> None:
    call = tool_call("nh_assign", target_path="note", value="kept")
    refused = ending("tool", call, kind="pass", bindings={"count": "many", **nulls})
    wrong = ending("tool", kind="pass", bindings={"count": 1, "note": 7})
    right = ending("tool", kind="pass", bindings={"count": 1, "note": None})
    hooks = nh.Hooks()
    if hooked:
        hooks.on(nh.hooks.BeforeToolCall)(lambda event: None)
    model = ScriptedModel([refused, wrong, right], name=OFFICIAL)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), hooks=[hooks]):
        assert await note_down("a") == (1, "kept")
    assert "stays as it is, and so does what a call set, if null:" in model.requests[0].system_prompt


@pytest.mark.parametrize(
    "call",
    [
        tool_call("nh_exec", statements="names.append('b'); contact['email'] = 'c'"),
        tool_call("nh_eval", expression="names.append('b'), contact.update(email='c')"),
    ],
)
async def test_null_does_not_undo_changes_in_place(call: Any) -> None:
    @nh.natural_function
    async def extend() -> object:
        count = 0
        names: list[str] | None = ["a"]
        contact: Contact | None = {"name": "n"}
        """natural
        Set <:count>, extend <:names> and <:contact>.
        """
        return count, names, contact

    nulls = {"count": None, "names": None, "contact": None}
    refused = ending("tool", call, kind="pass", bindings={**nulls, "count": "many"})
    right = ending("tool", kind="pass", bindings=nulls)
    model = ScriptedModel([refused, right, right], name=OFFICIAL)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await extend() == (0, ["a", "b"], {"name": "n", "email": "c"})
        assert await extend() == (0, None, None)


@pytest.mark.parametrize("hooked", [False, True])
async def test_null_is_none_where_a_refused_answer_gave_the_value_before(hooked: bool) -> None:
    refused = ending("tool", kind="pass", bindings={"count": "many", "note": "n"})
    right = ending("tool", kind="pass", bindings={"count": 1, "note": None})
    model = ScriptedModel([refused, right], name=OFFICIAL)
    hooks = nh.Hooks()
    if hooked:
        hooks.on(nh.hooks.BeforeToolCall)(lambda event: None)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), hooks=[hooks]):
        assert await note_down("a") == (1, None)


async def test_null_leaves_a_variable_that_does_not_take_none() -> None:
    _, executor = scripted(OFFICIAL, ending("tool", kind="pass", bindings={"count": None, "note": "n"}))
    async with nh.run(executor):
        assert await note_down("a") == (0, "n")
