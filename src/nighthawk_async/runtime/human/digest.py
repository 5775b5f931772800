"""What an approval is bound to: the digest of an action and its arguments. Floor 3.

Every value is given a JSON form that holds all of its data and is the same in every process: mappings by
their keys, sets in the order of their items' JSON, models and dataclasses by all of their fields (none is
left out, and no serializer of the user's is asked), bytes in base64, enumerations by their values; dates,
paths, decimals and the like as pydantic writes them. The digest is SHA-256 over the canonical JSON: keys
sorted, no white space, ASCII. Values that have the same JSON form, a tuple and a list for example, are the
same for an approval: people see no difference between them either.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import cast
from uuid import UUID

from msgspec import Struct
from pydantic import AnyUrl, BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, TypeAdapter

from ...types.json import JsonableValue
from .errors import UndigestibleArgumentError

__all__ = ["DigestedAction", "digest_action"]

_ANY: TypeAdapter[object] = TypeAdapter(object, config=ConfigDict(ser_json_bytes="base64"))
_SCALARS = (
    *(bytes, bytearray, date, time, timedelta, Decimal, UUID, AnyUrl),
    *(IPv4Address, IPv4Network, IPv6Address, IPv6Network),
)
"""What pydantic writes as one JSON text that holds all of the value."""


class DigestedAction(Struct, frozen=True, kw_only=True):
    """An action as people see it.

    Args:
        action: What is to happen.
        arguments: With which arguments, in their JSON form: a copy, which later changes do not reach.
        digest: The digest of both.
    """

    action: str
    arguments: Mapping[str, JsonableValue]
    digest: str


def digest_action(action: str, arguments: Mapping[str, object]) -> DigestedAction:
    """Bring an action into the form that approvals are bound to.

    Args:
        action: What is to happen.
        arguments: With which arguments, by their names.

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
    """The JSON form of a value; the path is where it stands, for the error."""
    match value:
        case None | bool():
            return value
        case Enum():
            return _form(value.value, path)
        case str():
            return str.__str__(value)
        case PurePath():
            return str(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case Mapping():
            return _form_of_mapping(cast("Mapping[object, object]", value), path)
        case list() | tuple() | deque():
            items = cast("Iterable[object]", value)
            return [_form(item, f"{path}[{position}]") for position, item in enumerate(items)]
        case AbstractSet():
            items = cast("AbstractSet[object]", value)
            return sorted((_form(item, f"an item of {path}") for item in items), key=_canonical)
        case _:
            return _form_of_object(value, path)


def _form_of_mapping(value: Mapping[object, object], path: str) -> JsonableValue:
    """An object when all keys are texts, as in JSON; else pairs, because 1 and "1" are different keys."""
    if all(isinstance(key, str) for key in value):
        return {str(_form(key, path)): _form(item, f"{path}[{key!r}]") for key, item in value.items()}
    pairs: list[JsonableValue] = [
        [_form(key, f"a key of {path}"), _form(item, f"{path}[{key!r}]")] for key, item in value.items()
    ]
    return sorted(pairs, key=_canonical)


def _form_of_object(value: object, path: str) -> JsonableValue:
    if isinstance(value, Secret | SecretStr | SecretBytes):
        raise UndigestibleArgumentError(f"{path} is a secret: nobody can see what they approve")
    if isinstance(value, BaseModel):
        extra = cast("dict[str, object]", value.model_extra or {})
        return _form_of_fields(value, type(value).model_fields, path) | {
            name: _form(item, f"{path}.{name}") for name, item in extra.items()
        }
    if is_dataclass(value) and not isinstance(value, type):
        return _form_of_fields(value, [field.name for field in fields(value)], path)
    if isinstance(value, _SCALARS):
        return cast("str", _ANY.dump_python(value, mode="json"))
    raise UndigestibleArgumentError(
        f"{path} has no stable JSON form for an approval to be bound to: it is a {type(value).__qualname__}"
    )


def _form_of_fields(value: object, names: Iterable[str], path: str) -> dict[str, JsonableValue]:
    return {name: _form(getattr(value, name), f"{path}.{name}") for name in names if hasattr(value, name)}
