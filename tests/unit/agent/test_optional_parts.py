"""Parts that may be left out, at endpoints whose schemas make a model name all parts."""

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required

import attrs
import msgspec
import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.agent.schemas import optional_parts_of
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ScriptedModel
from nighthawk_async.wire.openai_schemas import is_strict_schema
from tests.unit.agent.scripted_answers import OFFICIAL, ending, schema_in, scripted

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Sex(enum.Enum):
    FEMALE = "f"
    MALE = "m"


class Partial(TypedDict, total=False):
    name: Required[str]
    email: str


class Contact(TypedDict):
    name: str
    email: NotRequired[str]


class Person(BaseModel):
    name: str
    email: Annotated[str, Field(pattern="@")] = "none@example.com"
    age: Annotated[int, Field(ge=0, le=150)] = 30
    sex: Sex = Sex.FEMALE
    plan: Literal["free", "pro"] = "free"
    kind: Literal["person"] = "person"
    tags: list[str] = Field(default_factory=lambda: ["new"])
    nick: str | None = None
    post: str = Field(default="x", alias="postCode")


class Node(BaseModel):
    name: str
    size: int = 3
    nodes: list["Node"] = []


@dataclasses.dataclass
class Point:
    x: int
    y: int = 7
    labels: list[str] = dataclasses.field(default_factory=lambda: ["p"])


@attrs.define
class Leaf:
    name: str
    weight: float = 1.5
    parts: list[str] = attrs.field(factory=list)


class Page(msgspec.Struct, tag="page"):
    title: str
    number: int = 1


class Span(NamedTuple):
    start: int
    end: int = 9


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "wolf"] = "dog"
    name: str = "Rex"


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

LEFT_OUT: list[tuple[Any, Any, object]] = [
    (Partial, {"name": "n"}, {"name": "n"}),
    (Contact, {"name": "n"}, {"name": "n"}),
    (Person, {"name": "n"}, Person(name="n")),
    (Point, {"x": 1}, Point(1)),
    (Leaf, {"name": "n"}, Leaf("n")),
    (Page, {"title": "t", "type": "page"}, Page("t")),
    (Span, {"start": 1}, Span(1)),
    (Pet, {"kind": "cat"}, Cat()),
    (Pet, {"kind": "wolf"}, Dog(kind="wolf")),
    (list[Contact], [{"name": "n"}], [{"name": "n"}]),
    (Contact | Point, {"x": 2}, Point(2)),
    (Cat | Dog, {"kind": "dog"}, Dog()),
    (
        Node,
        {"name": "n", "nodes": [{"name": "m", "nodes": [{"name": "o"}]}]},
        Node(name="n", nodes=[Node(name="m", nodes=[Node(name="o")])]),
    ),
]
AMBIGUOUS = [Cat | Dog]
"""Without its nulls, a `Dog` may be a `Cat`."""
IDS = [f"{annotation}-{number}" for number, (annotation, _, _) in enumerate(LEFT_OUT)]


def completed(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value with null for whatever its schema requires and it does not have."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for each in schema.get("anyOf", ()):
        inner = completed(value, each, root)
        if not [*Draft202012Validator({**each, "$defs": root.get("$defs", {})}).iter_errors(inner)]:
            return inner
    if isinstance(value, dict) and "properties" in schema:
        parts = schema["properties"]
        given = {name: completed(each, parts.get(name, {}), root) for name, each in value.items()}
        # A constant, which tells members of a union apart, can only be what it is.
        needed = {name: parts[name].get("const") for name in schema.get("required", ())}
        return {**needed, **given}
    if isinstance(value, list):
        return [completed(each, schema.get("items", {}), root) for each in value]
    return value


def setting(annotation: Any) -> Any:
    async def function() -> Any:
        value: annotation
        """natural
        Set <:value>.
        """
        return value

    function.__annotations__["return"] = annotation
    return nh.natural_function(function)


def returning(annotation: Any) -> Any:
    async def function() -> Any:
        """natural
        Return something.
        """

    function.__annotations__["return"] = annotation
    return nh.natural_function(function)


@pytest.mark.parametrize("name", [OFFICIAL, "anthropic:claude-sonnet-4-5", "google:gemini-3", "vllm:any"])
@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
@pytest.mark.parametrize(("annotation", "data", "expected"), LEFT_OUT, ids=IDS)
async def test_what_is_optional_can_be_left_out_under_the_schema_that_is_sent(
    annotation: Any, data: Any, expected: object, transport: str, name: str
) -> None:
    if annotation is Node and name.startswith("anthropic") and transport != "tool":
        pytest.skip("its structured output takes no type that contains itself")
    schemas: list[Mapping[str, Any]] = []

    def respond(request: nh.models.ModelRequest) -> Any:
        schema = schema_in(request)
        schemas.append(schema)
        is_set = '"bindings"' in json.dumps(schema)
        passing, returned = {"bindings": {"value": data}}, {"return_value": data}
        fields = {"kind": "pass", **passing} if is_set else {"kind": "return", **returned}
        given = completed(fields, _one_kind(schema, is_set), schema)
        whole = given if transport == "tool" else {"result": given}
        Draft202012Validator(schema).validate(whole)
        return ending(transport, **given)

    settings = nh.StepExecutorConfiguration(max_corrective_turns=0, outcome_transport=transport)  # type: ignore[arg-type]
    model = ScriptedModel(respond, name=name)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=settings)):
        for function in (setting(annotation), returning(annotation)):
            value = await function()
            assert value == expected
            assert type(value) is type(expected)
    if name == OFFICIAL and annotation not in AMBIGUOUS:
        assert all(map(is_strict_schema, schemas))


def _one_kind(schema: Mapping[str, Any], is_set: bool) -> Mapping[str, Any]:
    """The schema of the fields of one outcome."""
    if "result" not in schema["properties"]:
        return schema
    result = schema["properties"]["result"]
    field = "bindings" if is_set else "return_value"
    return next(each for each in result.get("anyOf", [result]) if field in each["properties"])


class Patch(TypedDict, total=False):
    name: str
    phone: str | None


class Options(BaseModel):
    limit: int | None = 10


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
@pytest.mark.parametrize(
    ("annotation", "data", "expected"),
    [
        (Patch, {"name": "n"}, {"name": "n"}),
        (Patch, {"name": "n", "phone": None}, {"name": "n", "phone": None}),
        (list[Patch], [{"phone": None}, {}], [{"phone": None}, {}]),
        (Options, {}, Options()),
        (Options, {"limit": None}, Options(limit=None)),
    ],
)
async def test_a_part_for_which_null_would_mean_two_things_may_be_left_out(
    annotation: Any, data: Any, expected: object, transport: str
) -> None:
    model, executor = scripted(
        OFFICIAL, ending(transport, kind="pass", bindings={"value": data}), outcome_transport=transport
    )
    async with nh.run(executor):
        assert await setting(annotation)() == expected
    fields = {"kind": "pass", "bindings": {"value": data}}
    whole = fields if transport == "tool" else {"result": fields}
    Draft202012Validator(schema_in(model.requests[0])).validate(whole)


class Circle(BaseModel):
    size: int
    color: str = "red"


class Square(BaseModel):
    size: int
    angle: float = 90


class Link(BaseModel):
    size: str
    title: str = "a link"


class Loose(TypedDict, total=False):
    size: int
    note: str


@pytest.mark.parametrize("transport", ["tool", "native"])
@pytest.mark.parametrize(
    ("annotation", "data", "expected", "is_enforced"),
    [
        (Circle | Square, {"size": 1, "angle": 90}, Square(size=1), False),
        (list[Square | Circle], [{"size": 1, "color": "red"}], [Circle(size=1)], False),
        (Loose | Circle, {"size": 1, "color": "red"}, Circle(size=1), False),
        (Circle | Link, {"size": "s", "title": None}, Link(size="s"), True),
        (Circle | Span, {"start": 1, "end": None}, Span(1), True),
    ],
)
async def test_nulls_do_not_make_a_value_one_of_another_class(
    annotation: Any, data: Any, expected: object, is_enforced: bool, transport: str
) -> None:
    answer = ending(transport, kind="pass", bindings={"value": data})
    model, executor = scripted(OFFICIAL, answer, outcome_transport=transport)
    async with nh.run(executor):
        value = await setting(annotation)()
    assert value == expected
    assert type(value) is type(expected)
    assert is_strict_schema(schema_in(model.requests[0])) is is_enforced


@dataclasses.dataclass
class Counted:
    name: str
    length: int = dataclasses.field(init=False, default=3)


async def test_a_field_that_is_never_given_is_not_asked_for() -> None:
    model, executor = scripted(OFFICIAL, ending("tool", kind="pass", bindings={"value": {"name": "n"}}))
    async with nh.run(executor):
        assert await setting(Counted)() == Counted("n")
    assert '"length"' not in json.dumps(schema_in(model.requests[0]))


async def test_a_null_for_what_may_be_left_out_is_not_among_the_fields_that_were_set() -> None:
    data = {"name": "n", **dict.fromkeys(("age", "nick", "postCode"))}
    _, executor = scripted(OFFICIAL, ending("tool", kind="pass", bindings={"value": data}))
    async with nh.run(executor):
        value = await setting(Person)()
    assert value.model_fields_set == {"name"}


async def test_a_wrong_value_beside_nulls_is_the_only_one_that_is_told() -> None:
    data = {"name": "n", "age": 999, "email": None, "tags": None}
    _, executor = scripted(OFFICIAL, ending("tool", kind="pass", bindings={"value": data}))
    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError) as caught:
            await setting(Person)()
    assert "at age: " in str(caught.value)
    assert not [word for word in ("at email", "at tags") if word in str(caught.value)]


def reply(**fields: Any) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(id="", name="nh_outcome", arguments=json.dumps(fields)),))


@pytest.mark.parametrize(("setting_given", "is_enforced"), [({}, True), ({"strict_tools": False}, False)])
async def test_nothing_optional_is_required_where_strict_tools_is_off(
    setting_given: dict[str, Any], is_enforced: bool
) -> None:
    requests: list[RecordedRequest] = []

    def respond(request: RecordedRequest) -> ModelReply:
        requests.append(request)
        return reply(kind="pass", bindings={"value": {"name": "n"}})

    async with ModelServer(respond) as server:
        settings = {"base_url": server.base_url, "api_key": "k", **setting_given}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:gpt-4.1", model_settings=settings)
        async with nh.run(configuration):
            assert await setting(Contact)() == {"name": "n"}
    function = requests[0].body["tools"][-1]["function"]
    text = json.dumps(function["parameters"])
    assert function.get("strict", False) is is_enforced
    assert ('"required": ["name", "email"]' in text) is is_enforced
    assert ('"required": ["kind"]' in text) is not is_enforced


async def test_partial_values_are_read_in_the_same_way() -> None:
    shown: list[object] = []

    async def watch(partial: nh.PartialValues) -> None:
        shown.append(dict(partial.values))

    @nh.natural_function(on_partial=watch)
    async def read() -> list[Contact]:
        people: list[Contact]
        """natural
        Set <:people>.
        """
        return people

    people = [{"name": "a", "email": None}, {"name": "b", "email": "b@c"}]
    _, executor = scripted(OFFICIAL, ending("tool", kind="pass", bindings={"people": people}))
    async with nh.run(executor):
        assert await read() == [{"name": "a"}, {"name": "b", "email": "b@c"}]
    assert shown[0] == {"people": [{"name": "a"}, {"name": "b", "email": "b@c"}]}


class Tree(BaseModel):
    left: "Tree | Bush | None" = None
    size: int = 1


class Bush(BaseModel):
    left: "Tree | Bush | None" = None
    name: str = "b"


def test_nested_alternatives_are_read_once_each() -> None:
    parts = optional_parts_of(Tree)
    assert parts is not None
    value: Any = {"size": None}
    for _ in range(60):  # every alternative of every level would be 2 ** 60 readings
        value = {"left": value, "name": None}
    read: Any = parts.without_nulls({"left": value, "size": None})
    assert list(read) == ["left"]
    assert "name" not in read["left"]
