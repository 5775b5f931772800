"""Digests of values that are the same in every process, so that a run can compare its lives.

No code of the user's is called: objects that are no plain data count by their fields where they are pydantic
models, and by their type otherwise.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pydantic import BaseModel

_DIGEST_CHARACTERS = 16


def stable_digest(value: object) -> str:
    """Return the digest of a value: 16 hexadecimal digits.

    Args:
        value: The value: plain data, and dataclasses, pydantic models and msgspec structs of it. Anything
            else counts by its type, and functions and classes count by their names.
    """
    try:
        form = _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError):
        # Too deep, not of plain data, or changed by another thread meanwhile.
        form = _type_name(value).encode()
    return hashlib.sha256(form).hexdigest()[:_DIGEST_CHARACTERS]


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
    return _type_name(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


_ENCODER = msgspec.json.Encoder(enc_hook=_plain_form, order="deterministic")
