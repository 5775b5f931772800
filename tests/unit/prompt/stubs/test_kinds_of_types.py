"""The exact stub of every kind of type."""

import dataclasses
import datetime as dt
import enum
import sys
import typing
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Protocol,
    Required,
    TypedDict,
    TypeVar,
)

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Discriminator, Field, RootModel, Tag, computed_field
from typing_extensions import TypeAliasType, TypedDict as ExtendedTypedDict

from nighthawk_async.prompt.stubs import TypeNames, stub_of
from tests.cases import every

Item = TypeVar("Item")


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"
    URGENT = "high"


class Level(enum.IntEnum):
    """How loud."""

    QUIET = 1
    LOUD = 2


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Address(BaseModel):
    street: str
    zip_code: str = Field(description="five digits", pattern=r"\d{5}")


class Customer(BaseModel):
    """A customer as the CRM knows it.

    Not shown.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    kinds: ClassVar[int] = 3
    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None
    since: dt.date
    tags: list[str] = Field(default_factory=list)
    made: dt.datetime = Field(default_factory=dt.datetime.now)
    _private: int = 3

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        raise AssertionError("user code ran")

    @pydantic.field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        return value

    def greet(self, word: str = "hello") -> str:
        """Greet the customer.

        Not shown.
        """
        return word


class Aliased(BaseModel):
    zip_code: str = Field(alias="zipCode")
    city: str = Field(validation_alias=AliasChoices("town", AliasPath("place", 0)))


class Constrained(BaseModel):
    share: float = Field(ge=0, le=1)
    even: int = Field(gt=0, multiple_of=2)
    name: Annotated[str, Field(min_length=1, max_length=80, description="as\n  printed")]
    code: Annotated[str, annotated_types.Len(3, 3)]
    words: list[Annotated[str, Field(max_length=9)]] = Field(min_length=1)
    when: Annotated[dt.datetime, annotated_types.Timezone(...)]
    lower: Annotated[str, annotated_types.Predicate(str.islower)]
    price: Annotated[float, annotated_types.Interval(gt=0, lt=100)]
    amount: Annotated[int, "metadata of somebody else"] = 3


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")
    others: list[Annotated[Cat | Dog, Discriminator("kind")]] = []
    tagged: Annotated[
        Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(lambda value: value["kind"])
    ]


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: int | None = None


class Labels(RootModel[list[Literal["bug", "question"]]]):
    """What a ticket is about."""


@dataclasses.dataclass
class Node:
    value: int
    children: "list[Node]" = dataclasses.field(default_factory=list)
    weight: dataclasses.InitVar[float] = 1.5
    depth: int = dataclasses.field(init=False, default=0)
    count: ClassVar[int] = 0


@dataclasses.dataclass
class WithField:
    age: int = Field(ge=0, default=3, description="in years")
    name: Annotated[str, Field(max_length=5)] = "a"


@pydantic.dataclasses.dataclass
class Checked:
    age: int = Field(ge=0)


@dataclasses.dataclass
class Box(Generic[Item]):
    content: Item


@dataclasses.dataclass
class Numbers(Box[list[int]]):
    pass


@dataclasses.dataclass
class Empty:
    pass


@attrs.define
class Lamp:
    """A lamp."""

    _watts: int
    colors: list[str] = attrs.Factory(list)
    name: str = attrs.field(default="lamp", metadata={"a": 1})
    number: int = attrs.field(init=False, default=0)
    made: Annotated[int, annotated_types.Ge(1900)] = attrs.field(factory=lambda: 2000)


class Circle(msgspec.Struct, tag=True, rename="camel"):
    line_width: Annotated[int, msgspec.Meta(ge=1, description="in pixels")]
    points: list[int] = []
    note: str | msgspec.UnsetType = msgspec.UNSET


class Plain(msgspec.Struct):
    x: int
    y: float = 0.5


class Movie(TypedDict):
    title: Required[str]
    year: NotRequired[Annotated[int, Field(ge=1900)]]


class Partial(TypedDict, total=False):
    a: int
    b: Priority


Headers = ExtendedTypedDict("Headers", {"content-type": str})


class Point(NamedTuple):
    x: int
    y: float = 0.0


UserId = NewType("UserId", Annotated[int, annotated_types.Gt(0)])

Tree = TypeAliasType("Tree", "dict[str, Tree] | int")
Pair = TypeAliasType("Pair", tuple[Item, Item], type_params=(Item,))
OldAlias = list[Priority]


class Store(Protocol):
    """Keeps things."""

    size: int

    def get(self, key: str) -> Customer | None:
        """Find it."""

    async def put(self, key: str, value: Customer) -> None: ...


class Engine:
    def __init__(self, power: int, store: Store) -> None:
        self.power = power

    def start(self, *, gently: bool = False) -> Point: ...

    @property
    def speed(self) -> int:
        raise AssertionError("user code ran")


def stub(annotation: object) -> str:
    return stub_of(annotation, TypeNames(globals()))


EXPECTED: list[tuple[Any, str]] = [
    (Priority, 'class Priority(Enum): LOW = "low"; HIGH = "high"'),
    (Level, "class Level(IntEnum):  # How loud.\n    QUIET = 1; LOUD = 2"),
    (Rights, "class Rights(Flag): READ = 1; WRITE = 2"),
    (Address, "class Address:\n    street: str\n    zip_code: str  # five digits; matches \\d{5}"),
    (
        Customer,
        """class Customer:  # A customer as the CRM knows it.
    name: str
    plan: Literal["free", "pro"] = "free"
    address: Address | None = None
    since: dt.date
    tags: list[str] = []
    made: dt.datetime = ...
    label: str  # property
    def greet(self, word: str = 'hello') -> str: ...  # Greet the customer.""",
    ),
    (
        Aliased,
        'class Aliased:\n    zip_code: str  # key "zipCode"\n    city: str  # key "town" or "place"[0]',
    ),
    (
        Constrained,
        """class Constrained:
    share: float  # >= 0, <= 1
    even: int  # > 0; multiple of 2
    name: str  # as printed; len 1 to 80
    code: str  # len 3
    words: list[str]  # len >= 1; str: len <= 9
    when: dt.datetime  # with time zone
    lower: str  # islower
    price: float  # > 0, < 100
    amount: int = 3""",
    ),
    (
        Owner,
        """class Owner:
    pet: Cat | Dog  # told apart by kind
    others: list[Cat | Dog] = []  # Cat | Dog: told apart by kind
    tagged: Cat | Dog""",
    ),
    (Page, "class Page[Item]:\n    items: list[Item]\n    next: int | None = None"),
    (Labels, 'class Labels(RootModel[list[Literal["bug", "question"]]]): ...  # What a ticket is about.'),
    (Node, "class Node:\n    value: int\n    children: list[Node] = []\n    weight: float = 1.5"),
    (
        WithField,
        'class WithField:\n    age: int = 3  # in years; >= 0\n    name: str = "a"  # len <= 5',
    ),
    (Checked, "class Checked:\n    age: int  # >= 0"),
    (Box[int], "class Box[Item]:\n    content: Item"),
    (Numbers, "class Numbers:\n    content: list[int]"),
    (Empty, "class Empty: ..."),
    (
        Lamp,
        """class Lamp:  # A lamp.
    watts: int
    colors: list[str] = []
    name: str = "lamp"
    made: int = ...  # >= 1900""",
    ),
    (
        Circle,
        """class Circle:
    type: Literal["Circle"]  # in data only
    line_width: int  # in pixels; >= 1; key "lineWidth"
    points: list[int] = []
    note: str = ...""",
    ),
    (Plain, "class Plain:\n    x: int\n    y: float = 0.5"),
    (Movie, "class Movie(TypedDict):\n    title: str\n    year: NotRequired[int]  # >= 1900"),
    (Partial, "class Partial(TypedDict, total=False):\n    a: int\n    b: Priority"),
    (Headers, 'class Headers(TypedDict):\n    "content-type": str'),
    (Point, "class Point(NamedTuple):\n    x: int\n    y: float = 0.0"),
    (UserId, 'UserId = NewType("UserId", int)  # > 0'),
    (Tree, "type Tree = dict[str, Tree] | int"),
    (Pair[int], "type Pair[Item] = tuple[Item, Item]"),
    (OldAlias, 'class Priority(Enum): LOW = "low"; HIGH = "high"'),
    (
        Store,
        """class Store(Protocol):  # Keeps things.
    size: int
    def get(self, key: str) -> Customer | None: ...  # Find it.
    async def put(self, key: str, value: Customer) -> None: ...""",
    ),
    (
        Engine,
        """class Engine:
    def __init__(self, power: int, store: Store) -> None: ...
    speed: int  # property
    def start(self, *, gently: bool = False) -> Point: ...""",
    ),
    (type[Point], "class Point(NamedTuple):\n    x: int\n    y: float = 0.0"),
    (Literal[Priority.LOW], 'class Priority(Enum): LOW = "low"; HIGH = "high"'),
    (Annotated[Priority, Field(description="x")], 'class Priority(Enum): LOW = "low"; HIGH = "high"'),
    (
        Callable[[Point], Priority],
        "class Point(NamedTuple):\n    x: int\n    y: float = 0.0\n"
        'class Priority(Enum): LOW = "low"; HIGH = "high"',
    ),
    (
        Page[Checked],
        f"{'class Page[Item]:'}\n    items: list[Item]\n    next: int | None = None\n"
        "class Checked:\n    age: int  # >= 0",
    ),
]


@every("annotation, expected", EXPECTED)
def test_a_type_has_this_stub(annotation: object, expected: str) -> None:
    assert stub(annotation) == expected


@pytest.mark.parametrize(
    "annotation",
    [int, str | None, list[dict[str, Any]], dt.date, typing.Optional[bytes], object, Any, None, 17, "int"],  # noqa: UP045
)
def test_builtin_and_standard_types_need_no_stub(annotation: object) -> None:
    assert stub(annotation) == ""


@pytest.mark.parametrize("annotation", [pydantic.SecretStr, pydantic.HttpUrl, msgspec.Raw])
def test_types_of_libraries_that_declare_no_data_need_no_stub(annotation: object) -> None:
    assert stub(annotation) == ""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement came with 3.12")
def test_an_alias_of_a_type_statement_has_a_stub() -> None:
    namespace: dict[str, Any] = {"Priority": Priority}
    exec("type Choice[T] = list[Priority | T]\ntype Broken = Missing", namespace)
    assert stub(namespace["Choice"][int]) == "type Choice[T] = list[Priority | T]"
    assert stub(namespace["Broken"]) == "type Broken = ..."


def test_what_exists_for_type_checkers_alone_stays_as_it_is_written() -> None:
    @dataclasses.dataclass
    class Lazy:
        a: "Missing | None"  # type: ignore[name-defined]
        b: "list[Priority]"

    names = TypeNames({"Lazy": Lazy}, globals())
    assert stub_of(Lazy, names) == "class Lazy:\n    a: Missing | None\n    b: list[Priority]"


def test_defaults_with_names_of_secrets_are_hidden() -> None:
    class Settings(BaseModel):
        api_key: str = "sk-1234567890"

    assert "sk-1234567890" not in stub(Settings)


def test_long_enumerations_have_several_lines() -> None:
    members = {f"MEMBER_{index}": f"value {index}" for index in range(20)}
    long = enum.Enum("Long", members)  # type: ignore[misc]
    lines = stub_of(long, TypeNames({"Long": long})).splitlines()
    assert lines[0] == "class Long(Enum):"
    assert len(lines) > 3
    assert all(len(line) < 130 for line in lines)
    assert 'MEMBER_19 = "value 19"' in lines[-1]


def test_methods_beyond_a_number_are_counted() -> None:
    methods = {f"method_{index:02}": lambda self: None for index in range(20)}
    many = type("Many", (), {**methods, "__module__": __name__})
    lines = stub(many).splitlines()
    assert len(lines) == 18
    assert lines[-1] == "    # 4 more methods"
