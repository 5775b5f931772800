"""The schemas of answers, as each provider's endpoint takes them."""

import json
import logging
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.agent.answer_form import AnswerForm, flat_schema, wrapped_schema
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.wire.anthropic.schema import supported_schema
from nighthawk_async.wire.openai_schemas import is_strict_schema

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

OFFICIAL = "openai-responses:gpt-5.4-nano"


class Line(BaseModel):
    """One line."""

    name: Annotated[str, Field(min_length=1, description="What was sold.")]
    count: int = 1
    kind: Literal["goods"] = "goods"


class Order(BaseModel):
    lines: list[Line]
    note: str | None = None


class Part(BaseModel):
    name: str
    parts: list["Part"] = []


class Spaced(TypedDict):
    size: int


Spaced.__annotations__["with space"] = int


def asking(name: str) -> ScriptedModel:
    return ScriptedModel(lambda _: nh.errors.ModelTimeoutError("asked"), name=name)


async def request_of(function: Any, name: str, transport: str) -> nh.models.ModelRequest:
    """The request that a model of that name gets."""
    model = asking(name)
    settings = nh.StepExecutorConfiguration(outcome_transport=transport)  # type: ignore[arg-type]
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        with pytest.raises(nh.errors.ModelTimeoutError):
            await function()
    return model.requests[0]


def schema_in(request: nh.models.ModelRequest) -> dict[str, Any]:
    if request.response_format is not None:
        return dict(request.response_format.schema)
    return dict(request.tools[-1].parameters)


@nh.natural_function
async def place() -> Order:
    order: Order
    label: Literal["a", "b"]
    note: str = "none"
    """natural
    Set <:order>, <:label> and <:note>. Raise ValueError.
    """
    return order.model_copy(update={"note": note or label})


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
async def test_where_the_endpoint_enforces_schemas_all_parts_are_required_and_may_be_null(
    transport: str,
) -> None:
    request = await request_of(place, OFFICIAL, transport)
    schema = schema_in(request)
    assert is_strict_schema(schema)
    assert "minLength" not in json.dumps(schema)
    if transport == "tool":
        properties = schema["properties"]
        assert schema["required"] == list(properties)
        assert {"type": "null"} in properties["bindings"]["anyOf"]
        bindings = properties["bindings"]["anyOf"][0]
        assert bindings["required"] == ["order", "label", "note"]
        assert bindings["properties"]["label"] == {"enum": ["a", "b", None], "type": ["string", "null"]}
        assert bindings["properties"]["order"]["anyOf"][-1] == {"type": "null"}
        assert "return_value" not in properties
        assert "what is null stays as it is" in request.system_prompt
        assert is_strict_schema(request.tools[0].parameters)


@pytest.mark.parametrize("name", ["scripted:any", "anthropic:claude", "google:gemini", "openai-chat:own"])
async def test_elsewhere_parts_may_be_left_out(name: str) -> None:
    request = await request_of(place, name, "tool")
    schema = schema_in(request)
    assert schema["required"] == ["kind"]
    assert schema["properties"]["bindings"].get("required", []) == []
    assert "what is left out stays as it is" in request.system_prompt
    assert "additionalProperties" not in str([tool.parameters for tool in request.tools])


async def test_without_any_tool_the_prompt_speaks_of_none() -> None:
    model = asking("scripted:any")
    settings = nh.StepExecutorConfiguration(provided_tools=())
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        with pytest.raises(nh.errors.ModelTimeoutError):
            await place()
    (request,) = model.requests
    assert [tool.name for tool in request.tools] == ["nh_outcome"]
    assert "previews" not in request.system_prompt
    assert "beside calls" not in request.system_prompt


async def test_a_schema_says_nothing_that_the_prompt_says_already() -> None:
    text = json.dumps(schema_in(await request_of(place, "scripted:any", "tool")))
    assert not [word for word in ("title", "description", "default", "What was sold") if word in text]


STRICT_ANSWERS: list[tuple[dict[str, Any], tuple[object, ...]]] = [
    ({"order": {"lines": [], "note": None}, "label": "a", "note": None}, ([], "a", None)),
    ({"order": None, "label": "b", "note": "n"}, (["before"], "b", "n")),
]


@pytest.mark.parametrize(("bindings", "expected"), STRICT_ANSWERS)
async def test_a_null_leaves_a_variable_unless_its_type_takes_none(
    bindings: dict[str, Any], expected: tuple[object, ...]
) -> None:
    @nh.natural_function
    async def change(order: Order, note: str | None) -> tuple[list[str], str, str | None]:
        label: Literal["a", "b"]
        """natural
        Set <:order>, <:label> and <:note>.
        """
        return [line.name for line in order.lines], label, note

    nulls = {"return_expression": None, "raise_message": None}
    model = ScriptedModel(
        [model_response(tool_call("nh_outcome", kind="pass", bindings=bindings, **nulls))], name=OFFICIAL
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await change(Order(lines=[Line(name="before")]), "old") == expected


@pytest.mark.parametrize("value", [{"return_value": None}, {"return_value": None, "return_expression": None}])
async def test_null_is_a_return_value_where_there_is_no_expression(value: dict[str, Any]) -> None:
    @nh.natural_function
    async def find() -> int | None:
        """natural
        Find a number.
        """
        return 1

    outcome = tool_call("nh_outcome", kind="return", bindings=None, raise_message=None, **value)
    model = ScriptedModel([model_response(outcome)], name=OFFICIAL)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await find() is None


# ---- what an endpoint does not take


@nh.natural_function
async def mixed() -> object:
    pair: tuple[int, str]
    pairs: list[tuple[int, int]]
    free: dict[str, int]
    tree: Part
    spaced: Spaced
    anything: object
    label: str
    """natural
    Set <:pair>, <:pairs>, <:free>, <:tree>, <:spaced>, <:anything> and <:label>.
    """
    return pair, pairs, free, tree, spaced, anything, label


@pytest.mark.parametrize(
    ("name", "transport", "by_expression"),
    [
        (OFFICIAL, "tool", ["pair"]),
        (OFFICIAL, "native", ["pair"]),
        ("openai-chat:own-server", "native", []),
        ("anthropic:claude-sonnet-4-5", "tool", ["spaced"]),
        ("anthropic:claude-sonnet-4-5", "native", ["free", "tree", "spaced", "anything"]),
        ("google:gemini-3", "tool", []),
        ("google:gemini-3", "native", []),
    ],
)
async def test_a_variable_whose_schema_the_endpoint_refuses_is_set_by_an_expression(
    name: str, transport: str, by_expression: list[str]
) -> None:
    request = await request_of(mixed, name, transport)
    schema = schema_in(request)
    passing = schema if transport == "tool" else schema["properties"]["result"]["anyOf"][0]
    bindings = passing["properties"]["bindings"]
    bindings = bindings.get("anyOf", [bindings])[0]
    names = ["pair", "pairs", "free", "tree", "spaced", "anything", "label"]
    assert list(bindings["properties"]) == [each for each in names if each not in by_expression]
    told = request.system_prompt.partition("Set these by expressions")[2]
    assert [line[2:].partition(":")[0] for line in told.splitlines() if line[:2] == "- "] == by_expression
    if name.startswith("anthropic:") and transport == "native":
        supported_schema(schema)


async def test_the_direct_transport_names_the_type_that_it_cannot_ask_for() -> None:
    model = asking("anthropic:claude-sonnet-4-5")
    settings = nh.StepExecutorConfiguration(outcome_transport="direct")
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        with pytest.raises(
            nh.errors.AnnotationError, match=r"'free' has the type dict\[str, int\].*transport='tool'"
        ):
            await mixed()
    assert not model.requests


async def test_why_a_variable_needs_an_expression_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Local(TypedDict):
        pair: tuple[int, str]

    @nh.natural_function
    async def act() -> object:
        local: Local
        """natural
        Set <:local>.
        """
        return local

    with caplog.at_level(logging.INFO, logger="nighthawk"):
        await request_of(act, OFFICIAL, "tool")
    (record,) = [each for each in caplog.records if "write binding 'local'" in each.message]
    assert "OpenAI's endpoint refuses lists whose items have no common type" in record.message


# ---- the forms of one answer


FORM = AnswerForm(
    allowed_kinds=("pass", "return", "raise"),
    raise_error_types=("ValueError",),
    raises_objects=True,
    bindings={"count": {"type": "integer"}, "name": {"$ref": "#/$defs/Name"}},
    return_value={"type": "boolean"},
    definitions={"Name": {"type": "string"}},
)

ANSWERS: list[dict[str, Any]] = [
    {"kind": "pass"},
    {"kind": "pass", "bindings": {"count": 1, "name": "n"}},
    {"kind": "return", "return_value": True},
    {"kind": "return", "return_expression": "count"},
    {"kind": "raise", "raise_message": "m", "raise_error_type": "ValueError"},
    {"kind": "raise", "raise_expression": "ValueError(1)"},
]


@pytest.mark.parametrize("answer", ANSWERS, ids=[" ".join(each) for each in ANSWERS])
def test_every_form_of_an_answer_fits_every_schema(answer: dict[str, Any]) -> None:
    Draft202012Validator(flat_schema(FORM)).validate(answer)
    Draft202012Validator(wrapped_schema(FORM)).validate({"result": answer})


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "break"},
        {"kind": "return"},
        {"kind": "raise"},
        {"kind": "pass", "bindings": {"count": "many"}},
        {"kind": "pass", "bindings": {"other": 1}},
        {"kind": "pass", "return_value": True},
        {"kind": "return", "return_value": True, "return_expression": "1"},
    ],
)
def test_the_schema_of_structured_output_takes_no_other_form(answer: dict[str, Any]) -> None:
    assert not Draft202012Validator(wrapped_schema(FORM)).is_valid({"result": answer})


class Form(BaseModel):
    first: str | None = None
    second: str | None = None
    third: int = 3
    fourth: int | str | None = None


class LongForm(Form):
    fifth: int = 5
    sixth: int = 6


@nh.natural_function
async def fill() -> tuple[Form, LongForm, dict[str, int]]:
    short: Form
    long: LongForm
    others: list[LongForm]
    """natural
    Set <:short>, <:long> and <:others>. Raise ValueError.
    """
    return short, long, {"others": len(others)}


async def test_values_that_are_too_much_for_one_schema_are_given_by_expressions_the_largest_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Wide(BaseModel):
        a: Literal[1] | None = None
        b: Literal[2] | None = None
        c: Form | None = None
        d: LongForm | None = None
        e: str = ""
        f: str = ""
        g: str = ""

    @nh.natural_function
    async def widen() -> None:
        wide: Wide
        form: Form
        note: str
        """natural
        Set <:wide>, <:form> and <:note>. Raise ValueError.
        """
        print(wide, form, note)

    name = "anthropic:claude"
    kept = schema_in(await request_of(fill, name, "native"))
    bindings = kept["properties"]["result"]["anyOf"][0]["properties"]["bindings"]
    assert set(bindings["properties"]) == {"short", "long", "others"}
    supported_schema(kept)
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="nighthawk"):
        sent = schema_in(await request_of(widen, name, "native"))
    bindings = sent["properties"]["result"]["anyOf"][0]["properties"]["bindings"]
    assert set(bindings["properties"]) == {"form", "note"}
    supported_schema(sent)
    (record,) = caplog.records
    assert "write binding 'wide' of type Wide has to be given by an expression" in record.getMessage()
    assert "cannot carry schemas with more than 24 properties" in record.getMessage()
    with pytest.raises(
        nh.errors.AnnotationError, match="'wide' has the type Wide, so the direct outcome transport"
    ):
        await request_of(widen, name, "direct")


@nh.natural_function
async def label_anything(text: str):  # type: ignore[no-untyped-def]
    label: Literal["a", "b"]
    """natural
    Set <:label> for <text>.
    """
    return label


async def test_variables_are_enforced_where_the_function_may_return_anything() -> None:
    schema = schema_in(await request_of(lambda: label_anything("x"), OFFICIAL, "tool"))
    assert is_strict_schema(schema)
    assert "return_expression" in schema["properties"]
    assert "return_value" not in schema["properties"]
