"""Built-in types without a form of their own in MessagePack, as data that has one, and back.

Each form keeps everything that tells two values apart: the fold and the zone of a time, the flags of a
pattern, the exponent of a decimal.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from msgspec import UNSET, Struct, UnsetType
from pydantic_core import TzInfo

from ..types.json import is_json_list

SCALARS = frozenset({type(None), bool, str, bytes, float})
"""The types whose values are their own form; whole numbers are theirs up to 64 bits."""


class Leaf(Struct, frozen=True):
    """A built-in type whose values have no parts.

    Args:
        tag: The tag of its form.
        dump: Returns plain data for a value.
        load: Returns the value for that data.
    """

    tag: str
    dump: Callable[[Any], object]
    load: Callable[[Any], object]


class Sequenced(Struct, frozen=True):
    """A built-in type whose values are made of other values.

    Args:
        tag: The tag of its form.
        parts: Returns the values that a value is made of.
        build: Makes the value of them.
        is_shared: Whether it matters that two parts of a value are one object, because that can change.
    """

    tag: str
    parts: Callable[[Any], list[object]]
    build: Callable[[list[object]], object]
    is_shared: bool = False


def _duration_form(duration: timedelta) -> list[int]:
    return [duration.days, duration.seconds, duration.microseconds]


def _timezone_form(zone: timezone) -> list[object]:
    offset, *name = cast("Any", zone).__getinitargs__()
    return [*_duration_form(offset), *name]


def _timezone_of(form: Sequence[Any]) -> timezone:
    return timezone(timedelta(*form[:3]), *form[3:])


def _offset_form(zone: TzInfo) -> float:
    offset = zone.utcoffset(None)
    assert offset is not None
    return offset.total_seconds()


def _zone_key(zone: ZoneInfo) -> str:
    if not zone.key:  # it was read from a file
        raise TypeError(ZoneInfo)
    return zone.key


def _moment_form(moment: datetime | time) -> object:
    """The form of a time: text, together with what has no place in the text."""
    zone = moment.tzinfo
    if zone is None or (type(zone) is timezone and len(_timezone_form(zone)) == 3):
        return [moment.isoformat(), moment.fold, None] if moment.fold else moment.isoformat()
    forms: dict[type, Callable[[Any], object]] = {
        ZoneInfo: _zone_key,
        timezone: _timezone_form,
        TzInfo: _offset_form,
    }
    if type(zone) not in forms:
        raise TypeError(type(zone))
    return [moment.replace(tzinfo=None).isoformat(), moment.fold, forms[type(zone)](zone)]


def _moment_of(kind: type[datetime] | type[time], form: Any) -> datetime | time:
    if isinstance(form, str):
        return kind.fromisoformat(form)
    text, fold, zone = form
    moment = kind.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return moment
    if isinstance(zone, str):
        return moment.replace(tzinfo=ZoneInfo(zone))
    if is_json_list(zone):
        return moment.replace(tzinfo=_timezone_of(zone))
    return moment.replace(tzinfo=TzInfo(zone))


def _uuid_form(value: UUID) -> object:
    return str(value) if value.is_safe is SafeUUID.unknown else [str(value), value.is_safe.value]


def _uuid_of(form: Any) -> UUID:
    return UUID(form) if isinstance(form, str) else UUID(form[0], is_safe=SafeUUID(form[1]))


def _pattern_of(form: Sequence[Any]) -> object:
    return re.compile(form[0], form[1])


LEAVES: Mapping[type, Leaf] = {
    datetime: Leaf("datetime", _moment_form, lambda form: _moment_of(datetime, form)),
    date: Leaf("date", date.isoformat, date.fromisoformat),
    time: Leaf("time", _moment_form, lambda form: _moment_of(time, form)),
    timedelta: Leaf("timedelta", _duration_form, lambda parts: timedelta(*parts)),
    timezone: Leaf("timezone", _timezone_form, _timezone_of),
    TzInfo: Leaf("offset", _offset_form, TzInfo),
    ZoneInfo: Leaf("zone", _zone_key, ZoneInfo),
    Decimal: Leaf("decimal", str, Decimal),
    Fraction: Leaf("fraction", str, Fraction),
    UUID: Leaf("uuid", _uuid_form, _uuid_of),
    UnsetType: Leaf("unset", lambda _: None, lambda _: UNSET),
    complex: Leaf("complex", lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    type(Path()): Leaf("path", str, Path),
    PurePosixPath: Leaf("posix_path", str, PurePosixPath),
    PureWindowsPath: Leaf("windows_path", str, PureWindowsPath),
    re.Pattern: Leaf("pattern", lambda value: [value.pattern, value.flags], _pattern_of),
    **{
        kind: Leaf(kind.__name__.lower(), str, kind)
        for kind in (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
    },
}
"""The types of values without parts."""

SEQUENCES: Mapping[type, Sequenced] = {
    tuple: Sequenced("tuple", list, tuple),
    set: Sequenced("set", list, set, is_shared=True),
    frozenset: Sequenced("frozenset", list, frozenset),
    bytearray: Sequenced(
        "bytearray", lambda value: [bytes(value)], lambda parts: _bytes_of(parts), is_shared=True
    ),
    range: Sequenced(
        "range", lambda value: [value.start, value.stop, value.step], lambda parts: _range_of(parts)
    ),
    slice: Sequenced(
        "slice", lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)
    ),
}
"""The types of values that are made of other values; those of dictionaries and queues are in `values`."""


def _bytes_of(parts: list[Any]) -> bytearray:
    return bytearray(parts[0])


def _range_of(parts: list[Any]) -> range:
    return range(*parts)


LEAF_OF_TAG = {leaf.tag: leaf for leaf in LEAVES.values()}
SEQUENCE_OF_TAG = {each.tag: each for each in SEQUENCES.values()}
