"""Objects that exist already against the types they are instances of."""

import dataclasses
import datetime
import enum
import pathlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    field_validator,
    model_validator,
)

import nighthawk_async as nh
from nighthawk_async.values.validation import validate_value

Item = TypeVar("Item")


class Box(BaseModel):
    low: int = 0
    high: int = Field(default=10, alias="HIGH")
    _uses: int = PrivateAttr(default=0)

    @model_validator(mode="after")
    def _ordered(self) -> "Box":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class NamedBox(Box):
    name: str = "box"


class Node(BaseModel):
    size: int = 0
    parent: "Node | None" = None
    children: list["Node"] = []


class Sizes(RootModel[list[int]]):
    pass


class FromPath(BaseModel):
    model_config = ConfigDict(extra="allow")

    size: int

    def __init__(self, path: str) -> None:
        super().__init__(size=len(path))


class Named(BaseModel):
    """Fields that are called like keys of pydantic's schemas."""

    type: Box
    default: list[Box] = []
    metadata: dict[str, Box] = {}


class Sloppy(BaseModel):
    size: int = None  # type: ignore[assignment]


class Other(BaseModel):
    kind: Literal["other"] = "other"
    size: int = 0


class One(BaseModel):
    kind: Literal["one"] = "one"
    size: int = 0


class Values(BaseModel):
    path: pathlib.Path
    time: datetime.datetime
    ratio: float


class Typed(BaseModel, Generic[Item]):
    value: Item


@dataclass
class Pair(Generic[Item]):
    first: Item
    second: Item


@dataclass(frozen=True, slots=True)
class Locked:
    lock: threading.Event
    size: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.size is not None and self.size > 5:
            raise ValueError("too large")


@dataclass
class Made:
    size: int
    unit: InitVar[str] = "m"
    text: str = field(init=False)

    def __post_init__(self, unit: str) -> None:
        self.text = f"{self.size} {unit}"


@dataclass
class Late:
    size: int
    text: str = field(init=False)


@dataclass
class FailedError(Exception):
    size: int = 0


@pydantic.dataclasses.dataclass
class Checked:
    low: int = 0
    high: int = 1

    @model_validator(mode="after")
    def _ordered(self) -> "Checked":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Place(NamedTuple):
    row: int
    name: str


class Struct(msgspec.Struct):
    size: int = 0


@attrs.define
class Attributes:
    size: int = 0


class Color(enum.Enum):
    RED = 1


def broken(broken_object: Any, /, **fields: object) -> Any:
    for name, each in fields.items():
        object.__setattr__(broken_object, name, each)
    return broken_object


def related() -> Node:
    parent = Node()
    parent.children.append(Node(parent=parent))
    parent.children[0].parent = parent
    return parent


GOOD: list[Any] = [
    (Box(), Box),
    (NamedBox(), Box),
    ([Box(), NamedBox()], list[Box]),
    ({"a": (Box(),)}, dict[str, tuple[Box, ...]]),
    (Box(), Box | None),
    (Box(), Annotated[Box, AfterValidator(lambda box: box)]),
    (deque([Box()]), deque[Box]),
    (related(), Node),
    (Sizes([1]), Sizes),
    (FromPath("abc"), FromPath),
    (Named(type=Box(), default=[Box()], metadata={"a": Box()}), Named),
    (Sloppy(), Sloppy),
    (One(), Annotated[One | Other, Field(discriminator="kind")]),
    (Values(path="a", time="2020-01-01", ratio=1), Values),  # type: ignore[arg-type]
    (Typed[int](value=1), Typed[int]),
    (Pair(1, 2), Pair[int]),
    (Locked(threading.Event()), Locked),
    (Made(1), Made),
    (Late(1), Late),
    (FailedError(1), FailedError),
    (Checked(), Checked),
    (Place(1, "a"), Place),
    (Struct(), Struct),
    (Attributes(), Attributes),
    (Color.RED, Color),
    ([1, "a", 0.5, None], list[int | str | float | None]),
    ({1, 2}, set[int]),
]


@pytest.mark.parametrize(("value", "annotation"), GOOD)
def test_what_matches_is_the_very_same_object(value: object, annotation: Any) -> None:
    assert validate_value(value, annotation, subject="it") is value


BAD: list[Any] = [
    (lambda: broken(Box(), low=50), Box, "low is above high"),
    (lambda: broken(Box(), low="x"), Box, "at low"),
    (lambda: [broken(Box(), low=50)], list[Box], "at 0: Value error"),
    (lambda: (broken(Box(), low=50),), list[Box], "at 0: Value error"),
    (lambda: broken(NamedBox(), name=5), Box, "at name"),
    (lambda: [broken(NamedBox(), low=50)], list[Box], "low is above high"),
    (lambda: broken(Node(), children=[broken(Node(), size="x")]), Node, "at children.0.size"),
    (lambda: broken(Sizes([1]), root=["x"]), Sizes, "at 0"),
    (lambda: broken(FromPath("a"), size="x"), FromPath, "at size"),
    (lambda: broken(Named(type=Box()), default=[broken(Box(), low=50)]), Named, "at default.0"),
    (lambda: {"type": broken(Box(), low=50)}, Named, "at type"),
    (lambda: broken(One(), size="x"), One | Other, "at One.size"),
    (lambda: broken(Typed[int](value=1), value="x"), Typed[int], "at value"),
    (lambda: Pair("x", 2), Pair[int], "at first"),
    (lambda: broken(Locked(threading.Event()), size=9), Locked, "too large"),
    (lambda: broken(Made(1), size="x"), Made, "at size"),
    (lambda: broken(FailedError(), size="x"), FailedError, "at size"),
    (lambda: broken(Checked(), low=5), Checked, "low is above high"),
    (lambda: Place("x", "a"), Place, "at (row|0)"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "annotation", "message"), BAD)
def test_what_was_broken_is_refused(make: Callable[[], object], annotation: Any, message: str) -> None:
    with pytest.raises(nh.ToolValidationError, match=message):
        validate_value(make(), annotation, subject="it")


class Chain(BaseModel):
    size: int = 0
    next: "Chain | None" = None


@dataclass
class Link:
    size: int = 0
    next: "Link | None" = None


def linked(kind: Any, last: Any, *, length: int) -> Any:
    first = last
    for _ in range(length):
        first = broken(kind(), next=first)
    return first


@pytest.mark.parametrize("kind", [Chain, Link])
def test_objects_are_checked_however_deep_they_are_nested(kind: Any) -> None:
    chain = linked(kind, kind(), length=5_000)
    assert validate_value(chain, kind, subject="it") is chain
    (same,) = validate_value([chain], list[kind], subject="it")  # type: ignore[misc]
    assert same is chain
    for size, reason in (("x", "size: Input"), ("3", "a field of .* too deep inside")):
        with pytest.raises(nh.ToolValidationError, match=reason):
            validate_value(linked(kind, broken(kind(), size=size), length=5_000), kind, subject="it")


def test_a_field_of_another_type_is_converted_on_a_copy() -> None:
    box = broken(Box(), low="3", _uses=4)
    converted = validate_value(box, Box, subject="it")
    assert isinstance(converted, Box)
    assert (converted.low, converted._uses, box.low) == (3, 4, "3")
    for value, name in ((Made(1), "size"), (Locked(threading.Event()), "size"), (FailedError(), "size")):
        result = validate_value(broken(value, **{name: "3"}), type(value), subject="it")
        assert result is not value
        assert (type(result), getattr(result, name), getattr(value, name)) == (type(value), 3, "3")
    assert validate_value(broken(Sizes([]), root=["3"]), Sizes, subject="it") == Sizes([3])
    spare = FromPath("a")
    assert validate_value(broken(spare, size="2"), FromPath, subject="it").size == 2  # type: ignore[attr-defined]


def test_what_is_converted_holds_the_very_same_objects_elsewhere() -> None:
    one, other = Box(), broken(Box(), low="3")
    result: Any = validate_value([one, other], list[Box], subject="it")
    assert result[0] is one
    assert result[1].low == 3
    assert validate_value((one,), list[Box], subject="it")[0] is one  # type: ignore[index]
    made: Any = validate_value({"type": one}, Named, subject="it")
    assert made.type is one


def test_only_what_checks_an_object_runs_once_and_changes_nothing() -> None:
    runs: list[str] = []

    class Watched(BaseModel):
        price: int = 0

        @field_validator("price")
        @classmethod
        def _double(cls, value: int) -> int:
            runs.append("field")
            return value * 2

        @model_validator(mode="before")
        @classmethod
        def _before(cls, value: Any) -> Any:
            runs.append("before")
            return value

        @model_validator(mode="wrap")
        @classmethod
        def _wrap(cls, value: Any, handler: Callable[[Any], Any]) -> Any:
            runs.append("wrap")
            return handler(value)

        @model_validator(mode="after")
        def _after(self) -> "Watched":
            runs.append("after")
            self.price += 1
            return self

    watched = Watched(price=1)
    price = watched.price
    for annotation in (Watched, Watched | None, list[Watched]):
        runs.clear()
        value: object = [watched, watched] if annotation == list[Watched] else watched
        assert validate_value(value, annotation, subject="it") is value
        assert runs == ["after"]
    assert watched.price == price


def test_what_only_any_says_something_about_is_not_looked_at() -> None:
    value = {"box": broken(Box(), low=50)}
    assert validate_value(value, dict[str, Any], subject="it") is value


def test_a_normalized_field_is_left_as_it_is() -> None:
    class Word(BaseModel):
        model_config = ConfigDict(str_strip_whitespace=True)

        text: str = ""

    word = broken(Word(), text=" a ")
    assert validate_value(word, Word, subject="it") is word
    assert word.text == " a "


def test_a_class_that_makes_its_schema_itself_is_taken_as_pydantic_takes_it() -> None:
    class Own:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> Any:
            return {"type": "is-instance", "cls": cls}

    own = Own()
    assert validate_value(own, Own, subject="it") is own
    with pytest.raises(nh.ToolValidationError):
        validate_value(5, Own, subject="it")


def test_a_subclass_without_a_schema_is_checked_as_its_base() -> None:
    @dataclass
    class Base:
        size: int = 0

    @dataclass
    class Unfinished(Base):
        part: "Nowhere" = None  # type: ignore[name-defined]

    value = Unfinished()
    assert validate_value(value, Base, subject="it") is value
    with pytest.raises(nh.ToolValidationError, match="at size"):
        validate_value(dataclasses.replace(value, size="x"), Base, subject="it")  # type: ignore[arg-type]


def test_what_a_dataclass_makes_of_itself_is_not_made_again() -> None:
    made: list[int] = []

    @dataclass
    class Connection:
        port: int
        number: int = field(init=False)
        kind: str = field(init=False, default="plain")

        def __post_init__(self) -> None:
            made.append(self.port)
            self.number = len(made)

    connection = Connection(1)
    assert validate_value(connection, Connection, subject="it") is connection
    assert made == [1]
    with pytest.raises(nh.ToolValidationError, match="at kind"):
        validate_value(broken(connection, kind=5), Connection, subject="it")
