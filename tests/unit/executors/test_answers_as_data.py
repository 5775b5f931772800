"""Answers as data: one response with one call, for every kind of type."""

import dataclasses
import enum
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("annotation", "data", "value"), KINDS_OF_TYPES, ids=NAMES)
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


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("annotation", "data", "value"), KINDS_OF_TYPES, ids=NAMES)
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
