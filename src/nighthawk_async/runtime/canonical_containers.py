"""Canonical forms of lists, dicts, sets, times, and whatever else of the library holds other values."""

import datetime
from collections import OrderedDict, defaultdict, deque
from itertools import chain
from typing import Any, cast
from zoneinfo import ZoneInfo

from .canonical_leaves import BASES, LEAVES, sized, text_form
from .canonical_plain import ENCODER, UNENCODABLE, are_plain, have_text_keys
from .canonical_writer import FormWriter, Maker, unstable_form

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
        kind = cast("type[Any]", type(items[0]))
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
