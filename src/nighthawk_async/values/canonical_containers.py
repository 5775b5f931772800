"""Canonical forms of lists, dicts, sets, times, secrets, and whatever else holds other values.

A digest of arguments is stored, and a number of four digits, say, would be found from a fast one at once.
"""

import datetime
import gc
import hashlib
import re
import types
from collections import OrderedDict, defaultdict, deque
from functools import lru_cache
from itertools import chain
from typing import Any, cast
from zoneinfo import ZoneInfo

from pydantic import SecretBytes, SecretStr

from ..prompt.plain_text import class_of
from .canonical_writing import (
    BASES,
    ENCODER,
    LEAVES,
    UNENCODABLE,
    FormWriter,
    Maker,
    are_plain,
    have_text_keys,
    sized,
    text_form,
    type_name,
    unstable_form,
)
from .snapshots import held_attributes

# Methods of the builtin types, whatever a class that is derived from them does.
_KEYS, _VALUES, _ITEMS = dict[Any, Any].keys, dict[Any, Any].values, dict[Any, Any].items
_ORDERED, _QUEUED = OrderedDict[Any, Any].__iter__, deque[Any].__iter__


def _list_form(writer: FormWriter, value: list[Any]) -> bytes:
    items = list(value)
    if (form := _form_of_rows(writer, items)) is not None:
        return form
    return b"L" + writer.forms(items)


def _form_of_rows(writer: FormWriter, items: list[Any]) -> bytes | None:
    """The form of items that are encoded at once: plain ones, plain tuples, plain objects of one class."""
    try:
        if are_plain(items):
            return sized(b"l", ENCODER.encode(items))
        kind = class_of(items[0])
        if {type(each) for each in items} != {kind}:
            return None
        if kind is tuple:
            is_plain = are_plain(list(chain.from_iterable(items)))
            return sized(b"lt", ENCODER.encode(items)) if is_plain else None
        return writer.rows_of(kind, items)
    except UNENCODABLE:
        return None


def _tuple_form(writer: FormWriter, value: tuple[Any, ...]) -> bytes:
    try:
        if are_plain(value):
            return sized(b"u", ENCODER.encode(value))
    except UNENCODABLE:
        pass
    return b"t" + writer.forms(value)


def _dict_form(writer: FormWriter, value: dict[Any, Any]) -> bytes:
    try:
        if have_text_keys((value,)) and are_plain(value.values()):
            return sized(b"m", ENCODER.encode(value))
    except UNENCODABLE:
        pass
    return b"M" + _sorted_entries(writer, value)


def _sorted_entries(writer: FormWriter, value: dict[Any, Any]) -> bytes:
    entries = sorted(writer.form(key) + writer.form(each) for key, each in list(_ITEMS(value)))
    return b"%d:%b" % (len(entries), b"".join(entries))


def ordered_keys(value: "OrderedDict[Any, Any]") -> list[Any]:
    """The keys in the order that `move_to_end` changes."""
    keys = list(_KEYS(value))
    # The hashes of other keys are code of the user's.
    return list(_ORDERED(value)) if LEAVES.keys() >= set(map(type, keys)) else keys


def _ordered_entries(writer: FormWriter, value: "OrderedDict[Any, Any]") -> bytes:
    keys = ordered_keys(value)
    items = dict(zip(_KEYS(value), _VALUES(value), strict=True))
    return b"".join(writer.form(key) + writer.form(items[key]) for key in keys) + b";"


def members_form(writer: FormWriter, value: Any) -> bytes:
    """The form of members in no order."""
    members = sorted(map(writer.form, list(value)))
    return b"%d:%b" % (len(members), b"".join(members))


def _deque_form(writer: FormWriter, value: "deque[Any]") -> bytes:
    return b"q" + writer.form(value.maxlen) + writer.forms(list(_QUEUED(value)))


def _default_dict_form(writer: FormWriter, value: "defaultdict[Any, Any]") -> bytes:
    factory = defaultdict.__dict__["default_factory"].__get__(value)
    return b"E" + writer.form(factory) + _sorted_entries(writer, value)


_MOMENT = tuple(
    datetime.datetime.__dict__[name] for name in ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
)
_TIME = tuple(
    datetime.time.__dict__[name] for name in ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
)


def _moment_form(writer: FormWriter, value: datetime.datetime) -> bytes:
    day = LEAVES[datetime.date](datetime.datetime.date(value))
    return b"z" + day + writer.forms(each.__get__(value) for each in _MOMENT)


def _time_form(writer: FormWriter, value: datetime.time) -> bytes:
    return b"h" + writer.forms(each.__get__(value) for each in _TIME)


def _fixed_zone_form(writer: FormWriter, value: datetime.timezone) -> bytes:
    return b"o" + writer.form(value.utcoffset(None)) + writer.form(value.tzname(None))


def _zone_form(writer: FormWriter, value: ZoneInfo) -> bytes:
    key = cast("str | None", value.key)  # of a zone that was read from a file there is none
    return unstable_form(writer, value) if key is None else b"Z" + text_form(key)


CONTAINERS: dict[type[Any], Maker] = {
    list: _list_form,
    tuple: _tuple_form,
    dict: _dict_form,
    OrderedDict: lambda writer, value: b"$" + _ordered_entries(writer, value),
    defaultdict: _default_dict_form,
    set: lambda writer, value: b"{" + members_form(writer, value),
    frozenset: lambda writer, value: b"}" + members_form(writer, value),
    deque: _deque_form,
    datetime.datetime: _moment_form,
    datetime.time: _time_form,
    datetime.timezone: _fixed_zone_form,
    ZoneInfo: _zone_form,
}

SUBCLASSED: tuple[type[Any], ...] = (
    *(OrderedDict, defaultdict, dict, list, tuple, set, frozenset, deque),
    *(datetime.datetime, datetime.date, datetime.time, *BASES),
)


def base_maker(base: type[Any]) -> Maker:
    """The maker for the values of subclasses, as values of the base alone."""
    leaf = LEAVES.get(base)
    if leaf is not None:
        return lambda _, value: leaf(value)
    makers: dict[type[Any], Maker] = {
        tuple: lambda writer, value: b"t" + writer.forms(tuple[Any].__iter__(value)),
        list: lambda writer, value: b"L" + writer.forms(list[Any].__iter__(value)),
        dict: lambda writer, value: b"M" + _sorted_entries(writer, value),
        set: lambda writer, value: members_form(writer, set[Any].copy(value)),
        frozenset: lambda writer, value: members_form(writer, frozenset[Any].__iter__(value)),
    }
    return makers.get(base) or CONTAINERS[base]


_PLAIN_KINDS = "biufcSUMm"
"""The kinds of arrays of numpy whose bytes say everything."""

_MOST_BYTES = {"f": 8, "c": 16}
"""The size of numbers of numpy that have no bytes without a meaning."""


class AddressedText(str):
    """A text in which objects were written by their addresses in memory, which are left out."""

    __slots__ = ()


def addressed_form(writer: FormWriter, value: AddressedText) -> bytes:
    """The form of such a text: others may have the same."""
    writer.doubt("", "shows objects by their addresses in memory, which say nothing of them")
    return b"0" + text_form(value)


def namespace_form(writer: FormWriter, value: types.SimpleNamespace) -> bytes:
    """The form of a namespace: it is data, so its private attributes count, too."""
    attributes = held_attributes(value) or {}
    return b"@%d:%b" % (len(attributes), writer.attributes(attributes))


def _held_by(value: object) -> object:
    """The mapping that a proxy or a view shows. No method of it is called, which may be of the user's."""
    return gc.get_referents(value)[0]


def proxy_form(writer: FormWriter, value: object) -> bytes:
    """The form of a proxy of a mapping."""
    return b"V" + writer.form(_held_by(value))


def _view_maker(tag: bytes, *, keys: bool, values: bool) -> Maker:
    def make(writer: FormWriter, value: Any) -> bytes:
        held = cast("dict[Any, Any]", _held_by(value))
        is_ordered = isinstance(held, OrderedDict)
        names = ordered_keys(held) if is_ordered else list(dict[Any, Any].keys(held))
        items = dict(zip(dict[Any, Any].keys(held), dict[Any, Any].values(held), strict=True))
        shown = [
            (*((name,) if keys else ()), *((items[name],) if values else ()))  # in the order of the names
            for name in names
        ]
        return tag + (writer.forms(shown) if is_ordered else members_form(writer, shown))

    return make


def match_form(writer: FormWriter, value: "re.Match[Any]") -> bytes:
    """The form of a match: what was looked for, where, and the spans that were found."""
    return b"~" + writer.forms((value.re, value.string, value.pos, value.endpos, value.regs))


def wrapped_function_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a static method or a class method as such."""
    return b"\\" + text_form(type(value).__name__) + writer.form(value.__func__)


def property_form(writer: FormWriter, value: property) -> bytes:
    """The form of a property as such."""
    return b"/" + writer.forms((value.fget, value.fset, value.fdel))


def is_structure(kind: type[Any]) -> bool:
    """Whether a class is a tuple with named parts of the standard library, such as `time.struct_time`."""
    return tuple in kind.__mro__ and "n_sequence_fields" in vars(kind)


def structure_form(writer: FormWriter, value: Any) -> bytes:
    """The form of such a tuple."""
    return (
        b"&"
        + text_form(type_name(class_of(value)))
        + writer.forms(value.__reduce__()[1])  # with the parts that only have names
    )


def maker_of_numpy(kind: type[Any]) -> Maker | None:
    """The maker for arrays and numbers of numpy; None for other types, its subclasses among them."""
    name = type_name(kind)
    if not name.startswith("numpy."):
        return None
    bases = {type_name(base) for base in kind.__mro__}
    if name == "numpy.ndarray" or "numpy.generic" in bases:
        return _numpy_form
    return _type_of_numpy_form if "numpy.dtype" in bases else None


def _numpy_form(writer: FormWriter, value: Any) -> bytes:
    kind, size = value.dtype.kind, value.dtype.itemsize
    named = type_name(class_of(value))
    start = b"%" + text_form(named) + text_form(repr(value.dtype)) + writer.form(value.shape)
    if kind in _PLAIN_KINDS and size <= _MOST_BYTES.get(kind, size):
        return start + sized(b"b", value.tobytes())
    if kind in _MOST_BYTES:  # of a size that depends on the machine
        return start + text_form(" ".join(map(str, value.ravel())))
    if kind == "V" and value.dtype.names is None:
        return start + sized(b"b", value.tobytes())
    return start + writer.form(value.tolist()) if kind in "OTV" else unstable_form(writer, value)


def _type_of_numpy_form(writer: FormWriter, value: Any) -> bytes:
    return b"%%" + text_form(repr(value))


_PLAIN: dict[Any, Any] = {}

LIBRARY: dict[type[Any], Maker] = {
    AddressedText: addressed_form,
    types.SimpleNamespace: namespace_form,
    types.MappingProxyType: proxy_form,
    type(_PLAIN.keys()): _view_maker(b"<k", keys=True, values=False),
    type(_PLAIN.values()): _view_maker(b"<v", keys=False, values=True),
    type(_PLAIN.items()): _view_maker(b"<i", keys=True, values=True),
    type(OrderedDict[Any, Any]().keys()): _view_maker(b"<K", keys=True, values=False),
    type(OrderedDict[Any, Any]().values()): _view_maker(b"<V", keys=False, values=True),
    type(OrderedDict[Any, Any]().items()): _view_maker(b"<I", keys=True, values=True),
    re.Match: match_form,
    staticmethod: wrapped_function_form,
    classmethod: wrapped_function_form,
    property: property_form,
}
"""The makers of the types that hold others, by their exact types."""


_SALT = b"nighthawk_async secret"
_COST = 1 << 14
"""The cost of a guess: 16 MiB of memory, and some 40 ms."""

_NAMES = frozenset({"pydantic.types._SecretBase", "pydantic.types._SecretField"})


def is_secret(kind: type[Any]) -> bool:
    """Whether a class holds a secret."""
    return issubclass(kind, SecretStr | SecretBytes) or any(
        type_name(each) in _NAMES for each in kind.__mro__
    )


def secret_form(writer: FormWriter, value: Any) -> bytes:
    """The form of a secret. The digest of the text as such is kept nowhere but in memory."""
    if not hasattr(hashlib, "scrypt"):  # in a browser
        return unstable_form(writer, value)
    kind = type_name(class_of(value)).encode()
    content = writer.form(object.__getattribute__(value, "_secret_value"))
    return sized(b"#", kind + _slow_digest(hashlib.sha256(sized(b"#", kind) + content).digest()))


@lru_cache(maxsize=256)
def _slow_digest(digest: bytes) -> bytes:
    return hashlib.scrypt(digest, salt=_SALT, n=_COST, r=8, p=1, dklen=16)
