"""Answers as data: one response with one call, for every kind of type."""

import dataclasses
import enum
import json
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional
from uuid import UUID

import pytest
from pydantic import AfterValidator, Base64Bytes, BaseModel, BeforeValidator, Field, Json, RootModel
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.cases import every

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Address(BaseModel):
    street: str
    zip_code: Annotated[str, Field(pattern=r"\d{5}")]


class Customer(BaseModel):
    """A customer as the CRM knows it."""

    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict, total=False):
    title: str
    year: int


class Span(NamedTuple):
    start: int
    end: int


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Tags(RootModel[list[str]]):
    pass


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]

KINDS_OF_TYPES: list[tuple[Any, Any, object]] = [
    (str, 'a "quoted"\nline', 'a "quoted"\nline'),
    (int, 3, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (None | int, None, None),
    (Optional[str], "x", "x"),  # noqa: UP045
    (Literal["a", 1], 1, 1),
    (Priority, "high", Priority.HIGH),
    (Rights, 3, Rights.READ | Rights.WRITE),
    (Address, {"street": "s", "zip_code": "12345"}, Address(street="s", zip_code="12345")),
    (Customer, {"name": "n"}, Customer(name="n")),
    (Point, {"x": 1}, Point(1)),
    (Movie, {"title": "t"}, {"title": "t"}),
    (Span, [1, 2], Span(1, 2)),
    (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
    (Animal, {"kind": "dog", "good": True}, Dog(kind="dog", good=True)),
    (Tags, ["a"], Tags(["a"])),
    (date, "2024-02-29", date(2024, 2, 29)),
    (datetime, "2024-02-29T12:00:00", datetime(2024, 2, 29, 12)),
    (timedelta, "PT5M", timedelta(minutes=5)),
    (Decimal, "1.10", Decimal("1.10")),
    (bytes, "abc", b"abc"),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Path, "a/b", Path("a/b")),
    (set[int], [1, 2, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (list[Customer], [{"name": "n", "plan": "pro"}], [Customer(name="n", plan="pro")]),
    (object, {"any": ["thing", 1, None]}, {"any": ["thing", 1, None]}),
    (Any, [1], [1]),
]

NAMES = [str(annotation) for annotation, _, _ in KINDS_OF_TYPES]


def returning(annotation: Any) -> Callable[[], Any]:
    async def function() -> Any:
        """natural
        Return something.
        """

    function.__annotations__["return"] = annotation
    return nh.natural_function(function)


def setting(annotation: Any) -> Callable[[], Any]:
    async def function(value: Any) -> Any:
        """natural
        Set <:value>.
        """
        return value

    function.__annotations__["value"] = annotation
    function.__annotations__["return"] = object
    return nh.natural_function(function)


def scripted(*answers: Any, **configuration: Any) -> tuple[ScriptedModel, nh.AgentStepExecutor]:
    model = ScriptedModel(answers)
    settings = nh.StepExecutorConfiguration(**configuration)
    return model, nh.AgentStepExecutor.from_model(model=model, configuration=settings)


def outcome(**arguments: Any) -> Any:
    return model_response(tool_call("nh_outcome", **arguments))


def answer(transport: str, **arguments: Any) -> Any:
    if transport == "tool":
        return outcome(**arguments)
    return model_response(text=json.dumps({"result": arguments}))


TRANSPORTS = ("tool", "native", "direct")


@every("transport", TRANSPORTS)
@every("annotation, data, value", KINDS_OF_TYPES)
async def test_a_write_binding_takes_data_of_every_kind_of_type(
    annotation: Any, data: Any, value: object, transport: str
) -> None:
    model, executor = scripted(
        answer(transport, kind="pass", bindings={"value": data}), outcome_transport=transport
    )
    async with nh.run(executor):
        committed = await setting(annotation)(None)  # type: ignore[call-arg]
    assert committed == value
    assert type(committed) is type(value)
    assert len(model.requests) == 1


@every("transport", TRANSPORTS)
@every("annotation, data, value", KINDS_OF_TYPES)
async def test_a_block_returns_data_of_every_kind_of_type(
    annotation: Any, data: Any, value: object, transport: str
) -> None:
    model, executor = scripted(
        answer(transport, kind="return", return_value=data), outcome_transport=transport
    )
    async with nh.run(executor):
        returned = await returning(annotation)()
    assert returned == value
    assert type(returned) is type(value)
    assert len(model.requests) == 1


class Upload(BaseModel):
    content: Base64Bytes
    labels: Annotated[list[str], BeforeValidator(lambda text: text.split(","))]


READ_ONCE: list[tuple[Any, Any, object]] = [
    (Json[list[int]], "[1, 2]", [1, 2]),
    (Base64Bytes, "YWJj", b"abc"),
    (Annotated[str, AfterValidator(lambda text: f"{text}!")], "a", "a!"),
    (Upload, {"content": "YWJj", "labels": "a,b"}, Upload(content=b"YWJj", labels="a,b")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("annotation", "data", "value"), READ_ONCE)
async def test_data_whose_validators_cannot_read_their_own_results_is_validated_once(
    annotation: Any, data: Any, value: object, transport: str
) -> None:
    bound = answer(transport, kind="pass", bindings={"value": data})
    returned = answer(transport, kind="return", return_value=data)
    model, executor = scripted(bound, returned, outcome_transport=transport)
    committed: list[object] = []

    @nh.natural_function
    async def work() -> None:
        value: annotation
        """natural
        Set <:value>.
        """
        committed.append(value)

    async with nh.run(executor):
        await work()
        committed.append(await returning(annotation)())
    assert committed == [value, value]
    assert len(model.requests) == 2


async def test_a_value_given_as_data_is_validated_again_when_code_may_have_changed_it() -> None:
    model, executor = scripted(
        model_response(
            tool_call("nh_assign", target_path="counts", value=[1, 2]),
            tool_call("nh_eval", expression="counts.append('many')"),
            tool_call("nh_outcome", kind="pass", bindings={"customer": {"name": "n"}}),
        ),
        outcome(kind="pass", bindings={"counts": [3]}),
    )
    async with nh.run(executor):
        assert await file_order("so") == (Customer(name="n"), [3], None)
    assert "write binding 'counts' must be list[int]: at 2" in refusal_in(model.requests[1])


# ---- what is wrong is told with its path


@nh.natural_function
async def file_order(text: str) -> tuple[Customer, list[int], str | None]:
    customer: Customer
    counts: list[int]
    note: str | None = None
    """natural
    Set <:customer>, <:counts> and <:note> from <text>.
    """
    return customer, counts, note


GOOD = {"customer": {"name": "n"}, "counts": [1]}


def refusal_in(request: nh.models.ModelRequest) -> str:
    message = request.messages[-1]
    return str(message.content[-1])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_wrong_value_is_told_at_once_with_the_path_into_it(transport: str) -> None:
    wrong = {"customer": {"name": "n", "address": {"street": "s", "zip_code": "x"}}, "counts": [1, "many"]}
    model, executor = scripted(
        answer(transport, kind="pass", bindings=wrong | {"note": "kept"}),
        answer(transport, kind="pass", bindings=GOOD),
        outcome_transport=transport,
    )
    async with nh.run(executor):
        assert await file_order("…") == (Customer(name="n"), [1], "kept")
    told = refusal_in(model.requests[1])
    assert "bindings.customer must be" in told
    assert "at address.zip_code: String should match pattern" in told
    assert "bindings.counts must be" in told
    assert "at [1]: " in told
    assert "these are set already: note" in told


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nothing_is_committed_when_a_value_is_refused_to_the_end(transport: str) -> None:
    wrong = answer(transport, kind="pass", bindings=GOOD | {"counts": "many"})
    _, executor = scripted(wrong, outcome_transport=transport, max_corrective_turns=0)
    committed: list[object] = []

    @nh.natural_function
    async def work() -> None:
        counts: list[int] = []
        customer = None
        try:
            """natural
            Set <:customer> and <:counts>.
            """
        finally:
            committed.extend([customer, counts])

    async with nh.run(executor):
        with pytest.raises(nh.ExecutionError, match=r"bindings.counts must be"):
            await work()
    assert committed == [None, []]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"kind": "pass", "bindings": {"typo": 1}}, "bindings.typo: the block has no such variable to set"),
        ({"kind": "pass", "bindings": "none"}, "'bindings' must be an object, not str"),
        (
            {"bindings": GOOD, "outcome": {"kind": "pass"}},
            "the field 'kind' stands beside 'bindings'",
        ),
        ({"bindings": {**GOOD, "counts": [float("nan")]}, "kind": "pass"}, "JSON has no NaN and no Infinity"),
        ({"kind": "pass", "return_value": 1}, "kind 'pass' has no field 'return_value'"),
        ({"kind": "return"}, "needs the field 'return_expression'"),
        ({"kind": "return", "return_value": 1, "return_expression": "1"}, "not both"),
        (
            {"kind": "return", "return_value": 1},
            "a block that sets variables gives the return value by a return_expression",
        ),
        ({"kind": "raise"}, "needs the field 'raise_message'"),
        ({"kind": "raise", "raise_expression": "text"}, "the program names no exception"),
    ],
)
async def test_an_answer_in_a_wrong_form_is_refused_by_its_field(arguments: dict[str, Any], why: str) -> None:
    model, executor = scripted(outcome(**arguments), outcome(kind="pass", bindings=GOOD))
    async with nh.run(executor):
        assert await file_order("…") == (Customer(name="n"), [1], None)
    assert why in json.loads(refusal_in(model.requests[1]))["error"]["message"]


async def test_values_beside_the_kind_are_refused_where_answers_are_strict() -> None:
    model, executor = scripted(
        outcome(kind="pass", **GOOD), outcome(kind="pass", bindings=GOOD), answers="strict"
    )
    async with nh.run(executor):
        assert await file_order("…") == (Customer(name="n"), [1], None)
    message = json.loads(refusal_in(model.requests[1]))["error"]["message"]
    assert "no field 'counts', 'customer'; the values of variables belong into its field" in message


async def test_the_final_json_of_the_specification_stays_accepted() -> None:
    _, executor = scripted(
        outcome(kind="return", return_expression="len('four')"), outcome_transport="tool", provided_tools=()
    )
    async with nh.run(executor):
        assert await returning(int)() == 4


# ---- together with other tools


async def test_data_in_the_answer_wins_over_what_a_tool_assigned_and_what_is_left_out_stays() -> None:
    model, executor = scripted(
        model_response(
            tool_call("nh_assign", target_path="counts", value=[1, 2]),
            tool_call("nh_exec", statements="note = text.upper()"),
            tool_call("nh_outcome", kind="pass", bindings={"customer": {"name": "n"}, "counts": [3]}),
        )
    )
    async with nh.run(executor):
        assert await file_order("so") == (Customer(name="n"), [3], "SO")
    assert len(model.requests) == 1


async def test_a_wrong_value_of_nh_assign_is_told_with_its_path() -> None:
    model, executor = scripted(
        model_response(tool_call("nh_assign", target_path="counts", value=[{}])),
        outcome(kind="pass", bindings=GOOD),
    )
    async with nh.run(executor):
        await file_order("…")
    assert "write binding 'counts' must be list[int]: at [0]: " in refusal_in(model.requests[1])


async def test_nh_assign_takes_data_for_a_field_and_null_beside_an_expression() -> None:
    @nh.natural_function
    async def move(customer: Customer) -> Customer:
        """natural
        Move <:customer>.
        """
        return customer

    address = {"street": "Elm", "zip_code": "12345"}
    _, executor = scripted(
        model_response(
            tool_call("nh_assign", target_path="customer.address", value=address, expression=None),
            tool_call("nh_assign", target_path="customer.name", value=None, expression="'new'"),
            tool_call("nh_outcome", kind="pass"),
        )
    )
    before = Customer(name="n")
    async with nh.run(executor):
        after = await move(before)
    assert after is before
    assert (after.name, after.address) == ("new", Address(street="Elm", zip_code="12345"))


@pytest.mark.parametrize("arguments", [{}, {"value": 1, "expression": "1"}])
async def test_nh_assign_wants_a_value_or_an_expression(arguments: dict[str, Any]) -> None:
    model, executor = scripted(
        model_response(tool_call("nh_assign", target_path="counts", **arguments)),
        outcome(kind="pass", bindings=GOOD),
    )
    async with nh.run(executor):
        await file_order("…")
    assert "a value, which is JSON, or an expression, and not both" in refusal_in(model.requests[1])


async def test_data_needs_no_provided_tools() -> None:
    model, executor = scripted(outcome(kind="pass", bindings=GOOD), provided_tools=())
    async with nh.run(executor):
        assert await file_order("…") == (Customer(name="n"), [1], None)
    assert [tool.name for tool in model.requests[0].tools] == ["nh_outcome"]


async def test_a_returned_expression_sees_the_data_of_the_same_answer() -> None:
    _, executor = scripted(
        outcome(kind="return", return_expression="(customer, counts * 2, text)", bindings=GOOD)
    )
    async with nh.run(executor):
        assert await file_order("t") == (Customer(name="n"), [1, 1], "t")


async def test_an_answer_does_not_count_as_tool_calls() -> None:
    look = tool_call("nh_eval", expression="text")
    end = tool_call("nh_outcome", kind="pass", bindings=GOOD)
    _, executor = scripted(model_response(look, end), max_tool_calls=1)
    async with nh.run(executor, budget=nh.budget(tool_calls=1)):
        assert await file_order("…") == (Customer(name="n"), [1], None)


# ---- what cannot be data


async def test_what_cannot_be_json_is_given_by_an_expression_and_told_so_once_for_a_site(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Parser:
        """Without a JSON Schema."""

    @nh.natural_function
    async def choose(make: Callable[[], Parser]) -> object:
        parser: Annotated[Parser, Field(description="evaluated at every step")]
        label: str
        """natural
        Choose <:parser> by <make>, and <:label>.
        """
        return parser, label

    right = model_response(
        tool_call("nh_assign", target_path="parser", expression="make()"),
        tool_call("nh_outcome", kind="pass", bindings={"label": "loud"}),
    )
    wrong = outcome(kind="pass", bindings={"label": "loud", "parser": "make()"})
    model, executor = scripted(wrong, right, right)
    made = Parser()
    with caplog.at_level(logging.INFO, logger="nighthawk"):
        async with nh.run(executor):
            assert await choose(lambda: made) == (made, "loud")
            await choose(lambda: made)
    schema = model.requests[0].tools[-1].parameters
    assert list(schema["properties"]["bindings"]["properties"]) == ["label"]
    told = "Set these by expressions, with nh_assign or nh_exec:\n- parser: "
    assert told in model.requests[0].system_prompt
    assert "bindings.parser: this variable cannot be given as data" in refusal_in(model.requests[1])
    (record,) = [each for each in caplog.records if "given by an expression" in each.message]
    assert "write binding 'parser' of type" in record.message


async def test_a_return_value_that_cannot_be_json_is_given_by_an_expression() -> None:
    model, executor = scripted(
        outcome(kind="return", return_value="len"), outcome(kind="return", return_expression="len")
    )
    async with nh.run(executor):
        assert await returning(Callable[..., int])() is len
    assert "return_value" not in model.requests[0].tools[-1].parameters["properties"]
    assert "give it by a return_expression" in refusal_in(model.requests[1])
