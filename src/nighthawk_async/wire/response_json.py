"""What all decoders ask of the JSON in a response. Floor 1."""

from typing import Any, cast

import msgspec

__all__ = ["NOT_JSON", "as_object", "is_something"]

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises where bytes are not the JSON that was expected."""

_NOTHING = (b"", b"null")


def is_something(raw: msgspec.Raw) -> bool:
    """Whether a raw field is there and not null.

    Args:
        raw: The field.
    """
    return bytes(raw) not in _NOTHING


def as_object(value: object) -> dict[str, Any]:
    """A JSON object; empty for whatever is none.

    Args:
        value: A decoded JSON value.
    """
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
