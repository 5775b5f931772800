"""Results of served functions fit the output schema that clients were given, or are clear errors."""

import datetime as dt
import json
import re
from collections import UserDict, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import msgspec
import pytest
from jsonschema import Draft202012Validator
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SerializeAsAny,
    computed_field,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.mcp.serving_results import UnsendableResultError, result_of
from nighthawk_async.mcp.serving_tools import made_tools

from .serving_support import CLIENT_WARNINGS, ERAS, Era, answers, connected, count_run, text_of

NAIVE = dt.datetime(2026, 1, 2, 3, 4)
UTC = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
Item = TypeVar("Item")


class Address(BaseModel):
    zip_code: str = Field(alias="zipCode")


class Aliases(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    one_word: int = 1
    chosen: int = Field(2, validation_alias=AliasChoices("pick", "choice"))
    written: int = Field(3, serialization_alias="writtenAs")
    inner: Address = Address(zipCode="1")

    @computed_field
    @property
    def whole_sum(self) -> int:
        return self.one_word + self.chosen


class ByName(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(serialization_alias=to_camel), serialize_by_alias=False
    )

    one_word: int = 1


class Times(BaseModel):
    at: dt.datetime = NAIVE
    clock: dt.time = dt.time(1, 2)
    day: dt.date = dt.date(2026, 1, 2)
    aware: AwareDatetime = UTC
    span: dt.timedelta = dt.timedelta(hours=-1, milliseconds=5)


class Color(Enum):
    RED = "red"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Odd(Enum):
    NAN = float("nan")


class Part(BaseModel, frozen=True):
    weight: float = 1.0


class SameAlias(BaseModel, extra="allow"):
    one: int = Field(1, serialization_alias="two")


class Closed(BaseModel, extra="forbid"):
    a: int = 1


class MoreClosed(Closed):
    b: int = 2


class Wrapper(BaseModel):
    value: SerializeAsAny[Closed]


class Point(NamedTuple):
    x: int
    y: float


class Values(BaseModel):
    amount: Decimal = Decimal("1E+5")
    path: Path = Path("a")
    id: UUID = UUID(int=1)
    color: Color = Color.RED
    point: Point = Point(1, 2.0)
    names: set[str] = {"a"}
    pair: tuple[int, str] = (1, "a")
    by_number: dict[int, int] = {1: 2}
    by_day: dict[dt.datetime, int] = {NAIVE: 1}
    anything: Any = None
    left_out: int = Field(1, exclude=True)
    maybe: int | None = Field(None, exclude_if=lambda value: value is None)
    big: int = 10**30
    raw: bytes = b"a"
    code: str = Field("A", pattern=r"^\p{Lu}$")


class Serialized(BaseModel):
    number: int = 1
    text: Annotated[int, PlainSerializer(str)] = 2
    none: Annotated[int | None, PlainSerializer(str, return_type=str, when_used="unless-none")] = None

    @field_serializer("number")
    def _number(self, value: int) -> Any:
        return [value]


class Whole(BaseModel):
    number: int = 1

    @model_serializer
    def _whole(self) -> dict[str, str]:
        return {"number": str(self.number)}


class Box(BaseModel, Generic[Item]):
    item: Item
    others: list["Box[Item]"] = []


class Record(TypedDict):
    a: int
    at: NotRequired[dt.datetime]


class Named(RootModel[dict[str, Address]]):
    pass


class Struct(msgspec.Struct, rename="camel"):
    one_word: int
    at: dt.datetime


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Pets(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Dog()


def result(annotation: Any, value: object) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The result of a function that returns a value, and its output schema."""

    async def function() -> Any:
        return value

    function.__annotations__["return"] = annotation
    (tool,) = made_tools([function]).values()
    json.dumps(tool.definition, allow_nan=False).encode()
    return result_of(value, tool.object_form), tool.definition.get("outputSchema")


WITH_OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def check_formats(data: Any, schema: Any, root: Any) -> None:
    """Check that texts are as the formats of RFC 3339 say."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    assert schema.get("format") not in ("time", "duration")
    if schema.get("format") == "date-time":
        assert WITH_OFFSET.fullmatch(data)
    if isinstance(data, dict):
        for name, item in data.items():
            check_formats(item, schema.get("properties", {}).get(name, {}), root)
    if isinstance(data, list):
        for item in data:
            check_formats(item, schema.get("items", {}), root)


def check_result(annotation: Any, value: object) -> Any:
    """Check that a result fits its schema; return its data."""
    sent, schema = result(annotation, value)
    json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()
    data = sent.get("structuredContent")
    if schema is not None:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(data)
        check_formats(data, schema, schema)
    return data


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Address, Address(zipCode="1"), {"zipCode": "1"}),
        (
            Aliases,
            Aliases(),
            {"oneWord": 1, "chosen": 2, "writtenAs": 3, "inner": {"zipCode": "1"}, "wholeSum": 3},
        ),
        (ByName, ByName(), {"oneWord": 1}),
        (dict[str, Address], {"a": Address(zipCode="1")}, {"a": {"zipCode": "1"}}),
        (Named, Named({"a": Address(zipCode="1")}), {"a": {"zipCode": "1"}}),
        (Whole, Whole(), {"number": "1"}),
        (Serialized, Serialized(), {"number": [1], "text": "2", "none": None}),
        (Box[int], Box(item=1, others=[Box(item=2)]), {"item": 1, "others": [{"item": 2, "others": []}]}),
        (Record, {"a": 1}, {"a": 1}),
        (Record, {"a": 1, "at": NAIVE}, {"a": 1, "at": "2026-01-02T03:04:00"}),
        (Pets, Pets(), {"pet": {"kind": "dog"}}),
        (dict[int, float], {1: 2.0}, {"1": 2.0}),
        (dict[str, Rights], {"a": Rights.READ | Rights.WRITE}, {"a": 3}),
        (dict[str, set[Part]], {"a": {Part()}}, {"a": [{"weight": 1.0}]}),
        (dict[str, Any], {"a": {Part()}}, {"a": [{"weight": 1.0}]}),
        (dict[str, Any], {"a": Struct(1, NAIVE)}, {"a": {"oneWord": 1, "at": "2026-01-02T03:04:00"}}),
        (dict[str, Any], {"a": UserDict(b=range(2))}, {"a": {"b": [0, 1]}}),
        (Wrapper, Wrapper(value=MoreClosed()), {"value": {"a": 1, "b": 2}}),
        (defaultdict[str, int], defaultdict(int, a=1), {"a": 1}),
    ],
)
def test_an_object_fits_its_schema_by_alias(annotation: Any, value: object, expected: object) -> None:
    assert check_result(annotation, value) == expected


@pytest.mark.parametrize("value", [Times(), Values(), Values(maybe=1, anything={"a": [NAIVE]})])
def test_values_of_all_kinds_fit_their_schemas(value: BaseModel) -> None:
    assert check_result(type(value), value) is not None


def test_a_time_with_a_zone_keeps_its_format() -> None:
    _, schema = result(Times, Times())
    assert schema is not None
    formats = {name: each.get("format") for name, each in schema["properties"].items()}
    assert formats == {"at": None, "clock": None, "day": "date", "aware": "date-time", "span": None}


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (dict[str, float], {"a": float("nan")}, "has no JSON form: at a: JSON has no number nan"),
        (dict[str, Any], {"a": [float("inf")]}, "has no JSON form: at a.0: JSON has no number inf"),
        (dict[str, float | None], {"a": float("-inf")}, "has no JSON form: at a: JSON has no number -inf"),
        (dict[str, set[float | None]], {"a": {float("nan"), 1.0}}, "JSON has no number nan"),
        (dict[str, set[Part]], {"a": {Part(weight=float("nan"))}}, "JSON has no number nan"),
        (dict[str, Any], {"a": Odd.NAN}, "at a: JSON has no number nan"),
        (SameAlias, SameAlias(two=2), "two of its keys are the same text"),
        (dict[str, int], {"a": 10**5000}, "has no JSON form: Exceeds the limit"),
        (dict[str, Any], {"a": object()}, "has no JSON form: object is no type of JSON."),
        (dict[str, str], {"a": "\ud800"}, "at a: a text has a lone surrogate"),
        (dict[str, str], {"\ud800": "a"}, "a text has a lone surrogate"),
        (str, "\ud800", "a text has a lone surrogate"),
        (list[str], ["\ud800"], "a text has a lone surrogate"),
        (dict[Any, int], {1: 1, "1": 2}, "two of its keys are the same text"),
        (list[Any], [{1: 1, "1": 2}], "at 0: two of its keys are the same text"),
        (dict[str, int], {"a": "x"}, "something else than it declares."),
        (Address, "x", "something else than it declares."),
        (
            dict[str, Annotated[Any, Field(json_schema_extra={"type": "integer"})]],
            {"a": "x"},
            "breaks 'type' of the output schema at a",
        ),
        (
            dict[str, Annotated[str, Field(json_schema_extra={"format": "date-time"})]],
            {"a": "2026-01-02T03:04:00"},
            "breaks 'format' of the output schema at a",
        ),
        (dict[str, bytes], {"a": b"\xff"}, "has no JSON form: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_result_that_would_be_changed_or_breaks_its_schema_is_an_error_that_says_where(
    annotation: Any, value: object, reason: str
) -> None:
    with pytest.raises(UnsendableResultError, match=re.escape(reason)):
        result(annotation, value)


def test_the_types_of_collections_and_paths_stay_in_the_schema() -> None:
    class Things(BaseModel):
        names: Sequence[str] = ()
        groups: defaultdict[str, list[int]] = Field(default_factory=lambda: defaultdict(list))
        path: Path = Path()

    _, schema = result(Things, Things())
    assert schema is not None
    properties = schema["properties"]
    assert properties["names"]["items"] == {"type": "string"}
    assert properties["groups"]["additionalProperties"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["path"]["type"] == "string"


def test_a_schema_that_is_none_is_not_sent() -> None:
    bad = Annotated[int, Field(json_schema_extra={"type": "int"})]
    sent, schema = result(dict[str, bad], {"a": 1})  # type: ignore[valid-type]
    assert schema is None
    assert sent["content"] == [{"type": "text", "text": '{"a":1}'}]


def test_numbers_that_are_not_finite_are_texts_in_results_without_a_schema() -> None:
    class Reading(BaseModel):
        value: float

    sent, schema = result(list[Reading], [Reading(value=float("nan")), Reading(value=1.0)])
    assert schema is None
    assert sent["content"] == [{"type": "text", "text": '[{"value":"NaN"},{"value":1.0}]'}]


def test_structs_and_models_in_lists_are_json_by_alias() -> None:
    sent, _ = result(list[Any], [Struct(1, NAIVE), Address(zipCode="1")])
    assert json.loads(sent["content"][0]["text"]) == [
        {"oneWord": 1, "at": "2026-01-02T03:04:00"},
        {"zipCode": "1"},
    ]


def test_what_is_no_json_is_left_out_of_schemas() -> None:
    class Odd(BaseModel):
        value: float = Field(float("nan"), examples=[float("inf")], json_schema_extra={"x": "\ud800"})
        code: str = Field("a", pattern="^a$")

    default = Odd()

    async def function(odd: Odd = default, limit: float = float("inf")) -> Odd:
        return odd

    function.__doc__ = "Half \ud800 a character."
    (tool,) = made_tools([function]).values()
    json.dumps(tool.definition, allow_nan=False, ensure_ascii=False).encode()
    assert tool.definition["outputSchema"]["properties"]["value"] == {"title": "Value", "type": "number"}
    assert tool.definition["inputSchema"]["properties"]["limit"] == {"type": "number"}
    assert tool.definition["description"] == "Half ? a character."


@pytest.mark.anyio
@CLIENT_WARNINGS
@pytest.mark.parametrize("era", ERAS)
async def test_clients_that_check_results_get_them(era: Era) -> None:
    async def address() -> Address:
        return Address(zipCode="1")

    async def nan() -> dict[str, float]:
        return {"a": float("nan")}

    async def surrogate() -> str:
        return "\ud800"

    async def many(last: Any) -> dict[str, Annotated[Any, Field(json_schema_extra={"type": "integer"})]]:
        return {**{str(number): number for number in range(2_000)}, "last": last}

    async with connected(nh.mcp.serve([address, nan, surrogate, many], run=count_run), era) as client:
        large = await client.call_tool("many", {"last": 1})
        assert large.structured_content is not None
        assert len(large.structured_content) == 2_001
        assert "'type' of the output schema at last" in text_of(await client.call_tool("many", {"last": "a"}))
        assert (await client.call_tool("address", {})).structured_content == {"zipCode": "1"}
        for name in ("nan", "surrogate"):
            failed = await client.call_tool(name, {})
            assert failed.is_error
            assert text_of(failed).startswith("The result of the function has no JSON form: ")


@pytest.mark.anyio
@CLIENT_WARNINGS
async def test_a_value_that_a_natural_function_has_validated_is_not_converted_again() -> None:
    cents = Annotated[int, AfterValidator(lambda value: value * 100)]

    @nh.natural_function
    async def price() -> dict[str, cents]:  # type: ignore[valid-type]
        count: dict[str, Any]
        """natural
        Set <:count>.
        """
        return count

    def run() -> Any:
        return nh.run(nh.testing.CallbackExecutor(lambda call: nh.testing.pass_response(count={"a": 5})))

    async with connected(nh.mcp.serve([price], run=run)) as client:
        assert (await client.call_tool("price", {})).structured_content == {"a": 500}


@pytest.mark.anyio
@CLIENT_WARNINGS
@pytest.mark.parametrize("era", ERAS)
async def test_questions_and_progress_are_json_too(era: Era) -> None:
    class Form(BaseModel):
        weight: float = Field(float("nan"), ge=0)

    async def ask() -> float:
        with nh.parallel.deadline(60, name="half \ud800"):
            return (await nh.ask_user("Half \ud800?", schema=Form)).weight

    person = answers({"weight": 2.0})
    app = nh.mcp.serve([ask], run=count_run)
    notes: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        notes.append(message)

    async with connected(app, era, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask", {}, progress_callback=note)) == "2.0"
    ((message, schema),) = person.asked
    assert message == "Half ??"
    assert schema["properties"] == {"weight": {"title": "Weight", "type": "number", "minimum": 0.0}}
