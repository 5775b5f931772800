"""Keys of mappings in Python's notation, so that code can name them; none of their own code runs."""

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, cast
from zoneinfo import ZoneInfo

from .objects import object_fields
from .plain_text import clean_text, find_class_attribute, has_base, single_line, type_name
from .scalars import find_scalar_text, is_known_zone, zone_of
from .tables import scalar_of_array

_CHARACTERS = 128
"""The greatest length of a part of a key, and nearly of all of it."""

_ITEMS = 8
_SORTED_ITEMS = 64
"""The greatest number of items of a set that are looked at, so that mostly the same are shown."""

_STRUCTURE = frozenset("{}[](),:;\"'\\")
"""Characters that a name has only to look like something else."""

_DEPTH = 4
_INTEGER_BITS = 512


def key_notation(key: object) -> str:
    """Return a key, as Python code writes it where that is possible, on one line and of bounded length.

    Args:
        key: A key that is not exactly a `str`.
    """
    return single_line(clean_text(_notation(key, 0)), _CHARACTERS)


def _notation(key: object, depth: int) -> str:
    kind = type(key)
    written = _WRITERS.get(id(kind))
    if written is not None:
        return written(key)
    if depth >= _DEPTH:
        return "…"
    if kind is tuple:
        items = _joined(cast("tuple[object, ...]", key), depth)
        return f"({items},)" if len(cast("tuple[object, ...]", key)) == 1 else f"({items})"
    if kind is frozenset:
        return _frozen_set(cast("frozenset[object]", key), depth)
    if has_base(kind, dt.datetime) or has_base(kind, dt.time):
        return _moment(cast("dt.datetime | dt.time", key))
    if has_base(kind, type):
        name = type_name(cast("type", key))
        return name if name.isidentifier() else _named(f"<class {name}>")
    text = find_scalar_text(kind)
    if text is not None:
        return _inherited(key, kind, text, depth)
    is_item, item = scalar_of_array(key, kind)
    if is_item:
        return _notation(item, depth)
    if has_base(kind, tuple):
        return _named_tuple(cast("tuple[object, ...]", key), kind, depth)
    fields = object_fields(key)
    return _call(kind, fields, depth) if fields else _named(f"<{type_name(kind)}>")


def _named(text: str) -> str:
    """A text with a name in it; the name is any text."""
    return text if _STRUCTURE.isdisjoint(text) else f"<{text!r}>"


def _inherited(key: Any, kind: type, text: Callable[[Any, int], object], depth: int) -> str:
    """The notation of an enumeration member, or of an instance of a subclass."""
    shown = text(key, _CHARACTERS)
    if has_base(kind, Enum):
        return _named(str(shown)).replace("|", f"|{type_name(kind)}.")
    if kind is range:
        return str(shown)
    if has_base(kind, str):
        return _string(str.__str__(key))
    if has_base(kind, int):
        return _integer(int.__int__(key))
    if has_base(kind, float):
        return _real(float.__float__(key))
    if has_base(kind, bytes):
        return _octets(key)
    if type(shown) is str and not shown.startswith("<"):
        return f"{_named(type_name(kind))}({shown!r})"
    return _named(str(shown))


def _joined(items: Iterable[object], depth: int) -> str:
    shown = [_notation(each, depth + 1) for each in islice(items, _ITEMS + 1)]
    return ", ".join([*shown[:_ITEMS], "…"] if len(shown) > _ITEMS else shown)


def _frozen_set(key: frozenset[object], depth: int) -> str:
    if not key:
        return "frozenset()"
    shown = sorted(_notation(each, depth + 1) for each in islice(key, _SORTED_ITEMS))
    return f"frozenset({{{', '.join([*shown[:_ITEMS], '…'] if len(key) > _ITEMS else shown)}}})"


def _named_tuple(key: tuple[object, ...], kind: type, depth: int) -> str:
    names = find_class_attribute(kind, "_fields")[1]
    tuples: Any = tuple  # whose own method is called
    items: Iterable[object] = tuples.__iter__(key)
    if type(names) is not tuple:
        return f"{_named(type_name(kind))}(({_joined(items, depth)}))"
    return _call(kind, dict(zip(cast("tuple[str, ...]", names), items, strict=False)), depth)


def _call(kind: type, fields: Mapping[str, object], depth: int) -> str:
    shown = [f"{_named(name)}={_notation(each, depth + 1)}" for name, each in islice(fields.items(), _ITEMS)]
    return f"{_named(type_name(kind))}({', '.join([*shown, '…'] if len(fields) > _ITEMS else shown)})"


def _moment(key: dt.datetime | dt.time) -> str:
    """The notation of a date and time, or of a time, whose zone may be of a user's class."""
    kind: type = type(key)
    base: Any = dt.datetime if has_base(kind, dt.datetime) else dt.time
    if kind is base and is_known_zone(zone_of(key)):
        return repr(key)
    text = find_scalar_text(base)
    return f"<{type_name(kind)} {text(key, _CHARACTERS) if text else ''}>"


def _string(key: str) -> str:
    shown = str.__getitem__(key, slice(0, _CHARACTERS))
    return repr(shown) if len(shown) == str.__len__(key) else f"{shown!r}…"


def _integer(key: int) -> str:
    bits = int.bit_length(key)
    return int.__repr__(key) if bits <= _INTEGER_BITS else f"<int of {bits} bits>"


def _real(key: float) -> str:
    text = float.__repr__(key)
    return text if math.isfinite(key) else f"float({text!r})"


def _octets(key: bytes) -> str:
    shown = bytes.__getitem__(key, slice(0, _CHARACTERS // 4))
    return repr(shown) if len(shown) == bytes.__len__(key) else f"{shown!r}…"


def _fraction(key: Fraction) -> str:
    bits = key.numerator.bit_length() + key.denominator.bit_length()
    return repr(key) if bits <= _INTEGER_BITS else f"<Fraction of {bits} bits>"


_WRITERS: Mapping[int, Callable[[Any], str]] = {
    id(type(None)): repr,
    id(type(...)): lambda key: "...",
    id(bool): repr,
    id(int): _integer,
    id(float): _real,
    id(complex): repr,
    id(str): _string,
    id(bytes): _octets,
    id(Decimal): repr,
    id(Fraction): _fraction,
    id(uuid.UUID): repr,
    id(dt.date): repr,
    id(dt.timedelta): repr,
    id(dt.timezone): repr,
    id(ZoneInfo): repr,
    **{id(path): repr for path in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)},
}
"""Writers of values of exactly these types; keyed by identity, see `scalars`."""
