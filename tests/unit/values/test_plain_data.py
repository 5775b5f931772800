"""Plain data against types."""

import enum
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Self
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, RootModel, model_validator
from typing_extensions import TypeAliasType, TypedDict

import nighthawk_async as nh
from nighthawk_async.values.plain_data import data_schemas, validate_data
from nighthawk_async.values.validation import validate_value
from tests.cases import every


def whole_schema_of(annotation: Any) -> dict[str, Any]:
    made = data_schemas((annotation,))
    return {**made.schemas[0], "$defs": made.definitions}


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"
    URGENT = "high"


class Corner(enum.Enum):
    ORIGIN = (0, 0)
    END = (1, 1)


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 8


class Address(BaseModel):
    street: str
    zip_code: str = Field(pattern=r"^\d{5}$")


class Customer(BaseModel):
    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    id: UUID
    priority: Priority
    parts: tuple[bytes, set[Decimal]]


class Checked(Strict):
    @model_validator(mode="before")
    @classmethod
    def as_given(cls, value: object) -> object:
        return value


@dataclass
class Point:
    x: int
    note: object = field(default_factory=object)
    limit: float = float("inf")
    title: str = "here"


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Tree(BaseModel):
    value: int
    children: "list[Tree]" = []


class Numbers(RootModel[list[int]]):
    pass


class Plain:
    pass


UserId = NewType("UserId", int)
Labels = TypeAliasType("Labels", list[Literal["bug", "question"]])


def schema_of(annotation: Any) -> dict[str, Any]:
    return data_schemas((annotation,)).schemas[0]


def test_schemas_stand_apart_from_their_definitions_and_have_no_titles() -> None:
    made = data_schemas((list[Customer], Movie, Customer))
    assert made is data_schemas((list[Customer], Movie, Customer))
    assert made.schemas == (
        {"type": "array", "items": {"$ref": "#/$defs/Customer"}},
        {"$ref": "#/$defs/Movie"},
        {"$ref": "#/$defs/Customer"},
    )
    assert made.definitions["Address"] == {
        "type": "object",
        "properties": {"street": {"type": "string"}, "zip_code": {"type": "string", "pattern": r"^\d{5}$"}},
        "required": ["street", "zip_code"],
    }
    assert made.definitions["Movie"]["properties"] == {
        "title": {"type": "string"},
        "year": {"type": "integer"},
    }


def test_a_default_stands_in_the_schema_where_json_can_hold_it() -> None:
    (definition,) = data_schemas((Point,)).definitions.values() or (schema_of(Point),)
    assert definition["properties"] == {
        "x": {"type": "integer"},
        "note": {},
        "limit": {"type": "number"},
        "title": {"type": "string", "default": "here"},
    }


def test_classes_of_one_name_are_told_apart_by_a_number() -> None:
    def make(kind: type[Any]) -> Any:
        @dataclass
        class Item:
            value: kind

        return Item

    one, other = make(int), make(str)
    definitions = data_schemas((list[one], tuple[one, other])).definitions
    assert definitions.keys() == {"Item", "Item2"}


def test_members_with_two_names_are_listed_once() -> None:
    assert data_schemas((Priority,)).definitions["Priority"]["enum"] == ["low", "high"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Corner, {"type": "string", "enum": ["ORIGIN", "END"]}),
        (
            Access,
            {
                "type": "integer",
                "enum": [0, 1, 2, 3, 8, 9, 10, 11],
                "description": "the sum of any of READ = 1, WRITE = 2, RUN = 8",
            },
        ),
        (
            Pair,
            {
                "type": "object",
                "properties": {"left": {"type": "integer"}, "right": {"type": "string", "default": "r"}},
                "required": ["left"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_what_json_has_no_type_for_is_described_by_what_it_is_given_as(
    annotation: Any, schema: dict[str, Any]
) -> None:
    (definition,) = data_schemas((annotation,)).definitions.values()
    assert definition == schema


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (dict[int, str], {"pattern": "^(0|-?[1-9][0-9]*)$"}),
        (dict[Annotated[str, Field(pattern="^a")], str], {"pattern": "^a"}),
        (dict[Literal["a", "b"], str], {"enum": ["a", "b"]}),
        (dict[date, str], {"format": "date"}),
    ],
)
def test_the_keys_of_a_dict_are_names_of_fields(annotation: Any, names: dict[str, Any]) -> None:
    assert schema_of(annotation) == {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "propertyNames": names,
    }


def test_keys_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(PydanticUserError, match="JSON has no keys of the type array"):
        data_schemas((dict[tuple[int, int], str],))


def test_the_variants_of_a_discriminated_union_are_alternatives() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    annotation: Any = Annotated[Cat | Dog, Field(discriminator="kind")]
    assert schema_of(annotation) == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert validate_data({"kind": "dog"}, annotation, subject="it") == Dog(kind="dog")


class Urgent(BaseModel):
    kind: Literal[Priority.HIGH]


class Resting(BaseModel):
    kind: Literal[Priority.LOW]


Ranked = Annotated[Urgent | Resting, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        (Literal[Priority.LOW], "low", Priority.LOW),
        (Literal[Priority.LOW, Priority.HIGH, None], "high", Priority.HIGH),
        (Literal[Corner.END], "END", Corner.END),
        (Urgent, {"kind": "high"}, Urgent(kind=Priority.HIGH)),
        (Ranked, {"kind": "low"}, Resting(kind=Priority.LOW)),
        (list[Ranked], [{"kind": "high"}], [Urgent(kind=Priority.HIGH)]),
    ],
)
def test_a_literal_member_of_an_enumeration_is_given_as_the_schema_says(
    annotation: Any, data: Any, value: object
) -> None:
    assert not list(Draft202012Validator(whole_schema_of(annotation)).iter_errors(data))
    assert validate_data(data, annotation, subject="it") == value
    assert validate_value(value, annotation, subject="it") == value


@every(
    "value, annotation, expected",
    [
        ("2026-01-02", date, date(2026, 1, 2)),
        ("2026-01-02T03:04:05", datetime, datetime(2026, 1, 2, 3, 4, 5)),
        ("03:04", time, time(3, 4)),
        ("PT5S", timedelta, timedelta(seconds=5)),
        ("12345678-1234-5678-1234-567812345678", UUID, UUID("12345678-1234-5678-1234-567812345678")),
        ("0.10", Decimal, Decimal("0.10")),
        (0.1, Decimal, Decimal("0.1")),
        ("abc", bytes, b"abc"),
        ("a/b", Path, Path("a/b")),
        ([1, 2, 2], set[int], {1, 2}),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([1, "a"], Pair, Pair(1, "a")),
        ({"left": 1}, Pair, Pair(1)),
        ({"1": True}, dict[int, bool], {1: True}),
        ({"title": "Alien"}, Movie, {"title": "Alien"}),
        ({"x": 1, "title": "t"}, Point, Point(1, title="t")),
        (["bug"], Labels, ["bug"]),
        (5, UserId, 5),
        ("5", int, 5),
        (None, int | None, None),
        ([1], Numbers, Numbers([1])),
        ({"value": 1, "children": [{"value": 2}]}, Tree, Tree(value=1, children=[Tree(value=2)])),
        ("low", Priority, Priority.LOW),
        ("LOW", Priority, Priority.LOW),
        ("URGENT", Priority, Priority.HIGH),
        ("LOW", Priority | str, "LOW"),
        ("END", Corner, Corner.END),
        ("END", Corner | int, Corner.END),
        (9, Access, Access.READ | Access.RUN),
        ("READ|RUN", Access, Access.READ | Access.RUN),
        (["a", "b"], Iterable[str], ["a", "b"]),
        (10**60, int, 10**60),
        ({"a": [1, None]}, object, {"a": [1, None]}),
        ([1.5, "a"], Any, [1.5, "a"]),
        ([], Self, []),
    ],
)
def test_data_becomes_the_object_that_it_stands_for(value: object, annotation: Any, expected: Any) -> None:
    result = validate_data(value, annotation, subject="it")
    assert type(result) is type(expected)
    if isinstance(expected, Point):
        assert (result.x, result.title) == (expected.x, expected.title)  # type: ignore[attr-defined]
    else:
        assert result == expected


@pytest.mark.parametrize("model", [Strict, Checked])
def test_strict_models_take_what_json_has_no_type_for_as_text(model: type[Strict]) -> None:
    given = {
        "day": "2026-01-02",
        "id": "12345678-1234-5678-1234-567812345678",
        "priority": "low",
        "parts": ["abc", ["0.5"]],
    }
    made = validate_data(given, model, subject="it")
    assert isinstance(made, model)
    assert made.day == date(2026, 1, 2)
    assert made.priority is Priority.LOW
    assert made.parts == (b"abc", {Decimal("0.5")})


def refused(value: object, annotation: Any) -> str:
    with pytest.raises(nh.ToolValidationError) as caught:
        validate_data(value, annotation, subject="it")
    assert caught.value.message_without_content.startswith("it must be ")
    return str(caught.value)


def test_a_problem_is_told_with_its_path_and_what_was_given() -> None:
    given = {"name": 5, "plan": "gold", "address": {"zip_code": "1234"}}
    message = refused([given], list[Customer])
    assert message == (
        "it must be list[Customer]: "
        "at [0].name: Input should be a valid string, not 5; "
        "at [0].plan: Input should be 'free' or 'pro', not \"gold\"; "
        "at [0].address.street: Field required; "
        "at [0].address.zip_code: String should match pattern '^\\d{5}$', not \"1234\""
    )


def test_the_alternatives_of_a_union_are_no_part_of_the_path() -> None:
    assert refused({"a b": [1, []]}, dict[str, list[int | str]]) == (
        "it must be dict[str, list[int | str]]: "
        "at ['a b'][1]: Input should be a valid integer (as int), not []; "
        "at ['a b'][1]: Input should be a valid string (as str), not []"
    )


def test_long_values_are_cut_and_all_problems_told() -> None:
    message = refused(["x" * 1000] * 9, list[int])
    assert [message.count(f"at [{position}]: ") for position in range(9)] == [1] * 9
    assert " more" not in message
    assert len(message) < 2_000


def test_very_many_problems_are_counted_from_where_there_is_no_room() -> None:
    message = refused(["x"] * 9_000, list[int])
    shown = message.count("Input should be")
    assert shown > 20
    assert message.endswith(f"; and {9_000 - shown} more")
    assert len(message) < 4_000


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\ud83d", "half of a surrogate pair"),
        (json.loads("[" * 900 + "]" * 900), "(nested too deep|recursion)"),
    ],
)
def test_what_json_cannot_carry_is_refused(value: object, said: str) -> None:
    with pytest.raises(nh.ToolValidationError, match=said):
        validate_data(value, Any, subject="it")


def test_a_validator_of_the_users_that_fails_refuses_the_value() -> None:
    class Broken(BaseModel):
        size: int

        @model_validator(mode="after")
        def break_(self) -> Self:
            raise LookupError("no such size")

    assert refused({"size": 5}, Broken).endswith("Broken: LookupError: no such size")


@pytest.mark.parametrize("annotation", [Plain, Callable[[], int], list[Plain], type[int], list[type[Plain]]])
def test_a_type_that_cannot_be_data_has_no_schema(annotation: Any) -> None:
    with pytest.raises(Exception, match=r"JsonSchema|Unable"):
        data_schemas((annotation,))


def test_a_type_that_is_not_hashable_has_a_schema_too() -> None:
    annotation: Any = Annotated[int, {}]
    assert data_schemas((annotation,)).schemas == ({"type": "integer"},)
    assert validate_data(5, annotation, subject="it") == 5
