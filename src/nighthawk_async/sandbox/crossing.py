"""Values on their way between a program and a sandbox.

Data crosses by copy. An instance of a class of data crosses as a record: its public fields are copied, and
its methods stay in the program. Everything else stays there whole, and crosses as a reference: a function
that can be called, an object whose public methods can be called and whose public attributes can be read.

References are numbers that mean something to this program only: a worker that makes one up reaches nothing
but what was sent to it.
"""

import dataclasses
import enum
import sys
import types
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import PurePath, PurePosixPath
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from ..policies.code_levels.members import makes_powers
from ..prompt.callables import describe_callable
from ..prompt.objects import object_fields
from ..values.validation import validate_value
from .errors import CrossingError

Kind: TypeAlias = Literal["function", "class", "object", "record"]


class Reference(Struct, frozen=True, kw_only=True):
    """An object of the program, as a sandbox sees it.

    Args:
        key: Its number.
        kind: The kind of object.
        name: The name of the function or class, or of the object's class.
        fields: The copied fields of a record; None for other kinds.
        class_key: The number of the class of a record or object; 0 for none.
    """

    key: int
    kind: Kind
    name: str
    fields: dict[str, Any] | None = None
    class_key: int = 0


_MOST_DEPTH = 100
_NODE_BYTES = 64

_LEAVES: frozenset[type] = frozenset(
    {bool, int, float, complex, str, bytes, date, timedelta, Decimal, type(None), type(...)}
)
_NATIVE_TYPES: frozenset[type] = frozenset(
    {bool, int, float, complex, str, bytes, date, datetime, time, timedelta, Decimal}
    | {list, tuple, dict, set, frozenset, object, type(None)}
)
"""Classes that a sandbox has itself."""


def kind_of(value: object) -> Any:
    """The class of a value, of which type checkers assume nothing."""
    return type(value)


def derives(kind: type, base: Any) -> bool:
    """Whether a class derives from another one, or one of others, without a conclusion of type checkers."""
    return issubclass(kind, base)


def is_native_type(value: type) -> bool:
    """Whether a sandbox has a class itself: data types, and the exceptions of Python."""
    return value in _NATIVE_TYPES or (derives(value, BaseException) and value.__module__ == "builtins")


class HostObjects:
    """The objects of the program that a sandbox has references to, and the copies that it was sent.

    Args:
        most_bytes: The size of values that is refused, in bytes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._objects: dict[int, object] = {}
        self._references: dict[int, Reference] = {}
        self._of_identity: dict[int, int] = {}

    def find(self, key: int) -> tuple[Reference, object] | None:
        """The reference with a number, and its object; None for a number that was not sent."""
        reference = self._references.get(key)
        return None if reference is None else (reference, self._objects[key])

    def sent(self, value: object) -> object:
        """Return a value as it crosses.

        Raises:
            CrossingError: It cannot cross: it contains itself, or is too large or too deeply nested.
        """
        return _Sending(self, self._most_bytes).sent(value, 0)

    def refer(self, value: object, kind: Kind, name: str, fields: dict[str, Any] | None = None) -> Reference:
        """Return the reference to an object, the same one as before if its fields have not changed."""
        found = self._of_identity.get(id(value))
        if found is not None and self._references[found].fields == fields:
            return self._references[found]
        key = len(self._objects) + 1
        self._objects[key] = value
        self._of_identity[id(value)] = key
        class_key = 0
        cls = type(value)
        if kind in ("object", "record") and not is_native_type(cls):
            self._references[key] = Reference(key=key, kind=kind, name=name)
            class_key = self.refer(cls, "class", cls.__name__).key
        reference = Reference(key=key, kind=kind, name=name, fields=fields, class_key=class_key)
        self._references[key] = reference
        return reference

    def received(self, value: object, like: object = None) -> object:
        """Return what has come from a sandbox as a value of the program.

        Args:
            value: What has come, made of plain data, references and `Inside`.
            like: The value of the program that it has replaced, for kinds of containers that cross as others.

        Raises:
            CrossingError: It contains what exists in the sandbox only.
            ToolValidationError: Changed fields do not match the class of their record.
        """
        return _Receiving(self).received(value, like)


class _Sending:
    def __init__(self, objects: HostObjects, most_bytes: int) -> None:
        self._objects = objects
        self._most_bytes = most_bytes
        self._room = most_bytes
        self._inside: set[int] = set()

    def sent(self, value: Any, depth: int) -> object:
        kind = kind_of(value)
        if kind in _LEAVES:
            self._take(_size_of(value))
            return value
        if kind is datetime or kind is time:
            self._take(_NODE_BYTES)
            return _with_fixed_offset(value)
        self._take(_NODE_BYTES)
        if depth >= _MOST_DEPTH:
            raise CrossingError(f"it is nested more than {_MOST_DEPTH} levels deep")
        if id(value) in self._inside:
            raise CrossingError("it contains itself")
        self._inside.add(id(value))
        try:
            return self._of_parts(value, kind, depth + 1)
        finally:
            self._inside.discard(id(value))

    def _of_parts(self, value: Any, kind: type, depth: int) -> object:
        base: Any = _container_of(kind)
        if base is dict:
            pairs: Any = _read(dict, "items", value)
            return {self._key(key): self.sent(each, depth) for key, each in pairs}
        if base is not None:
            items = list(_items_of(value, base))
            made: Any = (
                map(self._key, items) if base in _HASHED else (self.sent(each, depth) for each in items)
            )
            return base(made)
        if derives(kind, PurePath):
            self._take(len(value.as_posix()))
            return PurePosixPath(value.as_posix())
        if derives(kind, bytearray):
            self._take(len(value))
            return bytes(value)
        if derives(kind, type):
            return value if is_native_type(value) else self._objects.refer(value, "class", value.__name__)
        if derives(kind, BaseException) and kind.__module__ == "builtins":
            return kind(*(str(each) for each in value.args[:1]))
        if is_record(kind):
            fields = {name: self.sent(each, depth) for name, each in record_fields(value).items()}
            return self._objects.refer(value, "record", kind.__name__, fields)
        if is_function(value):
            return self._objects.refer(value, "function", function_name(value))
        return self._objects.refer(value, "object", kind.__name__)

    def _key(self, value: object) -> object:
        """An item of a set, or a key of a dict, which has to be hashed in the sandbox."""
        if type(value) is tuple:
            return tuple(map(self._key, items_of(value)))
        if type(value) in _LEAVES or type(value) in (datetime, time):
            return self.sent(value, _MOST_DEPTH)
        if type(value) is frozenset or isinstance(value, PurePath):
            return self.sent(value, _MOST_DEPTH - 1)
        raise CrossingError(f"a key or an item of a set in it is {_article(type(value).__name__)}")

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise CrossingError(f"it is larger than {self._most_bytes:,} bytes")


class _Receiving:
    def __init__(self, objects: HostObjects) -> None:
        self._objects = objects

    def received(self, value: Any, like: Any) -> object:
        kind = kind_of(value)
        if kind is Reference:
            return self._object(value)
        if hasattr(kind, "__struct_fields__"):
            raise CrossingError(f"{_article(value.kind)} exists in the sandbox only: {value.text[:200]}")
        if kind is dict:
            old: Any = like if derives(kind_of(like), dict) else {}
            made = {
                self.received(key, None): self.received(each, old.get(key) if _is_plain_key(key) else None)
                for key, each in value.items()
            }
            return _like(made, like)
        if kind in (list, tuple):
            olds: list[Any] = list(like) if derives(kind_of(like), list | tuple | deque) else []
            olds += [None] * (len(value) - len(olds))
            made_list = [self.received(each, old) for each, old in zip(value, olds, strict=False)]
            return _like(kind(made_list), like)
        if kind in (set, frozenset):
            return _like(kind(self.received(each, None) for each in value), like)
        return _like(value, like)

    def _object(self, value: Reference) -> object:
        found = self._objects.find(value.key)
        if found is None:
            raise CrossingError("it refers to an object that was not sent")
        reference, original = found
        if value.fields is None or value.fields == reference.fields:
            return original
        old = record_fields(original)
        fields = {name: self.received(each, old.get(name)) for name, each in value.fields.items()}
        return changed_record(original, {name: each for name, each in fields.items() if name in old})


def is_kept_outside(value: object) -> bool:
    """Whether code sees only the methods and attributes of a value: it is no data, function or class."""
    kind = kind_of(value)
    if isinstance(value, types.ModuleType):
        return not is_module_inside(value)
    is_data = (
        kind in _LEAVES or kind in (datetime, time) or _container_of(kind) is not None or is_record(kind)
    )
    is_other_data = isinstance(value, PurePath | bytearray | type)
    is_exception = isinstance(value, BaseException) and kind.__module__ == "builtins"
    return not (is_data or is_other_data or is_exception or is_function(value))


def same(one: Any, other: Any) -> bool:
    """Whether two values that cross are equal in type, value and order."""
    kind = kind_of(one)
    if kind is not type(other):
        return False
    if kind is dict:
        if len(one) != len(other):
            return False
        pairs = zip(one.items(), other.items(), strict=True)
        return all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if kind in (list, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if kind is Reference:
        return one.key == other.key and same(one.fields, other.fields)
    return bool(one == other) or (kind is float and one != one and other != other)


def is_record(kind: type) -> bool:
    """Whether instances of a class are data whose fields can be copied; those of this library decide."""
    return not makes_powers(kind) and (
        _is_dataclass(kind)
        or derives(kind, BaseModel | Struct | enum.Enum)
        or (derives(kind, tuple) and hasattr(kind, "_fields"))
        or hasattr(kind, "__attrs_attrs__")
    )


def _read(base: type, method: str, value: object) -> Any:
    """Call a method of a builtin class, not that of a class which derives from it."""
    return getattr(base, method)(value)


def _class_attribute(kind: type, name: str) -> Any:
    return getattr(kind, name)


def _is_dataclass(kind: object) -> bool:
    return dataclasses.is_dataclass(kind)


def record_fields(value: Any) -> dict[str, object]:
    """The public fields of a record, read without running its code."""
    kind = kind_of(value)
    if derives(kind, tuple):
        return dict(zip(_class_attribute(kind, "_fields"), _read(tuple, "__iter__", value), strict=True))
    if derives(kind, enum.Enum):
        return {"name": value._name_, "value": value._value_}
    return object_fields(value)


def changed_record(original: Any, fields: Mapping[str, object]) -> object:
    """Return a record like another one with other fields, validated as its class says.

    Raises:
        CrossingError: Records of its class are not made anew.
        ToolValidationError: The fields do not match.
    """
    kind = kind_of(original)
    subject = f"{kind.__name__} from the sandbox"
    if derives(kind, enum.Enum):
        raise CrossingError(f"a member of {kind.__name__} cannot be changed")
    if derives(kind, BaseModel):
        whole = {**{name: getattr(original, name) for name in kind.model_fields}, **fields}
        return validate_value(kind.model_construct(None, **whole), kind, subject=subject)
    if derives(kind, tuple):
        return _class_attribute(kind, "_make")(fields.values())
    try:
        if derives(kind, Struct):
            return msgspec.structs.replace(original, **fields)
        if _is_dataclass(kind):
            kept = {each.name for each in dataclasses.fields(kind) if each.init}
            made = dataclasses.replace(original, **{k: v for k, v in fields.items() if k in kept})
            return validate_value(made, kind, subject=subject)
    except (TypeError, ValueError) as error:
        raise CrossingError(f"{subject}: {error}") from error
    raise CrossingError(f"{_article(kind.__name__)} cannot be made anew; call a function that makes one")


def is_function(value: object) -> bool:
    """Whether a value is called, and is not a class or an object that also can be called."""
    return isinstance(
        value,
        types.FunctionType
        | types.MethodType
        | types.BuiltinFunctionType
        | types.MethodWrapperType
        | types.MethodDescriptorType,
    ) or (callable(value) and type(value).__module__ == "functools")


def function_name(value: Any) -> str:
    """The own name of a function; `function` for one without a usable name."""
    name: object = getattr(value, "__name__", None) or getattr(getattr(value, "func", None), "__name__", None)
    return name if isinstance(name, str) and name.isidentifier() else "function"


def is_async_call(value: Any) -> bool:
    """Whether calls of a function or class have to be awaited."""
    return bool(describe_callable(value).asynchrony) if callable(value) else False


def is_module_inside(module: types.ModuleType) -> bool:
    """Whether a module of the program is one that a sandbox may have itself: one of Python's own."""
    return module.__name__.partition(".")[0] in sys.stdlib_module_names


_HASHED: frozenset[Any] = frozenset({set, frozenset})
_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset)


def _container_of(kind: type) -> Any:
    """The container as which instances of a class cross; None for none."""
    if kind in _CONTAINERS:
        return kind
    if derives(kind, deque):
        return list
    if derives(kind, tuple) and hasattr(kind, "_fields"):
        return None
    if _is_dataclass(kind) or derives(kind, BaseModel):
        return None
    return next((each for each in _CONTAINERS if derives(kind, each)), None)


def _items_of(value: Any, base: Any) -> Iterable[object]:
    """The items of a container, read without running code of its class."""
    items: Iterable[object] = _read(deque if derives(kind_of(value), deque) else base, "__iter__", value)
    return items


def items_of(value: Any) -> list[object]:
    """The items of a container of a plain kind."""
    return list(value)


def _like(made: Any, old: Any) -> object:
    """A container or text of the kind that it replaces, for kinds that cross as plainer ones."""
    kind, made_kind = kind_of(old), kind_of(made)
    if old is None or kind is made_kind:
        return made
    if derives(kind, deque) and made_kind is list:
        return kind(made, old.maxlen)
    if made_kind is bytes and kind is bytearray:
        return bytearray(made)
    if made_kind is PurePosixPath and derives(kind, PurePath):
        return kind(made)
    factory: object = getattr(old, "default_factory", UNKNOWN)
    if made_kind is dict and kind.__module__ == "collections" and derives(kind, dict):
        return kind(made) if factory is UNKNOWN else kind(factory, made)
    return made


UNKNOWN = object()
"""Stands for an attribute that is not there."""


def _is_plain_key(key: object) -> bool:
    return type(key) in _LEAVES


def _size_of(value: Any) -> int:
    return _NODE_BYTES + (len(value) if type(value) in (str, bytes) else 0)


def _with_fixed_offset(value: Any) -> object:
    """A time whose zone is a fixed offset, which is all that every sandbox knows."""
    zone: tzinfo | None = value.tzinfo
    if zone is None or type(zone) is timezone:
        return value
    offset = value.utcoffset()
    return value.replace(tzinfo=None if offset is None else timezone(offset))


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
