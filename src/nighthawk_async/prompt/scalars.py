"""Values without parts, as JSON values.

A scalar is rendered by methods of the standard library type that it is or inherits from, called on that type
itself, so that a subclass's own methods never run.

Enumeration classes are described by the names of their members, which are more informative than the signature
of their call.
"""

import datetime as dt
import enum
import math
import sys
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, NotImplementedType
from typing import Any, TypeAlias, cast
from zoneinfo import ZoneInfo

from msgspec import Struct

from ..types.json import JsonableValue
from .plain_text import (
    BIG_INTEGER_MARK,
    Text,
    class_dictionary,
    class_of,
    class_value,
    clean_text,
    has_base,
    instance_dictionary,
    resolution_order,
    single_line,
    type_module,
    type_name,
)

_KINDS: tuple[type, ...] = (enum.StrEnum, enum.IntEnum, enum.IntFlag, enum.Flag, enum.Enum)


class EnumerationDescription(Struct, frozen=True, kw_only=True):
    """An enumeration class as the prompt describes it.

    Args:
        kind: The name of the standard library's class that it is made from, for example `Enum` or `IntFlag`.
        member_names: The names of its members in the order of definition, without aliases.
    """

    kind: str
    member_names: list[str]


def describe_enumeration(value: object) -> EnumerationDescription | None:
    """Describe an enumeration class without calling any of its code.

    Args:
        value: Any value.

    Returns:
        The description; None when the value is no enumeration class, or has no members and so is only a base
        of others.
    """
    if not has_base(type(value), enum.EnumType):
        return None
    cls = cast("type[Any]", value)
    names = class_dictionary(cls).get("_member_names_")
    if type(names) is not list or not names:
        return None
    kind = next(base.__name__ for base in resolution_order(cls) if any(base is each for each in _KINDS))
    return EnumerationDescription(kind=kind, member_names=cast("list[str]", names))


ScalarText: TypeAlias = Callable[[Any, int], JsonableValue | Text]
"""Renders a value, given the number of characters that could matter."""

_INTEGER_BITS_SHOWN = 512
_BYTES_SHOWN = 32
_LAST_BYTES_SHOWN = 16
_NAME_CHARACTERS = 120


def find_scalar_text(cls: type) -> ScalarText | None:
    """Return the renderer of values of a class, or None when the class is of no kind known here.

    Args:
        cls: The type of the value, which may be a subclass of a known type.
    """
    exact = SCALARS.get(id(cls))
    if exact is not None:
        return exact
    inherited: ScalarText | None = None
    for base in resolution_order(cls):
        if base is Enum:
            return _enum_member
        inherited = inherited or _INHERITABLE_TYPES.get(id(base))
    return inherited


def is_abridged(value: Any) -> bool:
    """Whether a value is one of many bytes or digits, of which only some are ever shown."""
    kind = class_of(value)
    if (base := next((each for each in _OCTETS if has_base(kind, each)), None)) is not None:
        return base.__len__(value) > _BYTES_SHOWN
    return has_base(kind, int) and int.bit_length(value) > _INTEGER_BITS_SHOWN


_OCTETS: tuple[Any, ...] = (bytes, bytearray)


def module_name(module: ModuleType) -> str:
    """Return a module's name as its own namespace has it, on one line."""
    name = instance_dictionary(module).get("__name__")
    return single_line(name, _NAME_CHARACTERS) if type(name) is str else "?"


def _string(value: str, characters: int) -> str | Text:
    shown, length = str.__getitem__(value, slice(0, characters)), str.__len__(value)
    shown = shown if shown.isascii() else clean_text(shown)
    return shown if length <= characters else Text(beginning=shown, length=length)


def _integer(value: int, characters: int) -> JsonableValue:
    bits = int.bit_length(value)
    if bits < 64:
        return int.__int__(value)
    return BIG_INTEGER_MARK + int.__repr__(value) if bits <= _INTEGER_BITS_SHOWN else f"<int of {bits} bits>"


def _real(value: float, characters: int) -> JsonableValue:
    number = float.__float__(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _bytes(value: bytes, characters: int) -> str:
    return _octets(bytes.__len__(value), lambda part: bytes.__getitem__(value, part))


def _bytearray(value: bytearray, characters: int) -> str:
    return _octets(bytearray.__len__(value), lambda part: bytes(bytearray.__getitem__(value, part)))


def _octets(length: int, read: Callable[[slice], bytes]) -> str:
    shown = repr(read(slice(0, _BYTES_SHOWN)))
    if length > 2 * _BYTES_SHOWN:
        return f"<{length} bytes: {shown} … {read(slice(length - _LAST_BYTES_SHOWN, length))!r}>"
    return f"<{length} bytes: {shown}{'…' if length > _BYTES_SHOWN else ''}>"


def _enum_member(value: Enum, characters: int) -> str:
    name = instance_dictionary(value).get("_name_")
    return f"{type_name(type(value))}.{single_line(name, _NAME_CHARACTERS) if type(name) is str else '?'}"


def _datetime(value: dt.datetime, characters: int) -> str:
    zone = _ZONE_OF_DATETIME(value)
    if is_known_zone(zone):
        return dt.datetime.isoformat(value) + _zone_mark(zone)
    date, time = dt.datetime.date(value), dt.datetime.time(value)
    return f"{date.isoformat()}T{time.isoformat()} <{type_name(type(zone))}>"


def _time(value: dt.time, characters: int) -> str:
    zone = _ZONE_OF_TIME(value)
    if is_known_zone(zone):
        return dt.time.isoformat(value) + _zone_mark(zone)
    return f"<{type_name(type(value))}>"


def zone_of(value: dt.datetime | dt.time) -> object:
    """Return the time zone of a date and time, or of a time, without running code of its class."""
    if has_base(type(value), dt.datetime):
        return _ZONE_OF_DATETIME(cast("dt.datetime", value))
    return _ZONE_OF_TIME(cast("dt.time", value))


def is_known_zone(zone: object) -> bool:
    """Whether a time zone's offset is computed by the standard library and not by a user's class."""
    return zone is None or type(zone) is dt.timezone or type(zone) is ZoneInfo or _is_of_library(zone)


def _is_of_library(zone: object) -> bool:
    """Whether a time zone is of exactly a type of a known library, whose methods may be called."""
    kind = type(zone)
    module = sys.modules.get(type_module(kind))
    is_named = type_module(kind).partition(".")[0] in _ZONE_LIBRARIES and module is not None
    return is_named and instance_dictionary(module).get(type_name(kind)) is kind


_ZONE_LIBRARIES = ("dateutil", "pytz")
_ZONE_FILES = "zoneinfo/"


def _zone_mark(zone: object) -> str:
    """The name of a time zone in brackets, as in RFC 9557; the offset alone does not say when it changes."""
    name = zone_name(zone)
    return "" if name in (None, "UTC") else f"[{single_line(name, _NAME_CHARACTERS)}]"


def zone_name(zone: object) -> str | None:
    """Return the name of a time zone; None for a fixed offset, and for a zone without a name."""
    if type(zone) is ZoneInfo:
        name: object = zone.key
    elif zone is None or type(zone) is dt.timezone:
        return None
    else:
        fields = instance_dictionary(zone)
        name = class_value(type(zone), "zone") or fields.get("zone") or fields.get("_filename")
    return name.rpartition(_ZONE_FILES)[2] if type(name) is str else None


def _zone(value: ZoneInfo, characters: int) -> str:
    return zone_name(value) or "<ZoneInfo>"


def _offset(value: dt.timezone, characters: int) -> str:
    offset = str(dt.timezone(dt.timezone.utcoffset(value, None)))
    name = single_line(dt.timezone.tzname(value, None), _NAME_CHARACTERS)
    return offset if name == offset else f"{offset} ({name})"


def _fraction(value: Fraction, characters: int) -> JsonableValue:
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    return str(value) if bits <= _INTEGER_BITS_SHOWN else f"<Fraction of {bits} bits>"


def _decimal(value: Decimal, characters: int) -> str:
    return single_line(Decimal.__str__(value), characters)


def _path(value: PurePath, characters: int) -> str | Text:
    return _string(str(value), characters)


def _range(value: range, characters: int) -> str:
    bits = max(value.start.bit_length(), value.stop.bit_length(), value.step.bit_length())
    return repr(value) if bits <= _INTEGER_BITS_SHOWN else "<range>"


def _class(value: type, characters: int) -> str:
    return f"<class {type_name(value)}>"


def _function(value: FunctionType | BuiltinFunctionType, characters: int) -> str:
    return f"<function {single_line(value.__name__, _NAME_CHARACTERS)}>"


def _method(value: MethodType, characters: int) -> str:
    # `value.__name__` would run code of the function, which may be an object of any class.
    function = value.__func__
    return _function(function, characters) if type(function) is FunctionType else "<method>"


def _module(value: ModuleType, characters: int) -> str:
    return f"<module {module_name(value)}>"


_ZONE_OF_DATETIME: Callable[[dt.datetime], object] = dt.datetime.__dict__["tzinfo"].__get__
_ZONE_OF_TIME: Callable[[dt.time], object] = dt.time.__dict__["tzinfo"].__get__

# The tables below are keyed by identity, because hashing a class would call its metaclass. Their keys live
# forever.

_EXACT_TYPES: dict[int, ScalarText] = {
    id(type(None)): lambda value, characters: None,
    id(bool): lambda value, characters: value,
    id(EllipsisType): lambda value, characters: "...",
    id(NotImplementedType): lambda value, characters: "NotImplemented",
    id(uuid.UUID): lambda value, characters: str(value),
    id(Fraction): _fraction,
    id(ZoneInfo): _zone,
    id(dt.timezone): _offset,
    id(range): _range,
    id(FunctionType): _function,
    id(BuiltinFunctionType): _function,
    id(MethodType): _method,
    **{id(path): _path for path in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)},
}
"""Types whose own methods may be called because the value is of exactly that type."""

_INHERITABLE_TYPES: dict[int, ScalarText] = {
    id(str): _string,
    id(int): _integer,
    id(float): _real,
    id(complex): lambda value, characters: complex.__repr__(value),
    id(bytes): _bytes,
    id(bytearray): _bytearray,
    id(dt.datetime): _datetime,
    id(dt.date): lambda value, characters: dt.date.isoformat(value),
    id(dt.time): _time,
    id(dt.timedelta): lambda value, characters: dt.timedelta.__str__(value),
    id(Decimal): _decimal,
    id(type): _class,
    id(ModuleType): _module,
}
"""Types implemented in C, whose methods read a subclass's value without calling the subclass."""

SCALARS: Mapping[int, ScalarText] = {**_INHERITABLE_TYPES, **_EXACT_TYPES}
"""The renderer of values of exactly these types."""

PLAIN_TYPES: Mapping[int, str] = {id(kind): kind.__name__ for kind in (str, int, float, bool, bytes)}
"""The names of the types, by identity, whose values are data and nothing else."""
