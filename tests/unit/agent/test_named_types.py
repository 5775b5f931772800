"""What a block makes of JSON for a variable without a type, and of a value to return beside variables."""

import enum
import json
from typing import Any

import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Category(enum.Enum):
    BILLING = "billing"
    OTHER = "other"


class Order(BaseModel):
    total: int
    note: str = "none"


class Parser:
    """Without a JSON Schema."""


def end(**fields: Any) -> Any:
    return tool_call("nh_outcome", **fields)


async def carried_out(function: Any, *calls: Any, transport: str = "tool", **answer: Any) -> tuple[Any, str]:
    """The value of a function whose model answers once, and its system prompt."""
    model = ScriptedModel([model_response(*calls, end(**answer))])
    settings = nh.StepExecutorConfiguration(max_corrective_turns=0, outcome_transport=transport)  # type: ignore[arg-type]
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        return await function("text"), model.requests[0].system_prompt


@nh.natural_function
async def classify(text: str) -> object:
    """natural
    Classify <text>, save it as <:answer> as a <Category>.
    """
    return answer


@nh.natural_function
async def order_or_none(text: str) -> object:
    """natural
    Make an <Order> in <:order> of <text>. If there is none, set <:order> to None.
    """
    return order


async def test_a_variable_takes_the_class_that_the_text_gives_it() -> None:
    value, prompt = await carried_out(classify, kind="pass", bindings={"answer": "billing"})
    assert value is Category.BILLING
    assert "\n- answer: Category\n" in f"{prompt}\n"
    value, prompt = await carried_out(order_or_none, kind="pass", bindings={"order": {"total": 3}})
    assert value == Order(total=3)
    assert "\n- order: Order | None\n" in f"{prompt}\n"
    value, _ = await carried_out(order_or_none, kind="pass", bindings={"order": None})
    assert value is None


async def test_a_class_without_a_schema_is_given_by_an_expression() -> None:
    @nh.natural_function
    async def parse(text: str) -> object:
        """natural
        Set <:parser> to a <Parser> for <text>.
        """
        return parser

    made = tool_call("nh_assign", target_path="parser", expression="Parser()")
    value, prompt = await carried_out(parse, made, kind="pass")
    assert type(value) is Parser
    assert "Set these by expressions, with nh_assign or nh_exec:\n- parser: Parser" in prompt


async def test_a_declared_type_and_a_value_come_before_the_text() -> None:
    @nh.natural_function
    async def keep(text: str) -> object:
        anything: object = nh.unset
        number = 3
        """natural
        Set <:anything> as a <Category> and <:number> as a <Category>.
        """
        return anything, number

    values = {"anything": "billing", "number": 4}
    value, _ = await carried_out(keep, kind="pass", bindings=values)
    assert value == ("billing", 4)


async def test_exceptions_and_other_values_are_no_types_of_variables() -> None:
    number = 3

    @nh.natural_function
    async def act(text: str) -> object:
        """natural
        Save <:one> as a <ValueError>, <:two> as a <number>.
        """
        return one, two

    value, prompt = await carried_out(act, kind="pass", bindings={"one": "1", "two": "2"})
    assert value == ("1", "2")
    assert number == 3
    assert "- one (stays JSON; set objects with nh_assign or nh_exec)" in prompt


async def test_an_interpolated_text_gives_no_type() -> None:
    @nh.natural_function
    async def act(text: str) -> object:
        injected = "<:answer> as a <Category>."
        f"""natural
        Set <:answer> for {injected}
        """
        return answer, injected

    (value, _), _ = await carried_out(act, kind="pass", bindings={"answer": "free"})
    assert value == "free"


async def test_json_stays_json_in_lists_of_anything_and_the_model_is_told() -> None:
    @nh.natural_function
    async def collect(text: str) -> object:
        found = []
        counts: dict[str, Any] = {}
        names: list[str] = []
        """natural
        Add a member of <Category> for each line of <text> to <:found>.
        Set <:counts>, <:names> and <:best>.
        """
        return found, counts, names, best

    values = {"found": ["billing"], "best": "other"}
    value, prompt = await carried_out(collect, kind="pass", bindings=values)
    assert value == (["billing"], {}, [], "other")
    note = " (stays JSON; set objects with nh_assign or nh_exec)"
    lines = [f"- found: list{note}", f"- counts: dict[str, Any]{note}", "- names: list[str]", f"- best{note}"]
    assert prompt.splitlines()[-4:] == lines


async def test_lists_are_not_spoken_of_where_no_class_is_named() -> None:
    @nh.natural_function
    async def collect(text: str) -> object:
        found = []
        """natural
        Add the words of <text> to <:found>.
        """
        return found

    _, prompt = await carried_out(collect, kind="pass", bindings={"found": ["a"]})
    assert prompt.endswith("- found: list")


# ---- a value to return beside variables


@nh.natural_function
async def total(text: str) -> int:
    count = 0
    """natural
    Set <:count> to the number of words in <text>.
    """
    return count + 1000


@nh.natural_function
async def length(text: str) -> int:
    """natural
    Return the number of words in <text>.
    """
    return -1


@pytest.mark.parametrize("name", ["scripted:any", "openai-responses:gpt-5.4-nano", "anthropic:claude"])
@pytest.mark.parametrize("transport", ["tool", "native"])
async def test_a_block_that_sets_variables_returns_by_an_expression_alone(transport: str, name: str) -> None:
    def last(**fields: Any) -> Any:
        if transport == "tool":
            return model_response(end(**fields))
        return model_response(text=json.dumps(fields))

    taken_for_a_binding = last(kind="return", return_value=3)
    right = last(kind="pass", bindings={"count": 3})
    skipping = last(kind="return", return_expression="len(text)")
    data = last(kind="return", return_value=4)
    model = ScriptedModel([taken_for_a_binding, right, skipping, data], name=name)
    settings = nh.StepExecutorConfiguration(outcome_transport=transport)  # type: ignore[arg-type]
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        assert await total("a b c") == 1003
        assert await total("abc") == 3
        assert await length("a b c d") == 4
    prompts = [request.system_prompt for request in model.requests]
    assert "end the whole function with the Python expression return_expression (int)." in prompts[0]
    assert "- return: end the whole function with return_value (int) or the Python expr" in prompts[-1]


async def test_without_expressions_a_value_is_returned_as_data() -> None:
    text = '{"result": {"kind": "return", "bindings": {"count": 3}, "return_value": 3}}'
    model = ScriptedModel([model_response(text=text)])
    settings = nh.StepExecutorConfiguration(outcome_transport="direct")
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        assert await total("a b c") == 3
    assert "- return: end the whole function with return_value (int)." in model.requests[0].system_prompt
