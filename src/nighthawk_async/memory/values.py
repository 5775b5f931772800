"""Values of records: plain data in the log, and the types of the program outside of it."""

import json
import math
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ..prompt.plain_text import class_of, is_class
from ..types.json import JsonableValue, is_json_list, is_json_object
from .errors import MemoryValueError

Value = TypeVar("Value")

_MAX_LEVELS = 100
_UNUSABLE = (
    PydanticSchemaGenerationError,
    PydanticSerializationError,
    PydanticUserError,
    ValidationError,
    msgspec.ValidationError,
    RecursionError,
    TypeError,
    ValueError,
)


def dump_value(value: Any, key: str) -> tuple[JsonableValue, str]:
    """Return a value as plain data, and the name of its type; empty for plain data.

    Raises:
        MemoryValueError: It would not come back as it is.
    """
    if _is_plain(value, 0):
        return value, ""
    kind = class_of(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        data = _dump(value, kind)
        restored = _load(data, kind)
        problem = (
            "" if type(restored) is kind and restored == value else "it would come back as another value"
        )
    except _UNUSABLE as error:
        data, problem = None, str(error).splitlines()[0] if str(error) else type(error).__name__
    if problem or not _is_plain(data, 0):
        raise MemoryValueError(
            f"the value of {key!r} cannot be stored: it is a {name}, and "
            f"{problem or 'has parts that JSON lacks'}. Store plain data (texts, "
            "numbers, lists, dictionaries with texts as keys), a pydantic model, a "
            "dataclass or a struct."
        )
    return data, name


@overload
def load_value(data: JsonableValue, kind: type[Value], key: str) -> Value: ...
@overload
def load_value(data: JsonableValue, kind: Any, key: str) -> Any: ...
def load_value(data: JsonableValue, kind: Any, key: str) -> Any:
    """Return the value of a type for the plain data of a record.

    Raises:
        MemoryValueError: It is none of the type.
    """
    try:
        return _load(data, kind)
    except _UNUSABLE as error:
        name = getattr(kind, "__qualname__", repr(kind))
        raise MemoryValueError(f"the value of {key!r} is no {name}: {error}") from None


def write_json(data: object) -> str:
    """Return data as JSON, the same on every machine."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _is_plain(value: object, level: int) -> bool:
    """Whether a value comes back from JSON as it is."""
    if value is None or type(value) in (bool, str, int):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if level > _MAX_LEVELS:
        return False
    if is_json_list(value):
        return type(value) is list and all(_is_plain(each, level + 1) for each in value)
    if is_json_object(value):
        has_names = type(value) is dict and all(type(name) is str for name in value)
        return has_names and all(_is_plain(each, level + 1) for each in value.values())
    return False


def _dump(value: object, kind: type[Any]) -> JsonableValue:
    if issubclass(kind, Struct):
        return msgspec.to_builtins(value, str_keys=True)
    return _adapter(kind).dump_python(value, mode="json", round_trip=True)


def _load(data: JsonableValue, kind: Any) -> Any:
    if is_class(kind) and issubclass(kind, Struct):
        return msgspec.convert(data, kind, str_keys=True)
    return _adapter(kind).validate_json(write_json(data))


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
