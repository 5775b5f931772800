"""Values of a program as bytes, and back: faithfully, or with an error.

Plain data is written with tags for what JSON has no form for. Other values are written by the type that is
declared for them (a return annotation, the type of a binding), with pydantic, or by functions that the
program has registered. A value that does not come back equal and of the same type is refused. Nothing is ever
imported or called by a name that is found in a journal.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from pydantic import BaseModel, TypeAdapter

from .errors import JournalValueError

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""The greatest size of one value, in bytes, unless a store has another limit."""

_TAG = "$"
_MAX_INTEGER = 2**63
_SCALARS = frozenset({type(None), bool, str, bytes, float})
_MOST_PLAIN_DEPTH = 50


def _moment_form(moment: datetime | time) -> object:
    """The form of a time: text, together with what has no place in the text."""
    zone = moment.tzinfo
    if zone is not None and type(zone) is not timezone:
        key = zone.key if isinstance(zone, ZoneInfo) else None
        if key is None:
            raise TypeError(type(zone))
        return [moment.replace(tzinfo=None).isoformat(), moment.fold, key]
    return [moment.isoformat(), moment.fold, None] if moment.fold else moment.isoformat()


def _moment_of(kind: type[datetime] | type[time], form: Any) -> datetime | time:
    if isinstance(form, str):
        return kind.fromisoformat(form)
    text, fold, zone = form
    moment = kind.fromisoformat(text).replace(fold=fold)
    return moment if zone is None else moment.replace(tzinfo=ZoneInfo(zone))


_DUMPED: Mapping[type, tuple[str, Callable[[Any], object], Callable[[Any], object]]] = {
    tuple: ("tuple", list, tuple),
    set: ("set", list, set),
    frozenset: ("frozenset", list, frozenset),
    datetime: ("datetime", _moment_form, partial(_moment_of, datetime)),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", _moment_form, partial(_moment_of, time)),
    timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    complex: ("complex", lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    type(Path()): ("path", str, Path),
}
"""For each type that has no form of its own: its tag, what is written for a value, and the way back."""

_LOADED = {tag: (kind, load) for kind, (tag, _, load) in _DUMPED.items()}


class _Registered(Struct, frozen=True):
    name: str
    dump: Callable[[Any], object]
    load: Callable[[Any], object]


_registered: dict[type, _Registered] = {}
_registered_names: dict[str, _Registered] = {}


def register(
    type_: type[Any],
    *,
    dump: Callable[[Any], object],
    load: Callable[[Any], object],
    name: str | None = None,
) -> None:
    """Have the journal store values of a type, wherever they stand.

    Args:
        type_: The type; its subclasses are other types.
        dump: Returns plain data for a value: what JSON has, and tuples, sets, bytes, dates, decimals, paths.
        load: Returns the value for that data.
        name: The name that the journal stores; None for the type's full name. It must stay the same.

    Raises:
        ValueError: Another type is registered under the name.
    """
    name = name or f"{type_.__module__}.{type_.__qualname__}"
    known = next((kind for kind, each in _registered.items() if each.name == name), type_)
    if known is not type_:
        raise ValueError(f"{name!r} is registered for {known.__qualname__}; give another name.")
    _registered[type_] = _registered_names[name] = _Registered(name, dump, load)


def is_registered(kind: type) -> bool:
    """Whether the program has registered a type; see `register`."""
    return kind in _registered


def encode_value(
    value: object, *, place: str, declared: object = None, max_bytes: int = MAX_VALUE_BYTES
) -> bytes:
    """Write a value.

    Args:
        value: The value.
        place: Its place, for errors.
        declared: The type that is declared for it; None for none.
        max_bytes: The greatest size, in bytes.

    Raises:
        JournalValueError: It does not come back as it is, or is too large.
    """
    is_plain = _is_plain(value, _MOST_PLAIN_DEPTH)
    body = _written(value, place, declared, is_plain=is_plain)
    if len(body) > max_bytes:
        check_size(body, f"a value of the type {type(value).__qualname__}", place, max_bytes)
    if is_plain or _is_same(value, decode_value(body, place=place, declared=declared), body, place, declared):
        return body
    raise _refusal(value, place)


def write_value(value: object, *, place: str, declared: object = None) -> bytes:
    """Write a value as `encode_value` does, without checking that it comes back as it is.

    Args:
        value: The value.
        place: Its place, for errors.
        declared: The type that is declared for it; None for none.

    Raises:
        JournalValueError: There is no way to write it.
    """
    return _written(value, place, declared, is_plain=_is_plain(value, _MOST_PLAIN_DEPTH))


def _written(value: object, place: str, declared: object, *, is_plain: bool) -> bytes:
    try:
        return msgspec.msgpack.encode(value if is_plain else _form_of(value, place, declared))
    except (ValueError, RecursionError) as error:  # text with halves of characters, a value within itself
        raise _refusal(value, place) from error


def check_size(body: bytes, name: str, place: str, max_bytes: int) -> None:
    """Check the size of a value or a record.

    Args:
        body: Its content.
        name: Its name, for errors.
        place: Its place.
        max_bytes: The greatest size, in bytes.

    Raises:
        JournalValueError: It is too large.
    """
    if len(body) > max_bytes:
        raise JournalValueError(
            f"{place}: {name} has {len(body):,} bytes, and the journal stores at most {max_bytes:,} "
            "(max_value_bytes). Store it elsewhere, and return where it is.",
            place=place,
        )


def decode_value(body: bytes, *, place: str, declared: object = None) -> Any:
    """Read a value; see `encode_value`.

    Raises:
        JournalValueError: The stored form does not fit the declared type any more, or a type that was
            registered no longer is.
    """
    form: object = msgspec.msgpack.decode(body)
    try:
        if isinstance(form, dict) and cast("dict[str, object]", form).get(_TAG) == "declared":
            data = cast("dict[str, Any]", form)["of"]
            return adapter_of(declared).validate_python(_value_of(data, place))
        return _value_of(cast("object", form), place)
    except JournalValueError:
        raise
    except Exception as error:  # code of the user's types may raise anything
        raise JournalValueError(
            f"{place}: the stored value cannot be read as {declared!r}: {error}", place=place
        ) from error


def _is_plain(value: object, depth: int) -> bool:
    """Whether a value is its own form, through and through, so that it comes back as it is.

    Args:
        value: The value.
        depth: The levels of lists and dictionaries that are looked at; deeper values do not count as plain.
    """
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is int:
        return -_MAX_INTEGER <= cast("int", value) < _MAX_INTEGER
    if depth == 0:
        return False
    if kind is list:
        return _are_plain(cast("list[object]", value), depth)
    if kind is dict:
        items = cast("dict[object, object]", value)
        return (
            _TAG not in items and all(type(key) is str for key in items) and _are_plain(items.values(), depth)
        )
    return False


def _are_plain(values: Collection[object], depth: int) -> bool:
    kinds = set(map(type, values))  # most lists hold values of few types, so this is all there is to do
    return kinds <= _SCALARS or all(_is_plain(each, depth - 1) for each in values)


def _form_of(value: object, place: str, declared: object) -> object:
    try:
        return _plain_form(value)
    except TypeError as error:
        if declared is None or declared is object or declared is Any:
            raise _refusal(value, place) from error
    try:
        data: object = adapter_of(declared).dump_python(value, mode="python", round_trip=True, warnings=False)
        return {_TAG: "declared", "of": _plain_form(data)}
    except Exception:  # what pydantic gives may hold objects that JSON has a form for
        pass
    try:
        data = adapter_of(declared).dump_python(value, mode="json", round_trip=True, warnings=False)
        return {_TAG: "declared", "of": _plain_form(data)}
    except Exception as error:
        raise _refusal(value, place) from error


def _plain_form(value: object) -> object:
    """The form of plain data.

    Raises:
        TypeError: It holds something else.
    """
    kind = type(value)
    if value is None or kind in (bool, str, bytes, float):
        return value
    if kind is int:
        number = cast("int", value)
        return number if -_MAX_INTEGER <= number < _MAX_INTEGER else {_TAG: "int", "of": str(number)}
    if kind is list:
        return [_plain_form(each) for each in cast("list[object]", value)]
    if kind is dict:
        items = cast("dict[object, object]", value)
        if all(type(key) is str for key in items) and _TAG not in items:
            return {key: _plain_form(each) for key, each in items.items()}
        return {_TAG: "dict", "of": [[_plain_form(key), _plain_form(each)] for key, each in items.items()]}
    if kind in _DUMPED:
        tag, dump, _ = _DUMPED[kind]
        return {_TAG: tag, "of": _plain_form(dump(value))}
    if kind in _registered:
        registered = _registered[kind]
        return {_TAG: "registered", "name": registered.name, "of": _plain_form(registered.dump(value))}
    raise TypeError(kind)


def _value_of(form: object, place: str) -> Any:
    if isinstance(form, list):
        forms = cast("list[object]", form)
        kinds = set(map(type, forms))
        return [_value_of(each, place) for each in forms] if list in kinds or dict in kinds else forms
    if not isinstance(form, dict):
        return form
    fields = cast("dict[str, object]", form)
    tag = fields.get(_TAG)
    if tag is None:
        return {key: _value_of(each, place) for key, each in fields.items()}
    data = _value_of(fields["of"], place)
    if tag == "int":
        return int(data)
    if tag == "dict":
        return dict(data)
    if tag == "registered":
        name = cast("str", fields["name"])
        if name not in _registered_names:
            raise JournalValueError(
                f"{place}: the type {name} is not registered in this program; call "
                "nighthawk_async.journal.register before the run begins.",
                place=place,
            )
        return _registered_names[name].load(data)
    _, load = _LOADED[cast("str", tag)]
    return cast("Any", load(data))


def _is_same(value: object, other: object, body: bytes, place: str, declared: object) -> bool:
    """Whether a value came back as it was: of the same types, and equal or written in the same way."""
    if not _has_same_types(value, other):
        return False
    try:
        return bool(value == other) or msgspec.msgpack.encode(_form_of(other, place, declared)) == body
    except Exception:  # code of the user's types may raise anything, which counts as no
        return False


def _has_same_types(value: object, other: object) -> bool:
    """Whether two values and their parts are of the same types; subclasses are written as their base."""
    if type(value) is not type(other):
        return False
    parts, others = _parts(value), _parts(other)
    return len(parts) == len(others) and all(map(_has_same_types, parts, others))


def _parts(value: object) -> list[object]:
    """The values that a value is made of; those of sets are plain, so their order does not matter here."""
    if isinstance(value, list | tuple):
        return list(cast("Sequence[object]", value))
    if isinstance(value, dict):
        return list(cast("dict[object, object]", value).values())
    if isinstance(value, BaseModel):
        return list(vars(value).values())
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return []


def _refusal(value: object, place: str) -> JournalValueError:
    name = type(value).__qualname__
    return JournalValueError(
        f"{place}: a value of the type {name} cannot be stored faithfully. Declare its type (a return "
        "annotation with a dataclass, a pydantic model or an enumeration), return plain data, or register "
        f"{name} with nighthawk_async.journal.register.",
        place=place,
    )


@lru_cache(maxsize=512)
def _cached_adapter(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)


def adapter_of(declared: object) -> TypeAdapter[Any]:
    """The adapter of a declared type."""
    try:
        return _cached_adapter(declared)
    except TypeError:  # an annotation that cannot be hashed
        return TypeAdapter(cast("Any", declared))
