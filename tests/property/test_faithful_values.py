"""Values of generated types come back the same in everything that they hold, or are refused."""

import dataclasses
import enum
import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PrivateAttr, SecretStr

from nighthawk_async.journal.errors import JournalValueError
from nighthawk_async.journal.values import ValueRules, check_declared, decode_value, encode_value

RULES = ValueRules(keeps_secrets=True)


class Size(enum.Enum):
    SMALL = (1, 2)
    LARGE = (3, 4)


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Name(str):
    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    content: Any
    unseen: Any = dataclasses.field(default=None, compare=False)


class Struct(msgspec.Struct):
    content: Any


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: Any = Field(alias="theContent")
    rounded: Annotated[float, PlainSerializer(round)] = 0.5
    hidden: Any = Field(default=None, exclude=True)
    secret: SecretStr = SecretStr("")
    _private: Any = PrivateAttr(default=None)


ZONES = [None, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=1), "CET"), UTC]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.decimals(allow_nan=False).map(lambda number: number * Decimal("1.00"))
    | st.fractions()
    | st.builds(
        lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold),
        st.datetimes(),
        st.sampled_from(ZONES),
        st.sampled_from([0, 1]),
    )
    | st.sampled_from([*Size, Right.READ | Right.WRITE, Name("a"), re.compile("a", re.I | re.X), object()])
    | st.text(max_size=3).map(SecretStr)
)


def models(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    @st.composite
    def made(draw: st.DrawFn) -> Model:
        given = draw(st.dictionaries(st.sampled_from(["rounded", "hidden", "secret", "more"]), st.just(None)))
        values = {"rounded": 1.5, "hidden": draw(inner), "secret": SecretStr("s"), "more": draw(inner)}
        model = Model(theContent=draw(inner), **{name: values[name] for name in given})
        model._private = draw(inner)
        return model

    return made()


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    texts = st.text(max_size=2)
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts | st.integers(0, 3) | st.booleans(), inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3).map(OrderedDict)
        | st.lists(texts, max_size=3).map(Counter)
        | st.dictionaries(texts, inner, max_size=3).map(lambda items: defaultdict(list, items))
        | st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 3, 5]))
        | st.sets(texts | st.integers() | st.booleans(), max_size=3)
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: [parts, parts, parts[0]])
        | st.builds(Slotted, inner, inner)
        | st.builds(Struct, inner)
        | models(inner)
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=8)
DECLARED = Model | Slotted | Struct | Size | Right | Name | SecretStr | list[Any]


def told(value: Any, met: dict[int, int]) -> Any:
    """Everything that a value holds, as tuples of texts: written without what the journal uses."""
    kind = type(value)
    if kind in (bool, int, str, bytes, type(None), Fraction, object, float) or isinstance(value, enum.Enum):
        return kind.__name__, repr(value)
    if kind in (Decimal, Name):
        return kind.__name__, str(value)
    if kind is datetime:
        zone = value.tzinfo
        return kind.__name__, value.isoformat(), value.fold, type(zone).__name__, str(zone)
    if kind is re.Pattern:
        return kind.__name__, value.pattern, value.flags
    if kind is tuple:
        return kind.__name__, [told(each, met) for each in value]
    if id(value) in met:
        return "again", met[id(value)]
    met[id(value)] = len(met)
    if kind is set:
        return kind.__name__, sorted(repr(each) for each in value)
    if kind in (list, deque):
        return kind.__name__, [told(each, met) for each in value], getattr(value, "maxlen", None)
    if isinstance(value, dict):
        items = [(told(key, met), told(each, met)) for key, each in value.items()]
        return kind.__name__, items, repr(getattr(value, "default_factory", None))
    if kind is SecretStr:
        return kind.__name__, value.get_secret_value()
    if kind is Model:
        parts = [vars(value)[name] for name in sorted(vars(value))]
        parts += [value.__pydantic_extra__[name] for name in sorted(value.__pydantic_extra__)]
        parts += [value._private]
        names = sorted(value.model_fields_set), sorted(vars(value)), sorted(value.__pydantic_extra__)
        return kind.__name__, names, [told(each, met) for each in parts]
    names = ("content", "unseen") if kind is Slotted else ("content",)
    return kind.__name__, [told(getattr(value, name), met) for name in names]


@given(VALUES)
def test_a_value_comes_back_with_everything_that_it_holds_or_is_refused(value: Any) -> None:
    try:
        body = encode_value(value, place="here", declared=DECLARED, rules=RULES)
    except JournalValueError:
        assert "object" in repr(told(value, {}))  # nothing else is refused
        return
    assert told(decode_value(body, place="here", declared=DECLARED), {}) == told(value, {})


KINDS = st.recursive(
    st.sampled_from([int, str, float, bool, datetime, Size, SecretStr, Decimal]),
    lambda inner: (
        inner.map(lambda kind: list[kind])
        | inner.map(lambda kind: dict[str, kind])
        | inner.map(lambda kind: kind | None)
        | st.builds(
            lambda fields: pydantic.create_model(
                "Made", **{f"f{at}": (each, ...) for at, each in enumerate(fields)}
            ),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(
            lambda fields: dataclasses.make_dataclass(
                "Built", [(f"f{at}", each) for at, each in enumerate(fields)]
            ),
            st.lists(inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=5,
)


@given(KINDS, st.data())
def test_values_of_generated_types_come_back(kind: Any, data: st.DataObject) -> None:
    check_declared(kind, place="here", rules=RULES)
    value = data.draw(value_of(kind))
    body = encode_value(value, place="here", declared=kind, rules=RULES)
    other = decode_value(body, place="here", declared=kind)
    assert type(other) is type(value)
    assert plainly(other) == plainly(value)


def value_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is SecretStr:
        return st.text(max_size=3).map(SecretStr)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {name: value_of(field.annotation) for name, field in kind.model_fields.items()}
        return st.fixed_dictionaries(fields).map(lambda given: kind.model_construct(**given))
    if dataclasses.is_dataclass(kind):
        fields = {each.name: value_of(each.type) for each in dataclasses.fields(kind)}
        return st.fixed_dictionaries(fields).map(lambda given: kind(**given))
    arguments = getattr(kind, "__args__", ())
    if getattr(kind, "__origin__", None) is list:
        return st.lists(value_of(arguments[0]), max_size=2)
    if getattr(kind, "__origin__", None) is dict:
        return st.dictionaries(st.text(max_size=2), value_of(arguments[1]), max_size=2)
    if arguments:
        return st.none() | value_of(arguments[0])
    return st.none() if kind is type(None) else st.from_type(kind)


def plainly(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return ["secret", value.get_secret_value()]
    if isinstance(value, BaseModel):
        return [type(value), sorted(value.model_fields_set), plainly(vars(value))]
    if dataclasses.is_dataclass(value):
        return [type(value), plainly(vars(value))]
    if isinstance(value, dict):
        return [[key, plainly(each)] for key, each in value.items()]
    return list(map(plainly, value)) if isinstance(value, list) else [type(value), repr(value)]


def test_a_secret_needs_a_store_that_keeps_it() -> None:
    with pytest.raises(JournalValueError, match="keys="):
        encode_value([SecretStr("s")], place="here", declared=list[SecretStr])
