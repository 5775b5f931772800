"""Digests of an action and its arguments, to which approvals are bound.

Every value has a JSON form that holds all of its data and is the same in every process: mappings by their
keys, sets in the order of their items' JSON, models and dataclasses by all of their fields (none is left out,
and no user-defined serializer is called), bytes in base64, enumerations by their values; dates, paths,
decimals and the like as pydantic writes them. The digest is SHA-256 over the canonical JSON: keys sorted, no
white space, ASCII. Values with the same JSON form, a tuple and a list for example, are the same for an
approval: people see no difference between them either.

Data is read by the methods of its base type and from the stored attributes of objects; see `plain_data`. A
value of a class that overrides methods of its base is shown with its type and its own texts; a value that
runs code of the step has no form.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from msgspec import Struct
from pydantic import AnyUrl, BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, TypeAdapter

from ...kernel.context import runs_step_code
from ...types.json import JsonableValue
from .errors import UndigestibleArgumentError
from .plain_data import (
    MISSING,
    base_of,
    exact,
    is_computed,
    makes_items,
    redeclared,
    stored,
    texts_of,
    underlying,
    variables_of,
)

_ANY: TypeAdapter[object] = TypeAdapter(object, config=ConfigDict(ser_json_bytes="base64"))
_SCALARS = (bytes, bytearray, date, time, timedelta, Decimal)
"""Types that pydantic writes as one JSON text that holds all of the value."""

_WRITTEN = (PurePath, UUID, IPv4Address, IPv4Network, IPv6Address, IPv6Network)
"""Types that write such a text themselves."""


class DigestedAction(Struct, frozen=True, kw_only=True):
    """An action as people see it.

    Args:
        action: The action to approve.
        arguments: The arguments in their JSON form: a copy, which later changes do not affect.
        digest: The digest of both.
    """

    action: str
    arguments: Mapping[str, JsonableValue]
    digest: str


def digest_action(action: str, arguments: Mapping[str, object]) -> DigestedAction:
    """Convert an action into the form that approvals are bound to.

    Args:
        action: The action to approve.
        arguments: The arguments by name.

    Raises:
        UndigestibleArgumentError: An argument has no stable JSON form; the error names it.
    """
    form: dict[str, JsonableValue] = {}
    for name, value in arguments.items():
        try:
            form[name] = _form(value, name)
        except RecursionError:
            raise UndigestibleArgumentError(f"{name} is nested too deeply, or contains itself") from None
    try:
        text = _canonical({"action": action, "arguments": form})
    except ValueError as error:
        raise UndigestibleArgumentError(f"an argument of {action!r} is too large a number") from error
    return DigestedAction(action=action, arguments=form, digest=hashlib.sha256(text.encode()).hexdigest())


def _canonical(form: JsonableValue) -> str:
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


def _form(value: object, path: str) -> JsonableValue:
    """Return the JSON form of a value; the path locates it in the error."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return cast("JsonableValue", value)
    if runs_step_code(kind):
        raise UndigestibleArgumentError(
            f"{path} is a {kind.__qualname__}, which runs code of the step when it is used, so people "
            "cannot see its future value: give plain data"
        )
    base = base_of(kind)
    if issubclass(kind, Enum):
        return _form_of_member(cast("Enum", value), base, path)
    if base is None:
        return _form_of_object(value, path)
    form = _form_of_data(value, base, path)
    if redeclared(kind, base) is None:
        return form
    return {
        "type": ".".join(filter(None, (getattr(kind, "__module__", None), kind.__qualname__))),
        "data": form,
        "shows": cast("Any", _texts(value, path)),
    }


def _form_of_data(value: object, base: type, path: str) -> JsonableValue:
    """Return the JSON form of data, read by the methods of its base type."""
    of: Any = base
    if makes_items(value):
        raise UndigestibleArgumentError(
            f"{path} creates items that it does not hold, which people cannot see: give plain data"
        )
    if base is dict:
        return _form_of_mapping(list(of.items(value)), path)
    if base in (list, tuple, deque):
        return [_form(item, f"{path}[{position}]") for position, item in enumerate(of.__iter__(value))]
    if base in (set, frozenset):
        return _form_of_set(of.__iter__(value), path)
    data = exact(value, base)
    if isinstance(data, datetime | time) and data.tzinfo is not None and runs_step_code(type(data.tzinfo)):
        raise UndigestibleArgumentError(f"{path} is in a time zone that runs code of the step")
    if base in _WRITTEN:
        return cast("str", of.__str__(data))
    if base is complex:
        raise _undigestible(value, path)
    return cast("JsonableValue", _ANY.dump_python(data, mode="json") if isinstance(data, _SCALARS) else data)


def _form_of_member(member: Enum, base: type | None, path: str) -> JsonableValue:
    """Return the value of an enumeration's member, with its other data and texts where they differ."""
    form = _form(variables_of(member).get("_value_", member.value), path)
    if base is None:
        return form
    data = _form_of_data(member, base, path)
    usual = {str(data), f"{type(member).__name__}.{variables_of(member).get('_name_')}", repr(member)}
    texts = [each for each in _texts(member, path) if each not in usual]
    if data == form and not texts:
        return form
    return {"type": type(member).__qualname__, "value": form, "data": data, "shows": cast("Any", texts)}


def _texts(value: object, path: str) -> list[str]:
    """Return the texts of a value; code of its class may return anything and may fail."""
    try:
        return texts_of(value)
    except Exception as error:
        raise UndigestibleArgumentError(f"{path} cannot be shown: {type(error).__name__}") from error


def _form_of_mapping(items: list[tuple[object, object]], path: str) -> JsonableValue:
    """Return an object when all keys are texts, as in JSON; otherwise pairs: 1 and "1" are different keys."""
    forms = [(_form(key, f"a key of {path}"), item) for key, item in items]
    values = [(key, _form(item, f"{path}[{key!r}]")) for key, item in forms]
    if all(isinstance(key, str) for key, _ in items) and all(isinstance(key, str) for key, _ in values):
        named = {cast("str", key): value for key, value in values}
        if len(named) == len(values):
            return named
    pairs: list[JsonableValue] = [[key, value] for key, value in values]
    return sorted(pairs, key=_canonical)


def _form_of_set(items: Iterable[object], path: str) -> JsonableValue:
    return sorted((_form(item, f"an item of {path}") for item in items), key=_canonical)


def _form_of_object(value: object, path: str) -> JsonableValue:
    if isinstance(value, Secret | SecretStr | SecretBytes):
        raise UndigestibleArgumentError(f"{path} is a secret: people cannot see what they approve")
    if isinstance(value, BaseModel):
        extra = cast("dict[str, object] | None", stored(value, "__pydantic_extra__")) or {}
        return _form_of_fields(value, type(value).model_fields, path) | {
            name: _form(item, f"{path}.{name}") for name, item in extra.items()
        }
    if is_dataclass(value) and not isinstance(value, type):
        return _form_of_fields(value, [field.name for field in fields(value)], path)
    if isinstance(value, AnyUrl):
        return str(value)
    if (inner := underlying(value)) is not value:
        return _form(inner, path)
    if isinstance(value, Mapping) and not is_computed(cast("object", value)):
        return _form_of_mapping(list(cast("Mapping[object, object]", value).items()), path)
    if isinstance(value, AbstractSet) and not is_computed(cast("object", value)):
        return _form_of_set(cast("AbstractSet[object]", value), path)
    raise _undigestible(cast("object", value), path)


def _undigestible(value: object, path: str) -> UndigestibleArgumentError:
    return UndigestibleArgumentError(
        f"{path} has no stable JSON form for an approval to be bound to: it is a {type(value).__qualname__}"
    )


def _form_of_fields(value: object, names: Iterable[str], path: str) -> dict[str, JsonableValue]:
    """Return the stored fields of an object; a field that is computed on access has no stable form."""
    form: dict[str, JsonableValue] = {}
    for name in names:
        try:
            field = stored(value, name)
        except AttributeError:
            raise UndigestibleArgumentError(
                f"{path}.{name} is computed when it is read, so it may have another value next time"
            ) from None
        if field is not MISSING:
            form[name] = _form(field, f"{path}.{name}")
    return form
