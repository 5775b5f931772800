"""attrs classes and msgspec structs as values, and as plain data."""

import enum
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import attr
import attrs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

import nighthawk_async as nh
from nighthawk_async.values.plain_data import data_schemas, validate_data
from nighthawk_async.values.validation import check_type, validate_value


class Color(enum.Enum):
    RED = "r"


def split(text: str) -> list[str]:
    return text.split()


@attrs.define
class Node:
    """One node of a tree."""

    name: str
    _size: "int" = attrs.field(default=1, validator=attrs.validators.gt(0))
    words: list[str] = attrs.field(converter=split, default="a b")
    weight: float = attrs.field(converter=float, default=0)
    color: Color = Color.RED
    children: "list[Node]" = attrs.field(factory=list)
    count: int = attrs.field(init=False, default=0)


@attr.s
class Old:
    anything = attr.ib()
    number = attr.ib(type=int, default=attr.Factory(lambda self: self.anything, takes_self=True))


class Row(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_day: date
    amount: Annotated[int, msgspec.Meta(ge=0, description="in cents")] | msgspec.UnsetType = msgspec.UNSET
    marks: list[Annotated[str, msgspec.Meta(pattern="^a")]] = []
    next: "Row | None" = None


class Cat(msgspec.Struct, tag="cat", tag_field="kind"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog", tag_field="kind"):
    lives: int = 1


@dataclass
class Holder:
    node: Node
    rows: dict[str, Row] | None = None


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    holder: Holder
    pet: Cat | Dog | None = None


@attrs.define
class Unresolved:
    part: "Nowhere"  # type: ignore[name-defined]


@attrs.define
class WithoutData:
    stream: "Plain"


class Plain:
    pass


VALIDATORS: list[Any] = [validate_data, validate_value]


def test_the_schema_of_an_attrs_class_says_what_its_constructor_takes() -> None:
    made = data_schemas((Node,))
    assert made.schemas == ({"$ref": "#/$defs/Node"},)
    assert made.definitions["Node"] == {
        "type": "object",
        "description": "One node of a tree.",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer", "default": 1},
            "words": {"type": "string", "default": "a b"},
            "weight": {"type": "number", "default": 0},
            "color": {"$ref": "#/$defs/Color", "default": "r"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_the_schema_of_a_struct_has_the_names_that_it_is_encoded_with() -> None:
    made = data_schemas((Row, Cat))
    assert made.definitions["Row"] == {
        "type": "object",
        "properties": {
            "firstDay": {"type": "string", "format": "date"},
            "amount": {"type": "integer", "minimum": 0, "description": "in cents"},
            "marks": {"type": "array", "items": {"type": "string", "pattern": "^a"}},
            "next": {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}], "default": None},
        },
        "required": ["firstDay"],
        "additionalProperties": False,
    }
    assert made.definitions["Cat"] == {
        "type": "object",
        "properties": {
            "lives": {"type": "integer", "default": 9},
            "kind": {"type": "string", "const": "cat"},
        },
        "required": ["kind"],
    }


@pytest.mark.parametrize("validate", VALIDATORS)
def test_a_dict_of_the_fields_becomes_an_instance(validate: Any) -> None:
    node = {"name": "n", "size": 2, "words": "x y", "color": "r", "children": [{"name": "m"}]}
    assert validate(node, Node, subject="it") == Node(
        "n", size=2, words="x y", children=[Node("m")], weight=0.0
    )
    assert validate([{"anything": [1]}], list[Old], subject="it") == [Old([1])]
    row = {"firstDay": "2026-01-02", "amount": 5, "next": {"first_day": "2026-01-03"}}
    assert validate(row, Row, subject="it") == Row(date(2026, 1, 2), 5, next=Row(date(2026, 1, 3)))


@pytest.mark.parametrize("validate", VALIDATORS)
def test_they_may_stand_inside_of_models_dataclasses_and_unions(validate: Any) -> None:
    given = {
        "holder": {"node": {"name": "n"}, "rows": {"a": {"firstDay": "2026-01-02"}}},
        "pet": {"kind": "dog", "lives": 2},
    }
    made = validate(given, Model, subject="it")
    assert made.holder == Holder(Node("n"), {"a": Row(date(2026, 1, 2))})
    assert made.pet == Dog(2)


def test_an_instance_stays_the_object_that_it_is() -> None:
    node, row = Node("n"), Row(date(2026, 1, 2))
    for value, annotation in (
        (node, Node),
        ([node], list[Node]),
        ({"a": row}, dict[str, Row | Node]),
        (Holder(node), Holder),
        (None, Row | None),
    ):
        assert validate_value(value, annotation, subject="it") is value


def test_a_dict_may_hold_instances() -> None:
    node = Node("n")
    made = validate_value({"name": "m", "children": [node, {"name": "o"}]}, Node, subject="it")
    assert made == Node("m", children=[node, Node("o")])
    assert made.children[0] is node  # type: ignore[attr-defined]


@pytest.mark.parametrize("validate", VALIDATORS)
@pytest.mark.parametrize(
    ("value", "annotation", "said"),
    [
        ({"name": "n", "children": [{}]}, Node, r"at children(\[|\.)0\]?\.name: Field required"),
        ({"name": "n", "more": 1}, Node, "at more: Extra inputs are not permitted"),
        ({"name": "n", "size": 0}, Node, "ValueError: '_size' must be > 0: 0"),
        ({"firstDay": "x"}, Row, "at firstDay: Input should be a valid date"),
        ({"firstDay": "2026-01-02", "amount": -1}, Row, "at amount: .*greater than or equal to 0"),
        ({"lives": 1}, Cat, "at kind: Field required"),
        ([1], Cat, "valid dictionary|an object"),
    ],
)
def test_what_does_not_match_is_refused_with_its_path(
    validate: Any, value: object, annotation: Any, said: str
) -> None:
    with pytest.raises(nh.ToolValidationError, match=said):
        validate(value, annotation, subject="it")


@pytest.mark.parametrize("kind", [Unresolved, WithoutData])
def test_a_class_with_a_field_that_cannot_be_data_is_taken_as_an_instance_alone(kind: Any) -> None:
    check_type(kind, subject="it")
    value = kind(Plain())
    assert validate_value(value, kind, subject="it") is value
    with pytest.raises(Exception, match="JsonSchema"):
        data_schemas((kind,))


def test_attrs_is_not_imported_on_its_own() -> None:
    program = (
        "import sys, nighthawk_async, msgspec\n"
        "from nighthawk_async.values.plain_data import validate_data\n"
        "class Row(msgspec.Struct):\n    a: int\n"
        "assert validate_data({'a': 1}, Row, subject='it') == Row(1)\n"
        "sys.exit('attr' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
