"""Digests of version 1, with which records and places of runs that an earlier version began are compared.

They go through JSON, so that some different values have the same one: see `stable_digest` for those of today.
Kept as they are; `test_earlier_identity` guards it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pydantic import BaseModel

from ..parallel.task_node import UNSTABLE, Callee

_DIGEST_CHARACTERS = 16
_MARK = "\0unstable "  # before what stands for an object without a stable form
_MARK_IN_JSON = b"\\u0000unstable "


def digest_of_version_1(value: object) -> str:
    """Return the digest of a value: 16 hexadecimal digits, and `UNSTABLE` if others surely have the same.

    Args:
        value: The value: plain data, and dataclasses, pydantic models and msgspec structs of it. Anything
            else counts by its type, and functions and classes count by their names.
    """
    if isinstance(value, tuple):
        given = cast("tuple[object, ...]", value)
        value = tuple(each.function if isinstance(each, Callee) else each for each in given)
    try:
        form = _ENCODER.encode(value)
        is_stable = _MARK_IN_JSON not in form
    except (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError):
        # Too deep, not of plain data, or changed by another thread meanwhile.
        form, is_stable = _type_name(value).encode(), False
    digest = hashlib.sha256(form).hexdigest()[:_DIGEST_CHARACTERS]
    return digest if is_stable else digest + UNSTABLE


def digests_of_version_1(values: Mapping[str, object]) -> dict[str, str]:
    """Return the digest of each value, by name."""
    return {name: digest_of_version_1(value) for name, value in values.items()}


def _plain_form(value: Any) -> object:
    """Return what stands for an object that msgspec cannot encode."""
    if isinstance(value, BaseModel):
        return [_type_name(value), dict(vars(value))]
    name = getattr(cast("object", value), "__qualname__", None)
    if isinstance(name, str):  # a function, a class
        return [str(getattr(value, "__module__", "")), name]
    return _MARK + _type_name(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


_ENCODER = msgspec.json.Encoder(enc_hook=_plain_form, order="deterministic")
