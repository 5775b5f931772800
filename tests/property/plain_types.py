"""Types of values that can be given as data, of every kind that the library knows."""

import dataclasses
import enum
import itertools
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, Union
from uuid import UUID

import attrs
import msgspec
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model
from typing_extensions import TypeAliasType, TypedDict

__all__ = ["types"]


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
    VERDANT = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "t"
    NUMBER = 5
    NOTHING = None


class Corner(enum.Enum):
    ORIGIN = (0, 0)
    END = (1, 1)


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 8


class Tree(BaseModel):
    value: int
    left: "Tree | None" = None
    others: "dict[str, Tree]" = {}


@dataclasses.dataclass
class Chain:
    link: str
    next: "Chain | None" = None


@attrs.define
class Branch:
    _day: date
    parts: "list[Branch]" = attrs.field(factory=list)
    color: Color = attrs.field(default=Color.RED, kw_only=True)


class Page(msgspec.Struct, rename="camel", tag="page", forbid_unknown_fields=True):
    page_size: Annotated[int, msgspec.Meta(ge=1)]
    next_page: "Page | None" = None


class Settings(BaseModel):
    name: str
    size: Annotated[int, Field(ge=1, le=9)] = 3
    level: Level = Level.LOW
    labels: list[str] = Field(default_factory=lambda: ["new"])
    kind: Literal["settings"] = "settings"
    limit: int | None = 10
    inner: "list[Settings]" = []


class Notes(TypedDict, total=False):
    note: str
    color: Color | None
    tags: list[Literal["a", "b"]]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "wolf"] = "dog"
    kin: "list[Cat | Dog]" = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Numbers(RootModel[list[int]]):
    pass


Alias = TypeAliasType("Alias", "list[Alias] | int")
UserId = NewType("UserId", int)

_KEYS: list[Any] = [
    str,
    int,
    bool,
    date,
    Color,
    Level,
    Literal["a", "b"],
    Annotated[str, Field(pattern="^[ab]+$")],
]
_HASHABLE: list[Any] = [
    *(
        int,
        str,
        bool,
        bytes,
        date,
        UUID,
        Color,
        Level,
        Corner,
        Decimal,
        tuple[int, str],
        Literal[1, "x", None],
    ),
    Annotated[int, Field(ge=3, lt=9)],
    Annotated[str, Field(min_length=1, max_length=3)],
]
_LEAVES: list[Any] = [
    *_HASHABLE,
    *(float, None, datetime, time, timedelta, Path, IPv4Address, Access, Mixed, UserId, Any, object),
    *(Tree, Chain, Branch, Page, Numbers, Alias, Settings, Notes, Cat, Dog, Pet),
    Annotated[float, Field(gt=0.5, le=100)],
    Annotated[int, Field(multiple_of=7)],
    Annotated[Decimal, Field(ge=0)],
    Annotated[str, Field(pattern="^[a-c]{2}$", description="two letters")],
    Annotated[list[int], Field(min_length=1, max_length=2)],
]

_numbers = itertools.count()
_Fields = Sequence[tuple[Any, bool]]


def _named(fields: _Fields) -> dict[str, tuple[Any, bool]]:
    """The fields by name; those that are not required may be None and come last."""
    ordered = sorted(fields, key=lambda each: not each[1])
    return {f"{'abc'[at]}_field": each for at, each in enumerate(ordered)}


def _model(fields: _Fields, *, strict: bool = False) -> Any:
    made: Mapping[str, Any] = {
        name: (kind, ...) if is_required else (Optional[kind], None)  # noqa: UP045 - of a type made here
        for name, (kind, is_required) in _named(fields).items()
    }
    config = ConfigDict(strict=strict, arbitrary_types_allowed=True, extra="forbid" if strict else "ignore")
    return create_model(f"Model{next(_numbers)}", __config__=config, **made)


def _dataclass(fields: _Fields) -> Any:
    made: list[Any] = [
        (name, kind) if is_required else (name, Optional[kind], dataclasses.field(default=None))  # noqa: UP045
        for name, (kind, is_required) in _named(fields).items()
    ]
    return dataclasses.make_dataclass(f"Data{next(_numbers)}", made)


def _typed_dict(fields: _Fields) -> Any:
    made = {
        name: kind if is_required else NotRequired[kind]
        for name, (kind, is_required) in _named(fields).items()
    }
    return TypedDict(f"Dict{next(_numbers)}", made)  # type: ignore[operator]


def _named_tuple(fields: _Fields) -> Any:
    return NamedTuple(f"Tuple{next(_numbers)}", [(name, kind) for name, (kind, _) in _named(fields).items()])  # type: ignore[misc]


def _attrs_class(fields: _Fields) -> Any:
    made: dict[str, Any] = {
        name: attrs.field(type=kind) if is_required else attrs.field(type=Optional[kind], default=None)  # noqa: UP045
        for name, (kind, is_required) in _named(fields).items()
    }
    return attrs.make_class(f"Attrs{next(_numbers)}", made)


def _struct(fields: _Fields) -> Any:
    made: list[Any] = [
        (name, kind) if is_required else (name, Optional[kind], None)  # noqa: UP045
        for name, (kind, is_required) in _named(fields).items()
    ]
    return msgspec.defstruct(f"Struct{next(_numbers)}", made, rename="camel")


def _discriminated(fields: _Fields) -> Any:
    config = ConfigDict(arbitrary_types_allowed=True)
    one, other = (
        create_model(
            f"Variant{next(_numbers)}",
            __config__=config,
            kind=(Literal[kind], ...),  # type: ignore[valid-type]
            value=(fields[0][0], ...),
        )
        for kind in ("one", "other")
    )
    return Annotated[Union[one, other], Field(discriminator="kind")]  # noqa: UP007


def _strict_model(fields: _Fields) -> Any:
    return _model(fields, strict=True)


_MAKERS = [
    *(_model, _strict_model, _dataclass, _typed_dict, _named_tuple, _attrs_class, _struct, _discriminated)
]


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda item: list[item]),  # type: ignore[valid-type]
        st.sampled_from(_HASHABLE).map(lambda item: set[item]),  # type: ignore[valid-type]
        inner.map(lambda item: tuple[item, ...]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda items: tuple[items]),  # type: ignore[valid-type]
        st.builds(lambda key, item: dict[key, item], st.sampled_from(_KEYS), inner),  # type: ignore[valid-type]
        inner.map(lambda item: Optional[item]),  # noqa: UP045
        st.builds(lambda one, other: Union[one, other], inner, inner),  # noqa: UP007
        st.builds(lambda make, given: make(given), st.sampled_from(_MAKERS), fields),
    )


def types() -> st.SearchStrategy[Any]:
    """Annotations."""
    return st.recursive(st.sampled_from(_LEAVES), _containers, max_leaves=4)
