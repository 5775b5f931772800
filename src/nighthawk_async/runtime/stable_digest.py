"""Digests of values that are the same in every process, so that a run can compare its lives.

No code of the user's is called: objects that are no plain data count by their fields where they are pydantic
models, and by their type otherwise.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pydantic import BaseModel

from ..parallel.task_node import UNSTABLE

_DIGEST_CHARACTERS = 16
_MARK = "\0unstable "  # before what stands for an object without a stable form
_MARK_IN_JSON = b"\\u0000unstable "


def stable_digest(value: object) -> str:
    """Return the digest of a value: 16 hexadecimal digits, and `UNSTABLE` if other values have the same.

    Args:
        value: The value: plain data, and dataclasses, pydantic models and msgspec structs of it. Anything
            else counts by its type, and functions and classes count by their names.
    """
    try:
        form = _ENCODER.encode(value)
        is_stable = _MARK_IN_JSON not in form
    except (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError):
        # Too deep, not of plain data, or changed by another thread meanwhile.
        form, is_stable = _type_name(value).encode(), False
    digest = hashlib.sha256(form).hexdigest()[:_DIGEST_CHARACTERS]
    return digest if is_stable else digest + UNSTABLE


def stable_digests(values: Mapping[str, object]) -> dict[str, str]:
    """Return the digest of each value, by name."""
    return {name: stable_digest(value) for name, value in values.items()}


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
