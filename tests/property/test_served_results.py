"""Results of served functions: whatever the type and the value, they fit the schema, or are a clear error."""

import datetime as dt
import json
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticSerializationError

pytest.importorskip("mcp")

from nighthawk_async.mcp.serving_results import UnsendableResultError, result_of
from nighthawk_async.mcp.serving_tools import made_tools


class Level(Enum):
    LOW = 1
    HIGH = "high"


TEXTS = st.text(alphabet=st.characters(codec=None, categories=None), max_size=3)
ZONES = st.none() | st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers() | st.just(10**30)),
    (float, st.floats()),
    (Annotated[float, Field(ge=0.5, multiple_of=0.1)], st.floats(0, 3)),
    (str, TEXTS),
    (Annotated[str, Field(pattern=r"^\p{L}*$")], TEXTS),
    (bytes, st.binary(max_size=3)),
    (bool, st.booleans()),
    (None, st.none()),
    (Decimal, st.decimals()),
    (dt.datetime, MOMENTS),
    (AwareDatetime, MOMENTS),
    (dt.date, st.dates()),
    (dt.time, st.times(timezones=ZONES)),
    (dt.timedelta, st.timedeltas()),
    (UUID, st.uuids()),
    (Path, st.builds(Path, TEXTS)),
    (Level, st.sampled_from(Level)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Any, st.floats() | TEXTS | st.dictionaries(st.integers() | TEXTS | st.none(), st.floats(), max_size=2)),
    (Annotated[int, PlainSerializer(str)], st.integers(0, 3)),
    (Annotated[int, PlainSerializer(lambda value: [value], return_type=list[int])], st.integers(0, 3)),
]

Case = tuple[Any, st.SearchStrategy[Any]]


def _list(case: Case) -> Case:
    return list[case[0]], st.lists(case[1], max_size=3)  # type: ignore[name-defined]


def _optional(case: Case) -> Case:
    return case[0] | None if case[0] is not None else None, st.none() | case[1]


def _pair(one: Case, other: Case) -> Case:
    return tuple[one[0], other[0]], st.tuples(one[1], other[1])  # type: ignore[name-defined]


def _union(one: Case, other: Case) -> Case:
    return one[0] | other[0] if None not in (one[0], other[0]) else Any, one[1] | other[1]


def _by_number(case: Case) -> Case:
    return dict[int | str, case[0]], st.dictionaries(st.integers(0, 2) | TEXTS, case[1], max_size=3)  # type: ignore[name-defined]


def _model(one: Case, other: Case, extra: str) -> Case:
    config = ConfigDict(extra=extra, validate_by_name=True, serialize_by_alias=False)  # type: ignore[typeddict-item]
    fields: Any = {
        "one_field": (one[0], Field(alias="oneField")),
        "other": (other[0] | None if other[0] is not None else None, Field(None, serialization_alias="else")),
        "hidden": (int, Field(1, exclude=True)),
    }
    made: Any = create_model("Made", __config__=config, **fields)
    data = st.fixed_dictionaries({"one_field": one[1]}, optional={"other": other[1]})
    return made, data


def _grown(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return (
        inner.map(_list)
        | inner.map(_optional)
        | inner.map(_by_number)
        | st.builds(_pair, inner, inner)
        | st.builds(_union, inner, inner)
        | st.builds(_model, inner, inner, st.sampled_from(["ignore", "allow", "forbid"]))
    )


CASES = st.recursive(st.sampled_from(LEAVES), _grown, max_leaves=4)


@given(st.data())
def test_a_result_fits_its_schema_or_is_an_error(data: st.DataObject) -> None:
    inner, values = data.draw(CASES)

    class Held(BaseModel):
        held: inner = Field(alias="Held")  # type: ignore[valid-type]

    try:
        value = TypeAdapter(Held).validate_python({"Held": data.draw(values)})
    except (ValidationError, ValueError):
        return

    async def function() -> Held:
        return value

    function.__annotations__["return"] = Held
    (tool,) = made_tools([function]).values()
    json.dumps(tool.definition, allow_nan=False, ensure_ascii=False).encode()
    try:
        sent = result_of(value, tool.object_form)
    except UnsendableResultError as error:
        reason = str(error)
    else:
        reason = ""
    if "has no JSON form" in reason:  # a number, half a character, or two keys that are one
        return
    if reason:
        with pytest.raises(PydanticSerializationError):  # pydantic cannot write it either
            TypeAdapter(Held).dump_json(value)
        return
    json.loads(json.dumps(sent, allow_nan=False, ensure_ascii=False).encode())
    if (schema := tool.definition.get("outputSchema")) is not None:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema, format_checker=FormatChecker()).validate(sent["structuredContent"])
