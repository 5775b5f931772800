"""The classes that a declared type allows, and whether its values can be stored at all."""

import hashlib
import types
from abc import ABCMeta
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Iterable
from dataclasses import InitVar
from enum import Enum
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    ForwardRef,
    Literal,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from msgspec import Struct
from pydantic import BaseModel
from typing_extensions import is_typeddict  # that of typing knows its own alone

from ..signatures import type_hints
from .registered_types import is_registered_below
from .value_leaves import LEAVES, SCALARS, SEQUENCES
from .value_shapes import SECRETS, AdaptedShape, EnumShape, Shape, class_shape

_DIGEST_CHARACTERS = 8
_CONTAINERS = (list, dict, deque, defaultdict, OrderedDict, Counter)
_BUILTIN = frozenset({*SCALARS, *LEAVES, *SEQUENCES, *_CONTAINERS, int})
_PASSING = frozenset(
    {
        *(abc.Callable, abc.Iterator, abc.Generator, abc.Awaitable, abc.Coroutine),
        *(abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
    }
)
"""Types of what lives in one process alone."""


class KnownTypes(Struct, frozen=True, kw_only=True, eq=False):
    """The classes that a declared type allows.

    Args:
        shapes: The shape of each class.
        names: The name of each class in a stored value.
        digests: The digest of what is declared for the fields of each class.
        problem: The reason why no value can be stored; empty for none.
        secret: The name of a class of secrets; empty for none.
    """

    shapes: dict[type, Shape]
    names: dict[type, str]
    digests: dict[type, str]
    problem: str
    secret: str

    def find(self, name: str, digest: str) -> Shape | None:
        """The shape of the class of a name, if it has the same fields as when a value was stored."""
        for kind, known in self.names.items():
            if name in (known, _full_name(kind)) and self.digests[kind] == digest:
                return self.shapes[kind]
        return None


def known_types(declared: object) -> KnownTypes:
    """The classes that a declared type allows; those of secrets for none."""
    try:
        return _cached_types(declared)
    except TypeError:  # an annotation that cannot be hashed
        return _types_of(declared)


@lru_cache(maxsize=512)
def _cached_types(declared: object) -> KnownTypes:
    return _types_of(declared)


forget_types = _cached_types.cache_clear
"""Forget what is known, because the program has registered a type."""


def _types_of(declared: object) -> KnownTypes:
    walk = _Walk()
    try:
        problem = "" if declared is None else walk.visit(declared)
    except Exception:  # code of the user's classes may raise anything; their values say whether they fit
        problem = ""
    names = {kind: kind.__qualname__ for kind in walk.shapes}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    return KnownTypes(
        shapes=walk.shapes,
        names={kind: _full_name(kind) if name in twice else name for kind, name in names.items()},
        digests={kind: _digest(walk.fields.get(kind, {})) for kind in walk.shapes},
        problem=problem,
        secret=walk.secret,
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class _Walk:
    """Visits a declared type and the types in it."""

    def __init__(self) -> None:
        self.shapes: dict[type, Shape] = {kind: cast("Shape", class_shape(kind)) for kind in SECRETS}
        self.fields: dict[type, dict[str, object]] = {}
        self.secret = ""
        self._met: set[object] = set()  # what may be defined by itself

    def visit(self, annotation: Any, metadata: tuple[Any, ...] = ()) -> str:
        """Visit a type, and return why no value of it can be stored; empty where one may be."""
        origin = get_origin(annotation)
        if origin is Annotated:
            inner, *more = get_args(annotation)
            return self.visit(inner, (*more, *metadata))
        if _is_alias(annotation):
            return self._visit_alias(annotation, metadata)
        if isinstance(annotation, NewType):
            return self.visit(annotation.__supertype__, metadata)
        if isinstance(annotation, TypeVar):
            return self._visit_any(annotation.__constraints__ or (annotation.__bound__ or Any,))
        if isinstance(annotation, InitVar):
            return ""
        if origin is Union or origin is types.UnionType:
            return self._visit_any(get_args(annotation))
        if origin is Literal:
            return self._visit_any(tuple(map(type, get_args(annotation))))
        if origin is ClassVar or annotation is None or isinstance(annotation, str | ForwardRef):
            return ""
        if origin is type or annotation is type:
            return "a class is no value"
        if origin is not None:
            return self._visit_generic(origin, get_args(annotation), metadata)
        return self._visit_class(annotation, metadata) if isinstance(annotation, type) else ""

    def _visit_alias(self, alias: Any, metadata: tuple[Any, ...]) -> str:
        if alias in self._met:  # it is defined by itself
            return ""
        self._met.add(alias)
        return self.visit(alias.__value__, metadata)

    def _visit_any(self, annotations: Iterable[Any]) -> str:
        problems = [self.visit(each) for each in annotations]
        return problems[0] if problems and all(problems) else ""

    def _visit_generic(self, origin: Any, arguments: tuple[Any, ...], metadata: tuple[Any, ...]) -> str:
        if not isinstance(origin, type):
            problem = self._visit_any(arguments)  # also of Required, ReadOnly, Final and the like
            return self._visit_alias(origin, metadata) if _is_alias(origin) else problem
        problem = self._visit_class(origin, metadata)
        inside = [self.visit(each) for each in arguments if each is not ... and not isinstance(each, list)]
        if problem or origin not in _BUILTIN:
            return problem
        return next(filter(None, inside), "")

    def _visit_class(self, kind: type[Any], metadata: tuple[Any, ...]) -> str:
        if kind in self.shapes or kind in _BUILTIN or kind in (object, type(None)):
            if kind in SECRETS:
                self.secret = self.secret or kind.__qualname__
            return ""
        if is_typeddict(kind):
            is_met = kind in self._met
            self._met.add(kind)
            return "" if is_met else self._visit_fields(kind, type_hints(kind))
        if is_registered_below(kind):
            return ""
        if kind in _PASSING:
            return f"a value of {kind.__qualname__} lives in one process"
        shape = class_shape(kind)
        if shape is None:
            return self._visit_foreign(kind, metadata)
        self.shapes[kind] = shape
        if issubclass(kind, SECRETS):
            self.secret = self.secret or kind.__qualname__
        if isinstance(shape, EnumShape):
            return ""
        fields = _fields_of(kind)
        self.fields[kind] = fields
        problem = self._visit_fields(kind, fields)
        return self._visit_foreign(kind, metadata) if problem and _has_serializers(kind) else problem

    def _visit_fields(self, kind: type[Any], fields: dict[str, Any]) -> str:
        for name, annotation in fields.items():
            if problem := self.visit(annotation):
                return f"{kind.__qualname__}.{name}: {problem}"
        return ""

    def _visit_foreign(self, kind: type[Any], metadata: tuple[Any, ...]) -> str:
        try:
            self.shapes[kind] = AdaptedShape(kind, Annotated[kind, *metadata] if metadata else kind)
        except Exception:  # pydantic knows nothing of it, or code of the user's class has raised
            if isinstance(kind, ABCMeta) or getattr(kind, "_is_protocol", False) or kind in (Enum, tuple):
                return ""  # the values are of other classes
            return (
                f"{kind.__qualname__} is no dataclass, pydantic model, struct or enumeration, and is not "
                "registered"
            )
        return ""


def _is_alias(annotation: object) -> bool:
    """Whether a type has a name of its own by `type`; Python and its backport have a class for that each."""
    return type(annotation).__name__ == "TypeAliasType"


def _fields_of(kind: type[Any]) -> dict[str, Any]:
    """The declared types of the attributes of a class, by name; empty where they are unknown."""
    if not issubclass(kind, BaseModel):
        return type_hints(kind)
    kind.model_rebuild(raise_errors=False)
    fields: dict[str, Any] = {
        name: Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        for name, field in kind.model_fields.items()
    }
    hints = type_hints(kind)
    private = {name: hints[name] for name in kind.__private_attributes__ if name in hints}
    extra = hints.get("__pydantic_extra__")
    return {**fields, **private, **({} if extra is None else {"__pydantic_extra__": extra})}


def _has_serializers(kind: type[Any]) -> bool:
    decorators: Any = getattr(kind, "__pydantic_decorators__", None)
    return bool(decorators and (decorators.field_serializers or decorators.model_serializers))


def _digest(fields: dict[str, object]) -> str:
    text = ";".join(f"{name}:{_words(each)}" for name, each in fields.items())
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _words(annotation: object) -> str:
    """A type in words that are the same in every process, also where its module has another name."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return repr([str(each) for each in arguments])
    if origin is Union or origin is types.UnionType:
        return "|".join(map(_words, arguments))
    name = getattr(origin or annotation, "__qualname__", None) or getattr(annotation, "__name__", None)
    inner = f"[{','.join(map(_words, arguments))}]" if arguments else ""
    return f"{name or str(annotation)}{inner}"
